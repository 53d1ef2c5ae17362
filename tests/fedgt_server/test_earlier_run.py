"""A run whose name is taken already."""

from pathlib import Path

import pytest

from fedgt_server.earlier_run import check_name_is_free
from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from fedgt_server.result import read_result
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import Scalar
from shared.errors import FedGTError
from tests.fedgt_server.grid import Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]


def play(folder: Path, *nodes: Node, **changed: Scalar) -> FedGTStrategy:
    strategy = FedGTStrategy(settings(**changed))
    RoundLoop(ScriptedGrid(*(nodes or (Node("a"), Node("b")))), strategy, folder).run()
    return strategy


def token(folder: Path) -> str:
    first = next(iter(Journal(folder / "journal.jsonl").read()))
    assert isinstance(first, StartEvent)
    return first.run_token


def test_a_finished_run_stays(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    play(folder)
    content = (folder / "result.json").read_bytes()
    with pytest.raises(FedGTError, match=r"the run 'first' is finished: another run-name"):
        play(folder)
    assert (folder / "result.json").read_bytes() == content


def test_an_unfinished_run_stays(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    with pytest.raises(FedGTError, match="giving up"):
        play(folder, Node("a"), Node("b", silent={2}))
    with pytest.raises(FedGTError, match=r"has played 1 rounds: './resume.sh' continues it"):
        play(folder)
    play(folder, resume=True)


def test_a_run_under_way_stays(tmp_path: Path) -> None:
    with (
        run_lock(tmp_path / "first"),
        pytest.raises(FedGTError, match="is under way: 'fedgt follow first' shows it"),
    ):
        check_name_is_free(tmp_path / "first")


def test_a_run_without_a_round_is_no_obstacle(tmp_path: Path) -> None:
    with pytest.raises(FedGTError):
        play(tmp_path / "first", Node("a"), Node("b", fails={0}))
    play(tmp_path / "first")


def test_replace_sets_the_earlier_run_aside(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    play(folder, rounds=2)
    earlier = token(folder)
    play(folder, replace=True)
    aside = tmp_path / f"first.{earlier}"
    found = [read_result(place) for place in (folder, aside)]
    assert [result.rounds if result else 0 for result in found] == [3, 2]
    assert token(folder) != earlier == token(aside)


def test_a_run_that_goes_on_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    with run_lock(folder), pytest.raises(FedGTError, match="still running"):
        play(folder, replace=True)


def test_institutions_learn_token_and_last_round(tmp_path: Path) -> None:
    a, b = Node("a"), Node("b", silent={2})
    played = play(tmp_path / "first", a, b, min_institutions=1)
    heard = [(one.round_number, one.run_token, one.last_round) for one in b.heard]
    name = played.run_token
    assert heard == [(1, name, 0), (2, name, 1), (3, name, 1), (4, name, 3)]


def test_a_resumed_run_keeps_token_and_last_rounds(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    with pytest.raises(FedGTError, match="giving up"):
        play(folder, Node("a"), Node("b", silent={3}))
    again = Node("b")
    play(folder, Node("a"), again, resume=True)
    assert [(one.run_token, one.last_round) for one in again.heard[:1]] == [(token(folder), 2)]


def test_a_budget_that_shrinks_is_noticed(tmp_path: Path) -> None:
    forgetful = Node("b", epsilon={1: 4.0, 2: 8.0, 3: 4.0})
    played = play(tmp_path / "first", Node("a"), forgetful)
    assert played.last_round is not None
    assert played.last_round.warnings == [
        "b says that it has spent ε 4, after 8: its own account was lost, what it has released "
        "counts still"
    ]
    assert played.last_parts["b"].epsilon == 8.0
