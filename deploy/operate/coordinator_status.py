"""How a coordinator is doing: its SuperLink, who is connected, the run, disk, certificates."""

import statistics
from pathlib import Path

from deploy.doctor import coordinator as checks
from deploy.doctor.check import failed, ok, warning
from deploy.doctor.kit import CoordinatorKit
from deploy.engines.run_list import RunLine, list_runs
from deploy.flower.control import RegisteredNode, connect_control
from deploy.operate.status import Status, age, age_text, free_bytes
from deploy.provision.pki import days_left, load_certificate
from fedgt_server.earlier_run import JOURNAL
from fedgt_server.journal import Journal
from shared.errors import FedGTError

_LATE = 10  # times the median of a run's rounds
_ENDED_WELL = ("finished", "stopped", "starting")  # as planned, or as somebody wanted it
_ENDS = {"gave-up": "gave up", "ended early": "ended early"}  # others with 'is' before them
_SHORTEST = 300.0  # seconds that a round may always take


def coordinator_status(folder: Path) -> Status:
    """Look at a coordinator's kit, and ask its SuperLink."""
    kit, status = CoordinatorKit.open(folder), Status()
    _superlink(kit, status)
    _run(kit, status)
    status.add(checks.check_room(kit))
    status.measure("disk_free_bytes", free_bytes(kit.folder))
    for check, name in (
        (checks.check_authority, "ca.crt"),
        (checks.check_certificate, "server.crt"),
    ):
        status.add(check(kit))
        try:
            left = days_left(load_certificate(kit.folder / name))
        except (FedGTError, OSError):
            continue
        status.measure("certificate_days", left, certificate=name)
    return status


def _superlink(kit: CoordinatorKit, status: Status) -> None:
    try:
        with connect_control(kit.folder) as client:
            nodes = sorted(client.registered_nodes().values(), key=lambda node: node.name)
    except FedGTError as error:
        status.add(failed("superlink", str(error), "./start-superlink.sh"))
        status.measure("up", 0)
        return
    status.add(ok("superlink", f"answers at {kit.control}"))
    status.measure("up", 1)
    for node in nodes:
        _institution(node, status)


def _institution(node: RegisteredNode, status: Status) -> None:
    status.measure("institution_connected", float(node.is_online), institution=node.name)
    if node.is_online:
        since = age(node.since)
        status.add(ok(node.name, f"connected for {age_text(since)}"))
        status.measure("institution_connected_seconds", since, institution=node.name)
        return
    seen = f"not connected for {age_text(age(node.seen))}" if node.seen else "never connected"
    remedy = "ask the institution for 'fedgt status' of its kit"
    status.add(warning(node.name, seen, remedy))


def _run(kit: CoordinatorKit, status: Status) -> None:
    runs = list_runs(kit.folder)
    going = [run for run in runs if run.state == "running"]
    waiting = [run for run in runs if run.state == "waiting"]
    status.measure("runs_waiting", len(waiting))
    for run in going:
        _going(kit, run, status)
    if not going and not waiting:
        _idle(runs[-1] if runs else None, status)


def _idle(last: RunLine | None, status: Status) -> None:
    if last is None:
        status.add(ok("run", "none is under way"))
        return
    text = (
        f"none is under way; the last, {last.name}, {_ENDS.get(last.state) or f'is {last.state}'}"
    )
    if last.state in _ENDED_WELL:
        status.add(ok("run", text))
        return
    why = f": {last.reason}" if last.reason else ""
    status.add(warning("run", text + why, f"./resume.sh --run {last.name} continues it"))


def _going(kit: CoordinatorKit, run: RunLine, status: Status) -> None:
    rounds = Journal(kit.folder / run.results_dir / run.name / JOURNAL).rounds()
    status.measure("round", len(rounds), run=run.name)
    status.measure("rounds_planned", run.planned or 0, run=run.name)
    if not rounds:
        status.add(ok("run", f"{run.name}: the first round is under way"))
        return
    since, usual = age(rounds[-1].time), statistics.median(event.seconds for event in rounds)
    status.measure("round_age_seconds", since, run=run.name)
    text = f"{run.name}: round {rounds[-1].round} of {run.planned} ended {age_text(since)} ago"
    missing = f"; without {', '.join(rounds[-1].missing)}" if rounds[-1].missing else ""
    if since > max(_SHORTEST, _LATE * usual):
        remedy = f"'fedgt follow {run.name}' says for whom it waits"
        status.add(warning("run", f"{text}; they take {age_text(usual)}", remedy))
    elif missing:
        status.add(warning("run", text + missing, "the journal says why: left_out"))
    else:
        status.add(ok("run", text))
