"""What an operator does over the months, by mistake or in a hurry: one federation for all of it.

It begins as FedGT 0.1.0 left it: ``release_0_1_0.tar.xz`` holds data and states of two institutions
and the coordinator's runs as that release wrote them, 'first' finished and 'second' interrupted
after two of its five rounds.
"""

import json
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.engines.kit_host import Process
from deploy.engines.local_federation import START_SUPERLINK, START_SUPERNODE
from deploy.engines.processes import marked_processes
from fedgt_client.graph import Graph
from fedgt_server.result import read_result
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    events,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    wait_for_round,
    wait_until,
)
from tests.harness.federation import HarnessFederation, HarnessHost

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_RELEASE = Path(__file__).parents[1] / "release_0_1_0.tar.xz"
_SETTINGS: dict[str, Scalar] = SMALL | {"min-institutions": 1, "start-institutions": 2}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarnessFederation]:
    """Start a coordinator and two institutions, which choose their ports themselves."""
    with marked_processes() as mark:
        folder = tmp_path_factory.mktemp("banks")
        earlier = folder / "0.1.0"
        with tarfile.open(_RELEASE) as archive:
            archive.extractall(earlier, filter="data")
        graphs = {name: Graph.open(earlier / name / "data") for name in (A, B)}
        federation = _Federation(folder, graphs, mark)
        for name, host in federation.institutions.items():
            shutil.copytree(earlier / name / "state", host.folder / "state", dirs_exist_ok=True)
        shutil.copytree(
            earlier / "coordinator" / "runs", federation.run_folder(""), dirs_exist_ok=True
        )
        federation.start()
        yield federation
    assert not mark.processes()


class _Federation(HarnessFederation):
    def spec(self) -> dict[str, Any]:
        spec = super().spec()
        for institution in spec["institutions"]:
            del institution["port"]
        return spec


def wait_for_line(host: HarnessHost, pattern: str) -> str:
    def look() -> str | None:
        found = re.search(pattern, host.log.read_text(errors="replace"))
        return found[0] if found else None

    return wait_until(look, f"'{pattern}' in the log of {host.folder.name}")


def errors_in(host: HarnessHost) -> list[str]:
    return [line for line in host.log.read_text().splitlines() if "ERROR" in line]


def workers(process: Process) -> list[psutil.Process]:
    """Return the workers that were started for a supernode; they outlive its other processes."""
    of_supernode = {str(one.pid) for one in psutil.Process(process.pid).children(recursive=True)}
    found = []
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if "fedgt_client.worker" in words and "--supernode" in words:
            pids = words[words.index("--supernode") + 1].split(",")
            found += [one] if of_supernode & set(pids) else []
    return found


def runs(federation: HarnessFederation) -> dict[str, dict[str, Any]]:
    answer = federation.coordinator.call("fedgt", "runs", ".", "--json")
    assert answer.returncode == 0, answer.stderr
    return {run["name"]: run for run in json.loads(answer.stdout)}


def test_a_second_supernode_with_the_same_key(federation: HarnessFederation) -> None:
    real, coordinator = federation.institutions[A], federation.coordinator
    with logs_on_failure(federation):
        wait_for_line(coordinator, f"{A} connects from 127.0.0.1")
        connected = wait_until(
            lambda: (
                found
                if "is connected" in (found := real.doctor()["admission"])["finding"]
                else None
            ),
            "the doctor sees the connection",
        )
        assert connected["state"] == "ok"
        assert re.search(
            r"this supernode is connected since .* from 127\.0\.0\.1", connected["finding"]
        )
        assert not errors_in(coordinator)  # the doctor's question is no error of anybody's

        thief = federation.add_host(A, "thief")
        shutil.copytree(real.folder / "data", thief.folder / "data")
        process = thief.start(START_SUPERNODE)
        line = wait_for_line(
            thief, "another supernode with this key is connected, since .* from .*"
        )
        assert "127.0.0.1" in line
        wait_for_line(coordinator, f"{A}: a supernode at 127.0.0.1 is refused, because another")
        told = wait_for_line(thief, f"'fedgt provision revoke {A}'")
        assert told
        process.terminate()
        process.wait(TIMEOUT)
        again = real.call(START_SUPERNODE)
        assert (again.returncode, "another supernode of this kit" in again.stdout) == (2, True)
    # The log is in a file as well, for its owner alone.
    for host, name in ((coordinator, "superlink"), (real, "supernode")):
        log = host.folder / "logs" / f"{name}.log"
        assert "Flower" in log.read_text()
        assert log.stat().st_mode & 0o777 == 0o600
        assert " 200" not in log.read_text(), "a line for every request"


def test_a_second_superlink(federation: HarnessFederation) -> None:
    """Its ports are taken; the first goes on."""
    again = federation.coordinator.call(START_SUPERLINK)
    assert (again.returncode, "Traceback" in again.stdout) == (1, False)
    assert "cannot be used (Address already in use): end what uses it" in again.stdout
    assert federation.superlink is not None
    assert federation.superlink.poll() is None


def test_a_run_of_the_release_before_goes_on(federation: HarnessFederation) -> None:
    coordinator, bank = federation.coordinator, federation.institutions[A]
    [ledger] = (bank.folder / "state" / "ledger").glob("*.jsonl")
    before = len(ledger.read_text().splitlines())
    with logs_on_failure(federation):
        answer = coordinator.call("resume.sh", "--run", "second", timeout=TIMEOUT)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert "resuming the run 'second'" in answer.stderr
        result = read_result(federation.run_folder("second"))
        assert result is not None
        assert (result.rounds, sorted(result.per_client), result.missing) == (5, [A, B], {})
        # Nothing that was released is forgotten, and the models of both runs can be used.
        assert len(ledger.read_text().splitlines()) == before + 3
        assert f"{before + 3} uploads" in status(bank)[1]["budget"]
        for run in ("first", "second"):
            out = f"{run}.csv"
            predicted = bank.call("fedgt", "predict", ".", "--run", run, "--out", out)
            assert predicted.returncode == 0, predicted.stderr
    assert {name: run["state"] for name, run in runs(federation).items()} == {
        "first": "finished",
        "second": "finished",
    }


def status(host: HarnessHost) -> tuple[int, dict[str, str]]:
    answer = host.call("fedgt", "status", ".", "--json")
    lines = json.loads(answer.stdout)["lines"]
    return answer.returncode, {line["name"]: line["finding"] for line in lines}


def test_runs_by_name(federation: HarnessFederation) -> None:
    coordinator, bank = federation.coordinator, federation.institutions[B]
    with logs_on_failure(federation):
        settings = _SETTINGS | {"run-name": "one", "rounds": ENDLESS}
        first = federation.start_run(settings)
        one = federation.run_folder("one")
        wait_for_round(one, lambda facts: B in facts["institutions"], f"{B} takes part")
        assert "the run 'one' has the number" in coordinator.log.read_text()

        # A second run waits, and says so; started twice at the same time, it begins once.
        second = federation.start_run(settings | {"run-name": "two"})
        again = federation.start_run(settings | {"run-name": "two"})
        wait_for_line(coordinator, "waiting: the run 'one' is under way, 'two' begins after it")
        known = runs(federation)
        assert [known[name]["state"] for name in ("one", "two")] == ["running", "waiting"]
        assert known["one"]["rounds"] >= 1

        # Both ends know how they are doing.
        code, lines = status(coordinator)
        assert (code, lines[A][:13]) == (0, "connected for")
        assert re.match(r"one: round \d+ of 100000 ended \d+ s ago", lines["run"])
        assert "until" in lines["server.crt"]
        code, lines = status(bank)
        assert (code, lines["run"].startswith("one: last round")) == (0, True)
        assert re.match(r"connected for .*; the last message came", lines["supernode"])
        assert re.match(r"\d+ uploads, ε .* spent, no limit set", lines["budget"])
        numbers = bank.call("fedgt", "status", ".", "--prometheus", "-").stdout
        assert "\nfedgt_connected 1\n" in numbers

        # A folder that cannot be written: the coordinator learns why, and not where.
        state = state_folder(federation, B, "one")
        aside = state.rename(state.with_name("aside"))
        state.write_text("in the way")
        refused = wait_for_round(one, lambda facts: B in facts["left_out"], f"{B} cannot write")
        assert "(a path)" in refused["left_out"][B] or "machine" in refused["left_out"][B]
        assert str(bank.folder) not in one.joinpath("journal.jsonl").read_text()
        state.unlink()
        aside.rename(state)
        wait_for_round(one, lambda f: B in f["institutions"], "back", after=refused["round"])

        # One that hangs is awaited, and the log says so.
        [worker] = workers(federation.supernodes[B])
        worker.suspend()
        wait_for_line(coordinator, rf"round \d+: waiting for {B}, since")
        worker.resume()

        # Ctrl-C says how to go on; the run itself goes on.
        first.send_signal(signal.SIGINT)
        assert first.wait(TIMEOUT) == 130
        wait_for_line(coordinator, "'fedgt stop one' ends it, 'fedgt follow one' shows it again")
        answer = coordinator.call("fedgt", "stop", "one", timeout=TIMEOUT)
        assert answer.returncode == 0, answer.stderr
        assert "continues it" in answer.stderr
        last = json.loads(one.joinpath("journal.jsonl").read_text().splitlines()[-1])
        assert (last["event"], last["status"], last["reason"]) == (
            "failed",
            "stopped",
            "stopped by the operator",
        )
        assert runs(federation)["one"]["state"] == "stopped"
        wrong = coordinator.call("fedgt", "stop", "three")
        assert wrong.returncode == 2
        assert "there is no run 'three'" in wrong.stderr

        # The second begins. Its folder is moved away: it fails in a line, and its workers end.
        two = federation.run_folder("two")
        wait_for_round(two, lambda facts: B in facts["institutions"], "the second run begins")
        wait_for_line(coordinator, "the run 'two' (is under way already|waits for its turn)")
        wait_until(lambda: None in (second.poll(), again.poll()), "one of the two goes on")
        wait_until(lambda: {second.poll(), again.poll()} & {1, 2}, "the other has ended")
        two.rename(federation.coordinator.folder / "moved")
        assert 1 in (second.wait(TIMEOUT), again.wait(TIMEOUT))
        wait_for_line(coordinator, "was moved or deleted during the run")
        assert not (two / "journal.jsonl").exists()
        wait_until(lambda: not workers(federation.supernodes[B]), "the worker has ended")
        wait_for_line(bank, "its worker ends")
        resumed = coordinator.call("resume.sh")
        assert resumed.returncode == 2
        assert "the last run, 'two', has no folder" in resumed.stderr
        assert "Traceback" not in coordinator.log.read_text()


def test_machines_are_lost_and_restored_from_backups(federation: HarnessFederation) -> None:
    """In other folders, where the run that was stopped goes on."""
    hosts = {"coordinator": federation.coordinator, **federation.institutions}
    backups = federation.folder / "backups"
    backups.mkdir()
    one = "runs/one/journal.jsonl"
    played = len(events(federation.run_folder("one"), "round"))
    with logs_on_failure(federation):
        for name, host in hosts.items():
            saved = host.call("fedgt", "backup", ".", "--out", str(backups / f"{name}.tar.gz"))
            assert saved.returncode == 0, saved.stderr
        federation.kill_superlink()
        for name, host in hosts.items():
            host.kill()
            lost = host.folder.rename(host.folder.with_name(f"{name}-lost"))
            host.folder = host.folder.with_name(f"{name}-restored")
            answer = subprocess.run(
                ["fedgt", "restore", str(backups / f"{name}.tar.gz"), str(host.folder)],
                env=host.environment,
                capture_output=True,
                text=True,
            )
            assert answer.returncode == 0, answer.stderr
            host.log = host.folder / "log.txt"
            assert (lost / "ca.crt").read_bytes() == (host.folder / "ca.crt").read_bytes()
        federation.start()
        assert federation.register()["added"] == {}  # the database has the keys
        again = federation.coordinator.start("resume.sh", "--run", "one")
        restored = federation.coordinator.folder / one
        wait_until(
            lambda: len(events(restored.parent, "round")) > played or again.poll() is not None,
            "the run goes on",
        )
        assert again.poll() is None, federation.coordinator.log.read_text()
        [last] = events(restored.parent, "round")[played : played + 1]
        assert sorted(last["institutions"]) == [A, B]


def test_an_institution_leaves_because_its_node_file_is_broken(
    federation: HarnessFederation,
) -> None:
    """Run last: it ends an institution."""
    host, process = federation.institutions[B], federation.supernodes[B]
    coordinator, out = federation.coordinator, federation.run_folder("left")
    with logs_on_failure(federation):
        assert coordinator.call("fedgt", "stop", timeout=TIMEOUT).returncode == 0
        run = federation.start_run(_SETTINGS | {"run-name": "left", "rounds": 8})
        wait_for_round(out, lambda facts: B in facts["institutions"], f"{B} takes part")
        (host.folder / "node.toml").write_text("institution = \n")
        for child in psutil.Process(process.pid).children():
            if "fedgt-supernode" in " ".join(child.cmdline()):
                child.terminate()
        assert process.wait(TIMEOUT) == 2
        wait_for_line(host, "node.toml is not valid TOML")
        assert f"does not let {B} in" not in host.log.read_text()

        # The headline is over those who were there, and names who was not.
        assert run.wait(TIMEOUT) == 0
        result = read_result(out)
        assert result is not None
        assert (list(result.per_client), list(result.missing)) == ([A], [B])
        assert re.fullmatch(r"took part in [1-3] of 8 rounds, the last is [1-3]", result.missing[B])
        at_best = events(out, "round")[result.best_round - 1]
        assert result.test_accuracy == at_best["institutions"][A]["test_accuracy"]
        wait_for_line(coordinator, rf"test accuracy .* without {B} \(took part in")
