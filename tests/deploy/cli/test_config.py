"""``fedgt config``: a file that Flower reads, whatever the values."""

import json
import tomllib

import pytest

from shared.config import RunConfig
from tests.harness.kits import fedgt


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "rounds"), "--set rounds: expected KEY=VALUE"),
        (("--set", "round=3"), "no setting 'round'"),
        (("--preset", "best"), "best"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, out, err = fedgt(capsys, monkeypatch, "config", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_every_setting_is_valid_toml_with_its_meaning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = 'C:\\data "new"'
    settings = ("--set", f"data-dir={place}", "--set", "rounds=7")
    _, out, _ = fedgt(capsys, monkeypatch, "config", *settings)
    expected = RunConfig.build({"data-dir": place, "rounds": 7}).to_flower()
    assert tomllib.loads(out) == expected
    assert out.count("# ") >= len(expected)
    _, out, _ = fedgt(capsys, monkeypatch, "config", *settings, "--json")
    assert json.loads(out) == expected
