"""Small federations for tests of kits."""

import sys
from pathlib import Path

import pytest
import tomli_w

from deploy.cli import main

_INSTITUTIONS = """
[[institutions]]
name = "bank-a"
[[institutions]]
name = "bank-b"
"""


def write_banks(place: Path, *, port: int = 9092, more: str = "") -> Path:
    """Write a file of two banks, with ``more`` institutions after them."""
    source = place / "federation.toml"
    coordinator = {"address": f"127.0.0.1:{port}", "also": ["coordinator.example.org"]}
    banks = tomli_w.dumps({"name": "banks", "coordinator": coordinator})
    source.write_text(banks + _INSTITUTIONS + more)
    return source


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of every file."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fedgt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    """Run the command line in this process: exit code, output, errors."""
    monkeypatch.setattr(sys, "argv", ["fedgt", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    code = end.value.code
    return code if isinstance(code, int) else 0, captured.out, captured.err
