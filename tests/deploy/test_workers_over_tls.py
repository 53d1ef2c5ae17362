"""Worker processes under real supernodes: a worker that is killed, and supernodes that end."""

import signal
from pathlib import Path

import pytest

from deploy.engines.processes import marked_processes
from fedgt_client.data.partition import institution_graphs
from tests.harness.fault_scenarios import SMALL, TIMEOUT, processes_over_tls, wait_until
from tests.harness.running_federation import Running

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

# How each supernode ends.
ENDS = {
    "bank-a": signal.SIGTERM,
    "bank-b": signal.SIGINT,
    "bank-c": signal.SIGHUP,
    "bank-d": signal.SIGKILL,
}

SETTINGS = {**SMALL, "run-name": "small", "rounds": 1000, "min-institutions": 4}


def test_workers_and_their_supernodes(tmp_path: Path) -> None:
    parts = institution_graphs("consortium", clients=4, setting="disjoint", seed=0)
    with marked_processes() as mark:
        federation = Running(tmp_path, mark, dict(zip(ENDS, parts, strict=True)))
        federation.start_run(SETTINGS)
        federation.wait_for_round("small", 1)
        workers = federation.workers()
        assert set(workers) == set(ENDS)
        for name, worker in workers.items():
            # It runs the code that the coordinator sent, whatever is installed here.
            code = worker.environ()["PYTHONPATH"].split(":")[0]
            assert Path(code).is_relative_to(federation.institutions[name].folder / "flower")
            assert f"worker {worker.pid}: starts" in federation.institutions[name].log.read_text()

        workers["bank-a"].kill()
        seen = len(federation.rounds("small"))
        federation.wait_for_round("small", seen + 2)
        assert not any(event["missing"] for event in federation.rounds("small"))
        now = federation.workers()
        assert set(now) == set(ENDS)
        assert {name for name in ENDS if now[name].pid != workers[name].pid} == {"bank-a"}

        for name, number in ENDS.items():
            if number is signal.SIGKILL:  # all at once, or its script would start another
                federation.kill_supernode(name)
            else:
                federation.supernodes[name].send_signal(number)
        for supernode in federation.supernodes.values():
            supernode.wait(TIMEOUT)
        # Also those that were at work on a message end, and start no worker.
        wait_until(lambda: not federation.processes("deploy.cli.clientapp"), "no app is left")
        wait_until(lambda: not federation.workers(), "no worker is left")
    assert not mark.processes()
