"""The version that is installed, which need not be the one of the code that runs."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from shared import version as shared_version
from shared.version import VERSION, installed_version


def test_what_is_installed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_version() == version("fedgt")
    folder = tmp_path / "fedgt-0.0.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fedgt\nVersion: 0.0.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_version() == "0.0.9"


def test_without_an_installation_the_code_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(shared_version, "version", missing)
    assert installed_version() == VERSION
