"""The round loop, over nodes that answer, fail, come late, leave and join."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedgt_server.methods import server_method
from fedgt_server.round_loop import GaveUpError, RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from tests.fedgt_server.disk import room_for
from tests.fedgt_server.grid import PROFILE, Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")

Observer = Callable[[dict[str, Any]], None]


def federation(
    grid: ScriptedGrid, folder: Path, observe: Observer = lambda _: None, **changed: Scalar
) -> RoundLoop:
    config: RunConfig = settings(**changed)
    return RoundLoop(grid, FedGTStrategy(config, server_method(config)), folder, observe)


def journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def rounds(folder: Path) -> list[dict[str, Any]]:
    return [event for event in journal(folder) if event["event"] == "round"]


def took_part(folder: Path) -> list[list[str]]:
    return [sorted(event["institutions"]) for event in rounds(folder)]


def missing(folder: Path) -> list[list[str]]:
    return [event["missing"] for event in rounds(folder)]


def test_nobody_comes(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(GaveUpError, match="0 of 2 institutions are here"):
        federation(ScriptedGrid(), tmp_path).run()
    assert 0.3 <= time.monotonic() - started < 3.0
    assert journal(tmp_path)[-1]["event"] == "failed"


def test_an_institution_with_other_columns_ends_the_run(tmp_path: Path) -> None:
    other = replace(PROFILE, features=["debt", "age"])
    grid = ScriptedGrid(Node("alba"), Node("bree", profile=other))
    with pytest.raises(FedGTError, match="bree has other feature columns than alba: number 1"):
        federation(grid, tmp_path).run()
    assert "bree" in journal(tmp_path)[-1]["reason"]
    assert grid.nodes[1].heard == []


def test_no_institution_can_take_part(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b", fails={0}))
    started = time.monotonic()
    with pytest.raises(FedGTError, match="no memory"):
        federation(grid, tmp_path, give_up_after=30.0).run()
    assert time.monotonic() - started < 5.0


def test_all_goes_well(tmp_path: Path) -> None:
    seen: list[int] = []
    grid = ScriptedGrid(Node("a", accuracy={2: 0.9}), Node("b"), Node("c"))
    result = federation(grid, tmp_path, lambda facts: seen.append(facts["round"])).run()
    assert seen == [1, 2, 3]
    assert [event["event"] for event in journal(tmp_path)] == ["start", *["round"] * 3, "end"]
    assert took_part(tmp_path) == [["a", "b", "c"]] * 3
    assert missing(tmp_path) == [[]] * 3
    assert result["best_round"] == 2
    assert result["val_accuracy"] == pytest.approx((0.9 + 0.5 + 0.5) / 3)
    assert result["per_client"]["a"] == {"val_accuracy": 0.9, "test_accuracy": 0.5}
    assert json.loads((tmp_path / "result.json").read_text()) == result
    # Every round once, then the farewell.
    assert [h.round_number for h in grid.nodes[1].heard] == [1, 2, 3, 4]
    assert [h.finish for h in grid.nodes[1].heard] == [False, False, False, True]
    assert [h.best_round for h in grid.nodes[3].heard] == [0, 1, 2, 2]


def test_a_silent_first_node_does_not_keep_the_starting_point(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", silent={0}), Node("b"), Node("c"))
    federation(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert took_part(tmp_path) == [["b", "c"]]


def test_a_failing_first_node_does_not_keep_the_starting_point(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b"), Node("c"))
    federation(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert took_part(tmp_path) == [["b", "c"]]


def test_a_quorum_is_enough_at_the_deadline(tmp_path: Path) -> None:
    grid = ScriptedGrid(
        Node("a"), Node("b", silent={1}), Node("c", late={2: 60.0}), Node("d", fails={3})
    )
    started = time.monotonic()
    federation(grid, tmp_path).run()
    assert time.monotonic() - started < 5.0
    assert took_part(tmp_path) == [["a", "c", "d"], ["a", "b", "d"], ["a", "b", "c"]]
    assert missing(tmp_path) == [["b"], ["c"], ["d"]]
    seconds = [event["seconds"] for event in rounds(tmp_path)]
    assert seconds[0] >= 0.15
    assert seconds[2] < seconds[0]  # an error is known at once


def test_unfit_updates_do_not_count_for_the_quorum(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b", spoilt={1}), Node("c", garbled={1}))
    with pytest.raises(GaveUpError, match="round 1: 1 of 2 institutions answered"):
        federation(grid, tmp_path).run()


def test_without_checkpoints_the_result_is_the_same(tmp_path: Path) -> None:
    kept, none = (
        federation(
            ScriptedGrid(Node("alba"), Node("bree")), tmp_path / str(wanted), checkpoints=wanted
        ).run()
        for wanted in (True, False)
    )
    assert (tmp_path / "True" / "checkpoints").exists()
    assert not (tmp_path / "False" / "checkpoints").exists()
    for key in ("test_accuracy", "best_round", "per_client", "rounds"):
        assert none[key] == kept[key]


def test_gives_up_with_a_whole_checkpoint_and_resumes(tmp_path: Path) -> None:
    def nodes() -> list[Node]:
        return [Node("a"), Node("b", accuracy={1: 0.7}), Node("c")]

    grid = ScriptedGrid(*nodes())
    for node in list(grid.nodes.values())[1:]:
        node.silent = {2}
    with pytest.raises(GaveUpError, match=r"round 2: 1 of 2 .* the run can be resumed"):
        federation(grid, tmp_path / "run").run()
    assert took_part(tmp_path / "run") == [["a", "b", "c"]]
    again = ScriptedGrid(*nodes())
    result = federation(again, tmp_path / "run", resume=True).run()
    straight = ScriptedGrid(*nodes())
    expected = federation(straight, tmp_path / "straight").run()
    assert [h.round_number for h in again.nodes[1].heard] == [2, 3, 4]
    for key in ("best_round", "val_accuracy", "rounds", "per_client", "similarity_spread"):
        assert result[key] == expected[key]
    for index in (1, 2):
        mine, theirs = again.nodes[2].heard[index - 1], straight.nodes[2].heard[index]
        for name, array in theirs.arrays.items():
            assert mine.arrays[name].tobytes() == array.tobytes()
        assert mine.best_round == theirs.best_round


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    federation(ScriptedGrid(Node("a"), Node("b")), tmp_path, resume=True, rounds=1).run()
    assert [e["event"] for e in journal(tmp_path)] == ["start", "round", "end"]


def test_a_new_run_of_the_same_name_starts_anew(tmp_path: Path) -> None:
    federation(ScriptedGrid(Node("a"), Node("b")), tmp_path, rounds=3).run()
    grid = ScriptedGrid(Node("a"), Node("b", silent={2}))
    with pytest.raises(GaveUpError):
        federation(grid, tmp_path).run()
    resumed = ScriptedGrid(Node("a"), Node("b"))
    federation(resumed, tmp_path, resume=True).run()
    # Not after round 3 of the first run.
    assert [h.round_number for h in resumed.nodes[1].heard] == [2, 3, 4]


def test_a_newcomer_takes_part_from_the_next_round(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(facts: dict[str, Any]) -> None:
        if facts["round"] == 1:
            grid.nodes[3] = Node("c")

    federation(grid, tmp_path, observe).run()
    # It introduces itself during round 2.
    assert took_part(tmp_path) == [["a", "b"], ["a", "b"], ["a", "b", "c"]]
    assert missing(tmp_path) == [[], [], []]


def test_no_round_waits_for_a_newcomer(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(facts: dict[str, Any]) -> None:
        if facts["round"] == 1:
            grid.nodes[3] = Node("c", silent={0})
            grid.nodes[4] = Node("d", late={0: 0.2})
        time.sleep(0.05)

    federation(grid, tmp_path, observe, rounds=12, round_deadline=300.0).run()
    assert max(event["seconds"] for event in rounds(tmp_path)) < 100.0
    assert took_part(tmp_path)[:2] == [["a", "b"]] * 2
    # One that takes its time is in as soon as it has answered.
    assert took_part(tmp_path)[-1] == ["a", "b", "d"]


def test_a_newcomer_that_differs_does_not_end_the_run(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def observe(facts: dict[str, Any]) -> None:
        grid.nodes[3] = Node("c", profile=replace(PROFILE, version="0"))
        grid.nodes[4] = Node("d", garbled={0})

    federation(grid, tmp_path, observe).run()
    assert took_part(tmp_path) == [["a", "b"]] * 3


def test_one_that_leaves_is_missing_and_comes_back_under_a_new_node(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"), Node("c"))

    def observe(facts: dict[str, Any]) -> None:
        if facts["round"] == 1:
            grid.nodes[3].present = False
        if facts["round"] == 2:
            grid.nodes[4] = Node("c")

    federation(grid, tmp_path, observe, rounds=4).run()
    assert took_part(tmp_path) == [["a", "b", "c"], ["a", "b"], ["a", "b"], ["a", "b", "c"]]
    assert missing(tmp_path) == [[], ["c"], ["c"], []]


def test_who_answered_is_not_asked_again_while_the_quorum_is_short(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b", hiccups={1}))
    federation(grid, tmp_path, rounds=1, give_up_after=5.0).run()
    assert [heard.round_number for heard in grid.nodes[1].heard] == [1, 2]
    assert [heard.round_number for heard in grid.nodes[2].heard] == [1, 1, 2]
    assert took_part(tmp_path) == [["a", "b"]]


def test_nobody_has_validation_or_test_nodes(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", measures=False), Node("b", measures=False))
    result = federation(grid, tmp_path, rounds=2).run()
    assert result["val_accuracy"] is None
    assert result["test_accuracy"] is None
    assert result["best_round"] == 2


def test_two_coordinators_of_one_run(tmp_path: Path) -> None:
    def again(_: dict[str, Any]) -> None:
        with pytest.raises(FedGTError, match="is still running"):
            federation(ScriptedGrid(Node("a"), Node("b")), tmp_path).run()

    federation(ScriptedGrid(Node("a"), Node("b")), tmp_path, again, rounds=2).run()
    # The second left no trace in the journal of the first.
    assert [event["event"] for event in journal(tmp_path)] == ["start", "round", "round", "end"]


def test_a_full_disk_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))

    def no_room(_: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), room_for(1 << 20):
        federation(grid, tmp_path, no_room).run()
    assert "No space" in journal(tmp_path)[-1]["reason"]
    with pytest.raises(OSError, match="too large"), room_for(600):
        federation(grid, tmp_path / "other").run()
    federation(ScriptedGrid(Node("a"), Node("b")), tmp_path, resume=True).run()
    assert took_part(tmp_path) == [["a", "b"]] * 3
