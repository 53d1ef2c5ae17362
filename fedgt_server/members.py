"""Who takes part: nodes, the institutions behind them, and what those agreed on."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedgt_server.admission import profile_mismatch
from fedgt_server.exchange import Replies
from shared.errors import FedGTError
from shared.version import installed_version
from shared.wire import Arrays, Introduction, Profile, Question

logger = logging.getLogger(__name__)


class Members:
    """Institutions by node.

    All that the coordinator knows is keyed by institution: node ids change when a supernode
    without a registered key restarts. A registered name counts more than what a node says.
    """

    def __init__(self, profile: Profile | None = None) -> None:
        version = installed_version()
        # A coordinator that resumes may have been updated since.
        self.profile = profile and replace(profile, version=version)
        self._version = version
        self._profile_source = "the federation"
        self._names: dict[int, str] = {}
        self._refused: set[int] = set()

    def online(self, grid: Grid) -> dict[int, str]:
        """Return the admitted institutions that are connected now, by node, sorted by name."""
        connected = set(grid.get_node_ids())
        online = [(name, node) for node, name in self._names.items() if node in connected]
        return {node: name for name, node in sorted(online)}

    def names(self) -> set[str]:
        """Return all institutions admitted so far, connected or not."""
        return set(self._names.values())

    def name_of(self, node: int) -> str | None:
        """Return the institution behind a node, if it was admitted."""
        return self._names.get(node)

    def unknown_nodes(self, grid: Grid) -> list[int]:
        """Return connected nodes that have not introduced themselves yet."""
        known = self._names.keys() | self._refused
        return sorted(node for node in grid.get_node_ids() if node not in known)

    def queries(self, nodes: Iterable[int], *, want_initial: bool) -> list[Message]:
        """Return messages that ask for introductions, the first also for the starting point."""
        return [
            Message(Question(want_initial and index == 0).to_records(), node, MessageType.QUERY)
            for index, node in enumerate(nodes)
        ]

    def log_failures(self, replies: Replies) -> None:
        """Log who could not answer, and why."""
        for node, reason in (replies.raised | replies.lost).items():
            logger.warning("%s did not answer: %s", self.name_of(node) or f"node {node}", reason)

    def admit(self, grid: Grid, replies: Mapping[int, Message], *, strict: bool) -> Arrays:
        """Admit those who agree; return the starting point if one of them sent it.

        With ``strict`` (before the first round) a mismatch ends the run; later it only keeps
        the newcomer out.
        """
        registered = {info.node_id: info.name for info in grid.get_nodes()}
        initial: Arrays = {}
        introductions = {}
        for node, reply in replies.items():
            try:
                introductions[node] = Introduction.from_records(reply.content)
            except FedGTError as error:
                name = registered.get(node) or f"node {node}"
                reason = f"sent an introduction that cannot be read ({error})"
                self._refuse(node, name, reason, strict=strict)
        for node, introduction in sorted(
            introductions.items(), key=lambda item: item[1].institution
        ):
            name = registered.get(node) or introduction.institution
            if self.profile is None:
                self.profile = replace(introduction.profile, version=self._version)
                self._profile_source = name
            if problem := profile_mismatch(
                self.profile, introduction.profile, self._profile_source
            ):
                self._refuse(node, name, problem, strict=strict)
                continue
            self._add(node, name, registered)
            initial = introduction.initial or initial
        return initial

    def _add(self, node: int, name: str, registered: Mapping[int, str]) -> None:
        previous = next((n for n, known in self._names.items() if known == name), None)
        if previous is not None and previous != node:
            proven = registered.get(node) and not registered.get(previous)
            if previous in registered and not proven:
                # Not for good: after a restart Flower takes a while to see that the old node left.
                logger.warning("%s has to wait: another node of that name is connected", name)
                return
            del self._names[previous]
        if node not in self._names:
            logger.info("%s joined", name)
        self._names[node] = name

    def _refuse(self, node: int, name: str, problem: str, *, strict: bool) -> None:
        if strict:
            raise FedGTError(f"{name} {problem}: correct it there, or run without it")
        logger.warning("%s is not admitted: it %s", name, problem)
        self._refused.add(node)
