"""How an institution is doing: its supernode, its last round, budget, disk, certificate."""

from pathlib import Path

from deploy.doctor.check import Check, failed, ok, skipped, warning
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.local import check_authority, check_room
from deploy.operate.status import Status, age, age_text, free_bytes
from deploy.provision.pki import days_left, load_certificate
from deploy.supernode_record import flower_folder, last_record, running_supernode
from fedgt_client.privacy.ledger import Ledger, run_ledger
from fedgt_client.run_record import RunRecord
from fedgt_client.state import StateStore
from shared.errors import FedGTError

_FEW = 0.1  # of a budget
_SILENT = 60.0  # seconds without an answer; the coordinator takes it for gone then as well


def institution_status(folder: Path) -> Status:
    """Look at an institution's kit; nobody is asked."""
    kit, status = InstitutionKit.open(folder), Status()
    _supernode(kit, status)
    if newest := _newest_run(kit):
        policy = kit.node.policy
        _run(newest, policy.privacy_budget if policy else 0.0, status)
    else:
        status.add(skipped("run", "it has taken part in none yet"))
    status.add(check_room(kit))
    status.measure("disk_free_bytes", free_bytes(kit.state_dir))
    status.add(check_authority(kit))
    try:
        left = days_left(load_certificate(kit.folder / "ca.crt"))
        status.measure("certificate_days", left, certificate="ca.crt")
    except (FedGTError, OSError):
        pass
    return status


def _supernode(kit: InstitutionKit, status: Status) -> None:
    home = flower_folder(kit.folder)
    record = running_supernode(home)
    status.measure("up", float(record is not None))
    silent = age(record.answered) if record and record.answered else 0.0
    is_connected = bool(record and record.connected and silent < _SILENT)
    status.measure("connected", float(is_connected))
    if record is None:
        before = last_record(home)
        known = f" (the last was started {age_text(age(before.started))} ago)" if before else ""
        remedy = "./start-supernode.sh; where it runs already, 'fedgt doctor .' says what it meets"
        status.add(failed("supernode", f"it is not running{known}", remedy))
        return
    if not record.connected:
        since = age_text(age(record.started))
        remedy = "'fedgt doctor .' says why"
        status.add(failed("supernode", f"it is not let in, for {since}", remedy))
        return
    if not is_connected:
        finding = f"the coordinator has not answered for {age_text(silent)}"
        remedy = "'fedgt doctor .' says why; it connects again by itself"
        status.add(failed("supernode", finding, remedy))
        return
    status.measure("connected_seconds", age(record.connected))
    heard = ""
    if record.heard:
        status.measure("message_age_seconds", age(record.heard))
        heard = f"; the last message came {age_text(age(record.heard))} ago"
    status.add(ok("supernode", f"connected for {age_text(age(record.connected))}{heard}"))


def _newest_run(kit: InstitutionKit) -> StateStore | None:
    """Return the state of the run that this institution took part in last."""
    parent = kit.state_dir / kit.federation
    found = list(parent.glob(f"*/{kit.institution}/metrics.jsonl"))
    if not found:
        return None
    newest = max(found, key=lambda path: path.stat().st_mtime)
    run = newest.parents[1].name
    return StateStore(kit.state_dir, kit.federation, run, kit.institution)


def _run(store: StateStore, own_limit: float, status: Status) -> None:
    rounds = store.rounds()
    best, last = store.best(), rounds[-1] if rounds else 0
    metrics = store.metrics_of(last)
    accuracy = metrics.get("test_accuracy")
    shown = f", test accuracy {accuracy:.4f}" if accuracy is not None else ""
    kept = f"; best model: round {best.round_number}" if best else "; no best model yet"
    status.add(ok("run", f"{store.run}: last round {last}{shown}{kept}"))
    status.measure("round", last, run=store.run)
    if accuracy is not None:
        status.measure("test_accuracy", accuracy, run=store.run)
    status.add(_budget(store, own_limit, status))


def _budget(store: StateStore, own_limit: float, status: Status) -> Check:
    """Return what is left of the privacy budget, the institution's or the last run's."""
    try:
        record = RunRecord.read(store.folder)
    except FedGTError as error:
        return warning("budget", str(error), "the next round writes it anew")
    path = run_ledger(store.folder, record.data_digest)
    if path is None:
        return skipped("budget", "nothing was released with noise")
    spent = Ledger(path).spent()
    # Of the units that uploads were protected for, the one that has spent most.
    largest = max((spent.epsilon(unit) for unit, n in spent.counts.items() if n), default=0.0)
    status.measure("uploads", spent.uploads)
    status.measure("uploads_without_noise", spent.unprotected)
    status.measure("epsilon_spent", largest)
    limits = [one for one in (own_limit, record.settings.privacy_budget) if one]
    if not limits:
        return ok("budget", f"{spent.uploads} uploads, ε {largest:.4g} spent, no limit set")
    limit = min(limits)
    left = max(limit - largest, 0.0)
    status.measure("epsilon_left", left)
    text = f"ε {left:.4g} of {limit:g} left after {spent.uploads} uploads"
    if left <= _FEW * limit:
        return warning("budget", text, "uploads end with it: privacy-budget")
    return ok("budget", text)
