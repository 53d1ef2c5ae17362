"""``fedgt demo --deploy``: the table of ``fedgt demo``, from processes that all end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from deploy.engines.local_deployment import share_exact_metrics, three_banks
from deploy.engines.local_federation import LocalFederation
from deploy.engines.processes import marked_processes
from deploy.node_file import NODE_FILE, read_node_file
from fedgt_client.data.partition import institution_graphs

_FEDGT = "from deploy.cli import main; main()"
_ROOT = Path(__file__).parents[3]
_TIMEOUT = 900.0  # seconds, on a busy machine

pytestmark = pytest.mark.skipif(
    " " in sys.prefix,
    reason="Flower's SuperLink has no database in an environment whose path has a space",
)


def demo(place: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _FEDGT, "demo", "--deploy", "--rounds", "2", "--json"],
        cwd=place,
        env=os.environ | environment | {"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def left_behind(place: Path) -> list[str]:
    """Return command lines of other processes that work in ``place``."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.pid != os.getpid() and str(place) in line + process.cwd():
                found.append(line)
        except (psutil.Error, OSError):
            continue
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_the_banks_are_of_one_kind() -> None:
    banks, six = (
        three_banks(0),
        institution_graphs("consortium", clients=6, setting="disjoint", seed=0),
    )
    assert list(banks) == ["bank-a", "bank-b", "bank-c"]
    for bank, expected in zip(banks.values(), six[::2], strict=True):
        np.testing.assert_array_equal(bank.features, expected.features)
        # Retail accounts are the most at every bank of this kind, and rare at the other.
        assert np.bincount(bank.labels).argmax() == 0


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_leaves_nothing_running(tmp_path: Path) -> None:
    with marked_processes() as mark:
        process = demo(tmp_path, mark.environment())
        output, errors = process.communicate(timeout=_TIMEOUT)
        assert process.returncode == 0, errors
        assert left_behind(tmp_path) == []
    summary = json.loads(output)
    assert list(summary["institutions"]) == ["bank-a", "bank-b", "bank-c"]
    assert summary["rounds"] == 2
    for accuracies in [summary["test_accuracy"], *summary["institutions"].values()]:
        assert set(accuracies) == {"local", "fedgt"}
        assert all(0 < accuracy <= 1 for accuracy in accuracies.values())


@pytest.mark.slow
def test_a_request_to_end_is_heard_by_all(tmp_path: Path) -> None:
    hosts = tmp_path / "runs" / "demo-deploy" / "federation" / "hosts"
    with marked_processes() as mark:
        process = demo(tmp_path, mark.environment())
        wait_until(lambda: (hosts / "bank-c" / "log.txt").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        assert len(left_behind(hosts)) >= 4
        process.send_signal(signal.SIGTERM)
        assert process.wait(_TIMEOUT) == 128 + signal.SIGTERM
        assert left_behind(tmp_path) == []


def test_the_banks_of_the_demo_tell_their_accuracies(tmp_path: Path) -> None:
    with marked_processes() as mark:
        federation = LocalFederation(tmp_path, three_banks(0), mark)
    share_exact_metrics(federation)
    for host in federation.institutions.values():
        policy = read_node_file(host.folder / NODE_FILE).policy
        assert policy is not None
        assert policy.share_metrics == "exact"
        assert policy.federations == ("banks",)
