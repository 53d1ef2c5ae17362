"""Default folders: own variable first, then the XDG base directories, then the home."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedgt_client.folders import cache_dir, state_dir

CASES = [
    pytest.param(cache_dir, "FEDGT_CACHE", "XDG_CACHE_HOME", ".cache", id="cache"),
    pytest.param(state_dir, "FEDGT_STATE", "XDG_STATE_HOME", ".local/state", id="state"),
]


@pytest.mark.skipif(sys.platform != "linux", reason="XDG base directories")
@pytest.mark.parametrize(("folder", "own", "xdg", "below_home"), CASES)
def test_order_of_places(
    folder: Callable[[], Path],
    own: str,
    xdg: str,
    below_home: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(own, raising=False)
    monkeypatch.delenv(xdg, raising=False)
    assert folder() == tmp_path / below_home / "fedgt"
    monkeypatch.setenv(xdg, "")
    assert folder() == tmp_path / below_home / "fedgt"
    monkeypatch.setenv(xdg, str(tmp_path / "xdg"))
    assert folder() == tmp_path / "xdg" / "fedgt"
    monkeypatch.setenv(own, "")
    assert folder() == tmp_path / "xdg" / "fedgt"
    monkeypatch.setenv(own, str(tmp_path / "own"))
    assert folder() == tmp_path / "own"
    assert not (tmp_path / "own").exists(), "asking must not create the folder"
