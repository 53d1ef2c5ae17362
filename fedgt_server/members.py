"""Who takes part: nodes, the institutions behind them, and what those agreed on."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedgt_server.admission import difference
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
        # As a coordinator that resumes has it now.
        self.profile = profile and replace(profile, version=version)
        self._version = version
        self._whose = "the federation"
        self._names: dict[int, str] = {}
        self._refused: set[int] = set()

    def online(self, grid: Grid) -> dict[int, str]:
        """Admitted institutions that can be reached now, by node, in the order of their names."""
        here = set(grid.get_node_ids())
        present = [(name, node) for node, name in self._names.items() if node in here]
        return {node: name for name, node in sorted(present)}

    def names(self) -> set[str]:
        """All institutions admitted so far, reachable or not."""
        return set(self._names.values())

    def name_of(self, node: int) -> str | None:
        """The institution behind a node, if it was admitted."""
        return self._names.get(node)

    def strangers(self, grid: Grid) -> list[int]:
        """Nodes that have not introduced themselves yet."""
        known = self._names.keys() | self._refused
        return sorted(node for node in grid.get_node_ids() if node not in known)

    def questions(self, nodes: Iterable[int], *, want_initial: bool) -> dict[int, Message]:
        """Ask nodes to introduce themselves, the first of them for the starting point."""
        return {
            node: Message(
                Question(want_initial and index == 0).to_records(), node, MessageType.QUERY
            )
            for index, node in enumerate(nodes)
        }

    def admit(self, grid: Grid, replies: dict[int, Message], *, strict: bool) -> Arrays:
        """Take in those who agree; return the starting point if one of them brought it.

        With ``strict`` (before the first round) a difference ends the run; later it only keeps
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
                self._refuse(node, name, f"introduced itself badly ({error})", strict=strict)
        for node, introduction in sorted(
            introductions.items(), key=lambda item: item[1].institution
        ):
            name = registered.get(node) or introduction.institution
            if self.profile is None:
                self.profile = replace(introduction.profile, version=self._version)
                self._whose = name
            if problem := difference(self.profile, introduction.profile, self._whose):
                self._refuse(node, name, problem, strict=strict)
                continue
            self._enter(node, name, registered)
            initial = introduction.initial or initial
        return initial

    def _enter(self, node: int, name: str, registered: Mapping[int, str]) -> None:
        previous = next((n for n, known in self._names.items() if known == name), None)
        if previous is not None and previous != node:
            proven = registered.get(node) and not registered.get(previous)
            if previous in registered and not proven:
                # Not for good: after a restart the old node is only seen to be gone a while later.
                logger.warning("%s waits: it is here already, from another node", name)
                return
            del self._names[previous]
        if node not in self._names:
            logger.info("%s takes part", name)
        self._names[node] = name

    def _refuse(self, node: int, name: str, problem: str, *, strict: bool) -> None:
        if strict:
            raise FedGTError(f"{name} {problem}: mend it there, or run without it")
        logger.warning("%s is kept out: it %s", name, problem)
        self._refused.add(node)
