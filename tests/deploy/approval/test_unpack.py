"""What is loaded is what was approved, whatever lies in the folder already."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.approval.approved_code import installed_hash
from deploy.approval.content import read_bundle
from deploy.approval.unpack import unpack_approved
from shared.errors import FedGTError
from tests.harness.bundles import APP, LEAVES_A_TRACE, changed_bundle, installed_bundle


def unpack(home: Path) -> Path:
    return unpack_approved(installed_bundle(), [installed_hash()], home)


def test_nothing_of_other_code_is_written(tmp_path: Path) -> None:
    bundle = changed_bundle(app=LEAVES_A_TRACE)
    with pytest.raises(FedGTError, match="is not approved here"):
        unpack_approved(bundle, [installed_hash()], tmp_path / "home")
    assert not list(tmp_path.iterdir())


def test_a_home_that_others_can_write(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(FedGTError, match="not a folder that this user alone can write"):
        unpack(home)
    home.rmdir()
    home.symlink_to(tmp_path)
    with pytest.raises(FedGTError, match="not a folder that this user alone can write"):
        unpack(home)


def test_every_file_is_there(tmp_path: Path) -> None:
    folder = unpack(tmp_path / "home")
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == read_bundle(installed_bundle())
    before = (folder / APP).stat()
    assert unpack(tmp_path / "home") == folder
    assert (folder / APP).stat() == before  # not written again


def other_bytes(folder: Path) -> None:
    (folder / APP).write_bytes(LEAVES_A_TRACE)


def another_module(folder: Path) -> None:
    (folder / "torch.py").write_bytes(LEAVES_A_TRACE)


def a_link(folder: Path) -> None:
    content = (folder / APP).read_bytes()
    (folder / APP).unlink()
    (folder.parent / "elsewhere.py").write_bytes(content)
    (folder / APP).symlink_to(folder.parent / "elsewhere.py")


def nothing(folder: Path) -> None:
    (folder / APP).unlink()


@pytest.mark.parametrize("change", [other_bytes, another_module, a_link, nothing])
def test_a_folder_that_was_changed_is_made_again(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = unpack(tmp_path / "home")
    change(folder)
    assert unpack(tmp_path / "home") == folder
    files = read_bundle(installed_bundle())
    assert (folder / APP).read_bytes() == files[APP]
    assert not (folder / APP).is_symlink()
    assert not (folder / "torch.py").exists()
