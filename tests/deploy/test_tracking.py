"""Numbers of a run for TensorBoard and MLflow."""

import struct
import sys
from pathlib import Path

import pytest

from deploy.tracking import tracking_address
from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from shared.config import RunConfig
from shared.errors import FedGTError
from tests.fedgt_server.events import institution_round, round_event
from tests.harness.kits import fedgt


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of two rounds whose institutions have a plain and a hostile name."""
    folder = tmp_path / "runs" / "mine"
    journal = Journal(folder / "journal.jsonl")
    config = RunConfig.build({"rounds": 2, "federation": "banks", "run-name": "mine"})
    journal.write(StartEvent(config=config.to_flower()))
    for number in (1, 2):
        parts = {
            "bank-a": institution_round(val_accuracy=0.5 + number / 10),
            "<b>\u202e": institution_round(val_accuracy=0.25),
        }
        journal.write(round_event(number, parts))
    return folder


@pytest.mark.parametrize("target", ["http://tracking.example", "databricks://x", "ftp://x"])
def test_another_machine_is_refused(target: str) -> None:
    with pytest.raises(FedGTError, match="not on this machine"):
        tracking_address(target, allow_remote=False)
    assert tracking_address(target, allow_remote=True) == target


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nowhere to write to"),
        (("--tensorboard", "b", "--model", "m"), "--model is an exported model"),
        (("--mlflow", "m", "--model", "no-model"), "--model is an exported model"),
        (("--mlflow", "http://tracking.example"), "not on this machine"),
    ],
)
def test_wrong_options_are_one_line(
    run: Path,
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, out, err = fedgt(capsys, monkeypatch, "track", str(run), *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("module", "option", "extra"),
    [("tensorboardX", "--tensorboard", "tensorboard"), ("mlflow.tracking", "--mlflow", "mlflow")],
)
def test_what_is_not_installed_is_named(
    run: Path,
    module: str,
    option: str,
    extra: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code, _, err = fedgt(capsys, monkeypatch, "track", str(run), option, str(tmp_path / "to"))
    assert code == 2
    assert f"pip install 'fedgt[{extra}]'" in err


def test_tensorboard_gets_every_number(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    board = tmp_path / "board"
    assert fedgt(capsys, monkeypatch, "track", str(run), "--tensorboard", str(board))[0] == 0
    [file] = board.iterdir()
    found: dict[tuple[str, int], float] = {}
    data = file.read_bytes()
    while data:
        [length] = struct.unpack("<Q", data[:8])
        event = proto.Event.FromString(data[12 : 12 + length])
        found |= {(v.tag, event.step): v.simple_value for v in event.summary.value}
        data = data[16 + length :]
    assert found["institution/bank-a/val_accuracy", 2] == pytest.approx(0.7)
    assert found["federation/val_accuracy", 1] == pytest.approx(0.5)


@pytest.mark.slow
def test_mlflow_gets_numbers_settings_and_the_model(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    model = tmp_path / "model-a"
    model.mkdir()
    (model / "model.json").write_text("{}")
    (model / "model-card.md").write_text("# card")
    place = tmp_path / "ml"
    arguments = ("track", str(run), "--mlflow", str(place), "--model", str(model))
    assert fedgt(capsys, monkeypatch, *arguments)[0] == 0
    client = tracking.MlflowClient(tracking_uri=tracking_address(str(place), allow_remote=False))
    experiment = client.get_experiment_by_name("banks")
    [made] = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(made.info.run_id, "institution/bank-a/val_accuracy")
    assert [(one.step, one.value) for one in history] == [(1, 0.6), (2, 0.7)]
    assert made.info.status == "FINISHED"
    assert (made.data.params["rounds"], "results-dir" in made.data.params) == ("2", False)
    assert list(place.rglob("artifacts/**/model/model-card.md"))
