"""Flower's own command, as docs/how-it-works.md shows it, runs the app."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deploy.engines.app_bundle import stage_flower_app
from deploy.engines.ports import free_ports
from deploy.engines.processes import marked_processes
from fedgt_server.result import read_result
from tests.docs.documents import ROOT, SHELLS, blocks

pytest.importorskip("ray")

_PAGE = ROOT / "docs" / "how-it-works.md"


@pytest.mark.slow
def test_flowers_own_command_runs_the_app(graph_cache: Path) -> None:
    [block] = [block for block in blocks(_PAGE) if block.language in SHELLS]
    assert "\nflwr run . local " in block.text
    api, control = free_ports(2)
    with (
        # Short: Ray puts sockets there, whose paths may not exceed 107 characters.
        tempfile.TemporaryDirectory(prefix="fg", dir="/tmp", ignore_cleanup_errors=True) as place,
        marked_processes() as mark,
    ):
        scratch = Path(place)
        app = stage_flower_app(scratch / "fedgt")
        # The SuperLink that the command starts stays up; it is not to be found by others.
        own = {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "HOME": place,
            "FLWR_HOME": str(scratch / "flower"),
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(api),
            "FLWR_LOCAL_CONTROL_API_PORT": str(control),
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_TMPDIR": place,
            "FEDGT_CACHE": str(graph_cache),
            "FEDGT_STATE": str(scratch / "state"),
        }
        environment = os.environ | own | mark.environment()
        environment.pop("RAY_ADDRESS", None)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.commands()],
            cwd=app,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        [journal] = scratch.rglob("journal.jsonl")
        result = read_result(journal.parent)
        assert result is not None, said
        assert (result.method, result.rounds, len(result.per_client)) == ("fedgt", 1, 2)
    assert not mark.processes()
