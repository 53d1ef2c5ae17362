"""What a running supernode notes of itself in its kit, for ``fedgt status`` and the doctor."""

import fcntl
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from flwr.app import Message
from pydantic import BaseModel, ConfigDict, ValidationError

from fedgt_client.privacy.outbound import describe_refusal, record_reply
from shared.errors import FedGTError
from shared.files import write_json

_RECORD, _LOCK = "supernode.json", "supernode.lock"


class SupernodeRecord(BaseModel):
    """One supernode, from its start on; times are ISO 8601."""

    model_config = ConfigDict(frozen=True)

    pid: int
    started: str
    connected: str = ""  # since when; empty: not let in yet
    answered: str = ""  # when the coordinator did last; empty: of an earlier version
    heard: str = ""  # the last message
    run: int = 0  # of that message, by Flower's number
    round: str = ""


def flower_folder(kit: Path) -> Path:
    """Return the folder of Flower's files in a kit, as ``environment.sh`` chooses it."""
    return Path(os.environ.get("FEDGT_FLWR_HOME") or kit / "flower")


class SupernodeNotes:
    """Holds the kit's lock and writes the record of this process."""

    def __init__(self, folder: Path, institution: str) -> None:
        self._institution = institution
        self._changing = threading.Lock()  # messages and heartbeats have a thread each
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _RECORD
        self._lock: IO[bytes] = (folder / _LOCK).open("ab")  # until this process ends
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedGTError(
                f"another supernode of this kit is running{_process(folder)}: end its "
                "start-supernode.sh first, or that process where the script is gone"
            ) from None
        os.set_inheritable(self._lock.fileno(), False)
        self.record = SupernodeRecord(pid=os.getpid(), started=_now())
        self._write()

    def connected(self) -> None:
        """Note that the coordinator has let this supernode in."""
        if not self.record.connected:
            self._update(connected=_now(), answered=_now())

    def answered(self) -> None:
        """Note that the coordinator has answered."""
        self._update(answered=_now())

    def received(self, run: int, round_number: str) -> None:
        """Note a message."""
        self._update(heard=_now(), run=run, round=round_number)

    def refused(self, reply: Message) -> None:
        """Write a refusal to the outbound record of the supernode, before it leaves."""
        record_reply(self._path.parent, describe_refusal(reply, self._institution))

    def _update(self, **changed: str | int) -> None:
        with self._changing:
            self.record = self.record.model_copy(update=changed)
            self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a full disk must not end the connection
            write_json(self._path, self.record.model_dump())


def running_supernode(folder: Path) -> SupernodeRecord | None:
    """Return the record of the supernode that runs from a kit now; None where none does."""
    try:
        with (folder / _LOCK).open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        pass
    except OSError:
        return None
    return last_record(folder)


def last_record(folder: Path) -> SupernodeRecord | None:
    """Return the record of the last supernode, running or not."""
    try:
        return SupernodeRecord.model_validate_json((folder / _RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def _process(folder: Path) -> str:
    record = last_record(folder)
    return f", process {record.pid}" if record else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
