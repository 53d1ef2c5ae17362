"""Vectors by institution, in memory or on disk."""

from pathlib import Path

import numpy as np
import pytest

from fedgt_server.model_table import ModelTable
from tests.fedgt_server.disk import room_for

WIDTH = 5
NAMES = ["b", "a", "d", "c"]
ROWS = np.arange(20, dtype=np.float32).reshape(4, WIDTH)


def table(folder: Path, in_memory: int) -> ModelTable:
    """Return a table whose first rows are in memory, the others on disk."""
    made = ModelTable(WIDTH, in_memory * WIDTH * 4 + 3, folder)
    for name, row in zip(NAMES, ROWS, strict=True):
        made[name] = row
    return made


def test_unknown_institution(tmp_path: Path) -> None:
    made = table(tmp_path, 1)
    assert "z" not in made
    with pytest.raises(KeyError):
        made["z"]
    assert list(ModelTable(WIDTH, 0, tmp_path).views()) == []


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with room_for(3 * WIDTH * 4), pytest.raises(OSError, match="too large"):
        table(tmp_path, 0)
    with room_for(3 * WIDTH * 4):
        assert len(table(tmp_path, 1)) == 4


@pytest.mark.parametrize("in_memory", [0, 1, 3, 9])
class TestRows:
    def test_are_what_was_written(self, tmp_path: Path, in_memory: int) -> None:
        made = table(tmp_path, in_memory)
        assert sorted(made) == sorted(NAMES)
        for name, row in zip(NAMES, ROWS, strict=True):
            assert made[name].tolist() == row.tolist()
            assert made.views()[name].tolist() == row.tolist()
        made["a"] = -ROWS[1]
        assert made["a"].tolist() == (-ROWS[1]).tolist()
        assert made["d"].tolist() == ROWS[2].tolist()

    def test_are_copies(self, tmp_path: Path, in_memory: int) -> None:
        made = table(tmp_path, in_memory)
        made["b"][:] = 7.0
        given = ROWS[0].copy()
        made["b"] = given
        given[:] = 7.0
        assert made["b"].tolist() == ROWS[0].tolist()

    def test_by_columns(self, tmp_path: Path, in_memory: int) -> None:
        made = table(tmp_path, in_memory)
        order = sorted(NAMES)
        block = made.columns(order, 1, 4)
        assert block.tolist() == ROWS[[1, 0, 3, 2], 1:4].tolist()
        made.set_columns([*order, "new"], 3, np.full((5, 2), 9.0, np.float32))
        assert made["c"].tolist() == [15.0, 16.0, 17.0, 9.0, 9.0]
        assert made["new"].tolist() == [0.0, 0.0, 0.0, 9.0, 9.0]

    def test_leave_no_file_behind(self, tmp_path: Path, in_memory: int) -> None:
        made = table(tmp_path / "runs", in_memory)
        assert len(made) == 4
        assert (tmp_path / "runs").exists() is (in_memory < 4)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
