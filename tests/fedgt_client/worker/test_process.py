"""The folder of a worker, and who may enter it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.app import UserConfig

from fedgt_client.worker.process import Residence
from fedgt_client.worker.supernode import Supernode
from shared.errors import FedGTError

NODE: UserConfig = {"institution": "alba", "data-dir": "data", "state-dir": "state"}


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedgt-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield Path(short)


def test_a_folder_that_others_can_enter(place: Path) -> None:
    Residence.of(NODE).folder.chmod(0o750)
    with pytest.raises(FedGTError, match="this user alone can enter: remove it, or set TMPDIR"):
        Residence.of(NODE)


def test_a_link_in_the_place_of_the_folder(place: Path, tmp_path: Path) -> None:
    parent = Residence.of(NODE).folder.parent
    for folder in parent.iterdir():
        folder.rmdir()
    parent.rmdir()
    parent.symlink_to(tmp_path)
    with pytest.raises(FedGTError, match="this user alone can enter"):
        Residence.of(NODE)


def test_each_institution_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[UserConfig] = [{}, {"institution": "bree"}, {"data-dir": "x"}, {"state-dir": "x"}]
    folders = [Residence.of(NODE | changed).folder for changed in changes]
    monkeypatch.chdir(tmp_path)  # where relative paths begin
    folders.append(Residence.of(NODE).folder)
    assert len(set(folders)) == 5
    assert Residence.of(NODE).folder == folders[-1]


def test_the_socket_has_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    home = Residence.of(NODE | {"data-dir": str(tmp_path)})
    assert len(str(home.socket)) <= 100
    home.folder.rmdir()


def test_a_process_that_never_was() -> None:
    assert Supernode([2**22 + 1]).is_gone()


def test_this_process_has_a_supernode() -> None:
    assert not Supernode.of_this_process().is_gone()
