"""An institution says no: attacks with real processes, TLS and keys, which must fail.

Of three institutions, bank-a runs the installed code alone, bank-b approved another bundle as well,
and bank-c runs the app as another user, where the tests are run by root.
"""

import hashlib
import json
import pwd
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.approval.content import content_hash, read_bundle
from deploy.engines.processes import ProcessMark, marked_processes
from deploy.flower.control import connect_control
from deploy.operator_secret import OPERATOR_SECRET, read_operator_secret
from deploy.settings import resolve_settings
from shared.config import Scalar
from tests.harness import local_user
from tests.harness.bundles import LEAVES_A_TRACE, changed_bundle, with_two_apps
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    C,
    banks,
    events,
    logs_on_failure,
    processes_over_tls,
    wait_for_round,
    wait_until,
)
from tests.harness.federation import HarnessFederation, HarnessHost, Network
from tests.harness.other_user import IS_ROOT, NOBODY, PYTHONPATH, python_of_everyone, start_as

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_APP_USER = "daemon"
_SETTINGS: dict[str, Scalar] = SMALL | {"rounds": 2, "min-institutions": 3}
_REFUSED = {"401"}
# Starts programs with a Python that every user can start.
_REACHABLE = f'PATH="$0/bin:$PATH" PYTHONPATH="{PYTHONPATH}" exec "$@"'


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Make a folder that every user can enter, unlike pytest's."""
    if python_of_everyone() is None:
        pytest.skip("there is no Python that every user can start")
    with tempfile.TemporaryDirectory(prefix="fedgt-consent-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def trojan(place: Path) -> Path:
    """Write the bundle of somebody who changed the app."""
    target = place / "trojan.fab"
    target.write_bytes(changed_bundle(app=LEAVES_A_TRACE))
    target.chmod(0o644)
    return target


@pytest.fixture(scope="module")
def mark() -> Iterator[ProcessMark]:
    with marked_processes() as mark:
        yield mark
    assert not mark.processes()


@pytest.fixture(scope="module")
def federation(place: Path, trojan: Path, mark: ProcessMark) -> HarnessFederation:
    programs = place / "bin"
    programs.mkdir()
    for name, module in (("fedgt-supernode", "deploy.cli.supernode"), ("fedgt", "deploy.cli")):
        script = f"#!{python_of_everyone()}\nfrom {module} import main\nmain()\n"
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    reachable = ("sh", "-c", _REACHABLE, str(place))
    federation = HarnessFederation(
        place / "federation", banks(A, B, C), mark, network=Network(prefixes={C: reachable})
    )
    approved = federation.institutions[B].call("fedgt", "provision", "approve", ".", str(trojan))
    assert approved.returncode == 0, approved.stderr
    if IS_ROOT:
        node = federation.institutions[C].folder / "node.toml"
        node.write_text(f'app-user = "{_APP_USER}"\n' + node.read_text())
        data = federation.institutions[C].folder / "data"
        for path in (data, *data.iterdir()):
            shutil.chown(path, _APP_USER)
    for folder in (federation.folder, federation.folder / "hosts"):
        folder.chmod(0o755)
    with logs_on_failure(federation):
        federation.start()
        wait_until(lambda: all(map(is_connected, federation.institutions.values())), "all connect")
    return federation


def is_connected(host: HarnessHost) -> bool:
    return "SuperNode ID" in host.log.read_text()


def attempts(*arguments: str) -> dict[str, str]:
    """Return what became of a stranger's attempts."""
    process = start_as(NOBODY, str(python_of_everyone()), local_user.__file__, *arguments)
    output, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    found: dict[str, str] = json.loads(output)
    return found


def command_lines(mark: ProcessMark) -> list[str]:
    """Return what every user sees of the federation in ``ps``."""
    found = []
    for process in mark.processes():
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def run_bundle(
    federation: HarnessFederation, bundle: bytes, settings: dict[str, Scalar]
) -> tuple[str, bool]:
    """Run a bundle at the SuperLink as its operator; return the log, and whether it completed."""
    values = _SETTINGS | {"federation": federation.name} | settings
    config = resolve_settings(values)
    with connect_control(federation.coordinator.folder) as client:
        run = client.start_run(bundle, config.to_flower())
        log = "".join(client.stream_log(run))
        return log, client.run_state(run).is_completed


def trace(federation: HarnessFederation, name: str) -> Path:
    return federation.institutions[name].folder / "ran"


def test_strangers_at_the_coordinator(
    federation: HarnessFederation, place: Path, trojan: Path
) -> None:
    address = f"127.0.0.1:{federation.control_port}"
    authority = place / "ca.crt"
    shutil.copy(federation.coordinator.folder / "ca.crt", authority)
    authority.chmod(0o644)
    for known in ((), ("--authority", str(authority))):
        found = attempts("control", address, str(trojan), *known)
        assert set(found.values()) == _REFUSED, found
        assert len(found) == 7
    found = attempts("runtime", f"https://{address}", "--kind", "flwr-serverapp")
    assert set(found.values()) == _REFUSED, found
    # Nor does the operator's own script help someone who cannot read the secret.
    if IS_ROOT:
        with pytest.raises(PermissionError):
            start_as(NOBODY, str(federation.coordinator.folder / "flwr.sh"), "list", "fedgt")


def test_a_run_that_others_meddle_with(
    federation: HarnessFederation, trojan: Path, mark: ProcessMark
) -> None:
    folder = federation.run_folder("meddled")
    with logs_on_failure(federation):
        run = federation.start_run(_SETTINGS | {"run-name": "meddled", "rounds": ENDLESS})
        users = watch(federation, folder, mark)
        if IS_ROOT:
            check_key_is_hidden(federation, users)
        exchange(federation.coordinator.folder / "state.db", trojan.read_bytes())
        # Who has the approved bundle keeps it.
        last = events(folder, "round")[-1]["round"]
        wait_for_round(folder, lambda _: True, "another round", after=last + 1)
        # Who asks again gets the other one, and refuses it.
        host = federation.institutions[A]
        assert "refuses the app" not in host.log.read_text()
        restart(federation, A)
        wait_until(lambda: "refuses the app" in host.log.read_text(), "a refusal")
        assert not trace(federation, A).exists()
        check_commands(federation)
        assert run.wait(TIMEOUT) == 1


def watch(federation: HarnessFederation, run: Path, mark: ProcessMark) -> set[str]:
    """See that two rounds show no secret and give no task to a thief; who ran bank-c's app."""
    secret = read_operator_secret(federation.coordinator.folder / OPERATOR_SECRET).decode()
    runtime = f"https://127.0.0.1:{federation.ports[A]}"
    python, seconds = str(python_of_everyone()), str(TIMEOUT)
    thief = start_as(NOBODY, python, local_user.__file__, "runtime", runtime, "--seconds", seconds)
    users: set[str] = set()
    seen: set[str] = set()

    def look() -> None:
        lines = command_lines(mark)
        assert not [line for line in lines if "--token " in line or secret in line]
        seen.update(
            name for name in ("--token-file", "serverapp") for line in lines if name in line
        )
        users.update(app_users(federation, C))

    wait_for_round(run, lambda _: True, "two rounds", after=1, meanwhile=look)
    assert seen == {"--token-file", "serverapp"}
    assert thief.poll() is None  # still without a task
    thief.terminate()
    thief.communicate()
    assert set(attempts("runtime", runtime).values()) == _REFUSED
    # Every institution's own update arrived.
    assert all(sorted(event["institutions"]) == [A, B, C] for event in events(run, "round"))
    return users


def check_key_is_hidden(federation: HarnessFederation, users: set[str]) -> None:
    """See that bank-c's app ran as another user, who cannot read the key."""
    assert users == {_APP_USER}
    kit, user = federation.institutions[C].folder, pwd.getpwnam(_APP_USER).pw_uid
    reads = "import sys; open(sys.argv[1]).read()"
    for name, ends_with in (("node.key", 1), ("runtime.secret", 1), ("data/graph.json", 0)):
        reader = start_as(user, str(python_of_everyone()), "-c", reads, str(kit / name))
        _, errors = reader.communicate(timeout=TIMEOUT)
        assert reader.returncode == ends_with, (name, errors)
        assert ("PermissionError" in errors) == bool(ends_with)


def app_users(federation: HarnessFederation, institution: str) -> set[str]:
    """Return who runs the app and the worker of an institution now."""
    folder, found = federation.institutions[institution].folder, set()
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            is_app = "deploy.cli.clientapp" in line or "fedgt_client.worker" in line
            if is_app and Path(process.cwd()) == folder:
                found.add(process.username())
        except psutil.Error:
            continue
    return found


def check_commands(federation: HarnessFederation) -> None:
    """See that Flower's commands work for who has the kit: list runs and nodes, log, stop."""
    script = federation.coordinator.call
    listed = script("flwr.sh", "list", "fedgt", "--format", "json")
    assert listed.returncode == 0, listed.stdout
    [running] = [one for one in json.loads(listed.stdout)["runs"] if "running" in one["status"]]
    nodes = script("flwr.sh", "supernode", "list", "fedgt", "--format", "json")
    assert nodes.stdout.count('"online"') == 3, nodes.stdout
    log = script("flwr.sh", "log", running["run-id"], "fedgt", "--show")
    assert "bank-a joined" in log.stdout, log.stdout
    stopped = script("flwr.sh", "stop", running["run-id"], "fedgt")
    assert stopped.returncode == 0, stopped.stdout


def exchange(database: Path, bundle: bytes) -> None:
    """Put another bundle in place of that of every run."""
    found = hashlib.sha256(bundle).hexdigest()
    with sqlite3.connect(database, timeout=60) as connection:
        connection.execute("INSERT OR REPLACE INTO fab VALUES (?, ?, '{}')", (found, bundle))
        connection.execute("UPDATE run SET fab_hash = ?", (found,))


def restart(federation: HarnessFederation, institution: str) -> None:
    supernode = federation.supernodes[institution]
    supernode.terminate()
    assert supernode.wait(TIMEOUT) == 0
    federation.start_supernode(institution)


def test_code_that_nobody_approved(federation: HarnessFederation) -> None:
    bundles = {
        "'fedgt_client/extra.py'": changed_bundle({"fedgt_client/extra.py": LEAVES_A_TRACE}),
        "'pyproject.toml'": changed_bundle(components="fedgt_client.adapter:handle"),
        "'fedgt_client/app.py' that stands there twice": with_two_apps(),
    }
    with logs_on_failure(federation):
        for number, (reason, bundle) in enumerate(bundles.items()):
            log, completed = run_bundle(federation, bundle, {"run-name": f"refused-{number}"})
            assert not completed
            for name in (A, B, C):
                line = f"{name} refuses the app"
                # The coordinator reads who refuses and why, and so does the institution.
                said = federation.institutions[name].log.read_text()
                for text in (log, said):
                    assert any(line in one and reason in one for one in text.splitlines()), text
                assert not trace(federation, name).exists()


def test_code_that_one_approved(federation: HarnessFederation, trojan: Path) -> None:
    """A name that an approved run had before is no way in."""
    bundle = trojan.read_bytes()
    found = content_hash(read_bundle(bundle))
    settings: dict[str, Scalar] = {
        "run-name": "meddled",
        "replace": True,
        "min-institutions": 1,
        "rounds": 1,
    }
    with logs_on_failure(federation):
        log, completed = run_bundle(federation, bundle, settings)
        assert completed, log
        for name in (A, C):
            assert f"{name} refuses the app with code {found}" in log
            assert not trace(federation, name).exists()
        assert trace(federation, B).exists()
        result = json.loads((federation.run_folder("meddled") / "result.json").read_text())
        assert list(result["per_client"]) == [B]
        doctor = federation.institutions[B].doctor()["code"]
        assert f"also approved: {found}" in doctor["finding"]
