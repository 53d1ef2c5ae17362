"""An institution's own page, from a kit that has trained."""

import json
from pathlib import Path

import pytest

from fedgt_client.predict.source import open_source
from fedgt_client.report.build import build_own_view
from fedgt_client.report.view import OwnView
from shared.errors import FedGTError
from tests.fedgt_client.trained_kits import make_kit, train


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_kit(tmp_path_factory.mktemp("kit"))
    train(place, rounds=3, best=2, ldp="global-nodes", method="fedgt")
    return place


def view_of(kit: Path, *, with_data: bool = True) -> OwnView:
    source = open_source(kit)
    data = source.open_data() if with_data else None
    return build_own_view(source, data, method_title="FedGT", settings=[], why_not="moved")


@pytest.fixture(scope="module")
def view(kit: Path) -> OwnView:
    return view_of(kit)


def test_a_kit_without_runs_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="no run yet"):
        open_source(make_kit(tmp_path))


def test_curves_are_those_of_its_own_log(kit: Path, view: OwnView) -> None:
    [log] = kit.rglob("metrics.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert view.curves.rounds == [1, 2, 3]
    assert view.curves.val == [line["val_accuracy"] for line in lines]
    assert (view.institution, view.best_round) == ("bank-a", 2)


def test_the_model_is_judged_on_test_nodes(view: OwnView) -> None:
    assert view.judged is not None
    assert sum(map(sum, view.judged.confusion)) == view.judged.nodes
    right = sum(row[k] for k, row in enumerate(view.judged.confusion))
    accuracy = next(one.test for one in view.metrics if one.title == "accuracy")
    assert right / view.judged.nodes == pytest.approx(accuracy)
    assert "Node classifier of bank-a" in view.card


def test_what_left_is_in_the_ledger(view: OwnView) -> None:
    assert view.budget is not None
    assert (view.budget.uploads, view.budget.uploads_here) == (3, 3)
    assert view.budget.counts == [1, 2, 3]
    assert view.budget.epsilon == sorted(view.budget.epsilon)
    # The curve ends at what the table says.
    assert view.budget.epsilon[-1] == max(value for _, value in view.budget.units)
    assert any(one.arrays == "global_nodes" and "Laplace" in one.protection for one in view.left)
    assert all((one.first, one.last, one.uploads) == (1, 3, 3) for one in view.left)


@pytest.mark.parametrize(("own", "shown"), [(7.0, 7.0), (0.0, 0.0)])
def test_the_limit_is_that_of_the_policy(kit: Path, own: float, shown: float) -> None:
    source = open_source(kit)
    view = build_own_view(source, None, method_title="FedGT", settings=[], own_budget=own)
    assert view.budget is not None
    assert view.budget.limit == shown


def test_without_its_data_it_says_so(kit: Path) -> None:
    view = view_of(kit, with_data=False)
    assert view.judged is None
    assert view.why_not == "moved"
    assert view.curves.rounds == [1, 2, 3]
