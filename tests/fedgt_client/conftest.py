"""What tests of the institution share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from deploy.engines.processes import ProcessMark, marked_processes
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.workers import Institution


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors are fastest so, and results do not depend on the machine."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessMark]:
    """Find the workers of a test; none is left after it."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="fedgt-") as place, marked_processes() as mark:
        monkeypatch.setattr(tempfile, "tempdir", place)
        monkeypatch.setenv("TMPDIR", place)
        for name, value in mark.environment().items():
            monkeypatch.setenv(name, value)
        yield mark


@pytest.fixture
def alba(tmp_path: Path, workers: ProcessMark) -> Institution:
    """Return an institution with a small graph."""
    two_groups().save(tmp_path / "data")
    return Institution(tmp_path / "data", tmp_path / "state")
