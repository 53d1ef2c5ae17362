"""Backup and restoration of a kit; the restored ones are used in test_operators_day."""

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from deploy.operate.backup import MANIFEST, back_up, restore
from deploy.provision.kits import provision
from shared.errors import FedGTError
from tests.harness.kits import write_banks


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    provision(write_banks(tmp_path), tmp_path / "kits")
    return tmp_path / "kits"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def archive_of(folder: Path, **members: bytes) -> Path:
    target = folder / "made.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target


def test_what_is_no_backup_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "restored"
    (tmp_path / "text").write_text("no archive")
    escaping = archive_of(tmp_path, **{"../outside": b"x"})
    with pytest.raises(FedGTError, match="not a backup, or damaged"):
        restore(escaping, target)
    with pytest.raises(FedGTError, match="not a backup"):
        restore(tmp_path / "text", target)
    with pytest.raises(FedGTError, match="not a backup of this version"):
        restore(archive_of(tmp_path, state=b"x"), target)
    listed = b'{"kind": "institution", "name": "a", "fedgt": "1", "time": "", "files": {"x": "0"}}'
    with pytest.raises(FedGTError, match="x is not what was backed up"):
        restore(archive_of(tmp_path, x=b"changed", **{MANIFEST: listed}), target)
    with pytest.raises(FedGTError, match="other files than its list"):
        restore(archive_of(tmp_path, y=b"more", **{MANIFEST: listed}), target)
    assert not target.exists()
    assert not (tmp_path / "outside").exists()


def test_a_link_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "linked.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        entry = tarfile.TarInfo("state")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(entry)
    with pytest.raises(FedGTError, match="state is no file"):
        restore(target, tmp_path / "restored")


def test_a_folder_or_file_in_use_is_refused(tmp_path: Path, kits: Path) -> None:
    out = tmp_path / "a.tar.gz"
    back_up(kits / "bank-a", out)
    with pytest.raises(FedGTError, match="exists already"):
        back_up(kits / "bank-a", out)
    with pytest.raises(FedGTError, match="is not empty"):
        restore(out, kits)
    with pytest.raises(FedGTError, match="is missing: name a kit"):
        back_up(tmp_path, tmp_path / "b.tar.gz")


def test_an_institution(tmp_path: Path, kits: Path) -> None:
    kit, elsewhere = kits / "bank-a", tmp_path / "srv" / "state"
    write(kit / "data" / "graph.bin", "accounts")
    write(kit / "cache" / "prepared", "made again")
    write(kit / "logs" / "supernode.log", "old")
    write(kit / "yesterday.tar.gz", "an earlier backup")
    write(elsewhere / "banks" / "first" / "bank-a" / "run.json", "{}")
    write(elsewhere / "ledger" / "x.jsonl", "one")
    (elsewhere / "ledger" / "y.jsonl").hardlink_to(elsewhere / "ledger" / "x.jsonl")
    node = kit / "node.toml"
    node.write_text(node.read_text().replace('"state"', f'"{elsewhere}"'))
    made = back_up(kit, tmp_path / "a.tar.gz")
    assert (tmp_path / "a.tar.gz").stat().st_mode & 0o777 == 0o600
    assert (made.kind, made.name, made.outside) == (
        "institution",
        "bank-a",
        {"state": str(elsewhere)},
    )
    there = tmp_path / "there"
    restore(tmp_path / "a.tar.gz", there)
    assert (there / "node.key").read_bytes() == (kit / "node.key").read_bytes()
    assert (there / "node.key").stat().st_mode & 0o777 == 0o600
    assert (there / "start-supernode.sh").stat().st_mode & 0o100
    for name in ("x", "y"):
        assert (there / "state" / "ledger" / f"{name}.jsonl").read_text() == "one"
    assert (there / "data" / "graph.bin").read_text() == "accounts"
    assert not (there / "cache").exists()
    assert not (there / "logs").exists()
    assert not (there / "yesterday.tar.gz").exists()
    assert not (there / MANIFEST).exists()

    back_up(kit, tmp_path / "no-data.tar.gz", with_data=False)
    restore(tmp_path / "no-data.tar.gz", tmp_path / "no-data")
    assert not (tmp_path / "no-data" / "data").exists()


def test_runs_elsewhere_are_saved_too(tmp_path: Path, kits: Path) -> None:
    kit, elsewhere = kits / "coordinator", tmp_path / "disk" / "results"
    write(kit / "runs" / "first" / "journal.jsonl", "{}")
    write(elsewhere / "second" / "journal.jsonl", "{}")
    write(kit / "accounts.csv.gz", "no backup")
    settings = kit / "run.toml"
    settings.write_text(settings.read_text().replace('"runs"', f'"{elsewhere}"'))
    made = back_up(kit, tmp_path / "c.tar.gz")
    assert made.outside == {"runs-1": str(elsewhere)}
    restore(tmp_path / "c.tar.gz", tmp_path / "there")
    for place in ("runs/first", "runs-1/second"):
        assert (tmp_path / "there" / place / "journal.jsonl").exists()
    assert (tmp_path / "there" / "accounts.csv.gz").exists()


def test_a_coordinator_with_a_database_in_use(tmp_path: Path, kits: Path) -> None:
    kit = kits / "coordinator"
    write(kit / "runs" / "first" / "journal.jsonl", "{}")
    write(kit / "runs" / "first" / "lock", "")
    with closing(sqlite3.connect(kit / "state.db")) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table nodes (name)")
        database.execute("insert into nodes values ('bank-a')")
        database.commit()
        back_up(kit, tmp_path / "c.tar.gz")
    restore(tmp_path / "c.tar.gz", tmp_path / "there")
    with closing(sqlite3.connect(tmp_path / "there" / "state.db")) as copy:
        assert copy.execute("select name from nodes").fetchall() == [("bank-a",)]
    kept = {path.name for path in (tmp_path / "there").iterdir()}
    assert {"keys", "operator.secret", "server.key", "run.toml", "runs"} <= kept
    assert not (tmp_path / "there" / "runs" / "first" / "lock").exists()
