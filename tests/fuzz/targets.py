"""Parsers, with input that they accept: whatever it is turned into, they raise no other error."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deploy.node_file import read_node_file
from deploy.provision.federation_spec import FederationSpec
from fedgt_client.data.schema import Schema
from fedgt_client.privacy.ledger import read_entries
from fedgt_server.checkpoint import Checkpoint, CheckpointFacts, Checkpoints
from fedgt_server.events import parse_event
from shared.files import open_tensors, write_tensors
from shared.json_text import parse_json
from shared.packing import pack, unpack
from shared.profile import parse_profile

_ARRAYS = {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
_PROFILE = {"version": "1", "features": ["a"], "classes": ["x"], "parameters": {"w": [2]}}
_EVENT = {"event": "resume", "time": "2024-01-01T00:00:00+00:00", "after_round": 3}
_NODE = 'name = "bank-a"\ndata-dir = "/data"\n'
_SPEC = (
    'name = "demo"\n[coordinator]\naddress = "host.example:9092"\n'
    '[[institutions]]\nname = "bank-a"\n'
)


class Target(NamedTuple):
    """A parser of bytes and what it reads without an error."""

    parse: Callable[[bytes], object]
    sample: bytes


def _file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a parser of bytes that are first written to a file."""
    path = Path(tempfile.mkdtemp(prefix="fedgt-fuzz-")) / name

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return parse


def _tensors() -> bytes:
    path = Path(tempfile.mkdtemp(prefix="fedgt-fuzz-")) / "sample.safetensors"
    write_tensors(path, _ARRAYS)
    return path.read_bytes()


def _facts() -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="fedgt-fuzz-"))
    facts = CheckpointFacts(config={"rounds": 3}, best=None, profile=None)
    Checkpoints(folder).save(Checkpoint(1, facts, _ARRAYS))
    return (folder / "round-000001.json").read_bytes()


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


TARGETS: dict[str, Target] = {
    "packed arrays": Target(unpack, pack(_ARRAYS)),
    "packed arrays of known shapes": Target(
        lambda data: unpack(data, {"weight": [2, 3], "bias": [2]}), pack(_ARRAYS)
    ),
    "warnings of a reply": Target(
        _text(lambda text: parse_json(text, "warnings", longest=10_000)), b'["late", "slow"]'
    ),
    "profile": Target(_text(parse_profile), json.dumps(_PROFILE).encode()),
    "state and prepared arrays": Target(_file("state.safetensors", open_tensors), _tensors()),
    "checkpoint": Target(
        _file("round-000001.json", lambda path: Checkpoints(path.parent).newest()), _facts()
    ),
    "journal": Target(parse_event, json.dumps(_EVENT).encode()),
    "ledger": Target(_file("ledger.jsonl", lambda path: list(read_entries(path))), b"{}\n"),
    "node.toml": Target(_file("node.toml", read_node_file), _NODE.encode()),
    "federation.toml": Target(_file("federation.toml", FederationSpec.load), _SPEC.encode()),
    "schema": Target(_file("schema.json", Schema.load), b'{"version": 2, "columns": []}'),
}
