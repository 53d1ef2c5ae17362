"""Rounds whose arrays travel in another precision than float32."""

import logging
import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedgt_server.strategy import FedGTStrategy
from shared.config import Scalar
from shared.files import Array as NumpyArray
from shared.packing import pack, unpack
from shared.precision import SCALES, Precision
from shared.wire import Update
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]


class PlainNode(Node):
    """Uploads the same small change in every round, and no global nodes."""

    def _update(self, number: int) -> RecordDict:
        change = {"weight": np.array([1e-4, 0, 0], np.float32), "bias": np.zeros(2, np.float32)}
        return Update(self.institution, change, {"num_examples": 1.0}).to_records(self.precision)


def started(*nodes: Node, **changed: Scalar) -> tuple[FedGTStrategy, ScriptedGrid]:
    strategy, grid = FedGTStrategy(settings(**changed)), ScriptedGrid(*nodes)
    strategy.introduce(grid)
    return strategy, grid


def messages(strategy: FedGTStrategy, grid: ScriptedGrid, number: int) -> dict[int, Message]:
    sent = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
    return {message.metadata.dst_node_id: message for message in sent}


def replies(strategy: FedGTStrategy, grid: ScriptedGrid, number: int) -> list[Message]:
    answers = [
        grid.nodes[node].answer(message)[0]
        for node, message in messages(strategy, grid, number).items()
    ]
    return [answer for answer in answers if answer]


def packed(message: Message) -> dict[str, NumpyArray]:
    """Return a message's arrays as they travel."""
    return unpack(message.content.array_records["arrays"]["packed"].data)


def repack(message: Message, **changed: NumpyArray) -> None:
    """Change arrays of a message on their way."""
    data = pack(packed(message) | changed)
    message.content["arrays"] = ArrayRecord(
        {"packed": Array("uint8", (len(data),), "safetensors", data)}
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({SCALES: np.array([np.nan, 1], np.float32)}, "a scale of quantised values is not"),
        ({SCALES: np.array([-1, 1], np.float32)}, "a scale of quantised values is not"),
        ({SCALES: np.array([3e38, 1], np.float32)}, "weight holds values that are not finite"),
        ({SCALES: np.ones(3, np.float32)}, "a message holds 3 scales, expected 2"),
        ({"weight": np.zeros((1, 3), np.int8)}, r"weight has shape \[1, 3\], expected \[3\]"),
        ({"weight": np.zeros(10**6, np.int8)}, r"they take \d+ bytes, at most \d+ are expected"),
        ({"weight": np.zeros(300, np.int8)}, "a message holds 2 scales, expected 3"),
        (
            {"weight": np.zeros(300, np.int8), SCALES: np.ones(3, np.float32)},
            r"weight has shape \[300\], expected \[3\]",
        ),
        ({"more": np.zeros(9, np.float16)}, "it comes with 'more'"),
        ({"weight": np.zeros(3, np.int32)}, "a message holds 2 scales, expected 1"),
    ],
)
def test_hostile_updates_cost_only_themselves(
    changed: dict[str, NumpyArray], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [Node(name, precision="int8") for name in "abc"]
    strategy, grid = started(*nodes, wire_precision="int8")
    answers = replies(strategy, grid, 1)
    repack(answers[0], **({"weight": np.full(3, 127, np.int8)} | changed))
    with caplog.at_level(logging.WARNING):
        strategy.aggregate_train(1, answers)
    assert strategy.last_round is not None
    assert sorted(strategy.last_round.institutions) == ["b", "c"]
    assert caplog.text.count("is left out") == 1
    assert re.search(f"the update of a is left out: .*{problem}", caplog.text)


@pytest.mark.parametrize("method", ["fedgt", "fedavg", "gcfl"])
@pytest.mark.parametrize("up", ["float32", "float16", "int8"])
def test_any_precision_is_understood_whatever_is_sent_down(method: str, up: Precision) -> None:
    """An institution that knows only float32 may answer so."""
    kind = Node if method == "fedgt" else PlainNode
    nodes = [kind(name, precision=up) for name in "abc"]
    strategy, grid = started(*nodes, method=method, wire_precision="int8")
    for number in (1, 2):
        strategy.aggregate_train(number, replies(strategy, grid, number))
    assert strategy.last_round is not None
    assert strategy.last_round.round == 2
    assert len(strategy.last_round.institutions) == 3


@pytest.mark.parametrize(
    ("precision", "kinds", "sizes"),
    [
        ("float32", {"weight": "float32", "global_nodes": "float32"}, (20, 64)),
        ("float16", {"weight": "float16", "global_nodes": "float16"}, (10, 32)),
        ("int8", {"weight": "int8", "global_nodes": "float16"}, (13, 32)),
    ],
)
def test_the_journal_counts_what_travelled(
    precision: Precision, kinds: dict[str, str], sizes: tuple[int, int]
) -> None:
    nodes = [Node(name, precision=precision) for name in "ab"]
    strategy, grid = started(*nodes, wire_precision=precision)
    strategy.aggregate_train(1, replies(strategy, grid, 1))
    sent = messages(strategy, grid, 2)
    assert {name: packed(sent[1])[name].dtype.name for name in kinds} == kinds
    answers = [grid.nodes[node].answer(message)[0] for node, message in sent.items()]
    strategy.aggregate_train(2, [answer for answer in answers if answer])
    assert strategy.last_round is not None
    part = strategy.last_round.institutions["a"]
    assert part.uploads == {"weights": sizes[0], "global_nodes": sizes[1]}
    assert answers[0] is not None
    for counted, message in ((part.bytes_up, answers[0]), (part.bytes_down, sent[1])):
        arrays = len(message.content.array_records["arrays"]["packed"].data)
        assert arrays < counted < arrays + 200


def test_changes_smaller_than_the_rounding_of_what_is_sent_add_up() -> None:
    start = INITIAL | {"weight": np.array([0.0, 1.0, 0.0], np.float32)}  # steps of 1 / 127
    grid = ScriptedGrid(PlainNode("a"), PlainNode("b"))
    strategy = FedGTStrategy(settings(method="fedavg", wire_precision="int8", rounds=200))
    record = ArrayRecord({name: Array(array) for name, array in start.items()})
    strategy.start(grid, record, num_rounds=200)
    heard = [float(at.arrays["weight"][0]) for at in grid.nodes[1].heard]
    assert heard[1] == 0.0
    assert heard[-1] == pytest.approx(0.02, abs=0.5 / 127)
