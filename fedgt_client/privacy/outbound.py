"""The outbound record: all that ever left an institution, a line of JSON for every reply.

It is written from the reply itself, where Flower takes it over, and before that: what is not in the
record has not left.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from flwr.app import Context, Message, RecordDict
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedgt_client.privacy.append import append_line
from shared.errors import FedGTError
from shared.wire import packed_arrays, read_arrays

FILE = "outbound.jsonl"
_LONGEST_TEXT = 500  # characters of a text that are kept

Kind = Literal["array", "metric", "fact", "error"]


class Item(BaseModel):
    """One thing that left."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    name: str
    bytes: int
    shape: tuple[int, ...] = ()
    norm: float | None = None  # Euclidean, of an array
    value: float | str | None = None  # of a metric, a fact or an error


class SentReply(BaseModel):
    """A reply to the coordinator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    time: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    federation: str
    run: str
    institution: str
    round: int  # 0: the introduction
    content: str  # SHA-256 of the arrays as they travel, as in the ledger; empty: there are none
    items: tuple[Item, ...]


def describe_reply(
    message: Message, reply: Message, context: Context, institution: str
) -> SentReply:
    """Return what a reply to ``message`` holds."""
    config = context.run_config
    packed = b"" if reply.has_error() else packed_arrays(reply.content)
    return SentReply(
        federation=str(config.get("federation", "")),
        run=str(config.get("run-name") or context.run_id),
        institution=institution,
        round=_round(message),
        content=hashlib.sha256(packed).hexdigest() if packed else "",
        items=tuple(_items(reply)),
    )


def describe_refusal(reply: Message, institution: str) -> SentReply:
    """Return what a reply holds that the supernode gave without asking the app."""
    return SentReply(
        federation="",
        run=str(reply.metadata.run_id),
        institution=institution,
        round=0,
        content="",
        items=tuple(_items(reply)),
    )


def record_reply(state_root: Path, sent: SentReply) -> None:
    """Add a reply to the record, durably."""
    state_root.mkdir(parents=True, exist_ok=True)
    append_line(state_root / FILE, sent.model_dump_json(exclude_defaults=True).encode())


def read_outbound(state_root: Path) -> Iterator[SentReply]:
    """Yield all replies, oldest first.

    Raises
    ------
    FedGTError
        For a line of a newer version; one that a crash cut off is skipped, for it never left.
    """
    path = state_root / FILE
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield SentReply.model_validate_json(line)
            except ValidationError as error:
                if any(one["type"] == "literal_error" for one in error.errors()):
                    raise FedGTError(f"{path}, line {number}, is of a newer version") from None


def uploaded_contents(state_root: Path, institution: str) -> set[str]:
    """Return the content of every upload of a round that left."""
    return {
        reply.content
        for reply in read_outbound(state_root)
        if reply.institution == institution and reply.round and reply.content
    }


def _items(reply: Message) -> Iterator[Item]:
    if reply.has_error():
        reason = reply.error.reason or ""
        yield _text("error", "reason", reason)
        return
    content = reply.content
    arrays, sizes = read_arrays(content)
    for name, array in arrays.items():
        norm = float(np.linalg.norm(np.asarray(array, np.float64)))
        yield Item(
            kind="array",
            name=name,
            bytes=sizes[name],
            shape=array.shape,
            norm=norm if math.isfinite(norm) else None,
        )
    for metrics in content.metric_records.values():
        for name, value in metrics.items():
            yield Item(kind="metric", name=name, bytes=8, value=float(str(value)))
    yield from _facts(content)


def _facts(content: RecordDict) -> Iterator[Item]:
    for record in content.config_records.values():
        for name, value in record.items():
            yield _text("fact", name, str(value))


def _text(kind: Kind, name: str, text: str) -> Item:
    return Item(kind=kind, name=name, bytes=len(text.encode()), value=text[:_LONGEST_TEXT])


def _round(message: Message) -> int:
    facts: Mapping[str, object] = {}
    if message.has_content():
        facts = next(iter(message.content.config_records.values()), {})
    number = facts.get("round", 0)
    return number if isinstance(number, int) else 0
