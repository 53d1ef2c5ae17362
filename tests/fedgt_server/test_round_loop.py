"""The round loop, over nodes that answer, fail, come late, leave and join."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import pytest

from fedgt_server import events, wait
from fedgt_server.events import (
    Accuracies,
    EndEvent,
    FailedEvent,
    JournalEvent,
    RoundEvent,
    StartEvent,
)
from fedgt_server.journal import Journal
from fedgt_server.result import read_result
from fedgt_server.round_loop import Observer, RoundLoop
from fedgt_server.strategy import FedGTStrategy
from fedgt_server.wait import GaveUpError
from shared.config import Scalar
from shared.errors import FedGTError
from tests.fedgt_server.disk import room_for
from tests.fedgt_server.grid import NEVER, PROFILE, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]


def round_loop(
    grid: ScriptedGrid, folder: Path, observe: Observer = lambda _: None, **changed: Scalar
) -> RoundLoop:
    return RoundLoop(grid, FedGTStrategy(settings(**changed)), folder, observe)


def journal(folder: Path) -> list[JournalEvent]:
    return list(Journal(folder / "journal.jsonl").read())


def kinds(folder: Path) -> list[str]:
    return [event.event for event in journal(folder)]


def failure(folder: Path) -> FailedEvent:
    last = journal(folder)[-1]
    assert isinstance(last, FailedEvent)
    return last


def rounds(folder: Path) -> list[RoundEvent]:
    return [event for event in journal(folder) if isinstance(event, RoundEvent)]


def took_part(folder: Path) -> list[list[str]]:
    return [sorted(event.institutions) for event in rounds(folder)]


def missing(folder: Path) -> list[list[str]]:
    return [event.missing for event in rounds(folder)]


def test_a_clock_that_jumps_changes_nothing_but_the_journals_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = cycle((0, -400, 4000))  # days

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Jumping":
            return cls.fromtimestamp(time.time() + 86_400 * next(jumps), UTC)

    monkeypatch.setattr(events, "datetime", Jumping)
    monkeypatch.setattr(wait, "datetime", Jumping)
    result = round_loop(ScriptedGrid(*map(Node, "abc")), tmp_path).run()
    assert result.rounds == 3
    assert took_part(tmp_path) == [["a", "b", "c"]] * 3
    times = [event.time for event in journal(tmp_path)]
    assert times != sorted(times)
    assert read_result(tmp_path) is not None


def test_nobody_comes(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(GaveUpError, match="0 of 2 institutions are here"):
        round_loop(ScriptedGrid(), tmp_path).run()
    assert time.monotonic() - started >= 0.3
    assert failure(tmp_path).status == "gave-up"


def test_an_institution_with_other_columns_ends_the_run(tmp_path: Path) -> None:
    other = replace(PROFILE, features=["debt", "age"])
    grid = ScriptedGrid(Node("alba"), Node("bree", profile=other))
    with pytest.raises(FedGTError, match="bree has other feature columns than alba: number 1"):
        round_loop(grid, tmp_path).run()
    assert "bree" in failure(tmp_path).reason
    assert failure(tmp_path).status == "failed"
    assert grid.nodes[1].heard == []


def test_no_institution_can_take_part(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b", fails={0}))
    with pytest.raises(FedGTError, match="no memory"):
        round_loop(grid, tmp_path, give_up_after=NEVER).run()


def test_all_goes_well(tmp_path: Path) -> None:
    seen: list[int] = []
    grid = ScriptedGrid(Node("a", accuracy={2: 0.9}), Node("b", accuracy={2: 0.6}), Node("c"))
    result = round_loop(grid, tmp_path, lambda event: seen.append(event.round)).run()
    assert seen == [1, 2, 3]
    assert kinds(tmp_path) == ["start", *["round"] * 3, "end"]
    start, end = journal(tmp_path)[0], journal(tmp_path)[-1]
    assert isinstance(start, StartEvent)
    assert start.config == settings().to_flower()
    assert isinstance(end, EndEvent)
    assert end.per_client == result.per_client
    assert took_part(tmp_path) == [["a", "b", "c"]] * 3
    assert missing(tmp_path) == [[]] * 3
    assert result.best_round == 2
    assert result.val_accuracy == pytest.approx((0.9 + 0.6 + 0.5) / 3)
    assert result.per_client["a"] == Accuracies(val_accuracy=0.9, test_accuracy=0.5)
    assert read_result(tmp_path) == result
    # Every round once, then the message that the run is over.
    assert [h.round_number for h in grid.nodes[1].heard] == [1, 2, 3, 4]
    assert [h.finish for h in grid.nodes[1].heard] == [False, False, False, True]
    assert [h.best_round for h in grid.nodes[3].heard] == [0, 1, 2, 2]


def test_a_silent_first_node_does_not_keep_the_starting_point(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", silent={0}), Node("b"), Node("c"))
    round_loop(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert took_part(tmp_path) == [["b", "c"]]


def test_a_failing_first_node_does_not_keep_the_starting_point(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b"), Node("c"))
    round_loop(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert took_part(tmp_path) == [["b", "c"]]


def test_a_quorum_is_enough_at_the_deadline(tmp_path: Path) -> None:
    grid = ScriptedGrid(
        Node("a"), Node("b", silent={1}), Node("c", late={2: NEVER}), Node("d", fails={3})
    )
    round_loop(grid, tmp_path).run()
    assert took_part(tmp_path) == [["a", "c", "d"], ["a", "b", "d"], ["a", "b", "c"]]
    assert missing(tmp_path) == [["b"], ["c"], ["d"]]
    first, second, third = (event.left_out for event in rounds(tmp_path))
    assert list(first) == ["b"]
    assert first["b"].startswith("no answer within")
    assert list(second) == ["c"]
    assert third == {"d": "no memory"}
    assert rounds(tmp_path)[0].seconds >= 0.15


def test_an_error_reply_is_not_waited_for(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"), Node("c", fails={1, 2}))
    round_loop(grid, tmp_path, rounds=2, round_deadline=NEVER).run()
    assert took_part(tmp_path) == [["a", "b"]] * 2
    assert missing(tmp_path) == [["c"]] * 2


def test_unfit_updates_do_not_count_for_the_quorum(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b", spoilt={1}), Node("c", garbled={1}))
    with pytest.raises(GaveUpError, match="round 1: 1 of 2 institutions answered"):
        round_loop(grid, tmp_path).run()


def test_without_checkpoints_the_result_is_the_same(tmp_path: Path) -> None:
    kept, none = (
        round_loop(
            ScriptedGrid(Node("alba"), Node("bree")), tmp_path / str(wanted), checkpoints=wanted
        ).run()
        for wanted in (True, False)
    )
    assert (tmp_path / "True" / "checkpoints").exists()
    assert not (tmp_path / "False" / "checkpoints").exists()
    same = {"test_accuracy", "best_round", "per_client", "rounds"}
    assert none.model_dump(include=same) == kept.model_dump(include=same)


def test_gives_up_with_a_whole_checkpoint_and_resumes(tmp_path: Path) -> None:
    def nodes() -> list[Node]:
        return [Node("a"), Node("b", accuracy={1: 0.7}), Node("c")]

    grid = ScriptedGrid(*nodes())
    for node in list(grid.nodes.values())[1:]:
        node.silent = {2}
    with pytest.raises(GaveUpError, match=r"round 2: 1 of 2 .* the run can be resumed"):
        round_loop(grid, tmp_path / "run").run()
    assert took_part(tmp_path / "run") == [["a", "b", "c"]]
    again = ScriptedGrid(*nodes())
    result = round_loop(again, tmp_path / "run", resume=True).run()
    straight = ScriptedGrid(*nodes())
    expected = round_loop(straight, tmp_path / "straight").run()
    assert [h.round_number for h in again.nodes[1].heard] == [2, 3, 4]
    same = {"best_round", "val_accuracy", "rounds", "per_client", "similarity_spread"}
    assert result.model_dump(include=same) == expected.model_dump(include=same)
    for index in (1, 2):
        mine, theirs = again.nodes[2].heard[index - 1], straight.nodes[2].heard[index]
        for name, array in theirs.arrays.items():
            assert mine.arrays[name].tobytes() == array.tobytes()
        assert mine.best_round == theirs.best_round


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    round_loop(ScriptedGrid(Node("a"), Node("b")), tmp_path, resume=True, rounds=1).run()
    assert kinds(tmp_path) == ["start", "round", "end"]


def test_a_run_that_replaces_another_starts_from_the_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    round_loop(ScriptedGrid(Node("a"), Node("b")), folder, rounds=3).run()
    grid = ScriptedGrid(Node("a"), Node("b", silent={2}))
    with pytest.raises(GaveUpError):
        round_loop(grid, folder, replace=True).run()
    resumed = ScriptedGrid(Node("a"), Node("b"))
    round_loop(resumed, folder, resume=True).run()
    # Not after round 3 of the first run.
    assert [h.round_number for h in resumed.nodes[1].heard] == [2, 3, 4]


def test_a_newcomer_takes_part_from_the_next_round(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(event: RoundEvent) -> None:
        if event.round == 1:
            grid.nodes[3] = Node("c")

    round_loop(grid, tmp_path, observe).run()
    # It introduces itself during round 2.
    assert took_part(tmp_path) == [["a", "b"], ["a", "b"], ["a", "b", "c"]]
    assert missing(tmp_path) == [[], [], []]


def test_no_round_waits_for_a_newcomer(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(event: RoundEvent) -> None:
        if event.round == 1:
            grid.nodes[3] = Node("c", silent={0})
            grid.nodes[4] = Node("d", late={0: NEVER})
        if event.round == 5:
            grid.deliver()

    round_loop(grid, tmp_path, observe, rounds=12, round_deadline=NEVER).run()
    # One that takes its time takes part as soon as it has answered.
    assert took_part(tmp_path) == [["a", "b"]] * 5 + [["a", "b", "d"]] * 7


def test_a_newcomer_that_does_not_match_does_not_end_the_run(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(event: RoundEvent) -> None:
        grid.nodes[3] = Node("c", profile=replace(PROFILE, version="0"))
        grid.nodes[4] = Node("d", garbled={0})

    round_loop(grid, tmp_path, observe).run()
    assert took_part(tmp_path) == [["a", "b"]] * 3


def test_one_that_leaves_is_missing_and_comes_back_under_a_new_node(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"), Node("c"))

    def observe(event: RoundEvent) -> None:
        if event.round == 1:
            grid.nodes[3].present = False
        if event.round == 2:
            grid.nodes[4] = Node("c")

    round_loop(grid, tmp_path, observe, rounds=4).run()
    assert took_part(tmp_path) == [["a", "b", "c"], ["a", "b"], ["a", "b"], ["a", "b", "c"]]
    assert missing(tmp_path) == [[], ["c"], ["c"], []]


def test_an_institution_that_answered_is_not_asked_again_in_the_round(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b", hiccups={1}))
    round_loop(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert [heard.round_number for heard in grid.nodes[1].heard] == [1, 2]
    assert [heard.round_number for heard in grid.nodes[2].heard] == [1, 1, 2]
    assert took_part(tmp_path) == [["a", "b"]]


def test_nobody_has_validation_or_test_nodes(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", measures=False), Node("b", measures=False))
    result = round_loop(grid, tmp_path, rounds=2).run()
    assert result.val_accuracy is None
    assert result.test_accuracy is None
    assert result.best_round == 2


def test_two_coordinators_of_one_run(tmp_path: Path) -> None:
    def again(_: RoundEvent) -> None:
        with pytest.raises(FedGTError, match="is still running"):
            round_loop(ScriptedGrid(Node("a"), Node("b")), tmp_path).run()

    round_loop(ScriptedGrid(Node("a"), Node("b")), tmp_path, again, rounds=2).run()
    # The second left no trace in the journal of the first.
    assert kinds(tmp_path) == ["start", "round", "round", "end"]


def test_a_full_disk_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def no_room(_: RoundEvent) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(FedGTError, match=r"No space .*make room .*resume"), room_for(1 << 20):
        round_loop(grid, tmp_path, no_room).run()
    assert "No space" in failure(tmp_path).reason
    with pytest.raises(FedGTError, match=r"journal\.jsonl: File too large"), room_for(600):
        round_loop(grid, tmp_path / "other").run()
    round_loop(ScriptedGrid(Node("a"), Node("b")), tmp_path, resume=True).run()
    assert took_part(tmp_path) == [["a", "b"]] * 3
