"""Having nodes introduce themselves: before the first round, and newcomers during the run."""

from collections.abc import Callable

from flwr.serverapp import Grid

from fedgt_server.exchange import PendingQueries, exchange, send
from fedgt_server.members import Members
from fedgt_server.starting_point import SENDERS
from fedgt_server.wait import AwaitedLog, WaitLimit
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Arrays


def gather(grid: Grid, members: Members, config: RunConfig, *, want_initial: bool) -> Arrays:
    """Wait until enough institutions, and all that are connected, have introduced themselves.

    Returns
    -------
    The starting point that some of them were asked for; empty without ``want_initial``

    Raises
    ------
    FedGTError
        When too many cannot take part for the run to go on without them.
    GaveUpError
        When too few have come in time.
    """
    needed = max(config.start_institutions, config.min_institutions)
    limit, initial = WaitLimit(config.give_up_after), Arrays()
    silent: set[int] = set()  # nodes that were asked last and did not answer
    asked: set[int] = set()  # nodes that were asked for a starting point
    while True:
        unknown = members.unknown_nodes(grid)
        nodes, wanted = sorted(unknown, key=silent.__contains__), []
        if want_initial:
            wanted = nodes[: max(SENDERS - members.starting_points(), 0)]
            if not initial and silent >= set(unknown):
                # Nobody who was asked for a starting point sent one: ask those admitted, and
                # first those not asked yet.
                admitted = sorted(members.online(grid), key=lambda n: (n in asked, n in silent))
                wanted = admitted[:SENDERS] + wanted
                nodes = admitted[:SENDERS] + nodes
        asked.update(wanted)
        queries = members.queries(nodes, want_initial=wanted)
        awaited = AwaitedLog("introductions", registered_names(grid))
        replies = exchange(grid, queries, config.round_deadline, awaited.watch)
        members.log_failures(replies, grid)
        members.admit(grid, replies.answers, want_initial=wanted)
        initial = members.starting_point()
        failed, silent = replies.raised, set(nodes) - replies.answers.keys()
        present, problems = len(members.online(grid)), members.problems()
        if present == 0 and len(failed) >= needed:
            raise FedGTError(f"no institution can take part: {next(iter(failed.values()))}")
        if present < needed <= present + len(problems):
            send(grid, members.refusals())
            remedy = "change it" if "refuses the run" in problems[0] else "correct it there"
            raise FedGTError(f"{problems[0]}: {remedy}, or run without it")
        if present < needed or (want_initial and not initial):
            limit.wait(f"{present} of {needed} institutions are here", failed)
        elif set(members.unknown_nodes(grid)) <= set(nodes):
            members.close()
            send(grid, members.refusals())
            return initial


def registered_names(grid: Grid) -> Callable[[int], str]:
    """Return what connected nodes are called by their keys, before they have said anything."""
    names = {info.node_id: info.name for info in grid.get_nodes()}
    return lambda node: names.get(node) or f"node {node}"


class Newcomers:
    """Nodes that connect during the run; no round waits for their introductions."""

    def __init__(self) -> None:
        self._queries = PendingQueries()

    def admit(self, grid: Grid, members: Members, seconds: float) -> None:
        """Admit those that have answered by now, then ask the others.

        A query that is not answered within ``seconds`` is sent again.
        """
        replies = self._queries.receive(grid)
        members.log_failures(replies, grid)
        members.admit(grid, replies.answers)
        send(grid, members.refusals())
        self._queries.send(grid, members.queries(members.unknown_nodes(grid)), seconds)
