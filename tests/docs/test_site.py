"""The site of the documents builds without a network; all its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.documents import ROOT

_MADE = {"index.md", "contributing.md", "changelog.md"}


def _pages(entries: object) -> set[str]:
    if isinstance(entries, str):
        return {entries}
    parts = entries.values() if isinstance(entries, dict) else entries
    assert hasattr(parts, "__iter__")
    return {page for part in parts for page in _pages(part)}


def test_the_navigation_names_every_document() -> None:
    pages = _pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert pages >= _MADE | {"tutorial.md", "settings.md", "deployment.md"}
    assert pages - _MADE == {path.name for path in (ROOT / "docs").glob("*.md")}


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    # A proxy that is not there: whatever asks the network fails.
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **nowhere},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)', text)
        loaded += re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)', text)
        assert not loaded, f"{page.name} loads {loaded}"
        for picture in re.findall(r'<img[^>]+src="([^"]+)"', text):
            assert (page.parent / picture).exists(), f"{page.name}: {picture}"
