"""The headline in Chromium is true of the numbers under it; weights of a model add up to one."""

from pathlib import Path
from typing import Any

import pytest

from deploy.page.html import render
from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from fedgt_server.report.build import build_view
from fedgt_server.report.runs import find_run
from shared.config import RunConfig
from tests.fedgt_server.events import institution_round, round_event
from tests.harness.browser import Tab, needs_browser, new_tab

pytestmark = [pytest.mark.slow, needs_browser]

NAMES = ["bank-a", "bank-b", "bank-c"]
# The first two are coarse as single bytes: 99.2 and 1.1 %.
WEIGHTS = [[0.9886, 0.0114, 0.0], [0.5, 0.3, 0.2], [0.2513, 0.0087, 0.7401]]


def show(
    tab: Tab,
    place: Path,
    together: list[float | None],
    alone: list[float | None],
    **shared: float,
) -> None:
    """Show the page of a run in which institutions reached and shared these numbers."""
    journal = Journal(place / "journal.jsonl")
    journal.write(StartEvent(config=RunConfig.build({"rounds": 1}).to_flower()))
    parts = {
        name: institution_round(**({} if test is None else {"test_accuracy": test, **shared}))
        for name, test in zip(NAMES, together, strict=True)
    }
    similarity = [[1.0, 0.1, 0.8], [0.1, 1.0, -0.1], [0.8, -0.1, 1.0]]
    journal.write(round_event(1, parts, order=NAMES, similarity=similarity, weights=WEIGHTS))
    view = build_view(find_run(place))
    value_alone = dict(zip(NAMES, alone, strict=True))
    institutions = [
        one.model_copy(update={"alone": value_alone[one.name]}) for one in view.institutions
    ]
    page = place / "report.html"
    page.write_text(render(view.model_copy(update={"institutions": institutions}), "run"))
    tab.open(page)


GAIN = "by training together"


@pytest.mark.parametrize(
    ("together", "alone", "headline"),
    [
        ([0.8, 0.8, 0.8], [0.7, 0.7, 0.7], f"All 3 institutions gain {GAIN}"),
        ([0.8, 0.8, 0.6], [0.7, 0.7, 0.7], f"2 of 3 institutions gain {GAIN}, 1 loses"),
        ([0.8, 0.6, 0.6], [0.7, 0.7, 0.7], f"1 of 3 institutions gains {GAIN}, 2 lose"),
        ([0.8, 0.7, 0.7], [0.7, 0.7, 0.7], f"1 of 3 institutions gains {GAIN}"),
        ([0.6, 0.6, 0.6], [0.7, 0.7, 0.7], f"None of 3 institutions gains {GAIN}, 3 lose"),
        ([0.8, 0.8, None], [0.7, 0.7, 0.7], f"All 2 compared institutions gain {GAIN}"),
        ([0.6, None, None], [0.7, 0.7, 0.7], f"1 compared institution loses {GAIN}"),
        ([0.8, 0.8, 0.8], [None, None, None], "Mean test accuracy 80.0\u00a0%"),
        (
            [0.8, 0.6, None],
            [None, None, None],
            "Mean test accuracy 70.0\u00a0% over 2 of 3 institutions",
        ),
    ],
)
def test_the_headline_is_true(
    tmp_path: Path,
    browser: Any,
    together: list[float | None],
    alone: list[float | None],
    headline: str,
) -> None:
    with new_tab(browser) as tab:
        show(tab, tmp_path, together, alone)
        assert tab.text("h1") == headline
        assert tab.problems == []


def test_rounded_accuracies_decide_nothing_finer(tmp_path: Path, browser: Any) -> None:
    with new_tab(browser) as tab:
        show(tab, tmp_path, [0.7, 0.8, 0.5], [0.72, 0.7, 0.7], metrics_step=0.05)
        assert tab.text("h1") == f"1 of 3 institutions gains {GAIN}, 1 loses"
        assert "1 equal or too rounded to tell" in tab.text("#headline")
        assert "≈\u00a080\u00a0%" in tab.text("#headline")
        assert "≈\u00a080\u00a0%" in tab.text("#institutions-body")
        assert "3 institutions round shared accuracies to steps of 5 points" in tab.text()


def test_weights_are_those_of_the_journal(tmp_path: Path, browser: Any) -> None:
    rows = "#matrix .pair > div:last-child > div:nth-of-type(2) tbody td:nth-child(2)"
    with new_tab(browser) as tab:
        show(tab, tmp_path, [0.8, 0.8, 0.8], [0.7, 0.7, 0.7])
        for index, weights in enumerate(WEIGHTS):
            tab.page.select_option("#matrix select", index=index)
            shown = tab.page.eval_on_selector_all(rows, "(all) => all.map((one) => one.innerText)")
            percents = [float(text.removesuffix("\u00a0%")) for text in shown]
            assert percents == pytest.approx(
                [100 * one for one in sorted(weights, reverse=True)], abs=0.25
            )
            assert sum(percents) == pytest.approx(100, abs=0.16)
