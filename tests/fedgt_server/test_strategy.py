"""FedGTStrategy: starting point, messages, checks of updates, the best round."""

import logging
import math
import weakref

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from fedgt_server.aggregation import Array32
from fedgt_server.events import RoundEvent, mean_metric
from fedgt_server.methods import server_method
from fedgt_server.methods.fedavg import FedAvg
from fedgt_server.strategy import FedGTStrategy, shorten
from fedgt_server.wait import GaveUpError
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.wire import GLOBAL_NODES, Arrays, Instruction, Profile, Update
from tests.fedgt_server.events import institution_round
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]


def started(*nodes: Node, **changed: Scalar) -> tuple[FedGTStrategy, ScriptedGrid]:
    """Return a strategy that has admitted all nodes, before any training."""
    strategy, grid = FedGTStrategy(settings(**changed)), ScriptedGrid(*nodes)
    strategy.introduce(grid)
    return strategy, grid


def messages(strategy: FedGTStrategy, grid: ScriptedGrid, number: int) -> dict[int, Message]:
    """Return a round's messages by node."""
    configured = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
    return {message.metadata.dst_node_id: message for message in configured}


def ask(strategy: FedGTStrategy, grid: ScriptedGrid, number: int, *names: str) -> list[Message]:
    """Return the replies of the named institutions, or of all, to a round's messages."""
    replies = [
        grid.nodes[node].answer(message)[0]
        for node, message in messages(strategy, grid, number).items()
        if not names or strategy.members.name_of(node) in names
    ]
    return [reply for reply in replies if reply]


def play(strategy: FedGTStrategy, grid: ScriptedGrid, number: int, *names: str) -> RoundEvent:
    _, metrics = strategy.aggregate_train(number, ask(strategy, grid, number, *names))
    assert metrics is not None
    assert strategy.last_round is not None
    assert strategy.last_round.round == number
    return strategy.last_round


def accepted(strategy: FedGTStrategy, number: int, replies: list[Message]) -> list[str]:
    """Return the institutions whose updates are averaged; one is enough to end the round."""
    _, metrics = strategy.aggregate_train(number, replies)
    if metrics is None or strategy.last_round is None:
        return []
    return sorted(strategy.last_round.institutions)


def best_rounds_heard(node: Node) -> list[int]:
    """Return which round the node was sent as the best, message by message."""
    return [heard.best_round for heard in node.heard]


def three(values: dict[str, dict[int, float]]) -> list[Node]:
    return [Node(name, accuracy=values.get(name, {})) for name in ("a", "b", "c")]


def content(message: Message) -> tuple[int, dict[str, list[float]]]:
    instruction = Instruction.from_records(message.content)
    return instruction.best_round, {k: v.tolist() for k, v in instruction.arrays.items()}


def record(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


# --- updates that are left out ------------------------------------------------------------------


def test_updates_that_cannot_be_averaged_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    strategy, grid = started(
        Node("a"), Node("b", spoilt={1}), Node("c", garbled={1}), min_institutions=1
    )
    with caplog.at_level(logging.WARNING):
        assert accepted(strategy, 1, ask(strategy, grid, 1)) == ["a"]
    assert "the update of b is left out: bias holds values that are not finite" in caplog.text
    assert "the update of c is left out" in caplog.text
    assert strategy.last_round is not None
    assert strategy.last_round.missing == ["b", "c"]
    assert strategy.last_round.left_out["b"] == "bias holds values that are not finite"
    assert list(strategy.last_round.left_out) == ["b", "c"]


def test_a_reason_in_the_journal_is_one_bounded_line() -> None:
    assert shorten("one\n two\t three ") == "one two three"
    assert len(shorten("x" * 10**6)) == 300


def test_an_update_without_global_nodes_is_left_out() -> None:
    """It would make the similarity of all institutions meaningless."""
    strategy, grid = started(Node("a"), Node("b"), min_institutions=1)
    replies = ask(strategy, grid, 1)
    update = Update.from_records(replies[0].content)
    del update.arrays[GLOBAL_NODES]
    replies[0].content = update.to_records()
    assert accepted(strategy, 1, replies) == ["b"]


def test_an_update_counts_for_the_admitted_name() -> None:
    strategy, grid = started(Node("b", registered="a"), Node("c"))
    assert accepted(strategy, 1, ask(strategy, grid, 1)) == ["a", "c"]


def test_an_update_of_a_node_that_was_not_admitted_is_left_out() -> None:
    strategy, grid = started(Node("a"), Node("b"), min_institutions=1)
    grid.nodes[3] = Node("a")
    message = messages(strategy, grid, 1)[1]
    message.metadata.dst_node_id = 3
    reply, _ = grid.nodes[3].answer(message)
    assert reply is not None
    assert accepted(strategy, 1, [reply]) == []


def test_record_of_another_kind_is_left_out() -> None:
    strategy, grid = started(Node("a"), Node("b"), min_institutions=1)
    message = messages(strategy, grid, 1)[1]
    records = RecordDict({"arrays": ArrayRecord([np.zeros(3, np.float32)])})
    assert accepted(strategy, 1, [Message(records, reply_to=message)]) == []


def test_an_error_reply_is_left_out_whoever_it_names(caplog: pytest.LogCaptureFixture) -> None:
    """The reply for a node that is gone names node 1, whichever node it was."""
    strategy, grid = started(*three({}))
    replies = ask(strategy, grid, 1, "a", "b")
    gone = Message(
        Error(ErrorCode.NODE_UNAVAILABLE, "gone"), reply_to=messages(strategy, grid, 1)[3]
    )
    gone.metadata.__dict__["_src_node_id"] = 1
    with caplog.at_level(logging.WARNING):
        assert accepted(strategy, 1, [*replies, gone]) == ["a", "b"]
    assert "an institution did not answer: gone" in caplog.text
    assert strategy.last_round is not None
    assert strategy.last_round.missing == ["c"]


# --- rounds -------------------------------------------------------------------------------------


def test_a_round_with_too_few_updates_can_be_asked_again() -> None:
    strategy, grid = started(*three({}))
    assert strategy.aggregate_train(1, ask(strategy, grid, 1, "b")) == (None, None)
    assert strategy.last_round is None
    assert strategy.progress() == "1 of 2 institutions answered"
    assert sorted(messages(strategy, grid, 1)) == [1, 3]
    assert sorted(play(strategy, grid, 1, "c").institutions) == ["b", "c"]


def test_updates_of_a_round_that_was_never_complete_do_not_count_for_the_next() -> None:
    strategy, grid = started(*three({}))
    assert strategy.aggregate_train(1, ask(strategy, grid, 1, "b")) == (None, None)
    assert strategy.aggregate_train(2, ask(strategy, grid, 2, "a")) == (None, None)
    assert strategy.progress() == "1 of 2 institutions answered"


class Counting(FedAvg):
    """Counts what it is asked for, and keeps a weak reference to every update's array."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.messages = 0
        self.alive: list[weakref.ref[Array32]] = []

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        return super().expected(profile) | {GLOBAL_NODES: [2, 2, 4]}

    def message(self, institution: str) -> Arrays:
        self.messages += 1
        return super().message(institution)

    def receive(self, institution: str, update: Update) -> Update:
        self.alive.append(weakref.ref(update.arrays["weight"]))
        return super().receive(institution, update)


def test_messages_are_made_one_at_a_time() -> None:
    method = Counting(settings())
    strategy, grid = FedGTStrategy(settings(), method), ScriptedGrid(*three({}))
    sent = iter(strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid))
    assert method.messages == 0
    next(sent)
    assert method.messages == 1


def test_updates_are_released_after_the_round() -> None:
    method = Counting(settings())
    strategy, grid = FedGTStrategy(settings(), method), ScriptedGrid(*three({}))
    for number in (1, 2):
        event = play(strategy, grid, number)
        assert event.institutions["a"].uploads == {"weights": 20, GLOBAL_NODES: 64}
        assert len(method.alive) == 3 * number
        assert [array() for array in method.alive] == [None] * (3 * number)


def test_each_institution_gets_a_message_of_its_own() -> None:
    strategy, grid = started(*three({}))
    play(strategy, grid, 1)
    play(strategy, grid, 2)
    sent = [grid.nodes[node].heard[-1].arrays["weight"] for node in (1, 2, 3)]
    assert sent[0].tolist() != sent[1].tolist() != sent[2].tolist()
    assert [heard.round_number for heard in grid.nodes[1].heard] == [1, 2]
    assert grid.nodes[1].heard[0].arrays["bias"].tolist() == INITIAL["bias"].tolist()


def test_institutions_that_are_not_connected_get_no_message() -> None:
    strategy, grid = started(*three({}))
    grid.nodes[2].present = False
    assert sorted(messages(strategy, grid, 1)) == [1, 3]


def test_metrics_are_the_means_that_were_measured() -> None:
    strategy, grid = started(*three({name: {1: 0.0, 2: math.nan} for name in "abc"}))
    arrays, metrics = strategy.aggregate_train(1, ask(strategy, grid, 1))
    assert arrays is None
    assert metrics == MetricRecord({"val_accuracy": 0.0, "test_accuracy": 0.5})
    _, metrics = strategy.aggregate_train(2, ask(strategy, grid, 2))
    assert metrics == MetricRecord({"test_accuracy": 0.5})


def test_there_is_nothing_to_evaluate() -> None:
    strategy, grid = started(*three({}))
    assert list(strategy.configure_evaluate(1, ArrayRecord(), ConfigRecord(), grid)) == []
    assert strategy.aggregate_evaluate(1, []) is None


def test_another_method_than_that_of_the_settings() -> None:
    config = settings()
    strategy = FedGTStrategy(config, server_method(settings(method="local")))
    grid = ScriptedGrid(Node("a", uploads=False), Node("b", uploads=False))
    strategy.introduce(grid)
    play(strategy, grid, 1)
    assert grid.nodes[1].heard[0].arrays == {}


# --- Flower's own start -------------------------------------------------------------------------


def test_start_of_flower_plays_the_same_rounds() -> None:
    ours, ours_grid = started(*three({"a": {2: 0.9}}))
    for number in (1, 2, 3):
        play(ours, ours_grid, number)
    theirs, grid = FedGTStrategy(settings()), ScriptedGrid(*three({"a": {2: 0.9}}))
    result = theirs.start(grid, initial_arrays=ArrayRecord(), num_rounds=3)
    for node, script in ours_grid.nodes.items():
        assert len(grid.nodes[node].heard) == len(script.heard) == 3
        for mine, twin in zip(grid.nodes[node].heard, script.heard, strict=True):
            assert (mine.round_number, mine.best_round) == (twin.round_number, twin.best_round)
            assert {k: v.tobytes() for k, v in mine.arrays.items()} == {
                k: v.tobytes() for k, v in twin.arrays.items()
            }
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    assert theirs.best == ours.best
    assert result.train_metrics_clientapp[2]["val_accuracy"] == pytest.approx(1.9 / 3)


def test_start_of_flower_goes_on_after_a_round_with_too_few_updates() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", silent={1}), Node("c", fails={1}))
    result = FedGTStrategy(settings()).start(grid, initial_arrays=ArrayRecord(), num_rounds=2)
    assert sorted(result.train_metrics_clientapp) == [2]


def test_start_of_flower_admits_newcomers() -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))
    strategy = FedGTStrategy(settings())
    strategy.start(grid, initial_arrays=ArrayRecord(), num_rounds=1)
    grid.nodes[3] = Node("c")
    messages(strategy, grid, 2)  # has it introduce itself
    assert sorted(play(strategy, grid, 3).institutions) == ["a", "b", "c"]


def test_start_of_flower_without_institutions_gives_up() -> None:
    with pytest.raises(GaveUpError, match="0 of 2 institutions are here"):
        FedGTStrategy(settings()).start(ScriptedGrid(), ArrayRecord(), num_rounds=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weight": np.zeros(3, np.float32)}, "without 'bias'"),
        (INITIAL | {"more": np.zeros(1, np.float32)}, "with 'more'"),
        (INITIAL | {"bias": np.zeros(3, np.float32)}, r"bias has shape \[3\], expected \[2\]"),
        (INITIAL | {"bias": np.zeros(2)}, "bias is of type float64"),
        (INITIAL | {"bias": np.full(2, np.nan, np.float32)}, "bias holds values"),
    ],
)
def test_initial_arrays_that_do_not_fit_end_the_run(given: Arrays, message: str) -> None:
    with pytest.raises(FedGTError, match=f"the initial arrays do not fit the model: .*{message}"):
        FedGTStrategy(settings()).start(ScriptedGrid(*three({})), record(given), num_rounds=1)


def test_initial_arrays_are_the_starting_point_and_nobody_is_asked_for_one() -> None:
    grid = ScriptedGrid(*three({}))
    given: Arrays = {"weight": np.full(3, 7, np.float32), "bias": np.full(2, 8, np.float32)}
    FedGTStrategy(settings()).start(grid, record(given), num_rounds=1)
    assert [node.asked_for_initial for node in grid.nodes.values()] == [0, 0, 0]
    assert grid.nodes[2].heard[0].arrays["weight"].tolist() == [7.0] * 3


# --- the best round -----------------------------------------------------------------------------


def test_best_is_told_to_those_who_took_part() -> None:
    values = {"a": {1: 0.2, 2: 0.9, 3: 0.1}, "b": {1: 0.2, 2: 0.9, 3: 0.1}}
    strategy, grid = started(*three(values))
    play(strategy, grid, 1)
    play(strategy, grid, 2, "a", "b")  # the third misses the best round
    assert play(strategy, grid, 3).best_round == 2
    assert strategy.best is not None
    assert strategy.best.institutions == ("a", "b")
    for message in strategy.finish_messages(3, grid):
        grid.nodes[message.metadata.dst_node_id].answer(message)
    heard = [best_rounds_heard(node) for node in grid.nodes.values()]
    # Which of its own rounds it is to keep: its last one up to the best.
    assert heard == [[0, 1, 2, 2], [0, 1, 2, 2], [0, 1, 1]]
    assert [node.heard[-1].finish for node in grid.nodes.values()] == [True, True, True]
    assert [node.heard[-1].round_number for node in grid.nodes.values()] == [4, 4, 4]
    assert grid.nodes[1].heard[-1].arrays == {}


def test_best_last_round_is_told_with_the_finish_message() -> None:
    strategy, grid = started(*three({name: {1: 0.1, 2: 0.8} for name in "abc"}))
    play(strategy, grid, 1)
    play(strategy, grid, 2)
    message = strategy.finish_messages(2, grid)[0]
    instruction = Instruction.from_records(message.content)
    assert (instruction.round_number, instruction.best_round, instruction.finish) == (3, 2, True)


@pytest.mark.parametrize(("robust", "best"), [(True, 2), (False, 1)])
def test_of_equal_rounds_the_last_is_the_best_with_robust(robust: bool, best: int) -> None:
    strategy, grid = started(*three({}), robust=robust)
    assert play(strategy, grid, 1).best_round == 1
    assert play(strategy, grid, 2).best_round == best


def test_a_round_without_validation_is_not_the_best() -> None:
    """Those who have validation nodes were all missing."""
    nan = math.nan
    strategy, grid = started(
        *three({"a": {1: 0.7, 2: nan, 3: 0.6}, "b": {2: nan}}), min_institutions=1
    )
    strategy2, grid2 = started(*three({n: {1: nan, 2: nan, 3: 0.1, 4: nan} for n in "abc"}))
    play(strategy, grid, 1, "a")
    event = play(strategy, grid, 2, "a", "b")
    assert event.val_accuracy is None
    assert event.best_round == 1
    assert play(strategy, grid, 3, "a").best_round == 1
    # Nobody has any: the last is as good as any other, until there is a measure.
    assert [play(strategy2, grid2, n).best_round for n in (1, 2, 3, 4)] == [1, 2, 3, 3]


def test_mean_is_over_those_who_measured() -> None:
    parts = {
        "a": institution_round(val_accuracy=0.5),
        "b": institution_round(val_accuracy=1.0),
        "c": institution_round(test_accuracy=0.1),
    }
    assert mean_metric(parts, "val_accuracy") == 0.75
    assert mean_metric(parts, "f1") is None
    assert mean_metric({}, "val_accuracy") is None


# --- the record of a round, and checkpoints -----------------------------------------------------


def test_record_of_a_round() -> None:
    strategy, grid = started(*three({"a": {1: 0.25}}))
    event = play(strategy, grid, 1, "a", "b")
    assert event.val_accuracy == 0.375
    assert event.test_accuracy == 0.5
    assert sorted(event.institutions) == ["a", "b"]
    assert event.institutions["a"].metrics == {"val_accuracy": 0.25, "test_accuracy": 0.5}
    assert event.institutions["a"].bytes_up > 0
    assert event.institutions["a"].bytes_down > 0
    # (3 + 2) and 2 · 2 · 4 numbers of four bytes.
    assert event.institutions["a"].uploads == {"weights": 20, "global_nodes": 64}
    assert event.order == ["a", "b"]
    assert event.missing == ["c"]
    assert event.seconds > 0


def test_the_run_goes_on_when_budgets_are_spent() -> None:
    """One institution withholds its arrays from round 2 on, the other from round 3 on."""
    nodes = Node("a", withholds={2, 3}), Node("b", withholds={3})
    strategy, grid = started(*nodes)
    for number in (1, 2, 3):
        event = play(strategy, grid, number)
        assert event.missing == []
        assert sorted(event.institutions) == ["a", "b"]
    assert event.institutions["a"].metrics["upload_withheld"] == 1.0
    assert event.institutions["a"].uploads == {}
    # Both are still sent a model.
    assert {len(node.heard) for node in nodes} == {3}
    before = nodes[0].heard[2].arrays["weight"]
    after = Instruction.from_records(messages(strategy, grid, 4)[1].content).arrays["weight"]
    assert after.tolist() == before.tolist()  # no update, no change


def test_who_keeps_everything_uploads_nothing() -> None:
    strategy, grid = started(Node("a", uploads=False), Node("b", uploads=False), method="local")
    event = play(strategy, grid, 1)
    assert [part.uploads for part in event.institutions.values()] == [{}, {}]


@pytest.mark.parametrize("method", ["fedgt", "local"])
def test_restored_it_sends_the_same(method: str) -> None:
    nodes = three({"a": {1: 0.9}})
    for node in nodes:
        node.uploads = method != "local"
    strategy, grid = started(*nodes, method=method)
    play(strategy, grid, 1)
    checkpoint = strategy.checkpoint(1)
    resumed = FedGTStrategy(settings(method=method))
    resumed.restore(checkpoint)
    assert resumed.best == strategy.best
    assert resumed.members.profile == strategy.members.profile
    asked = [node.asked_for_initial for node in grid.nodes.values()]
    resumed.introduce(grid)
    assert [node.asked_for_initial for node in grid.nodes.values()] == asked
    expected, found = (
        {node: content(message) for node, message in messages(s, grid, 2).items()}
        for s in (strategy, resumed)
    )
    assert found == expected


def test_the_summary_shows_what_differs_from_the_defaults(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", logger="fedgt_server"):
        FedGTStrategy(settings(rounds=7)).summary()
    shown = [message.strip().partition(" = ")[0] for message in caplog.messages]
    assert "rounds" in shown
    assert not {"lr", "dataset", "seed"} & set(shown)
