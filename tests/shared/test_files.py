import fcntl
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from shared.errors import FedGTError
from shared.files import (
    Array,
    atomic_file,
    atomic_folder,
    open_tensors,
    release_after_reading,
    write_json,
    write_tensors,
)
from tests.harness.mapped import is_mapped


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_while_writing(target: Path, *, force: bool = False) -> None:
    with atomic_folder(target, force=force) as staging:
        (staging / "half").write_text("half")
        raise RuntimeError


def lose_the_race(target: Path) -> None:
    with atomic_folder(target) as staging:
        (staging / "mine").write_text("mine")
        target.mkdir()
        (target / "theirs").write_text("theirs")


def fail_while_writing_file(target: Path) -> None:
    with atomic_file(target) as staging:
        staging.write_text("half")
        raise RuntimeError


def test_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FedGTError, match="exists already"), atomic_folder(tmp_path / "out"):
        pass
    assert names(tmp_path) == ["out"]


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        fail_while_writing(tmp_path / "out")
    assert names(tmp_path) == []


def test_failure_under_force_keeps_the_old_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with pytest.raises(RuntimeError):
        fail_while_writing(tmp_path / "out", force=True)
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["old"]


def test_force_replaces(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with atomic_folder(tmp_path / "out", force=True) as staging:
        (staging / "new").write_text("new")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["new"]


def test_folder_made_by_another_process_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(FedGTError, match="exists already"):
        lose_the_race(target)
    assert names(tmp_path) == ["out"]
    assert names(target) == ["theirs"]


def test_folder_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    with atomic_folder(target) as staging:
        (staging / "file").write_text("x")
        assert not target.exists()
    assert names(target.parent) == ["out"]


def test_failed_file_keeps_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError):
        fail_while_writing_file(target)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_json_keeps_letters_as_they_are(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "Zürich"})
    assert "Zürich" in (tmp_path / "a.json").read_text()
    assert json.loads((tmp_path / "a.json").read_text()) == {"name": "Zürich"}


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.int64, np.float16, np.float32])
def test_tensors_round_trip(tmp_path: Path, dtype: type) -> None:
    filled: Array = np.arange(6).reshape(2, 3).astype(dtype)
    arrays = {"a": filled, "empty": np.zeros((0, 4), dtype)}
    write_tensors(tmp_path / "t", arrays)
    opened = open_tensors(tmp_path / "t")
    assert opened.keys() == arrays.keys()
    for name, array in arrays.items():
        assert opened[name].dtype == array.dtype
        assert opened[name].shape == array.shape
        assert np.array_equal(opened[name], array)


def test_tensors_can_be_read_by_the_safetensors_package(tmp_path: Path) -> None:
    arrays: dict[str, Array] = {
        "flag": np.array([True, False, True]),
        "größe": np.array(3.5),
        "half": np.arange(3, dtype=np.float16),
        "none": np.zeros((0, 4), np.float32),
        "turned": np.arange(6).reshape(2, 3).T,
    }
    write_tensors(tmp_path / "t", arrays)
    found = load_file(tmp_path / "t")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tolist() == array.tolist()


def test_type_without_a_code_is_named(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="words is of type <U1"):
        write_tensors(tmp_path / "t", {"words": np.array(["a"])})
    assert not list(tmp_path.iterdir())


def test_arrays_are_released_and_stay_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.files._MAPPED", 0)
    values = {name: np.arange(20_000) + index for index, name in enumerate("abc")}
    write_tensors(tmp_path / "t", values)
    opened = open_tensors(tmp_path / "t")
    for _ in range(2):
        found = [array.tolist() for array in release_after_reading(opened.values())]
        assert found == [values[name].tolist() for name in opened]
    # From a file that is mapped to another.
    write_tensors(tmp_path / "u", opened)
    assert (tmp_path / "u").read_bytes() == (tmp_path / "t").read_bytes()


def test_private_changes_to_a_mapped_file_are_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.files._MAPPED", 0)
    (tmp_path / "t").write_bytes(bytes(8))
    private = np.memmap(tmp_path / "t", np.int64, "c")
    private[0] = 7
    assert [array.tolist() for array in release_after_reading([private, private])] == [[7], [7]]


def test_tensors_are_mapped_and_read_only(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", {"a": np.arange(4)})
    array = open_tensors(tmp_path / "t")["a"]
    assert is_mapped(array)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_used_file_is_written_over(tmp_path: Path) -> None:
    write_tensors(tmp_path / "old", {"a": np.arange(400)})
    place = (tmp_path / "old").stat().st_ino
    write_tensors(tmp_path / "new", {"a": np.arange(4)}, over=tmp_path / "old")
    assert names(tmp_path) == ["new"]
    assert (tmp_path / "new").stat().st_ino == place
    write_tensors(tmp_path / "plain", {"a": np.arange(4)}, over=tmp_path / "not there")
    assert (tmp_path / "new").read_bytes() == (tmp_path / "plain").read_bytes()


def test_a_file_that_somebody_reads_is_not_written_over(tmp_path: Path) -> None:
    write_tensors(tmp_path / "old", {"a": np.arange(4)})
    before = (tmp_path / "old").read_bytes()
    with (tmp_path / "old").open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        write_tensors(tmp_path / "new", {"a": np.arange(4, 8)}, over=tmp_path / "old")
        assert reader.read() == before
    assert names(tmp_path) == ["new"]
    assert open_tensors(tmp_path / "new")["a"].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("kept", [0, 4, 8, 40, -1])
def test_cut_off_tensors_are_named(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": np.arange(4)})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FedGTError, match=r"t\.safetensors .*write it again"):
        open_tensors(path)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"\xff\xfe",
        b"[1, 2]",
        b'{"a": {}}',
        b'{"a": {"dtype": "I64", "shape": [3], "data_offsets": [0, 32]}}',
        b'{"a": {"dtype": "C64", "shape": [4], "data_offsets": [0, 32]}}',
    ],
)
def test_damaged_header_is_named(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
    with pytest.raises(FedGTError, match=r"t\.safetensors is damaged"):
        open_tensors(path)
