"""Having nodes introduce themselves: before the first round, and newcomers during the run."""

from flwr.serverapp import Grid

from fedgt_server.exchange import PendingQueries, exchange
from fedgt_server.members import Members
from fedgt_server.wait import WaitLimit
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Arrays


def gather(grid: Grid, members: Members, config: RunConfig, *, want_initial: bool) -> Arrays:
    """Wait until enough institutions, and all that are connected, have introduced themselves.

    Returns
    -------
    The starting point that one of them sent; empty without ``want_initial``

    Raises
    ------
    FedGTError
        When an institution does not fit in with the others, or none can take part.
    GaveUpError
        When too few have come in time.
    """
    needed = max(config.start_institutions, config.min_institutions)
    limit, initial = WaitLimit(config.give_up_after), Arrays()
    silent: set[int] = set()  # nodes that were asked last and did not answer
    while True:
        unknown = members.unknown_nodes(grid)
        nodes = sorted(unknown, key=silent.__contains__)
        wanted = want_initial and not initial
        if wanted and silent >= set(unknown):
            # The node asked for the starting point cannot send it: ask one that was admitted.
            admitted = sorted(members.online(grid), key=silent.__contains__)
            nodes = [*admitted[:1], *nodes]
        queries = members.queries(nodes, want_initial=wanted)
        replies = exchange(grid, queries, config.round_deadline)
        members.log_failures(replies)
        initial = members.admit(grid, replies.answers, strict=True) or initial
        failed, silent = replies.raised, set(nodes) - replies.answers.keys()
        present = len(members.online(grid))
        if present == 0 and len(failed) >= needed:
            raise FedGTError(f"no institution can take part: {next(iter(failed.values()))}")
        if present < needed or (want_initial and not initial):
            limit.wait(f"{present} of {needed} institutions are here", failed)
        elif set(members.unknown_nodes(grid)) <= set(nodes):
            return initial


class Newcomers:
    """Nodes that connect during the run; no round waits for their introductions."""

    def __init__(self) -> None:
        self._queries = PendingQueries()

    def admit(self, grid: Grid, members: Members, seconds: float) -> None:
        """Admit those that have answered by now, then ask the others.

        A query that is not answered within ``seconds`` is sent again.
        """
        replies = self._queries.receive(grid)
        members.log_failures(replies)
        members.admit(grid, replies.answers, strict=False)
        queries = members.queries(members.unknown_nodes(grid), want_initial=False)
        self._queries.send(grid, queries, seconds)
