"""The page on policies: every refusal stands there word for word."""

import re
import tomllib
from typing import Any

import pytest

from deploy.settings import resolve_settings
from fedgt_client.node import parse_policy
from fedgt_client.policy import CAPPED, Policy
from fedgt_server.methods import method_info
from tests.docs.documents import ROOT

PAGE = (ROOT / "docs" / "policy.md").read_text()
_ROW = re.compile(r"^\| `(?P<asks>[^`]+)` \| (`(?P<says>[^`]+)`)? ?\| `(?P<line>[^`]+)` \|$", re.M)
ROWS = [(found["asks"], found["says"] or "", found["line"]) for found in _ROW.finditer(PAGE)]


def values(text: str) -> dict[str, Any]:
    return tomllib.loads(f"x = {{{text}}}")["x"] if text else {}


@pytest.mark.parametrize(("asks", "says", "line"), ROWS, ids=[asks for asks, *_ in ROWS])
def test_the_page_says_what_an_institution_answers(asks: str, says: str, line: str) -> None:
    config = resolve_settings(values(asks))
    problems = parse_policy(values(says)).problems(config, method_info(config.method).uploads)
    assert list(map(str, problems)) == [line]


def test_every_key_that_refuses_a_run_is_on_the_page() -> None:
    keys = {re.search(r"\[policy\] (\S+)\)$", line)[1] for _, _, line in ROWS}  # type: ignore[index]
    capped = {f"max-{name.replace('_', '-')}" for name in CAPPED}
    others = {"federations", "methods", "arrays", "ldp", "max-epsilon", "noise-seed"}
    assert keys == capped | others | {"min-ppr-tolerance", "min-ppr-nu", "max-label-epsilon"}


def test_every_key_of_a_policy_is_on_the_page() -> None:
    missing = [key for name in Policy.model_fields if (key := name.replace("_", "-")) not in PAGE]
    assert not missing
