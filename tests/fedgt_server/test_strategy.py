"""FedGTStrategy: messages, admission of updates, the best round."""

import json
import logging
import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedgt_server.methods import server_method
from fedgt_server.strategy import FedGTStrategy, mean_of
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, Instruction, Update
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings


def started(*nodes: Node, **changed: Scalar) -> tuple[FedGTStrategy, ScriptedGrid]:
    """All nodes are admitted, nobody has trained."""
    config, grid = settings(**changed), ScriptedGrid(*nodes)
    strategy = FedGTStrategy(config, server_method(config))
    questions = strategy.members.questions(grid.nodes, want_initial=True)
    replies = {node: grid.nodes[node].answer(question)[0] for node, question in questions.items()}
    strategy.begin(
        strategy.members.admit(grid, {n: r for n, r in replies.items() if r}, strict=True)
    )
    return strategy, grid


def ask(strategy: FedGTStrategy, grid: ScriptedGrid, number: int, *names: str) -> list[Message]:
    """The replies of the named institutions to a round's messages."""
    online = strategy.members.online(grid)
    chosen = {node: name for node, name in online.items() if not names or name in names}
    messages = strategy.instructions(number, chosen)
    replies = [grid.nodes[node].answer(message)[0] for node, message in messages.items()]
    return [reply for reply in replies if reply]


def play(
    strategy: FedGTStrategy, grid: ScriptedGrid, number: int, *names: str
) -> dict[str, object]:
    return strategy.take(number, strategy.admissible(ask(strategy, grid, number, *names)))


def kept(node: Node) -> list[int]:
    """Which round the node was told is the best, message by message."""
    return [heard.best_round for heard in node.heard]


def three(values: dict[str, dict[int, float]]) -> list[Node]:
    return [Node(name, accuracy=values.get(name, {})) for name in ("a", "b", "c")]


def test_updates_that_cannot_be_averaged_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    strategy, grid = started(Node("a"), Node("b", spoilt={1}), Node("c", garbled={1}))
    with caplog.at_level(logging.WARNING):
        updates = strategy.admissible(ask(strategy, grid, 1))
    assert sorted(updates) == ["a"]
    assert "the update of b is left out: bias holds values that are not finite" in caplog.text
    assert "the update of c is left out" in caplog.text


def test_an_update_without_global_nodes_is_left_out() -> None:
    """It would make the similarity of all institutions meaningless."""
    strategy, grid = started(Node("a"), Node("b"))
    replies = ask(strategy, grid, 1)
    update = Update.from_records(replies[0].content)
    del update.arrays[GLOBAL_NODES]
    replies[0].content = update.to_records()
    assert sorted(strategy.admissible(replies)) == ["b"]


def test_an_update_counts_for_the_admitted_name() -> None:
    strategy, grid = started(Node("b", registered="a"), Node("c"))
    assert sorted(strategy.admissible(ask(strategy, grid, 1))) == ["a", "c"]


def test_an_update_of_a_node_that_was_not_admitted_is_left_out() -> None:
    strategy, grid = started(Node("a"), Node("b"))
    grid.nodes[3] = Node("a")
    message = strategy.instructions(1, {3: "a"})[3]
    reply, _ = grid.nodes[3].answer(message)
    assert reply is not None
    assert strategy.admissible([reply]) == {}


def test_each_institution_gets_a_message_of_its_own() -> None:
    strategy, grid = started(*three({}))
    play(strategy, grid, 1)
    play(strategy, grid, 2)
    sent = [grid.nodes[node].heard[-1].arrays["weight"] for node in (1, 2, 3)]
    assert sent[0].tolist() != sent[1].tolist() != sent[2].tolist()
    assert [heard.round_number for heard in grid.nodes[1].heard] == [1, 2]
    assert grid.nodes[1].heard[0].arrays["bias"].tolist() == INITIAL["bias"].tolist()


def test_flower_s_own_interface_does_the_same() -> None:
    one, grid = started(*three({"a": {1: 0.0}, "b": {1: 0.0}, "c": {1: 0.0}}))
    other, _ = started(*three({}))
    messages = list(one.configure_train(1, ArrayRecord(), ConfigRecord(), grid))
    assert [message.metadata.dst_node_id for message in messages] == [1, 2, 3]
    replies = [grid.nodes[m.metadata.dst_node_id].answer(m)[0] for m in messages]
    arrays, metrics = one.aggregate_train(1, [reply for reply in replies if reply])
    assert arrays is None
    assert metrics == {"val_accuracy": 0.0, "test_accuracy": 0.5}
    ask(other, grid, 1)
    other.take(1, one.admissible([reply for reply in replies if reply]))
    for node, message in one.instructions(2, {1: "a", 2: "b", 3: "c"}).items():
        mine = Instruction.from_records(message.content).arrays
        twin = other.instructions(2, {node: "abc"[node - 1]})[node]
        for name, array in Instruction.from_records(twin.content).arrays.items():
            assert mine[name].tolist() == array.tolist()
    assert list(one.configure_evaluate(1, ArrayRecord(), ConfigRecord(), grid)) == []
    assert one.aggregate_evaluate(1, []) is None


def test_best_is_told_to_those_who_took_part() -> None:
    values = {"a": {1: 0.2, 2: 0.9, 3: 0.1}, "b": {1: 0.2, 2: 0.9, 3: 0.1}}
    strategy, grid = started(*three(values))
    play(strategy, grid, 1)
    play(strategy, grid, 2, "a", "b")  # the third misses the best round
    facts = play(strategy, grid, 3)
    assert facts["best_round"] == 2
    assert strategy.best is not None
    assert strategy.best.institutions == ("a", "b")
    farewells = strategy.farewells(3, strategy.members.online(grid))
    for node, message in farewells.items():
        grid.nodes[node].answer(message)
    assert [kept(node) for node in grid.nodes.values()] == [[0, 1, 2, 2], [0, 1, 2, 2], [0, 0, 0]]
    assert [node.heard[-1].finish for node in grid.nodes.values()] == [True, True, True]
    assert [node.heard[-1].round_number for node in grid.nodes.values()] == [4, 4, 4]
    assert grid.nodes[1].heard[-1].arrays == {}


def test_best_last_round_is_told_with_the_farewell() -> None:
    strategy, grid = started(*three({"a": {1: 0.1, 2: 0.8}}))
    play(strategy, grid, 1)
    play(strategy, grid, 2)
    message = strategy.farewells(2, {1: "a"})[1]
    instruction = Instruction.from_records(message.content)
    assert (instruction.round_number, instruction.best_round, instruction.finish) == (3, 2, True)


def test_an_equal_round_is_not_better() -> None:
    strategy, grid = started(*three({}))
    assert play(strategy, grid, 1)["best_round"] == 1
    assert play(strategy, grid, 2)["best_round"] == 1


def test_a_round_without_validation_is_not_the_best() -> None:
    """Those who have validation nodes were all missing."""
    nan = math.nan
    strategy, grid = started(*three({"a": {1: 0.7, 2: nan, 3: 0.6}, "b": {2: nan}}))
    strategy2, grid2 = started(*three({n: {1: nan, 2: nan, 3: 0.1, 4: nan} for n in "abc"}))
    play(strategy, grid, 1, "a")
    facts = play(strategy, grid, 2, "a", "b")
    assert math.isnan(float(str(facts["val_accuracy"])))
    assert facts["best_round"] == 1
    assert play(strategy, grid, 3, "a")["best_round"] == 1
    # Nobody has any: the last is as good as any other, until there is a measure.
    assert [play(strategy2, grid2, n)["best_round"] for n in (1, 2, 3, 4)] == [1, 2, 3, 3]


def test_mean_is_over_those_who_measured() -> None:
    facts = {"a": {"val_accuracy": 0.5}, "b": {"val_accuracy": 1.0}, "c": {"test_accuracy": 0.1}}
    assert mean_of(facts, "val_accuracy") == 0.75
    assert math.isnan(mean_of(facts, "f1"))
    assert math.isnan(mean_of({}, "val_accuracy"))


def test_facts_of_a_round() -> None:
    strategy, grid = started(*three({"a": {1: 0.25}}))
    facts = strategy.take(1, strategy.admissible(ask(strategy, grid, 1, "a", "b")))
    assert facts["val_accuracy"] == 0.375
    assert facts["test_accuracy"] == 0.5
    assert sorted(facts["institutions"]) == ["a", "b"]
    assert facts["institutions"]["a"]["bytes_up"] > 0
    assert facts["institutions"]["a"]["bytes_down"] > 0
    # (3 + 2) and 2 · 2 · 4 numbers of four bytes.
    assert facts["institutions"]["a"]["uploads"] == {"weights": 20, "global_nodes": 64}
    assert facts["order"] == ["a", "b"]


def test_who_keeps_everything_uploads_nothing() -> None:
    strategy, grid = started(Node("a", uploads=False), Node("b", uploads=False), method="local")
    facts = strategy.take(1, strategy.admissible(ask(strategy, grid, 1)))
    assert [at["uploads"] for at in facts["institutions"].values()] == [{}, {}]


@pytest.mark.parametrize("method", ["fedgt", "local"])
def test_restored_it_sends_the_same(method: str) -> None:
    nodes = three({"a": {1: 0.9}})
    for node in nodes:
        node.uploads = method != "local"
    strategy, grid = started(*nodes, method=method)
    play(strategy, grid, 1)
    checkpoint = strategy.checkpoint(1)
    json.dumps(checkpoint.facts)
    config = settings(method=method)
    resumed = FedGTStrategy(config, server_method(config))
    resumed.restore(checkpoint)
    assert resumed.best == strategy.best
    assert resumed.members.profile == strategy.members.profile
    expected, found = (
        {node: _content(message) for node, message in s.instructions(2, {1: "a", 2: "b"}).items()}
        for s in (strategy, resumed)
    )
    assert found == expected


def _content(message: Message) -> tuple[int, dict[str, list[float]]]:
    instruction = Instruction.from_records(message.content)
    return instruction.best_round, {k: v.tolist() for k, v in instruction.arrays.items()}


def test_record_of_another_kind_is_left_out() -> None:
    strategy, _ = started(Node("a"), Node("b"))
    message = strategy.instructions(1, {1: "a"})[1]
    content = RecordDict({"arrays": ArrayRecord([np.zeros(3, np.float32)])})
    assert strategy.admissible([Message(content, reply_to=message)]) == {}
