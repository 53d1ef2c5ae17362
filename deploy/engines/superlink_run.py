"""Start a run at the coordinator's SuperLink, follow it, and report how it ended.

``flwr run --stream`` does the same, but exits with 0 however the run ended.
"""

import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import httpx

from deploy.engines.app_bundle import stage_flower_app
from deploy.flower.bundle import build_app_bundle
from deploy.flower.control import ControlClient, RunState, connect_control
from deploy.settings import resolve_settings
from fedgt_server.events import FailedEvent, JournalEvent
from fedgt_server.journal import Journal
from shared.config import RunConfig
from shared.errors import FedGTError

# Flower's terms for how a ServerApp ended.
_RAISED = "ServerApp failed with exception: "
_SILENT = "No heartbeat received"


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedGTError(f"{source} is not valid TOML: {error}") from None


def run_at_superlink(
    kit: Path, config: RunConfig, on_log_output: Callable[[str], None]
) -> RunOutcome:
    """Run the federation of a coordinator's kit; ``on_log_output`` gets the log as it grows."""
    with tempfile.TemporaryDirectory() as scratch:
        bundle = build_app_bundle(stage_flower_app(Path(scratch) / "fedgt"))
    with connect_control(kit) as client:
        earlier = _last_event(kit, config, config.run_name)  # of a run that is resumed
        run_id = client.start_run(bundle, config.to_flower())
        try:
            state = _follow(client, run_id, on_log_output)
        except httpx.TransportError:
            return RunOutcome(
                ExitCode.failed,
                "the SuperLink is gone: run ./start-superlink.sh, then ./resume.sh",
            )
    last = _last_event(kit, config, config.run_name or str(run_id))
    return outcome_of(state, None if last == earlier else last)


def _follow(client: ControlClient, run_id: int, on_log_output: Callable[[str], None]) -> RunState:
    for text in client.stream_log(run_id):
        on_log_output(text)
    return client.run_state(run_id)


def _last_event(kit: Path, config: RunConfig, run_name: str) -> JournalEvent | None:
    return Journal(kit / config.results_dir / run_name / "journal.jsonl").last()


def outcome_of(state: RunState, last: JournalEvent | None) -> RunOutcome:
    """Return how a run ended, by Flower's state of it and the last event of its journal."""
    if state.is_completed:
        return RunOutcome(ExitCode.finished)
    reason = " ".join(state.details.removeprefix(_RAISED).split())
    if reason.startswith(_SILENT):
        reason = "the ServerApp ended without a message: ./resume.sh continues the run"
    if isinstance(last, FailedEvent) and last.status == "gave-up":
        return RunOutcome(ExitCode.gave_up, reason)
    return RunOutcome(ExitCode.failed, reason or f"the run is {state.sub_status or state.status}")
