"""What the page of a run shows, from journals made and real."""

from pathlib import Path

import numpy as np
import pytest

from fedgt_server.events import EndEvent, FailedEvent, StartEvent
from fedgt_server.journal import Journal
from fedgt_server.report.build import Limits, build_view
from fedgt_server.report.packing import (
    cluster_order,
    similarity_codes,
    thinned,
    upper_triangle,
    weight_codes,
)
from fedgt_server.report.runs import find_run
from fedgt_server.report.view import RunView
from fedgt_server.result import read_result
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.errors import FedGTError
from tests.fedgt_server.events import institution_round, round_event
from tests.fedgt_server.grid import Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")


def view_of(folder: Path, limits: Limits | None = None) -> RunView:
    return build_view(find_run(folder), limits)


def journal(folder: Path) -> Journal:
    found = Journal(folder / "journal.jsonl")
    found.write(StartEvent(config=settings(rounds=9).to_flower()))
    return found


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match=r"journal\.jsonl is missing"):
        find_run(tmp_path)
    with pytest.raises(FedGTError, match="is not a folder"):
        find_run(tmp_path / "none")
    (tmp_path / "journal.jsonl").write_text("not an event\n")
    with pytest.raises(FedGTError, match="holds no run yet"):
        view_of(tmp_path)


def test_a_run_with_missed_rounds_refusals_and_unshared_metrics(tmp_path: Path) -> None:
    grid = ScriptedGrid(
        Node("a"), Node("b", spoilt={2}), Node("c", fails={3}), Node("d", measures=False)
    )
    config = settings(min_institutions=2)
    RoundLoop(grid, FedGTStrategy(config), tmp_path / "run").run()
    view = view_of(tmp_path / "run")
    by_name = {one.name: one for one in view.institutions}
    assert (view.status, view.played) == ("finished", 3)
    assert by_name["b"].missed == [2]
    assert by_name["b"].left_out[0].text == "bias holds values that are not finite"
    assert by_name["c"].left_out[0].text == "no memory"
    assert by_name["d"].val is by_name["d"].test is None
    assert by_name["a"].test == 0.5
    result = read_result(tmp_path / "run")
    assert result is not None
    assert view.test == result.test_accuracy
    assert view.matrices is not None
    assert view.matrices.rounds == [1, 2, 3]


def test_the_status_is_that_of_the_last_event(tmp_path: Path) -> None:
    found = journal(tmp_path)
    assert view_of(tmp_path).status == "stopped"
    found.write(round_event(1, {"a": institution_round(val_accuracy=0.5)}))
    found.write(FailedEvent(reason="too few", status="gave-up"))
    view = view_of(tmp_path)
    assert (view.status, view.reason, view.played) == ("gave-up", "too few", 1)


def test_runs_beside_it_count_only_with_the_same_data(tmp_path: Path) -> None:
    for name, seed in (("fedgt", 0), ("local", 0), ("other", 1)):
        method = "local" if name != "fedgt" else "fedgt"
        grid, folder = (
            ScriptedGrid(
                Node("a", uploads=method != "local"), Node("b", uploads=method != "local")
            ),
            tmp_path / name,
        )
        config = settings(rounds=1, method=method, seed=seed)
        RoundLoop(grid, FedGTStrategy(config), folder).run()
    assert find_run(tmp_path / "fedgt").others == {}  # nothing says that they belong together
    (tmp_path / "comparison.json").write_text("{}")
    found = find_run(tmp_path)
    assert found.folder == tmp_path / "fedgt"
    assert list(found.others) == ["local"]
    assert [one.alone for one in build_view(found).institutions] == [0.5, 0.5]


def test_large_runs_are_thinned_to_the_limits(tmp_path: Path) -> None:
    found, names = journal(tmp_path), [f"bank-{k:02d}" for k in range(12)]
    part = {name: institution_round(val_accuracy=0.5, test_accuracy=0.5) for name in names}
    same = np.eye(12).tolist()
    for number in range(1, 61):
        found.write(
            round_event(number, part, best_round=7, order=names, similarity=same, weights=same)
        )
    view = view_of(tmp_path, Limits(rounds=30, values=600, matrix_bytes=2_000))
    assert view.matrices is not None
    assert {1, 7, 60} <= set(view.matrices.rounds)
    assert len(view.matrices.rounds) <= 10
    assert len(view.curves.rounds) <= 31
    assert len(view.by_institution.val[0]) == len(view.by_institution.rounds) <= 26
    assert view.played == 60


def test_codes_keep_two_decimals() -> None:
    values = np.array([[1.0, -0.3], [-0.3, np.nan]])
    codes = similarity_codes(values)
    assert codes[1, 1] == 0
    assert (codes[0].astype(float) - 1) / 127 - 1 == pytest.approx(values[0], abs=0.005)
    weights = np.array([0.0, 0.02, 0.5, 1.0])
    assert ((weight_codes(weights).astype(float) - 1) / 254) ** 2 == pytest.approx(
        weights, abs=0.005
    )
    triangle = upper_triangle(np.arange(9, dtype=np.uint8).reshape(3, 3))
    assert triangle.tolist() == [1, 2, 5]


def test_similar_institutions_stand_together() -> None:
    groups = np.array([0, 1, 0, 1, 0])
    similarity = np.where(groups[:, None] == groups, 0.9, 0.1)
    order = groups[cluster_order(similarity)]
    assert np.count_nonzero(np.diff(order)) == 1


def test_thinning_keeps_first_last_and_best() -> None:
    assert thinned([1, 2, 3], 5, 2) == [1, 2, 3]
    kept = thinned(list(range(1, 101)), 5, 42)
    assert {1, 42, 100} <= set(kept)
    assert len(kept) <= 6


def test_settings_say_what_differs_and_no_folders(tmp_path: Path) -> None:
    found = Journal(tmp_path / "journal.jsonl")
    config = settings(rounds=9).to_flower() | {"results-dir": "/home/someone/runs"}
    found.write(StartEvent(config=config))
    view = view_of(tmp_path)
    assert "/home/someone" not in view.model_dump_json()
    changed = {one.key: (one.value, one.default) for one in view.settings if one.changed}
    assert changed["rounds"] == (9, 100)
    assert "tau" not in changed


def test_an_end_finishes(tmp_path: Path) -> None:
    RoundLoop(ScriptedGrid(Node("a"), Node("b")), FedGTStrategy(settings(rounds=1)), tmp_path).run()
    assert isinstance(Journal(tmp_path / "journal.jsonl").last(), EndEvent)
    assert view_of(tmp_path).status == "finished"
