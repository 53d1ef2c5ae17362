"""``fedgt policy check``: what both sides are told before a run."""

import json
from pathlib import Path

import pytest

from tests.harness.kits import fedgt

Monkey = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]


def check(
    place: Path, capsys: Capture, monkeypatch: Monkey, run: str, policy: str | None, *more: str
) -> tuple[int, str, str]:
    (place / "run.toml").write_text(run)
    command = ["policy", "check", str(place / "run.toml"), *more]
    if policy is not None:
        (place / "policy.toml").write_text(policy)
        command.append(str(place / "policy.toml"))
    return fedgt(capsys, monkeypatch, *command)


@pytest.mark.parametrize(
    ("run", "policy", "code", "line"),
    [
        ("", None, 0, "the default policy allows the run"),
        ('ldp = "off"', None, 1, "refuses the run: ldp = off, allowed: global-nodes, all"),
        ('ldp = "off"', '[policy]\nldp = "off"', 0, "policy.toml allows the run"),
        (
            'label-privacy = "dp-sgd"',
            "[policy]\nmax-label-epsilon = 2.0",
            1,
            "label-epsilon = 4, allowed: at most 2 ([policy] max-label-epsilon)",
        ),
        (
            "",
            '[policy]\narrays = ["weights", "global_nodes"]',
            1,
            "common-model = chosen, which uploads common_gradients, allowed: weights, global_nodes",
        ),
        # What a run without noise on updates would send under another name.
        ('method = "fedavg"', '[policy]\nldp = "all"', 1, "ldp = off, allowed: all ([policy] ldp)"),
    ],
)
def test_what_a_policy_says(
    run: str,
    policy: str | None,
    code: int,
    line: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: Monkey,
) -> None:
    found, output, _ = check(tmp_path, capsys, monkeypatch, run, policy)
    assert (found, line in output) == (code, True), output


def test_as_json(tmp_path: Path, capsys: Capture, monkeypatch: Monkey) -> None:
    _, output, _ = check(tmp_path, capsys, monkeypatch, "rounds = 2000", None, "--json")
    (problem,) = json.loads(output)["the default policy"]
    assert problem == {
        "setting": "rounds",
        "asked": "2000",
        "allowed": "at most 1000",
        "key": "max-rounds",
    }


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ('share-metrics = "none"', "'share-metrics' belongs below [policy]"),
        ("[policy]\nmax-hiden = 2", "no key 'max-hiden': did you mean 'max-hidden'?"),
        ("[policy]\nmax-epsilon = nan", "max-epsilon is nan"),
        ("[policy]\nprivacy-budget = -1", "privacy-budget is -1"),
        ('policy = "all"', "policy.toml: "),
        ("[policy", "policy.toml"),
    ],
)
def test_a_policy_that_cannot_be_read(
    policy: str, line: str, tmp_path: Path, capsys: Capture, monkeypatch: Monkey
) -> None:
    code, output, errors = check(tmp_path, capsys, monkeypatch, "", policy)
    assert (code, output) == (2, "")
    assert line in errors
    assert "Traceback" not in errors
