"""Start a run at the coordinator's SuperLink, follow it, and say what became of it.

As ``flwr run --stream`` does, which ends well whatever became of the run.
"""

import hashlib
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest, StreamLogsRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab

from deploy.engines.app_bundle import stage_flower_app
from deploy.flower import control
from fedgt_server.round_loop import GIVING_UP
from shared.config import RunConfig
from shared.errors import FedGTError

# Flower's words for how a ServerApp ended.
_RAISED = "ServerApp failed with exception: "
_SILENT = "No heartbeat received"


class ExitCode(IntEnum):
    """What became of a run: the exit code of ``run.sh`` and ``fedgt resume``.

    Flower's programs and this command line have 2 for what the user can mend before a run starts.
    """

    finished = 0
    failed = 1
    gave_up = 3  # too few institutions for too long


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended, and why."""

    ending: ExitCode
    reason: str = ""


def read_settings(source: Path) -> RunConfig:
    """The settings of a run from a file such as ``run.toml``."""
    try:
        return RunConfig.build(tomllib.loads(source.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        raise FedGTError(f"{source}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedGTError(f"{source} is not valid TOML: {error}") from None


def launch(kit: Path, config: RunConfig, say: Callable[[str], None]) -> RunOutcome:
    """Run the federation of a coordinator's kit; ``say`` gets the run's log as it grows."""
    bundle = _bundle()
    request = StartRunRequest(
        fab=fab_to_proto(Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})),
        override_config=user_config_to_proto(config.to_flower()),
    )
    with control(kit) as client:
        response = client.StartRun(request)
        if not response.HasField("run_id"):
            raise FedGTError(f"the SuperLink did not start the run: {response.note or 'no reason'}")
        try:
            return _follow(client, response.run_id, say)
        except httpx.TransportError:
            return RunOutcome(
                ExitCode.failed,
                "the SuperLink is gone: run ./start-superlink.sh, then ./resume.sh",
            )


def _bundle() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        return build_fab_from_disk(stage_flower_app(Path(scratch) / "fedgt"))


def _follow(client: ControlHttpClient, run_id: int, say: Callable[[str], None]) -> RunOutcome:
    for part in client.StreamLogs(StreamLogsRequest(run_id=run_id)):
        say(part.log_output)
    status = client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status
    return ending(status.status, status.sub_status, status.details)


def ending(status: str, sub_status: str, details: str) -> RunOutcome:
    """What Flower's words for a run's state mean."""
    if status == Status.FINISHED and sub_status == SubStatus.COMPLETED:
        return RunOutcome(ExitCode.finished)
    reason = " ".join(details.removeprefix(_RAISED).split())
    if reason.startswith(_SILENT):
        reason = "the ServerApp is gone without a word: ./resume.sh continues the run"
    if reason.endswith(GIVING_UP):
        return RunOutcome(ExitCode.gave_up, reason)
    return RunOutcome(ExitCode.failed, reason or f"the run is {sub_status or status}")
