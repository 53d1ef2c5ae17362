"""A run's numbers for TensorBoard and MLflow: from its journal, to places on this machine.

Both are optional packages. Metrics are named by whose they are: ``federation/val_accuracy``,
``institution/bank-a/val_accuracy``.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from fedgt_server.events import StartEvent
from fedgt_server.report.runs import read_start
from fedgt_server.report.table import Row, result_rows
from shared.errors import FedGTError

_INSTALL = "'{0}' is not installed: pip install 'fedgt[{1}]'"
# Places that are files of this machine.
_LOCAL = ("", "file", "sqlite")
_DATABASE = "mlflow.db"
_BATCH = 500  # numbers; MLflow takes 1,000 at most


class Tracker(Protocol):
    """Takes numbers of one run."""

    def log(self, rows: Sequence[Row]) -> None:
        """Take numbers."""


def track_run(run: Path, trackers: Sequence[Tracker], seen: int = 0) -> int:
    """Pass on the numbers of rounds after ``seen``; return the last round."""
    fresh = [row for row in result_rows([run]) if row.round > seen]
    for tracker in trackers:
        tracker.log(fresh)
    return max((row.round for row in fresh), default=seen)


def metric_name(row: Row) -> str:
    """Return what a number is called, with whose it is."""
    owner = "federation" if row.institution is None else f"institution/{row.institution}"
    return f"{owner}/{row.metric}"


class TensorBoard:
    """Writes event files."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, rows: Sequence[Row]) -> None:
        """Write numbers."""
        for row in rows:
            self._writer.add_scalar(metric_name(row), row.value, row.round)


@contextmanager
def tensorboard(folder: Path) -> Iterator[TensorBoard]:
    """Yield what writes to ``folder``, which 'tensorboard --logdir' shows."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise FedGTError(_INSTALL.format("tensorboardX", "tensorboard")) from None
    with SummaryWriter(str(folder)) as writer:
        yield TensorBoard(writer)


class MLflow:
    """Writes to a run of MLflow."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    def log(self, rows: Sequence[Row]) -> None:
        """Write numbers, many at a time: each call is a transaction."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_known_name(row), float(row.value), now, row.round) for row in rows]
        for first in range(0, len(metrics), _BATCH):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + _BATCH])

    def log_model(self, folder: Path) -> None:
        """Write an exported model with its card."""
        self._client.log_artifacts(self._run_id, str(folder), "model")


@contextmanager
def mlflow(target: str, run: Path, *, allow_remote: bool = False) -> Iterator[MLflow]:
    """Yield what writes to a new run of MLflow at ``target``: a folder, or an address of its own.

    Raises
    ------
    FedGTError
        For a place that is not on this machine, unless ``allow_remote``.
    """
    address = tracking_address(target, allow_remote=allow_remote)
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise FedGTError(_INSTALL.format("mlflow-skinny", "mlflow")) from None
    client = MlflowClient(tracking_uri=address)
    start = read_start(run)
    run_id = _new_run(client, start, run, None if "://" in target else Path(target))
    state = "FAILED"
    try:
        yield MLflow(client, run_id)
        state = "FINISHED"
    finally:
        client.set_terminated(run_id, state)


def tracking_address(target: str, *, allow_remote: bool) -> str:
    """Return MLflow's address of ``target``; a folder has a database of its own."""
    if "://" not in target:
        folder = Path(target).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{folder / _DATABASE}"
    if urlsplit(target).scheme not in _LOCAL and not allow_remote:
        raise FedGTError(
            f"{target} is not on this machine, so results would leave it: add --allow-remote if "
            "they may"
        )
    return target


def _known_name(row: Row) -> str:
    """Return a name of the characters that MLflow knows, which are fewer than a name may have."""
    name = metric_name(row)
    return "".join(mark if mark.isalnum() or mark in "_-./ :" else "_" for mark in name)[:250]


def _new_run(client: Any, start: StartEvent | None, run: Path, folder: Path | None) -> str:
    config = start.config if start else {}
    name = str(config.get("federation") or "fedgt")
    place = (folder / "artifacts").absolute().as_uri() if folder else None
    known = client.get_experiment_by_name(name)
    experiment = known.experiment_id if known else client.create_experiment(name, place)
    made = client.create_run(experiment, run_name=str(config.get("run-name") or run.name))
    for key, value in _shown(config):
        client.log_param(made.info.run_id, key, value)
    return str(made.info.run_id)


def _shown(config: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the settings; folders of this machine are left out."""
    return [(key, str(value)) for key, value in config.items() if not key.endswith("-dir")]
