"""Malformed updates and introductions against the real strategy: each costs only its sender."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedgt_server.strategy import FedGTStrategy
from shared.packing import pack
from shared.wire import Introduction
from tests.fedgt_server.grid import PROFILE, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

DEEP = "[" * 100_000 + "]" * 100_000


def fact(name: str, value: Any) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        content.config_records["facts"][name] = value

    return change


def metric(name: str, value: Any) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        content["metrics"] = MetricRecord({name: value})

    return change


def packed(data: bytes) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        record = ArrayRecord({"packed": Array("uint8", (len(data),), "safetensors", data)})
        content["arrays"] = record

    return change


def header(document: object, payload: bytes = b"") -> Callable[[RecordDict], None]:
    text = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    return packed(len(text).to_bytes(8, "little") + text + payload)


def entry(**changed: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changed


def dropped(record: str) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        del content[record]

    return change


def ordered(order: object) -> Callable[[RecordDict], None]:
    metadata = {"order": order if isinstance(order, str) else json.dumps(order)}
    return header({"__metadata__": metadata, "a": entry()}, bytes(8))


WARNINGS = [
    "5",
    "null",
    "true",
    '"late"',
    "{}",
    "[1]",
    "[null]",
    '[["a"]]',
    "[NaN]",
    "[",
    "",
    "\ufeff",
    DEEP,
    '{"a":' * 50_000,
    '["\\ud800"]',
    '["a\\u0000b"]',
    '["a\\nforged line"]',
    '[""]',
    json.dumps(["x" * 501]),
    json.dumps(["x"] * 33),
    "[" + "9" * 5000 + "]",
    " " * 10**6,
]
REPLIES: dict[str, Callable[[RecordDict], None]] = {
    **{f"warnings {text[:12]!r} {len(text)}": fact("warnings", text) for text in WARNINGS},
    **{f"warnings {type(v).__name__}": fact("warnings", v) for v in (5, 2.5, b"[]", ["a"])},
    **{
        f"institution {str(v)[:8]!r}": fact("institution", v)
        for v in ("", "x" * 129, "a\nb", "a\x00", "\ud800", 3, b"a", ["a"])
    },
    **{
        f"{name} {value}": metric(name, value)
        for name, value in (
            ("val_accuracy", 1e308),
            ("val_accuracy", -0.1),
            ("val_accuracy", float("nan")),
            ("test_accuracy", float("inf")),
            ("test_accuracy", 2),
            ("val_macro_f1", 1.5),
            ("val_log_loss", -1.0),
            ("num_examples", 1e30),
            ("num_examples", -1),
            ("num_examples", 0.5),
            ("gradient_norm", 1e300),
            ("seconds", -1.0),
            ("epsilon_total", -1.0),
            ("epsilon_total", float("nan")),
            ("loss", 10**30),
            ("loss", [0.5, 0.5]),
            ("Loss", 0.5),
            ("a b", 0.5),
            ("x" * 65, 0.5),
            ("", 0.5),
        )
    },
    "many metrics": lambda c: c.__setitem__(
        "metrics", MetricRecord({f"m{i}": 1.0 for i in range(65)})
    ),
    "withheld, and holds arrays": lambda c: c.metric_records["metrics"].update(
        {"upload_withheld": 1.0}
    ),
    "no metrics": dropped("metrics"),
    "no facts": dropped("facts"),
    "no arrays": dropped("arrays"),
    "many facts": lambda c: c.config_records["facts"].update({f"f{i}": 1 for i in range(20)}),
    "no bytes": packed(b""),
    "huge length": packed(b"\xff" * 8 + b"{}"),
    "header is a list": header([]),
    "header is deep": header(DEEP),
    "header is no text": packed((2).to_bytes(8, "little") + b"\xff\xfe"),
    "empty entry": header({"a": {}}),
    "entry is a list": header({"a": []}),
    "negative size": header({"a": entry(shape=[-2])}, bytes(8)),
    "true for a size": header({"a": entry(shape=[True, 2])}, bytes(8)),
    "fraction for a size": header({"a": entry(shape=[2.0])}, bytes(8)),
    "shape overflows": header({"a": entry(shape=[2**61, 2**61])}, bytes(8)),
    "one offset": header({"a": entry(data_offsets=[0])}, bytes(8)),
    "offsets reversed": header({"a": entry(data_offsets=[8, 0])}, bytes(8)),
    "offsets beyond": header({"a": entry(data_offsets=[8, 16])}, bytes(8)),
    "overlap": header({"a": entry(), "b": entry()}, bytes(8)),
    "metadata is a list": header({"__metadata__": [], "a": entry()}, bytes(8)),
    "metadata of numbers": header({"__metadata__": {"order": 3}, "a": entry()}, bytes(8)),
    **{
        f"order {str(order)[:10]!r} {len(str(order))}": ordered(order)
        for order in ("[", "3", "null", DEEP, [["a"]], [{"a": 1}], [None], ["b"], ["a", "a"])
    },
    "other arrays": packed(pack({"weight": np.zeros(3, np.float32)})),
    "large": packed(pack({"weight": np.zeros(10**6, np.float32)})),
    "not finite": packed(pack({"weight": np.full(3, np.nan, np.float32)})),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_malformed_update_costs_only_its_sender(name: str) -> None:
    strategy, grid = FedGTStrategy(settings()), ScriptedGrid(*map(Node, "abc"))
    strategy.introduce(grid)
    configured = strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid)
    replies: list[Message] = []
    for message in list(configured):
        reply, _ = grid.nodes[message.metadata.dst_node_id].answer(message)
        assert reply is not None
        replies.append(reply)
    try:
        REPLIES[name](replies[0].content)
    except (TypeError, ValueError):
        pytest.skip("Flower's records cannot hold it")
    _, metrics = strategy.aggregate_train(1, replies)
    assert metrics is not None
    event = strategy.last_round
    assert event is not None
    assert sorted(event.institutions) == ["b", "c"]
    assert list(event.left_out) == ["a"]
    # The next message tells it why.
    for message in strategy.configure_train(2, ArrayRecord(), ConfigRecord(), grid):
        grid.nodes[message.metadata.dst_node_id].answer(message)
    assert [bool(node.notices) for node in grid.nodes.values()] == [True, False, False]


def profile(**changed: Any) -> str:
    return json.dumps(vars(PROFILE) | changed)


PROFILES = [
    "", "5", "null", "[]", "{", "{}", DEEP, '{"version":' * 50_000, "\ufeff{}", "\ud800",
    profile(version=None), profile(version=""), profile(version="x" * 65), profile(version=1),
    profile(features=None), profile(features="age"), profile(features=["age", None]),
    profile(features=[""]), profile(features=["a\nb"]), profile(features=["x" * 201]),
    profile(features=["\ud800"]), profile(features=["a"] * 200_001), profile(classes={}),
    profile(classes=[1]), profile(classes=["a"] * 20_001), profile(parameters=[]),
    profile(parameters={"w": 3}), profile(parameters={"w": ["3"]}),
    profile(parameters={"w": [True]}),
    profile(parameters={"w": [-1]}), profile(parameters={"w": [2**31, 2**31]}),
    profile(parameters={"w": [10**30]}), profile(parameters={"w": [1] * 9}),
    profile(parameters={"__metadata__": [1]}), profile(parameters={"": [1]}),
    profile(parameters={"a b": [1]}), profile(parameters={"global_nodes": [1]}),
    profile(parameters={"quantisation_scales": [1]}),
    profile(parameters={f"w{i}": [1] for i in range(2001)}),
    profile(more=1), '{"version": NaN}', profile() * 2, profile() + "x", f"/*{profile()}*/",
    profile(parameters={"w": [3.0]}), profile(parameters={"w": [float("inf")]}),
    profile(parameters={"w": {"a": [1]}}), profile(features=["\u202eega"]),
    profile()[:-1] + ',"classes":["bad","good"]}', profile(classes=[]), profile(features=[]),
    " " * 80_000_000, "[" * 80_000_000,
]  # fmt: skip


@pytest.mark.parametrize("text", PROFILES, ids=range(len(PROFILES)))
@pytest.mark.parametrize("late", [False, True])
def test_a_malformed_profile_costs_only_its_sender(
    text: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Node("a")
    content = Introduction("a", PROFILE).to_records()
    content.config_records["facts"]["profile"] = text
    monkeypatch.setattr(hostile, "_introduction", lambda _: content)
    strategy = FedGTStrategy(settings())
    grid = ScriptedGrid(Node("b"), Node("c"), Node("d"))
    if not late:
        grid.nodes[9] = hostile
    strategy.introduce(grid)
    grid.nodes[9] = hostile
    for number in (1, 2):
        configured = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
        answers = [grid.nodes[m.metadata.dst_node_id].answer(m)[0] for m in configured]
        _, metrics = strategy.aggregate_train(number, [answer for answer in answers if answer])
        assert metrics is not None
    assert strategy.members.names() == {"b", "c", "d"}
    assert any("is not admitted" in line for line in strategy.members.notices)
    assert hostile.notices
