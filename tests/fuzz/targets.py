"""Parsers, with input that they accept: whatever it is turned into, they raise no other error."""

import io
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.serialization import Encoding
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from deploy.node_file import read_node_file
from deploy.provision import pki
from deploy.provision.federation_spec import FederationSpec
from fedgt_client.data.schema import Schema
from fedgt_client.data.table_files import open_table
from fedgt_client.graph import Graph
from fedgt_client.preprocess.cache import _read
from fedgt_client.privacy.ledger import read_entries
from fedgt_server.admission import update_error
from fedgt_server.checkpoint import Checkpoint, CheckpointFacts, Checkpoints
from fedgt_server.events import parse_event
from shared.files import open_tensors, write_tensors
from shared.json_text import parse_json
from shared.packing import pack, unpack
from shared.profile import parse_profile
from shared.wire import Update, encode_message

_ARRAYS = {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
_PROFILE = {"version": "1", "features": ["a"], "classes": ["x"], "parameters": {"w": [2]}}
_EVENT = {"event": "resume", "time": "2024-01-01T00:00:00+00:00", "after_round": 3}
_NODE = 'name = "bank-a"\ndata-dir = "/data"\n'
_SPEC = (
    'name = "demo"\n[coordinator]\naddress = "host.example:9092"\n'
    '[[institutions]]\nname = "bank-a"\n'
)


_FOLDER = tempfile.TemporaryDirectory(prefix="fedgt-fuzz-")  # goes when the process ends


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=_FOLDER.name))


class Target(NamedTuple):
    """A parser of bytes and what it reads without an error."""

    parse: Callable[[bytes], object]
    sample: bytes


def _file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a parser of bytes that are first written to a file."""
    path = _new_folder() / name

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return parse


def _tensors() -> bytes:
    path = _new_folder() / "sample.safetensors"
    write_tensors(path, _ARRAYS)
    return path.read_bytes()


def _facts() -> bytes:
    folder = _new_folder()
    facts = CheckpointFacts(config={"rounds": 3}, best=None, profile=None)
    Checkpoints(folder).save(Checkpoint(1, facts, _ARRAYS))
    return (folder / "round-000001.json").read_bytes()


def _graph() -> Path:
    """Write a small graph; each of its two files is a target."""
    folder = _new_folder() / "graph"
    none, some = np.zeros(3, np.bool_), np.ones(3, np.bool_)
    Graph(
        indptr=np.array([0, 1, 2, 2]),
        indices=np.array([1, 0]),
        features=np.eye(3, 2, dtype=np.float32),
        labels=np.array([0, 1, 0]),
        train=some,
        val=none,
        test=none,
        feature_names=("a", "b"),
        class_names=("x", "y"),
    ).save(folder)
    return folder


def _within(folder: Path, name: str, read: Callable[[Path], object]) -> Target:
    """Return a file of a folder that is read as a whole, as a target."""
    copy = _new_folder() / "copy"
    shutil.copytree(folder, copy)

    def parse(data: bytes) -> object:
        (copy / name).write_bytes(data)
        return read(copy)

    return Target(parse, (folder / name).read_bytes())


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "age": [1.5, 2.5]}), sink)
    return sink.getvalue()


def _read_table(path: Path) -> object:
    table = open_table(path)
    return table.read(table.names)


def _update(data: bytes) -> object:
    """Read bytes as the arrays of a reply, as the coordinator does."""
    record = ArrayRecord({"packed": FlowerArray("uint8", (len(data),), "safetensors", data)})
    facts = ConfigRecord({"institution": "bank-a", "warnings": "[]"})
    content = RecordDict({"arrays": record, "facts": facts, "metrics": MetricRecord({"loss": 1.0})})
    shapes = {name: list(array.shape) for name, array in _ARRAYS.items()}
    return update_error(Update.from_records(content, shapes), shapes)


def _prepared(path: Path) -> object:
    return _read(path, 2, 2, 1)


def _prepared_file() -> bytes:
    path = _new_folder() / "prepared.safetensors"
    pool = np.array([[1, -1], [0, -1]], np.int32)
    weights = np.array([[1, 0], [1, 0]], np.float32)
    encoding = np.zeros((2, 1), np.float32)
    write_tensors(path, {"neighbours": pool, "weights": weights, "encoding": encoding})
    return path.read_bytes()


_KEY = pki.new_key()


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
    "reply": Target(_update, pack(encode_message(_ARRAYS, "int8"))),
    "graph, its arrays": _within(_graph(), "graph.safetensors", Graph.open),
    "graph, its description": _within(_graph(), "graph.json", Graph.open),
    "Parquet": Target(_file("nodes.parquet", _read_table), _parquet()),
    "prepared cache": Target(_file("prepared.safetensors", _prepared), _prepared_file()),
    "node key": Target(_file("node.key", pki.load_node_key), pki.node_key_bytes(_KEY)),
    "public key": Target(
        _file("node.pub", pki.load_public_key), pki.public_line(_KEY.public_key(), "bank-a")
    ),
    "TLS key": Target(_file("server.key", pki.load_tls_key), pki.tls_key_bytes(_KEY)),
    "certificate": Target(
        _file("ca.crt", pki.load_certificate),
        pki.new_authority(_KEY, "demo").public_bytes(Encoding.PEM),
    ),
    "schema": Target(_file("schema.json", Schema.load), b'{"version": 2, "columns": []}'),
}
