"""Fixtures of all tests."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

# A shell that starts the tests in the background has Ctrl-C ignored, by all that they start, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that several processes end at the same time.

    Those are the tests of faults, which wait for Flower, and files with many slow tests.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path.parent.name != "faults", -slow[item.path]))


_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "datasets"


@pytest.fixture(scope="session")
def datasets() -> Path:
    """Return the folder of the real benchmark files; skip tests that need it without it."""
    named = os.environ.get("FEDGT_DATA")
    folder = Path(named) if named else _BESIDE
    if not (folder / "planetoid" / "Cora" / "raw").is_dir():
        pytest.skip(f"real datasets not found: set FEDGT_DATA or put them into {folder}")
    return folder


@pytest.fixture(scope="session")
def graph_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for all tests of one run, so that each real dataset is converted once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def real_data(datasets: Path, graph_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the environment in which real datasets are found without a ``data_dir``."""
    monkeypatch.setenv("FEDGT_DATA", str(datasets))
    monkeypatch.setenv("FEDGT_CACHE", str(graph_cache))
    return datasets


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the environment of a new machine without a network; return its empty cache."""

    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no network")

    cache = tmp_path / "empty-cache"
    monkeypatch.delenv("FEDGT_DATA", raising=False)
    monkeypatch.setenv("FEDGT_CACHE", str(cache))
    monkeypatch.setattr("socket.create_connection", unreachable)
    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    return cache
