"""``fedgt provision``, as a person meets it."""

import json
from pathlib import Path

import pytest

from deploy.provision import registration
from tests.harness.kits import fedgt, write_banks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.toml",), "nowhere.toml: no such file"),
        (("federation.toml", "--readmit", "bank-x"), "no such institution"),
        (("revoke", "bank-x"), "kits holds no kits"),
        (("register", "."), "is not a coordinator's kit"),
        (("app", "."), "exists already"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_banks(tmp_path)
    code, out, err = fedgt(capsys, monkeypatch, "provision", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_no_superlink_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_banks(tmp_path)
    source.write_text(source.read_text().replace("also =", "control-port = 1\nalso ="))
    monkeypatch.setattr(registration, "_PAUSE", 0.1)
    fedgt(capsys, monkeypatch, "provision", "federation.toml")
    code, _, err = fedgt(capsys, monkeypatch, "provision", "register", "kits/coordinator")
    assert code == 2
    waiting, problem = err.splitlines()
    assert waiting == "waiting for the SuperLink, 2 s at most"
    assert "no SuperLink answers at 127.0.0.1:1" in problem


def test_from_file_to_revocation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_banks(tmp_path)
    code, out, _ = fedgt(capsys, monkeypatch, "provision", "federation.toml", "--json")
    made = json.loads(out)
    assert code == 0
    assert [kit["name"] for kit in made["institutions"]] == ["bank-a", "bank-b"]
    assert "kits/bank-a/node.key" in made["written"]
    code, out, _ = fedgt(capsys, monkeypatch, "provision", "--out", "kits", "federation.toml")
    assert code == 0
    assert "0 files written" in out
    code, out, _ = fedgt(capsys, monkeypatch, "provision", "revoke", "bank-b", "--json")
    assert json.loads(out)["fingerprint"] == made["institutions"][1]["fingerprint"]
    code, out, _ = fedgt(capsys, monkeypatch, "provision", "key", "there", "--json")
    assert json.loads(out)["new"] is True
    assert fedgt(capsys, monkeypatch, "provision", "--help")[0] == 0
