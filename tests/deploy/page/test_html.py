"""The page: one file that loads nothing, and in which names stay text."""

import json
import re
from pathlib import Path

import pytest

from deploy.page.html import content_policy, render, script_safe
from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from fedgt_server.report.build import build_view
from fedgt_server.report.runs import find_run
from shared.config import RunConfig
from tests.fedgt_server.events import institution_round, round_event

HOSTILE = "</script><script>alert(1)</script>{{data}}"


@pytest.fixture
def page(tmp_path: Path) -> str:
    """Return the page of a run with names that would like to be more than text."""
    names = [HOSTILE, "x" * 200, "\u202eبنك-abc", "bank-d"]
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    journal.write(StartEvent(config=RunConfig.build({"rounds": 3}).to_flower()))
    for number in (1, 2, 3):
        parts = {
            name: institution_round(val_accuracy=0.5 + number / 10, test_accuracy=0.6, seconds=1.0)
            for name in names[:3]
        }
        journal.write(
            round_event(
                number,
                parts | {"bank-d": institution_round(epsilon_total=number, epsilon_coordinate=1.0)},
                order=names,
                similarity=[[1.0 if i == j else 0.2 * number for j in range(4)] for i in range(4)],
                weights=[[0.4, 0.3, 0.2, 0.1]] * 4,
                missing=["bank-e"],
                left_out={"bank-e": HOSTILE},
                warnings=[HOSTILE],
            )
        )
    return render(build_view(find_run(tmp_path / "run")), "run")


def test_names_cannot_leave_the_data(page: str) -> None:
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert HOSTILE in {one["name"] for one in json.loads(data[1])["institutions"]}


def test_json_in_a_script_means_the_same() -> None:
    text = json.dumps({"a": "</script>&<!--\u2028"}, ensure_ascii=False)
    assert "<" not in script_safe(text)
    assert json.loads(script_safe(text)) == json.loads(text)


def test_the_policy_allows_no_network() -> None:
    policy = content_policy("run")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy


def test_the_page_refers_to_nothing_outside(page: str) -> None:
    assert not re.findall(r'(?:src|href)="(?!#)', page)
