"""A whole deployment on a machine that reaches nobody else, and what its logs tell."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.graph import Graph
from tests.harness.fault_scenarios import TIMEOUT, processes_over_tls

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

# A network of its own, in which there is nothing but loopback.
ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
# What a process writes for people to read.
LOGS = ("*.txt", "*.log", "*.jsonl", "*.json", "*.html")


def require_namespaces() -> None:
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("no tools for network namespaces")
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")


def test_nothing_is_fetched_and_no_log_holds_a_secret(tmp_path: Path) -> None:
    require_namespaces()
    program = str(Path(sys.executable).with_name("fedgt"))
    answer = subprocess.run(
        [*ALONE, program, "demo", "--deploy", "--rounds", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    hosts = tmp_path / "runs" / "demo-deploy" / "federation" / "hosts"
    written = {
        path: path.read_text(errors="replace")
        for pattern in LOGS
        for path in hosts.rglob(pattern)
        if "data" not in path.relative_to(hosts).parts
    }
    assert any(path.name == "journal.jsonl" for path in written)
    assert sum(path.name == "log.txt" for path in written) == 4
    kept = _secrets(hosts) | _features(hosts)
    assert len(kept) > 100
    told = {
        (str(path.relative_to(hosts)), secret[:12])
        for path, text in (written | {hosts / "output": answer.stdout + answer.stderr}).items()
        for secret in kept
        if secret in text
    }
    assert not told


def _secrets(hosts: Path) -> set[str]:
    """Return lines of private keys, and the operator's secret."""
    found = set()
    for path in hosts.rglob("*"):
        if path.is_file() and path.suffix in (".key", ".secret"):
            content = path.read_bytes()
            found.add(content.hex())  # not all of them are text
            lines = content.decode("ascii", "replace").splitlines()
            found |= {line for line in lines if len(line) > 20 and not line.startswith("-----")}
    return found


def _features(hosts: Path) -> set[str]:
    """Return features of nodes, as Python or JSON would write them."""
    found = set()
    for folder in hosts.glob("*/data"):
        features = np.asarray(Graph.open(folder).features)[:40, 0]
        found |= {repr(float(value)) for value in features} | {f"{value:.6g}" for value in features}
    return found
