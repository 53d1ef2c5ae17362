"""What a kit no longer needs; nothing that cannot be made again is among it."""

import os
import time
from pathlib import Path

import pytest

from deploy.operate.clean import delete, leftovers
from deploy.provision.kits import provision
from fedgt_server.events import EndEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from tests.fedgt_server.events import round_event
from tests.harness.kits import fedgt, write_banks

_LONG_AGO = time.time() - 100 * 86400


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    provision(write_banks(tmp_path), tmp_path / "kits")
    return tmp_path / "kits"


def write(path: Path, *, old: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    if old:
        for one in (path, path.parent):
            os.utime(one, (_LONG_AGO, _LONG_AGO))
    return path


def paths(kit: Path, days: float = 30) -> set[str]:
    return {one.path.relative_to(kit).as_posix() for one in leftovers(kit, days)}


def test_an_institution(kits: Path) -> None:
    kit = kits / "bank-a"
    for run in ("first", "first.0123abcd", "newest"):
        folder = kit / "state" / "banks" / run / "bank-a"
        old = run != "newest"
        for name in ("run.json", "metrics.jsonl", "best-000002.safetensors"):
            write(folder / name, old=old)
        write(folder / "round-000003.safetensors", old=old)
    write(kit / "state" / "ledger" / "digest.jsonl")
    write(kit / "cache" / "prepared")
    assert paths(kit) == {
        "state/banks/first/bank-a/round-000003.safetensors",
        "state/banks/first.0123abcd/bank-a",
        "cache/prepared",
    }
    assert paths(kit, days=365) == set()
    delete(leftovers(kit, 30))
    assert paths(kit) == set()
    kept = kit / "state" / "banks" / "first" / "bank-a"
    assert {path.name for path in kept.iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "best-000002.safetensors",
    }
    assert (kit / "state" / "ledger" / "digest.jsonl").exists()
    assert (kit / "node.key").exists()


def end_event() -> EndEvent:
    return EndEvent(
        method="fedgt",
        test_accuracy=0.5,
        val_accuracy=0.5,
        best_round=1,
        rounds=1,
        per_client={},
        seconds=1.0,
        bytes_up=1,
        bytes_down=1,
        similarity_spread=[],
        privacy=None,
    )


def test_a_coordinator(kits: Path) -> None:
    kit = kits / "coordinator"
    for run in ("going", "finished", "interrupted"):
        write(kit / "runs" / run / "checkpoints" / "round-000001.json")
        journal = Journal(kit / "runs" / run / "journal.jsonl")
        journal.write(round_event(1))
        if run == "finished":
            journal.write(end_event())
    write(kit / "runs" / "finished.0123abcd" / "journal.jsonl")
    with run_lock(kit / "runs" / "going"):
        assert paths(kit) == {"runs/finished/checkpoints", "runs/finished.0123abcd"}


def test_paths_are_shown_whole(
    kits: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    kit = kits / "coordinator"
    (kit / "run.toml").write_text('results-dir = "results of ours"\n')
    run = kit / "results of ours" / "first"
    run.mkdir(parents=True)
    Journal(run / "journal.jsonl").write(end_event())
    checkpoint = write(run / "checkpoints" / "round-000001.safetensors")
    code, out, _ = fedgt(capsys, monkeypatch, "clean", str(kit))
    assert code == 0
    assert f"{checkpoint.parent}: of a finished run" in out
    assert checkpoint.exists()
    fedgt(capsys, monkeypatch, "clean", str(kit), "--delete")
    assert not checkpoint.parent.exists()
