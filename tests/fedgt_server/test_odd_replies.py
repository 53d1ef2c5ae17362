# ruff: noqa: E501 (a case a line)
"""Replies that are wrong in ways nobody has thought of yet: types, sizes, records, precisions.

Each is left out, or, where it only holds more than is read, averaged like any other. In no case
does it end the run, or reach others as a value that is not finite.
"""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedgt_server.strategy import FedGTStrategy
from shared.packing import pack
from shared.precision import SCALES
from shared.wire import GLOBAL_NODES, Instruction
from tests.fedgt_server.grid import Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

Change = Callable[[RecordDict], None]
ZEROS = {
    "weight": np.zeros(3, np.float32),
    "bias": np.zeros(2, np.float32),
    GLOBAL_NODES: np.zeros((2, 2, 4), np.float32),
}


def raw(
    data: bytes, kind: str = "uint8", layout: str = "safetensors", name: str = "packed"
) -> Change:
    """Put bytes in the place of the arrays, under any type, layout and name."""
    return lambda content: content.__setitem__(
        "arrays", ArrayRecord({name: Array(kind, (len(data),), layout, data)})
    )


def arrays(**changed: Any) -> Change:
    """Send zeros, of which some arrays are others; None: left out."""
    values = {name: array for name, array in (ZEROS | changed).items() if array is not None}
    return raw(pack(values))


def renamed(old: bytes, new: bytes) -> Change:
    """Replace bytes of the header by as many others."""
    assert len(old) == len(new)
    data = pack(ZEROS)
    assert old in data
    return raw(data.replace(old, new))


def document(change: Callable[[dict[str, Any]], None]) -> Change:
    """Change the header, which is JSON, and leave the payload."""
    data = pack(ZEROS)
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    text = json.dumps(header).encode()
    return raw(len(text).to_bytes(8, "little") + text + data[end:])


def metric(name: str, value: Any) -> Change:
    return lambda content: content.metric_records["metrics"].update({name: value})


def quantised(scales: np.ndarray, **codes: np.ndarray) -> Change:
    return arrays(**({SCALES: scales} | codes))


def both(*changes: Change) -> Change:
    def change(content: RecordDict) -> None:
        for each in changes:
            each(content)

    return change


def duplicate(header: str) -> Change:
    """Send a header with a name twice, which no dictionary can write."""
    data = pack(ZEROS)
    end = 8 + int.from_bytes(data[:8], "little")
    text = data[8:end].decode().rstrip().removesuffix("}") + "," + header + "}"
    return raw(len(text).to_bytes(8, "little") + text.encode() + data[end:])


INT8 = {"weight": np.ones(3, np.int8), "bias": np.ones(2, np.int8)}
SHARES = ("val_accuracy", "test_accuracy", "val_macro_f1", "test_balanced_accuracy")
LEFT_OUT: dict[str, Change] = {
    # --- metrics ------------------------------------------------------------------------------
    **{
        f"{name} is {value}": metric(name, value)
        for name in (*SHARES, "val_log_loss", "seconds", "epsilon_total", "num_examples", "made_up")
        for value in (float("nan"), float("inf"), float("-inf"))
    },
    **{f"{name} is 1 + 1e-9": metric(name, 1 + 1e-9) for name in SHARES},
    "an integer beyond any float": metric("made_up", 2**62),
    "a list of numbers": metric("val_accuracy", [0.5]),
    "own weight of 7": metric("own_weight", 7),
    "kept_own of -1": metric("kept_own", -1),
    "withheld, by halves": both(arrays(), metric("upload_withheld", 0.5)),
    # --- records ------------------------------------------------------------------------------
    "nothing at all": lambda content: content.clear(),
    "metrics are facts": lambda content: content.__setitem__("metrics", ConfigRecord({"a": 1})),
    "facts are metrics": lambda content: content.__setitem__("facts", MetricRecord({"a": 1})),
    "arrays are facts": lambda content: content.__setitem__("arrays", ConfigRecord({"packed": b"x"})),
    "facts are arrays": lambda content: content.__setitem__("facts", ArrayRecord()),
    "institution is true": lambda content: content.config_records["facts"].update({"institution": True}),
    "a warning that is turned round": lambda content: content.config_records["facts"].update({"warnings": json.dumps(["\u202eenog"])}),
    "a name with nothing to see": lambda content: content.config_records["facts"].update({"institution": "b\u200b"}),
    "warnings of bytes": lambda content: content.config_records["facts"].update({"warnings": b"[]"}),
    "arrays without a name": raw(pack(ZEROS), name=""),
    "arrays of another name": raw(pack(ZEROS), name="Packed"),
    "another layout": raw(pack(ZEROS), layout="numpy.ndarray"),
    "objects in the place of arrays": raw(b"\x93NUMPY", kind="object", layout="numpy.ndarray"),
    "two packed arrays": lambda content: content.array_records["arrays"].update(
        {"more": Array("uint8", (1,), "safetensors", b"x")}
    ),
    # --- the layout ---------------------------------------------------------------------------
    "an array is missing": arrays(bias=None),
    "one array more": arrays(more=np.zeros(1, np.float32)),
    "a name of an escape": document(lambda h: h.__setitem__("\u202e", h.pop("bias"))),
    "a name of a surrogate": document(lambda h: h.__setitem__("\ud800", h.pop("bias"))),
    "a name of a path": document(lambda h: h.__setitem__("../bias", h.pop("bias"))),
    "no shape": document(lambda h: h["bias"].pop("shape")),
    "shape is text": document(lambda h: h["bias"].__setitem__("shape", "2")),
    "shape of null": document(lambda h: h["bias"].__setitem__("shape", [None])),
    "shape of lists": document(lambda h: h["bias"].__setitem__("shape", [[2]])),
    "a size of 2**63": document(lambda h: h["bias"].__setitem__("shape", [2**63])),
    "a size of 10**400": document(lambda h: h["bias"].__setitem__("shape", [10**400])),
    "a thousand dimensions": document(lambda h: h["bias"].__setitem__("shape", [1] * 999 + [2])),
    "huge times nothing": document(lambda h: h["bias"].__setitem__("shape", [2**62, 0])),
    "offsets are true": document(lambda h: h["bias"].__setitem__("data_offsets", [False, True])),
    "offsets of fractions": document(lambda h: h["bias"].__setitem__("data_offsets", [0.0, 8.0])),
    "negative offsets": document(lambda h: h["bias"].__setitem__("data_offsets", [-8, 0])),
    "offsets beyond any file": document(lambda h: h["bias"].__setitem__("data_offsets", [2**70, 2**70 + 8])),
    "bytes after the last": raw(pack(ZEROS) + b"\x00"),
    "the last byte is missing": raw(pack(ZEROS)[:-1]),
    **{f"type {kind}": renamed(b'"F32"', f'"{kind}"'.encode()) for kind in ("I32", "U32", "f32", "F8 ")},
    # --- types and sizes ----------------------------------------------------------------------
    "double precision": arrays(bias=np.zeros(2, np.float64)),
    "integers": arrays(bias=np.zeros(2, np.int32)),
    "truth values": arrays(bias=np.zeros(2, np.bool_)),
    "no dimension": arrays(bias=np.zeros((), np.float32)),
    "no values": arrays(bias=np.zeros(0, np.float32)),
    "no values, three dimensions": arrays(**{GLOBAL_NODES: np.zeros((2, 0, 4), np.float32)}),
    "turned round": arrays(**{GLOBAL_NODES: np.zeros((4, 2, 2), np.float32)}),
    "minus infinity": arrays(bias=np.array([-np.inf, 0], np.float32)),
    "beyond the limit": arrays(bias=np.array([2e6, 0], np.float32)),
    "half precision, not finite": arrays(bias=np.array([np.nan, 0], np.float16)),
    # --- 8 bits -------------------------------------------------------------------------------
    "8 bits without scales": arrays(**INT8),
    "scales without 8 bits": quantised(np.ones(2, np.float32)),
    "one scale too few": quantised(np.ones(1, np.float32), **INT8),
    "one scale too many": quantised(np.ones(3, np.float32), **INT8),
    "scales of NaN": quantised(np.array([np.nan, 1], np.float32), **INT8),
    "negative scales": quantised(np.array([-1, 1], np.float32), **INT8),
    "scales beyond float32": quantised(np.full(2, 3e38, np.float32), **{k: v * 127 for k, v in INT8.items()}),
    "scales of double precision": quantised(np.ones(2), **INT8),
    "scales in two dimensions": quantised(np.ones((2, 1), np.float32), **INT8),
    "scales of 8 bits": quantised(np.ones(2, np.int8), **INT8),
    "8 bits of another shape": quantised(np.ones(2, np.float32), weight=INT8["weight"], bias=np.ones(3, np.int8)),
}  # fmt: skip
TAKEN: dict[str, Change] = {
    "a name twice": duplicate('"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'),
    "more than there is to say": document(lambda h: h["bias"].__setitem__("more", 1)),
    "one record more": lambda content: content.__setitem__("more", ConfigRecord({"a": b"x" * 1000})),
    "one fact more": lambda content: content.config_records["facts"].update({"more": [1, 2]}),
    "a metric that nobody knows": metric("made_up", -3),
    "true for a number": metric("skipped_steps", 1),
    "scales of zero": quantised(np.zeros(2, np.float32), **INT8),
    "half precision": arrays(bias=np.ones(2, np.float16)),
    "nothing has changed": arrays(),
    "the smallest numbers": arrays(bias=np.full(2, 1e-45, np.float32)),
    "minus zero": arrays(bias=np.full(2, -0.0, np.float32)),
}  # fmt: skip


def played(change: Change) -> FedGTStrategy:
    """Play two rounds, in the first of which one of three nodes answers otherwise."""
    strategy, grid = FedGTStrategy(settings()), ScriptedGrid(*map(Node, "abc"))
    strategy.introduce(grid)
    for number in (1, 2):
        replies: list[Message] = []
        for message in strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid):
            sent = Instruction.from_records(message.content).arrays
            assert all(np.isfinite(array).all() for array in sent.values())
            reply, _ = grid.nodes[message.metadata.dst_node_id].answer(message)
            assert reply is not None
            replies.append(reply)
        if number == 1:
            try:
                change(replies[0].content)
            except (TypeError, ValueError):
                pytest.skip("Flower's records cannot hold it")
        _, metrics = strategy.aggregate_train(number, replies)
        assert metrics is not None
        if number == 1:
            first = strategy.last_round
    assert strategy.last_round is not None
    assert sorted(strategy.last_round.institutions) == ["a", "b", "c"]  # the next one counts
    strategy.last_round = first
    return strategy


def huge(what: str) -> Change:
    """Send 80 MB in one place."""
    text = 80_000_000 * "["
    if what == "header":
        return raw((len(text)).to_bytes(8, "little") + text.encode())
    return lambda content: content.config_records["facts"].update({what: text})


@pytest.mark.parametrize("what", ["header", "warnings", "institution"])
def test_what_is_huge_is_left_out_without_memory_for_it(what: str) -> None:
    strategy, grid = FedGTStrategy(settings()), ScriptedGrid(*map(Node, "abc"))
    strategy.introduce(grid)
    replies = []
    for message in strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid):
        reply, _ = grid.nodes[message.metadata.dst_node_id].answer(message)
        assert reply is not None
        replies.append(reply)
    huge(what)(replies[0].content)
    tracemalloc.start()
    strategy.aggregate_train(1, replies)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert strategy.last_round is not None
    assert list(strategy.last_round.left_out) == ["a"]
    assert peak < 2_000_000  # bytes


@pytest.mark.parametrize("name", LEFT_OUT)
def test_it_is_left_out(name: str) -> None:
    event = played(LEFT_OUT[name]).last_round
    assert event is not None
    assert sorted(event.institutions) == ["b", "c"]
    assert list(event.left_out) == ["a"]


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_averaged(name: str) -> None:
    event = played(TAKEN[name]).last_round
    assert event is not None
    assert sorted(event.institutions) == ["a", "b", "c"]
