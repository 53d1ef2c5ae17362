"""``fedgt outbound``: all that ever left an institution."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, print_json, print_note
from deploy.doctor.kit import InstitutionKit
from deploy.supernode_record import flower_folder
from fedgt_client.privacy.ledger import FOLDER, read_entries
from fedgt_client.privacy.outbound import SentReply, read_outbound
from fedgt_client.privacy.release import Part

_UNITS = {"coordinate": "a value", "upload": "the upload", "label": "a label"}


@dataclass(frozen=True)
class Line:
    """One thing that left."""

    time: str
    federation: str
    run: str
    round: int
    kind: str
    name: str
    shape: tuple[int, ...]
    bytes: int
    norm: float | None
    value: float | str | None
    noise: str


def outbound(
    kit: Annotated[Path, typer.Argument(help="The institution's kit.")],
    run: Annotated[str, typer.Option(help="Of this run alone.")] = "",
    round_number: Annotated[
        int | None, typer.Option("--round", help="Of this round alone; 0: introductions.")
    ] = None,
    json: Json = False,
) -> None:
    """List all uploads of an institution.

    Arrays, metrics, facts and reasons of errors: when, run, round, name, shape,
    bytes, norm of an array or value, and the noise that it had. A reply is
    written to the record before it leaves.
    """
    opened = InstitutionKit.open(kit)
    noise = _noise_of_uploads(opened.state_dir)
    chosen = [
        line
        for reply in _replies(opened)
        if (not run or reply.run == run) and round_number in (None, reply.round)
        for line in _lines(reply, noise.get(reply.content, {}))
    ]
    if json:
        print_json([asdict(line) for line in chosen])
        return
    for line in chosen:
        print(_text(line))
    print_note(f"{len(chosen):,} things, {sum(line.bytes for line in chosen):,} bytes")


def _replies(kit: InstitutionKit) -> list[SentReply]:
    """Return the replies of the app and of the supernode, oldest first."""
    folders = (kit.state_dir, flower_folder(kit.folder))
    return sorted(chain.from_iterable(map(read_outbound, folders)), key=lambda sent: sent.time)


def _lines(reply: SentReply, noise: Mapping[str, str]) -> Iterator[Line]:
    for item in reply.items:
        yield Line(
            time=reply.time,
            federation=reply.federation,
            run=reply.run,
            round=reply.round,
            kind=item.kind,
            name=item.name,
            shape=item.shape,
            bytes=item.bytes,
            norm=item.norm,
            value=item.value,
            noise=noise.get(item.name, "none" if item.kind == "array" else ""),
        )


def _text(line: Line) -> str:
    shape = "×".join(map(str, line.shape)) or "–"
    worth = f"norm {line.norm:.4g}" if line.norm is not None else f"{line.value}"
    parts = (line.time, line.run, f"round {line.round}", line.kind, line.name, shape)
    noise = f"  noise {line.noise}" if line.noise else ""
    return "  ".join(parts) + f"  {line.bytes} bytes  {worth}{noise}"


def _noise_of_uploads(state: Path) -> dict[str, dict[str, str]]:
    """Return the noise of every protected array or metric, by the content of the upload."""
    return {
        entry.content: {name: _noise(p) for p in entry.release.parts for name in p.arrays}
        for ledger in sorted((state / FOLDER).glob("*.jsonl"))
        for entry in read_entries(ledger)
    }


def _noise(part: Part) -> str:
    if part.unit == "none":
        return "none"
    unit = _UNITS.get(part.unit, part.unit)
    return f"{part.mechanism} {part.noise:.4g} of the sensitivity of {unit}"
