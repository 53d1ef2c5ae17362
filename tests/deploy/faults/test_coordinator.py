"""A coordinator whose programs are killed, whose disk is full, whose institutions stay away."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.engines.processes import marked_processes
from deploy.engines.superlink_run import ExitCode
from fedgt_server.checkpoint import Checkpoints
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    ample,
    banks,
    events,
    final_bytes,
    kill_serverapp,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    wait_for_checkpoint,
    wait_for_round,
)
from tests.harness.federation import HarnessFederation

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

RESUME = "resume.sh"
_ROUNDS = 4
_SETTINGS: dict[str, Scalar] = SMALL | {"rounds": _ROUNDS, "min-institutions": 2}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarnessFederation]:
    """Start a coordinator and two institutions."""
    with marked_processes() as mark:
        federation = HarnessFederation(tmp_path_factory.mktemp("banks"), banks(A, B), mark)
        federation.start()
        yield federation
    assert not mark.processes()


@pytest.fixture(scope="module")
def undisturbed(federation: HarnessFederation) -> dict[str, bytes]:
    """Return all weights after a run without faults."""
    with logs_on_failure(federation):
        federation.run(_SETTINGS | {"run-name": "whole"}, timeout=TIMEOUT)
    return final_bytes(federation, federation.run_folder("whole"), _ROUNDS)


def test_a_finished_run_is_not_resumed(
    federation: HarnessFederation, undisturbed: dict[str, bytes]
) -> None:
    assert len(undisturbed) == 3
    answer = federation.coordinator.call(RESUME, "--run", "whole")
    assert answer.returncode == 2
    assert answer.stderr == "fedgt: the run 'whole' is finished: there is nothing to resume\n"


def test_serverapp_and_superlink_are_killed(
    federation: HarnessFederation, undisturbed: dict[str, bytes]
) -> None:
    """Resume each time, and end with the weights of a run without faults."""
    coordinator, out = federation.coordinator, federation.run_folder("disturbed")
    assert federation.superlink is not None
    with logs_on_failure(federation):
        run = federation.start_run(_SETTINGS | {"run-name": "disturbed"})
        wait_for_checkpoint(out, 1)
        kill_serverapp(federation.superlink)
        played = [len(events(out, "round"))]

        resumed = coordinator.start(RESUME)
        wait_for_checkpoint(out, played[0] + 1)
        # Not its children: they have to end by themselves.
        federation.superlink.kill()
        federation.superlink.wait()
        played.append(len(events(out, "round")))
        for process in (run, resumed):
            assert process.wait(TIMEOUT) == ExitCode.failed
        assert "the SuperLink is gone" in coordinator.log.read_text()

        federation.start_superlink()
        # Flower has not noticed yet; whoever asks is told all the same.
        known = {
            run["name"]: run
            for run in json.loads(coordinator.call("fedgt", "runs", ".", "--json").stdout)
        }
        assert known["disturbed"]["state"] == "ended early"
        status = coordinator.call("fedgt", "status", ".")
        assert status.returncode == 1
        assert "the last, disturbed, ended early" in status.stdout
        answer = coordinator.call(RESUME, "--run", "disturbed", timeout=TIMEOUT)
        assert answer.returncode == ExitCode.finished, answer.stdout + answer.stderr
    # The round that was being played is lost, and none before it.
    for event, number in zip(events(out, "resume"), played, strict=True):
        assert event["after_round"] in (number, number - 1)
    assert final_bytes(federation, out, _ROUNDS) == undisturbed


def test_the_superexec_is_killed(federation: HarnessFederation) -> None:
    """It starts the processes of runs; without it, every run would wait for ever."""
    assert federation.superlink is not None
    with logs_on_failure(federation):
        children = psutil.Process(federation.superlink.pid).children(recursive=True)
        [superexec] = [one for one in children if "deploy.cli.superexec" in command(one)]
        superexec.kill()
        federation.run(_SETTINGS | {"run-name": "after", "rounds": 1}, timeout=TIMEOUT)
        log = federation.coordinator.log.read_text()
        assert "the superexec ended with code -9; it is started again" in log


def command(process: psutil.Process) -> list[str]:
    """Return the command of a process, or nothing where it has ended meanwhile."""
    try:
        return [str(part) for part in process.cmdline()]
    except psutil.NoSuchProcess:
        return []


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a disk of a few megabytes at ``place``."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "fedgt-test", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no separate disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        while True:
            try:
                stream.write(b"\0" * 4096)
            except OSError:
                return filler


def test_the_disk_is_full_and_then_a_checkpoint_torn(
    federation: HarnessFederation, undisturbed: dict[str, bytes]
) -> None:
    coordinator = federation.coordinator
    with small_disk(coordinator.folder / "small") as disk, logs_on_failure(federation):
        out = disk / "full"
        place: dict[str, Scalar] = {"run-name": "full", "results-dir": "small"}
        run = federation.start_run(_SETTINGS | place)
        wait_for_checkpoint(out, 2)
        filler = fill(disk)
        assert run.wait(TIMEOUT) == ExitCode.failed
        log = coordinator.log.read_text()
        assert re.search(r"cannot use .*/full/.*: No space left on device; make room", log)
        assert "Traceback" not in log
        # Whole lines, whole checkpoints, and no remains of others.
        assert (out / "journal.jsonl").read_bytes().endswith(b"\n")
        assert events(out, "round")
        assert not list(out.rglob(".*"))
        checkpoints = Checkpoints(out / "checkpoints")
        newest, *earlier = reversed(checkpoints.rounds())
        good = checkpoints.newest()
        assert good is not None
        assert good.round_number == newest

        filler.unlink()
        torn = out / "checkpoints" / f"round-{newest:06d}.safetensors"
        torn.write_bytes(torn.read_bytes()[:-100])
        answer = coordinator.call(RESUME, "--results", "small", timeout=TIMEOUT)
        assert answer.returncode == ExitCode.finished, answer.stdout + answer.stderr
        assert f"skipping the checkpoint of round {newest}" in answer.stdout + answer.stderr
        assert [event["after_round"] for event in events(out, "resume")] == earlier[:1]
        assert final_bytes(federation, out, _ROUNDS) == undisturbed


def test_the_disk_of_an_institution_is_full(federation: HarnessFederation) -> None:
    """It costs that institution's part; the coordinator learns why, and not where."""
    host, out = federation.institutions[B], federation.run_folder("narrow")
    quorum: dict[str, Scalar] = {"min-institutions": 1, "start-institutions": 2}
    with logs_on_failure(federation):
        run = federation.start_run(SMALL | quorum | {"run-name": "narrow", "rounds": ENDLESS})
        wait_for_round(out, lambda facts: B in facts["institutions"], f"{B} takes part")
        state = state_folder(federation, B, "narrow")
        aside = state.rename(state.with_name("aside"))
        with small_disk(state):
            shutil.copytree(aside, state, dirs_exist_ok=True)
            filler = fill(state)
            full = wait_for_round(
                out, lambda facts: "No space left" in facts["left_out"].get(B, ""), "it is full"
            )
            assert str(host.folder) not in (out / "journal.jsonl").read_text()
            own = host.log.read_text()
            assert re.search(r"No space left on device: '.*/narrow/bank-b/.*'", own)
            assert "Traceback" not in own
            filler.unlink()
            wait_for_round(
                out, lambda facts: B in facts["institutions"], "room again", after=full["round"]
            )
            assert federation.coordinator.call("fedgt", "stop", "narrow").returncode == 0
            assert run.wait(TIMEOUT) == ExitCode.failed


@pytest.mark.usefixtures("undisturbed")
def test_fewer_than_the_quorum(federation: HarnessFederation) -> None:
    """Run last: one institution does not come back."""
    deadline = ample(federation.run_folder("whole"))
    coordinator, out = federation.coordinator, federation.run_folder("few")
    with logs_on_failure(federation):
        impatient: dict[str, Scalar] = {
            "round-deadline": deadline,
            "give-up-after": deadline + 5.0,
        }
        run = federation.start_run(
            _SETTINGS | impatient | {"run-name": "few", "rounds": 1000, "start-institutions": 2}
        )
        wait_for_checkpoint(out, 1)
        federation.kill_supernode(B)
        assert run.wait(TIMEOUT) == ExitCode.gave_up
        reason = events(out, "failed")[0]["reason"]
        assert "1 of 2 institutions answered" in reason
        log = coordinator.log.read_text()
        assert "waiting: round" in log
        assert f"fedgt: {reason}" in log
        checkpoint = Checkpoints(out / "checkpoints").newest()
        assert checkpoint is not None
        assert checkpoint.round_number == len(events(out, "round"))
