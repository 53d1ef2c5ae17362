"""Who takes part: nodes, the institutions behind them, and what those agreed on."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedgt_server import starting_point
from fedgt_server.admission import profile_mismatch
from fedgt_server.agreement import agree
from fedgt_server.exchange import Replies
from shared.errors import FedGTError, RefusedError
from shared.profile import columns_digest
from shared.text import plain_line
from shared.version import installed_version
from shared.wire import LONGEST_INSTITUTION, Arrays, Introduction, Profile, Question

logger = logging.getLogger(__name__)


@dataclass
class _Refused:
    """An institution that cannot take part, and why."""

    name: str
    problem: str
    noted: bool = False  # logged, and kept for the journal
    told: bool = False  # the institution itself knows


class Members:
    """Institutions by node.

    All that the coordinator knows is keyed by institution: node ids change when a supernode
    without a registered key restarts. A registered name counts more than what a node says.

    Before the first round all introductions are kept, and each new one may change which profile
    most institutions have; ``close`` ends that. Later a newcomer has it or is refused.

    Parameters
    ----------
    profile : what was agreed on, where a run is resumed
    columns : digest of the features and classes to have; empty: those that most have
    """

    def __init__(
        self, profile: Profile | None = None, run_token: str = "", columns: str = ""
    ) -> None:
        self.run_token = run_token
        self._version = installed_version()
        # A coordinator that resumes may have been updated since.
        self.profile = profile and replace(profile, version=self._version)
        self.notices: list[str] = []  # for the journal
        self._columns = columns
        self._agreed_with = "the federation"
        self._closed = profile is not None
        self._introductions: dict[int, Introduction] = {}  # until it is closed
        self._dissent = ""  # until it is closed: what two groups of the same size disagree on
        self._names: dict[int, str] = {}
        self._refused: dict[int, _Refused] = {}  # connected nodes that cannot take part

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
        """Return connected nodes that have not introduced themselves yet.

        A node that was refused is asked again when it has left and come back.
        """
        connected = set(grid.get_node_ids())
        self._refused = {n: one for n, one in self._refused.items() if n in connected}
        known = self._names.keys() | self._refused.keys() | self._introductions.keys()
        return sorted(connected - known)

    def problems(self) -> list[str]:
        """Return why nodes cannot take part, a line for each of them."""
        found = [f"{one.name} {one.problem}" for one in self._refused.values()]
        return [self._dissent] * len(self._introductions) + found if self._dissent else found

    def starting_points(self) -> int:
        """Return how many have sent a starting point."""
        return sum(bool(one.initial) for one in self._introductions.values())

    def queries(self, nodes: Iterable[int], *, want_initial: Collection[int] = ()) -> list[Message]:
        """Return messages that ask for introductions, some also for the starting point."""
        return [
            Message(
                Question(node in want_initial, self.run_token).to_records(),
                node,
                MessageType.QUERY,
            )
            for node in nodes
        ]

    def refusals(self) -> list[Message]:
        """Return messages that tell nodes why they were refused, each once."""
        untold = {node: one for node, one in self._refused.items() if one.noted and not one.told}
        for one in untold.values():
            one.told = True
        return [
            Message(
                Question(
                    run_token=self.run_token,
                    notice=f"not admitted: this institution {one.problem}",
                ).to_records(),
                node,
                MessageType.QUERY,
            )
            for node, one in untold.items()
        ]

    def log_failures(self, replies: Replies, grid: Grid | None = None) -> None:
        """Log who could not answer, and why.

        A node of ``grid`` that refuses the run is not asked again until it has left.
        """
        registered = {info.node_id: info.name for info in grid.get_nodes()} if grid else {}
        for node, reason in (replies.raised | replies.lost).items():
            if node in registered and (refused := RefusedError.parse(reason)):
                name = registered[node] or refused.institution
                self._refuse(node, name, f"refuses the run: {refused.reason}")
                self._refused[node].told = True  # it said so itself
            else:
                name = self.name_of(node) or f"node {node}"
                logger.warning("%s did not answer: %s", name, reason)

    def admit(
        self, grid: Grid, replies: Mapping[int, Message], *, want_initial: Collection[int] = ()
    ) -> None:
        """Admit those who agree; whoever does not, or cannot be read, is left out.

        Parameters
        ----------
        want_initial : the nodes that were asked for a starting point; of others none is read
        """
        registered = {info.node_id: info.name for info in grid.get_nodes()}
        heard: dict[int, Introduction] = {}
        for node, reply in replies.items():
            name = registered.get(node) or f"node {node}"
            try:
                heard[node] = Introduction.from_records(
                    reply.content, want_initial=node in want_initial
                )
            except FedGTError as error:
                self._refuse(node, name, f"sent an introduction that cannot be read ({error})")
            except Exception as error:  # whatever it sent: it must not end the run
                logger.debug("introduction of %s", name, exc_info=True)
                kind = type(error).__name__
                self._refuse(node, name, f"sent an introduction that cannot be read ({kind})")
        if self._closed:
            self._admit(heard, registered)
        else:
            self._introductions |= heard
            self._introductions = {n: i for n, i in self._introductions.items() if n in registered}
            self._agree(registered)

    def starting_point(self) -> Arrays:
        """Return a model that admitted institutions were asked for; empty where there is none."""
        if self.profile is None:
            return {}
        models = {
            self._names[node]: introduction.initial
            for node, introduction in self._introductions.items()
            if node in self._names and introduction.initial
        }
        chosen, problems = starting_point.choose(models, self.profile)
        for line in problems:
            self._note(line)
        return chosen

    def close(self) -> None:
        """Go by the profile that was found from here on."""
        self._introductions, self._closed = {}, True
        for one in self._refused.values():
            self._note_refusal(one)

    def _agree(self, registered: Mapping[int, str]) -> None:
        """Take the profile that most have, and admit all who have it."""
        heard = self._introductions
        # By node as well: nodes of one name need not be one institution.
        labels = {
            f"{registered.get(node) or one.institution}/{node}": one for node, one in heard.items()
        }
        profiles = {label: one.profile for label, one in labels.items()}
        profile, first, other = agree(profiles, self._version, self._columns)
        self.profile, self._dissent = profile, ""
        self._agreed_with, against = (label.rpartition("/")[0] for label in (first, other))
        self._refused = {n: one for n, one in self._refused.items() if n not in heard}
        before, self._names = self._names, {}
        if other:
            mismatch = profile_mismatch(profiles[first], profiles[other], self._agreed_with)
            self._dissent = f"{against} {mismatch}"
            return
        self._admit(heard, registered, before)

    def _admit(
        self,
        introductions: Mapping[int, Introduction],
        registered: Mapping[int, str],
        before: Collection[int] = (),
    ) -> None:
        by_name = sorted(introductions.items(), key=lambda item: (item[1].institution, item[0]))
        for node, introduction in by_name:
            name = registered.get(node) or introduction.institution
            if problem := self._mismatch(introduction.profile):
                self._refuse(node, name, problem, note=self._closed)
            elif self._add(node, name, registered) and node not in before:
                logger.info("%s joined", name)

    def _mismatch(self, profile: Profile) -> str | None:
        """Describe why a profile is not that of this federation."""
        if profile.version != self._version:
            return f"has FedGT {profile.version} installed, the coordinator {self._version}"
        if self._columns and columns_digest(profile.features, profile.classes) != self._columns:
            agreed = self.profile
            detail = agreed and profile_mismatch(agreed, profile, "the federation's schema.json")
            return detail or "has other features or classes than the federation's schema.json"
        if self.profile is None:
            return None
        return profile_mismatch(self.profile, profile, self._agreed_with)

    def _add(self, node: int, name: str, registered: Mapping[int, str]) -> bool:
        """Give a node the name; return whether it did not have it."""
        previous = next((n for n, known in self._names.items() if known == name), None)
        if previous is not None and previous != node:
            proven = registered.get(node) and not registered.get(previous)
            if previous in registered and not proven:
                # Not for good: after a restart Flower takes a while to see that the old node left.
                logger.warning("%s has to wait: another node of that name is connected", name)
                return False
            del self._names[previous]
        is_new = node not in self._names
        self._names[node] = name
        return is_new

    def _refuse(self, node: int, name: str, problem: str, *, note: bool = True) -> None:
        one = self._refused[node] = _Refused(plain_line(name, LONGEST_INSTITUTION), problem)
        if note:
            self._note_refusal(one)

    def _note_refusal(self, one: _Refused) -> None:
        if not one.noted:
            one.noted = True
            self._note(f"{one.name} is not admitted: it {one.problem}")

    def _note(self, line: str) -> None:
        if line not in self.notices:
            logger.warning("%s", line)
            self.notices.append(line)
