"""Status of a kit that is not running; of one that runs, see test_operators_day."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.doctor.check import failed, ok, warning
from deploy.operate.coordinator_status import coordinator_status
from deploy.operate.institution_status import institution_status
from deploy.operate.status import Status, age_text, prometheus_text
from deploy.provision.kits import provision
from deploy.supernode_record import SupernodeNotes, last_record, running_supernode
from shared.errors import FedGTError
from tests.harness.kits import write_banks


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    provision(write_banks(tmp_path), tmp_path / "kits")
    return tmp_path / "kits"


def test_exit_codes() -> None:
    status = Status()
    assert status.exit_code == 0
    for line, code in ((ok("a", ""), 0), (warning("b", "", ""), 1), (failed("c", "", ""), 2)):
        status.add(line)
        assert status.exit_code == code


def test_prometheus_text() -> None:
    status = Status()
    status.measure("round", 3, run='a "b"\n')
    status.measure("up", 1)
    status.measure("round", 2.5, run="c")
    assert prometheus_text(status.metrics) == (
        "# TYPE fedgt_round gauge\n"
        'fedgt_round{run="a \\"b\\"\\n"} 3\n'
        'fedgt_round{run="c"} 2.5\n'
        "# TYPE fedgt_up gauge\n"
        "fedgt_up 1\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (119, "119 s"), (180, "3 min"), (9e3, "2 h"), (9e5, "10 d")]
)
def test_age(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_a_coordinator_that_is_not_running(kits: Path) -> None:
    status = coordinator_status(kits / "coordinator")
    lines = {line.name: line for line in status.lines}
    assert status.exit_code == 2
    assert "no SuperLink answers" in lines["superlink"].finding
    assert lines["server.crt"].state == "ok"
    assert ("fedgt_up", {}, 0) in status.metrics


def test_an_institution_whose_supernode_comes_and_goes(kits: Path) -> None:
    kit = kits / "bank-a"
    assert institution_status(kit).lines[0].finding == "it is not running"
    notes = SupernodeNotes(kit / "flower", "bank-a")
    with pytest.raises(FedGTError, match=f"this kit is running, process {os.getpid()}: end"):
        SupernodeNotes(kit / "flower", "bank-a")
    assert "it is not let in" in institution_status(kit).lines[0].finding
    notes.connected()
    notes.received(7, "3")
    status = institution_status(kit)
    assert status.lines[0].state == "ok"
    assert "the last message came" in status.lines[0].finding
    assert ("fedgt_connected", {}, 1) in status.metrics
    record = running_supernode(kit / "flower")
    assert record is not None
    assert (record.pid, record.run, record.round) == (os.getpid(), 7, "3")
    # Its process runs, and nobody answers it.
    notes.answered()
    assert institution_status(kit).exit_code < 2
    before = datetime.now(UTC) - timedelta(minutes=3)
    notes._update(answered=before.isoformat())
    status = institution_status(kit)
    assert (status.lines[0].state, status.exit_code) == ("failed", 2)
    assert "the coordinator has not answered for 3 min" in status.lines[0].finding
    assert ("fedgt_connected", {}, 0) in status.metrics
    notes.answered()
    record = running_supernode(kit / "flower")
    notes._lock.close()
    assert running_supernode(kit / "flower") is None
    assert last_record(kit / "flower") == record
    assert "it is not running (the last was started" in institution_status(kit).lines[0].finding
