"""The directory of a worker, and who may enter it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgt_client.node import NodeConfig
from fedgt_client.worker.process import WorkerDirectory
from fedgt_client.worker.supernode import Supernode
from shared.errors import FedGTError

NODE = NodeConfig(institution="alba", data_dir="data", state_dir="state")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedgt-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield Path(short)


def test_a_folder_that_others_can_enter(place: Path) -> None:
    WorkerDirectory.create(NODE).path.chmod(0o750)
    with pytest.raises(FedGTError, match="this user alone can enter: remove it, or set TMPDIR"):
        WorkerDirectory.create(NODE)


def test_a_link_in_the_place_of_the_folder(place: Path, tmp_path: Path) -> None:
    parent = WorkerDirectory.create(NODE).path.parent
    for folder in parent.iterdir():
        folder.rmdir()
    parent.rmdir()
    parent.symlink_to(tmp_path)
    with pytest.raises(FedGTError, match="this user alone can enter"):
        WorkerDirectory.create(NODE)


def test_each_institution_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [{}, {"institution": "bree"}, {"data_dir": "x"}, {"state_dir": "x"}]
    folders = [WorkerDirectory.create(NODE.model_copy(update=changed)).path for changed in changes]
    monkeypatch.chdir(tmp_path)  # where relative paths begin
    folders.append(WorkerDirectory.create(NODE).path)
    assert len(set(folders)) == 5
    assert WorkerDirectory.create(NODE).path == folders[-1]


def test_the_socket_has_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    directory = WorkerDirectory.create(NODE.model_copy(update={"data_dir": str(tmp_path)}))
    assert len(str(directory.socket)) <= 100
    directory.path.rmdir()


def test_a_supernode_that_never_ran() -> None:
    assert Supernode([2**22 + 1]).is_gone()


def test_this_process_has_a_supernode() -> None:
    assert not Supernode.of_this_process().is_gone()
