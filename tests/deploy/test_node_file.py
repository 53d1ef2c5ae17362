"""``node.toml``: approved hashes are added, and all else stays."""

import tomllib
from pathlib import Path

import pytest

from deploy.approval.approved_code import hash_of, installed_hash
from deploy.approval.content import content_hash, read_bundle
from deploy.engines.app_bundle import stage_flower_app
from deploy.node_file import approve, read_node_file, with_approved
from shared.errors import FedGTError
from tests.harness.bundles import changed_bundle
from tests.harness.kits import fedgt

ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")
TEXT = '# ours\ninstitution = "alba"  # a name\ndata-dir = "data"\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "node.toml"
    source.write_text(TEXT)
    source.chmod(0o640)
    return source


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("institution = ", "not valid TOML"),
        (TEXT + 'approved = ["sha256:12"]\n', r"node\.toml: approved is .* should be sha256:"),
        (TEXT + 'approved = "all"\n', r"approved is 'all' in the node config"),
        (TEXT + f'approved = [ # ] no end\n  "{TWO}",\n]\n', "add 'sha256:1.* yourself"),
    ],
)
def test_a_file_that_is_wrong_stays(source: Path, content: str, message: str) -> None:
    source.write_text(content)
    with pytest.raises(FedGTError, match=message):
        approve(source, ONE)
    assert source.read_text() == content


def test_a_key_of_the_file_and_not_of_a_table() -> None:
    text = TEXT + '\n[table]\nkey = "approved = []"\n'
    changed = with_approved(text, [ONE])
    assert tomllib.loads(changed) == tomllib.loads(text) | {"approved": [ONE]}
    assert with_approved(changed, [ONE]) == changed


@pytest.mark.parametrize("end", ["", "\n"])
def test_adding(source: Path, end: str) -> None:
    source.write_text(TEXT.rstrip("\n") + end)
    before = tomllib.loads(source.read_text())
    assert approve(source, ONE)
    assert approve(source, TWO)
    assert not approve(source, ONE)
    assert tomllib.loads(source.read_text()) == before | {"approved": [ONE, TWO]}
    assert source.read_text().startswith(TEXT)
    assert source.stat().st_mode & 0o777 == 0o640


def test_the_app_is_not_told(source: Path) -> None:
    approve(source, ONE)
    node = read_node_file(source)
    assert node.approved == (ONE,)
    assert node.to_flower() == {"institution": "alba", "data-dir": "data"}


def test_the_command(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = source.parent / "other.fab"
    bundle.write_bytes(changed_bundle(app=b"\n"))
    found = content_hash(read_bundle(bundle.read_bytes()))
    code, out, err = fedgt(
        capsys, monkeypatch, "provision", "approve", str(source.parent), str(bundle)
    )
    assert (code, err) == (0, "it counts from the next start of start-supernode.sh\n")
    assert f"{found} is approved in" in out
    assert read_node_file(source).approved == (found,)
    code, _, err = fedgt(capsys, monkeypatch, "provision", "approve", str(source.parent), "x.fab")
    assert (code, err.count("\n")) == (2, 1)
    assert "x.fab is no bundle, no folder and no hash" in err


def test_what_may_be_approved(tmp_path: Path) -> None:
    app = stage_flower_app(tmp_path / "fedgt")
    assert hash_of(str(app)) == installed_hash()
    assert hash_of(ONE) == ONE
    for wrong in ("sha256:12", ONE.upper(), ONE + "0"):
        with pytest.raises(FedGTError, match="no bundle, no folder and no hash"):
            hash_of(wrong)
    (app / "pyproject.toml").unlink()
    with pytest.raises(FedGTError, match="is not a Flower app"):
        hash_of(str(app))
