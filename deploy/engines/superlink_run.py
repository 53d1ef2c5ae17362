"""Start a run at the coordinator's SuperLink, follow it, and report how it ended.

``flwr run --stream`` does the same, but exits with 0 however the run ended.
"""

import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import httpx

from deploy.engines.app_bundle import stage_flower_app
from deploy.flower.bundle import build_app_bundle
from deploy.flower.control import ControlClient, ListedRun, RunState, connect_control
from deploy.settings import resolve_settings
from fedgt_server.earlier_run import JOURNAL
from fedgt_server.events import EndEvent, FailedEvent, JournalEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import is_locked
from fedgt_server.round_loop import STOPPED
from shared.config import RunConfig
from shared.errors import FedGTError

# Flower's term for how a ServerApp ended.
_SILENT = "No heartbeat received"

_STOP_SECONDS = 60.0  # until a ServerApp notices, by its next heartbeat at the latest
_POLL = 0.5  # seconds


class ExitCode(IntEnum):
    """The exit code of ``run.sh`` and ``fedgt resume``.

    Flower's programs and this command line use 2 for errors that prevent a run from starting.
    """

    finished = 0
    failed = 1
    gave_up = 3  # too few institutions for too long


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended, and why."""

    exit_code: ExitCode
    reason: str = ""


def read_settings(source: Path) -> RunConfig:
    """Read the settings of a run from a file such as ``run.toml``."""
    try:
        return resolve_settings(tomllib.loads(source.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        raise FedGTError(f"{source}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FedGTError(f"{source} is not valid TOML: {error}") from None


def run_at_superlink(
    kit: Path,
    config: RunConfig,
    on_log_output: Callable[[str], None],
    on_start: Callable[[int, Path], None],
) -> RunOutcome:
    """Run the federation of a coordinator's kit.

    Parameters
    ----------
    on_log_output : gets the log as it grows
    on_start : gets Flower's number of the run and its folder, which may not be there yet
    """
    with tempfile.TemporaryDirectory() as scratch:
        bundle = build_app_bundle(stage_flower_app(Path(scratch) / "fedgt"))
    with connect_control(kit) as client:
        name = config.run_name
        earlier = _last_event(kit / config.results_dir / name)  # of a run that is resumed
        run_id = client.start_run(bundle, config.to_flower())
        folder = kit / config.results_dir / (name or str(run_id))
        on_start(run_id, folder)
        return _follow(client, run_id, folder, earlier, on_log_output)


def follow_run(kit: Path, name: str, on_log_output: Callable[[str], None]) -> RunOutcome:
    """Follow the log of a run from its beginning, by its name, until it is over."""
    with connect_control(kit) as client:
        run = find_run(client.runs(), name)
        return _follow(client, run.run_id, _folder(kit, run), None, on_log_output)


def stop_run(kit: Path, name: str) -> ListedRun:
    """Stop a run by its name, and wait until it has ended and its journal says so.

    Raises
    ------
    FedGTError
        When it is over already, or there is none of the name.
    """
    with connect_control(kit) as client:
        runs = client.runs()
        run = find_run(runs, name, under_way=True)
        for one in runs:
            # All of its name: one that was started twice waits for its turn, and would then begin.
            if one.name == run.name and not one.is_over:
                client.stop_run(one.run_id)
    _close_journal(_folder(kit, run))
    return run


def find_run(runs: Sequence[ListedRun], name: str = "", *, under_way: bool = False) -> ListedRun:
    """Return the last run of a name or number; without one, the one under way: others wait."""
    named = [run for run in runs if not name or name in (run.name, str(run.run_id))]
    if not named:
        known = ", ".join(dict.fromkeys(run.name for run in reversed(runs))) or "none"
        raise FedGTError(f"there is no run '{name}' at this coordinator; there are: {known}")
    going = [run for run in named if not run.is_over]
    if going:
        return going[-1] if name else going[0]
    if under_way or not name:
        what = f"the run '{name}' is over" if name else "no run is under way"
        raise FedGTError(f"{what}: 'fedgt runs' shows all")
    return named[-1]


def _follow(
    client: ControlClient,
    run_id: int,
    folder: Path,
    earlier: JournalEvent | None,
    on_log_output: Callable[[str], None],
) -> RunOutcome:
    try:
        for text in client.stream_log(run_id):
            on_log_output(text)
        state = client.run_state(run_id)
    except httpx.ReadTimeout:
        return RunOutcome(
            ExitCode.failed,
            f"the SuperLink is too busy to answer; the run may go on: 'fedgt follow {folder.name}'",
        )
    except httpx.TransportError:
        return RunOutcome(
            ExitCode.failed,
            "the SuperLink is gone: run ./start-superlink.sh, then ./resume.sh",
        )
    if state.is_stopped:
        _close_journal(folder)
    last = _last_event(folder)
    return outcome_of(state, None if last == earlier else last)


def _close_journal(folder: Path) -> None:
    """Give the journal of a run that was stopped its last word, if nobody else did."""
    journal = Journal(folder / JOURNAL)
    deadline = time.monotonic() + _STOP_SECONDS
    while is_locked(folder) and time.monotonic() < deadline:
        time.sleep(_POLL)  # its process writes it
    if journal.path.exists() and not isinstance(journal.last(), EndEvent | FailedEvent):
        with suppress(OSError):
            journal.write(FailedEvent(reason=STOPPED, status="stopped"))


def _last_event(folder: Path) -> JournalEvent | None:
    return Journal(folder / JOURNAL).last()


def _folder(kit: Path, run: ListedRun) -> Path:
    return kit / run.results_dir / run.name


def outcome_of(state: RunState, last: JournalEvent | None) -> RunOutcome:
    """Return how a run ended, by Flower's state of it and the last event of its journal."""
    if state.is_completed:
        return RunOutcome(ExitCode.finished)
    reason = state.reason
    if reason.startswith(_SILENT):
        reason = "the ServerApp ended without a message: ./resume.sh continues the run"
    if state.is_stopped:
        return RunOutcome(ExitCode.failed, f"{STOPPED}: ./resume.sh continues the run")
    if isinstance(last, FailedEvent) and last.status == "gave-up":
        return RunOutcome(ExitCode.gave_up, reason)
    return RunOutcome(ExitCode.failed, reason or f"the run is {state.sub_status or state.status}")
