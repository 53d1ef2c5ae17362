"""What tests of the engines share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine-cache")


@pytest.fixture
def own_cache(engine_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of prepared graphs that is not the user's, shared by the tests of one run."""
    monkeypatch.setenv("FEDGT_CACHE", str(engine_cache))
    monkeypatch.delenv("FEDGT_DATA", raising=False)
    return engine_cache
