"""docs/tutorial.md from its first command to its last, in one shell, with one federation."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.engines.ports import free_ports
from deploy.engines.processes import marked_processes
from tests.docs.documents import ROOT, SHELLS, blocks

PAGE = ROOT / "docs" / "tutorial.md"
_TIMEOUT = 800
# A model that trains in seconds; the commands are the page's.
_SMALL = "hidden = 16\\nheads = 2\\nsamples = 4\\nglobal-nodes = 4"


def test_only_one_test_runs_the_blocks() -> None:
    commands = [block for block in blocks(PAGE) if block.language in SHELLS]
    assert len(commands) >= 8
    for block in commands:
        assert "test_the_tutorial_from_top_to_bottom" in block.test, block.name


@pytest.mark.slow
@pytest.mark.skipif(
    " " in sys.prefix,
    reason="Flower's SuperLink has no database in an environment whose path has a space",
)
def test_the_tutorial_from_top_to_bottom(tmp_path: Path) -> None:
    fleet, control = free_ports(2)
    script = ["set -euo pipefail"]
    for block in blocks(PAGE):
        text = block.commands()
        if block.file:
            text = text.replace(
                "localhost:9092", f'localhost:{fleet}"\ncontrol-port = {control}\n# "'
            )
            (tmp_path / block.file).write_text(text)
        elif block.language in SHELLS:
            if "fedgt run" in text:
                text = text.replace("--rounds 2", "--rounds 2 --set hidden=16 --set samples=4")
            if "run.sh" in text:
                text = text.replace("rounds = 2/", f"rounds = 2\\n{_SMALL}/")
            script.append(text)
    with marked_processes() as mark:
        done = _shell("\n".join(script), tmp_path, mark.environment())
        logs = [path.read_text()[-2000:] for path in sorted(tmp_path.glob("*.log"))]
        assert done.returncode == 0, "\n".join([done.stdout[-3000:], done.stderr[-3000:], *logs])
    for made in (
        "rehearsal/report.html",
        "kits/coordinator/runs/first/report.html",
        "kits/bank-a/report.html",
    ):
        assert (tmp_path / made).stat().st_size > 50_000
    assert len((tmp_path / "scores.csv").read_text().splitlines()) > 1
    assert "bank-b" not in (tmp_path / "kits/bank-a/report.html").read_text()


def _shell(script: str, place: Path, marks: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the script as a shell that a reader types into: with jobs of its own."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | marks | {"PATH": path, "HOME": str(place)}
    process = subprocess.Popen(
        ["bash", "-m", "-c", script],
        cwd=place,
        env=environment | {"FEDGT_CACHE": str(place / "cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate()
    return subprocess.CompletedProcess(script, process.returncode, out, err)
