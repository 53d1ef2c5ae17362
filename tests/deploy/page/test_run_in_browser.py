"""The page of a run in Chromium: of real runs, one with faults, and of 50 institutions."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.cli.report import write_own_report, write_report
from deploy.engines.in_process import run_in_process
from fedgt_client.client import FedGTClient
from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from shared.config import RunConfig
from shared.files import write_json
from tests.fedgt_server.events import institution_round, round_event
from tests.harness.browser import needs_browser, new_tab
from tests.harness.small_runs import small

pytestmark = [pytest.mark.slow, needs_browser]

HOSTILE = "</script><script>alert(1)</script>{{data}}"
RIGHT_TO_LEFT = "\u202eبنك-abc"
_MATRIX = "document.querySelector('#matrix canvas').toDataURL()"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a real comparison of four institutions that had its troubles.

    One does not answer in rounds 3 and 4, one sends values that are no numbers in round 5, and one
    shares no accuracy, as institutions may.
    """
    place = tmp_path_factory.mktemp("runs")
    fit = FedGTClient.fit

    def troubled(self: FedGTClient, parameters: Any, config: dict[str, Any]) -> Any:
        number = 0 if config["finish"] else config["round"]
        if self.institution == "institution-01" and number in (3, 4):
            raise ConnectionError("the line is down")
        arrays, examples, metrics = fit(self, parameters, config)
        if self.institution == "institution-02" and number == 5:
            named = arrays.as_dict()
            arrays = type(arrays)({name: np.full_like(a, np.nan) for name, a in named.items()})
        if self.institution == "institution-03":
            metrics = {k: v for k, v in metrics.items() if "accuracy" not in k and "val_" not in k}
        return arrays, examples, metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGT_CACHE", str(tmp_path_factory.mktemp("cache")))
        for method in ("local", "fedgt"):
            if method == "fedgt":
                patch.setattr(FedGTClient, "fit", troubled)
            config = small(place / method, rounds=6, method=method, min_institutions=2)
            run_in_process(config, 4)
    write_json(place / "comparison.json", {})
    return write_report(place)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_real_run_with_faults(faulty: Path, browser: Any, width: int, scheme: str) -> None:
    with new_tab(browser, width=width, scheme=scheme) as tab:
        tab.open(faulty)
        assert tab.width <= width
        troubles = tab.text("#institutions-body")
        assert "institution-01 (2 rounds: 3, 4)" in troubles
        assert "left out: " in troubles
        assert "1 institution shares no accuracies" in troubles
        assert "not shared" in tab.text("#headline")
        assert tab.not_reached_by_keys() == []
        assert tab.serious_faults() == []
        assert tab.problems == []
        assert tab.requests == [faulty.as_uri()]


def test_a_slider_moves_matrix_and_weights(faulty: Path, browser: Any) -> None:
    with new_tab(browser) as tab:
        tab.open(faulty)
        box = tab.page.query_selector("#matrix canvas").bounding_box()
        assert min(box["width"], box["height"]) > 150
        last, weights = tab.page.evaluate(_MATRIX), tab.text("#matrix .pair > div:last-child")
        tab.page.focus("#matrix input[type=range]")
        tab.page.keyboard.press("Home")
        assert tab.text("#matrix output") == "round 1"
        assert tab.page.evaluate(_MATRIX) != last
        assert tab.text("#matrix .pair > div:last-child") != weights
        tab.page.select_option("#matrix select", index=2)
        chosen = tab.page.evaluate(
            "document.querySelector('#matrix select').selectedOptions[0].text"
        )
        assert f"the model that {chosen} was sent" in tab.text("#matrix")


def test_a_table_is_behind_every_chart(faulty: Path, browser: Any) -> None:
    with new_tab(browser) as tab:
        tab.open(faulty)
        for summary in tab.page.query_selector_all("summary"):
            summary.press("Enter")
        tables = {
            host: tab.page.locator(f"#{host} details[open] tbody tr").count()
            for host in ("curves", "matrix", "privacy-body", "settings-body")
        }
        assert tables["curves"] == 6  # rounds
        assert tables["privacy-body"] == 4  # institutions
        assert tables["matrix"] == 4 + 4  # similarities, and weights of one institution
        assert tables["settings-body"] == len(RunConfig.model_fields)
        assert tab.serious_faults() == []
        assert tab.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_is_dark_on_white_paper(faulty: Path, browser: Any, scheme: str) -> None:
    darkest = """() => [...document.querySelectorAll('.chart canvas')].map((canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let found = 255;
        for (let at = 0; at < data.length; at += 4)
          if (data[at + 3] > 200) found = Math.min(found, Math.max(...data.slice(at, at + 3)));
        return found;
    })"""
    with new_tab(browser, scheme=scheme) as tab:
        tab.open(faulty)
        before = tab.page.evaluate(darkest)
        tab.page.emulate_media(media="print", color_scheme=scheme)
        tab.page.wait_for_selector("html[data-paper]")
        assert max(tab.page.evaluate(darkest)) < 128
        tab.page.emulate_media(media="screen", color_scheme=scheme)
        tab.page.wait_for_selector("html:not([data-paper])")
        assert tab.page.evaluate(darkest) == before
        assert tab.problems == []


def test_on_paper(faulty: Path, browser: Any, tmp_path: Path) -> None:
    with new_tab(browser) as tab:
        tab.open(faulty)
        paper = tmp_path / "page.pdf"
        tab.page.pdf(path=str(paper), prefer_css_page_size=True)
    try:
        text = subprocess.run(["pdftotext", "-layout", paper, "-"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no pdftotext: apt-get install poppler-utils")
    for shown in ("Alone", "institution-02", "(2 rounds: 3, 4)", "Privacy spent", "rounds"):
        assert shown in text.stdout


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_an_institutions_own_page(faulty: Path, browser: Any, width: int, scheme: str) -> None:
    run = faulty.parent / "fedgt"
    place = write_own_report(run, institution="institution-00")
    assert "institution-01" not in place.read_text()
    with new_tab(browser, width=width, scheme=scheme) as tab:
        tab.open(place)
        assert tab.width <= width
        assert tab.text("h1").startswith("The model of institution-00 reaches ")
        for host in ("rounds", "confusion", "sure", "left", "card", "settings-body"):
            assert tab.page.locator(f"#{host} :is(canvas, table)").count(), host
        assert "6 uploads of this data in all runs" in tab.text("#left")
        assert "Node classifier of institution-00" in tab.text("#card")
        assert tab.not_reached_by_keys() == []
        assert tab.serious_faults() == []
        assert tab.problems == []
        assert tab.requests == [place.as_uri()]


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of 50 institutions, 200 rounds and names that would be more than text."""
    place = tmp_path_factory.mktemp("fifty")
    names = [HOSTILE, "x" * 128, RIGHT_TO_LEFT, *(f"bank-{k:02d}" for k in range(47))]
    rng = np.random.default_rng(0)
    journal = Journal(place / "journal.jsonl")
    journal.write(StartEvent(config=RunConfig.build({"rounds": 200}).to_flower()))
    for number in range(1, 201):
        similarity = rng.uniform(-1, 1, (50, 50))
        np.fill_diagonal(similarity, 1.0)
        measured = rng.uniform(0.3, 0.9, (50, 2)).tolist()
        parts = {
            name: institution_round(
                val_accuracy=val, test_accuracy=test, seconds=1.0, epsilon_total=4.0 * number
            )
            for name, (val, test) in zip(names, measured, strict=True)
        }
        journal.write(
            round_event(
                number,
                parts,
                order=names,
                similarity=((similarity + similarity.T) / 2).tolist(),
                weights=np.full((50, 50), 0.02).tolist(),
                missing=["bank-99"],
                left_out={"bank-99": HOSTILE},
                warnings=[HOSTILE],
            )
        )
    return write_report(place)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_fifty_institutions(fifty: Path, browser: Any, width: int, scheme: str) -> None:
    assert fifty.stat().st_size < 1_000_000
    with new_tab(browser, width=width, scheme=scheme) as tab:
        tab.open(fifty)
        assert tab.width <= width
        assert tab.not_reached_by_keys() == []
        assert tab.serious_faults() == []
        assert tab.problems == []
        assert tab.requests == [fifty.as_uri()]


def test_hostile_names_stay_text(fifty: Path, browser: Any) -> None:
    dialogs: list[str] = []
    with new_tab(browser) as tab:
        tab.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        tab.open(fifty)
        assert tab.page.evaluate("document.scripts.length") == 2
        titles = tab.page.evaluate("[...document.querySelectorAll('bdi')].map((one) => one.title)")
        assert {HOSTILE, "x" * 128, RIGHT_TO_LEFT} <= set(titles)
        assert HOSTILE in tab.text("#institutions-body")
        # A name that reads from right to left does not turn its neighbours around.
        isolated = "getComputedStyle(document.querySelector('bdi.name')).unicodeBidi"
        assert tab.page.evaluate(isolated) == "isolate"
    assert dialogs == []
