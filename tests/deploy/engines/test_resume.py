"""Which runs can be resumed, and how the end of a run is reported."""

import sys
import tarfile
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
import tomli_w

from deploy.cli import main
from deploy.engines import resume
from deploy.engines.resume import resumable_config
from deploy.engines.superlink_run import (
    ExitCode,
    RunOutcome,
    outcome_of,
    read_settings,
    stop_run,
)
from deploy.flower.control import RunState
from deploy.provision.kits import provision
from fedgt_client.run_record import RunRecord
from fedgt_server.checkpoint import Checkpoints
from fedgt_server.events import FailedEvent, JournalEvent, ResumeEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from fedgt_server.wait import GaveUpError
from shared.config import Scalar
from shared.earlier_settings import LATER_SETTINGS
from shared.errors import FedGTError
from tests.fedgt_server.grid import Node, ScriptedGrid, settings
from tests.harness.kits import write_banks

_RELEASE = Path(__file__).parents[1] / "release_0_1_0.tar.xz"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgt_server.exchange._POLL", 0.005)
    monkeypatch.setattr("fedgt_server.wait._POLL", 0.02)
    monkeypatch.setattr(resume, "_TIMEOUT", 0.1)


def play(folder: Path, *, stops_in: int, **changed: Scalar) -> None:
    """Run until a round in which an institution is silent; 0 is the introduction."""
    config = settings(**changed)
    grid = ScriptedGrid(Node("a"), Node("b", silent={stops_in}))
    federation = RoundLoop(grid, FedGTStrategy(config), folder)
    if stops_in > config.rounds:
        federation.run()
        return
    with pytest.raises(GaveUpError):
        federation.run()


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="holds no run: there is nothing to resume"):
        resumable_config(tmp_path)
    play(tmp_path / "runs" / "first", stops_in=2)
    with pytest.raises(FedGTError, match="holds no run 'second'; there are: first"):
        resumable_config(tmp_path, "second")


def test_before_the_first_round_there_is_no_checkpoint(tmp_path: Path) -> None:
    play(tmp_path / "runs" / "first", stops_in=0)
    with pytest.raises(FedGTError, match=r"'first' has no checkpoint.*start it again"):
        resumable_config(tmp_path)


def test_a_finished_run(tmp_path: Path) -> None:
    play(tmp_path / "runs" / "first", stops_in=9)
    with pytest.raises(FedGTError, match="'first' is finished"):
        resumable_config(tmp_path)


@pytest.mark.slow
def test_a_running_run(tmp_path: Path) -> None:
    play(tmp_path / "runs" / "first", stops_in=2)
    with (
        run_lock(tmp_path / "runs" / "first"),
        pytest.raises(FedGTError, match="'first' is still running"),
    ):
        resumable_config(tmp_path)


def test_settings_are_those_of_the_run(tmp_path: Path) -> None:
    play(tmp_path / "runs" / "7123", stops_in=2, tau=3.5, seed=4)
    assert resumable_config(tmp_path) == settings(tau=3.5, seed=4, resume=True, run_name="7123")
    assert resumable_config(tmp_path, "7123").run_name == "7123"


@pytest.mark.slow
def test_the_last_at_work_is_resumed(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        play(tmp_path / "runs" / name, stops_in=2)
    play(tmp_path / "runs" / "a", stops_in=3, resume=True)
    assert resumable_config(tmp_path).run_name == "a"


def test_a_torn_checkpoint_is_passed_over(tmp_path: Path) -> None:
    play(tmp_path / "runs" / "first", stops_in=3)
    newest = tmp_path / "runs" / "first" / "checkpoints" / "round-000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-3])
    assert resumable_config(tmp_path).resume
    newest.with_name("round-000001.json").write_text("{")
    with pytest.raises(FedGTError, match="no checkpoint"):
        resumable_config(tmp_path)


def test_a_run_of_an_earlier_release_keeps_its_model(tmp_path: Path) -> None:
    """A setting that is new has to be added to those, with what it was worth before."""
    with tarfile.open(_RELEASE) as archive:
        archive.extractall(tmp_path, filter="data")
    coordinator = tmp_path / "coordinator"
    checkpoint = Checkpoints(coordinator / "runs" / "second" / "checkpoints").newest()
    assert checkpoint is not None
    known = LATER_SETTINGS.keys() | checkpoint.facts.config.keys()
    assert set(settings().to_flower()) - known == set()
    config = resumable_config(coordinator, "second")
    assert (config.own_model, config.common_model, config.compare_updates) == (False, "off", False)
    # So does what an institution predicts by.
    kept = RunRecord.read(tmp_path / "bank-a" / "state" / "banks" / "first" / "bank-a")
    assert (kept.settings.own_model, kept.settings.common_model) == (False, "off")


def test_runs_in_a_folder_elsewhere(tmp_path: Path) -> None:
    """It is named by run.toml; where it was moved or restored, the run goes on where it is now."""
    elsewhere = tmp_path / "disk" / "results"
    play(elsewhere / "first", stops_in=2, results_dir=str(elsewhere))
    (tmp_path / "run.toml").write_text(tomli_w.dumps({"results-dir": str(elsewhere)}))
    assert resumable_config(tmp_path).results_dir == str(elsewhere)
    restored = elsewhere.rename(tmp_path / "runs-1")
    assert resumable_config(tmp_path, results=restored).results_dir == str(restored)


@pytest.mark.parametrize(
    ("status", "sub_status", "details", "last", "outcome"),
    [
        ("finished", "completed", "", ResumeEvent(after_round=1), RunOutcome(ExitCode.finished)),
        (
            "finished",
            "failed",
            "ServerApp failed with exception: round 3: 1 of 2 answered",
            FailedEvent(reason="round 3: 1 of 2 answered", status="gave-up"),
            RunOutcome(ExitCode.gave_up, "round 3: 1 of 2 answered"),
        ),
        (
            "finished",
            "failed",
            "ServerApp failed with exception: bank-b has\n other columns",
            FailedEvent(reason="bank-b has other columns", status="failed"),
            RunOutcome(ExitCode.failed, "bank-b has other columns"),
        ),
        (
            "finished",
            "failed",
            "No heartbeat received from the task",
            None,
            RunOutcome(
                ExitCode.failed,
                "the ServerApp ended without a message: ./resume.sh continues the run",
            ),
        ),
        (
            "finished",
            "stopped",
            "",
            None,
            RunOutcome(ExitCode.failed, "stopped by the operator: ./resume.sh continues the run"),
        ),
        ("running", "", "", None, RunOutcome(ExitCode.failed, "the run is running")),
    ],
)
def test_the_outcome_of_a_run(
    status: str, sub_status: str, details: str, last: JournalEvent | None, outcome: RunOutcome
) -> None:
    assert outcome_of(RunState(status, sub_status, details), last) == outcome


def test_a_run_that_gave_up_says_so_in_its_journal(tmp_path: Path) -> None:
    play(tmp_path / "first", stops_in=2)
    last = Journal(tmp_path / "first" / "journal.jsonl").last()
    state = RunState("finished", "failed", "any words")
    assert outcome_of(state, last).exit_code is ExitCode.gave_up


def test_settings_of_a_run_are_checked_before_it_starts(tmp_path: Path) -> None:
    source = tmp_path / "run.toml"
    with pytest.raises(FedGTError, match="no such file"):
        read_settings(source)
    for text, message in (("rounds =", "not valid TOML"), ("round = 1", "no setting 'round'")):
        source.write_text(text)
        with pytest.raises(FedGTError, match=message):
            read_settings(source)
    # What a method has by default counts, though Flower would send the app's own defaults.
    source.write_text('method = "fedavg"')
    assert read_settings(source).ldp == "off"


@pytest.mark.parametrize("command", ["launch", "resume"])
def test_no_kit_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    play(tmp_path / "runs" / "first", stops_in=2)
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(tomli_w.dumps({"federation": "banks"}))
    monkeypatch.setattr(sys, "argv", ["fedgt", command])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "fedgt: . is not a coordinator's kit: name its folder"
    )


def test_a_superlink_that_is_too_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing: that is not taken for one that is gone."""
    provision(write_banks(tmp_path), tmp_path / "kits")
    kit = tmp_path / "kits" / "coordinator"

    def too_slow(*_: object, **__: object) -> NoReturn:
        raise httpx.ReadTimeout("The read operation timed out")

    monkeypatch.setattr(httpx.Client, "send", too_slow)
    with pytest.raises(FedGTError, match=r"is too busy to answer: try again"):
        stop_run(kit, "first")
