"""Which updates of a round are used: lengths, quarantine and what the journal says of them."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message

from fedgt_server.events import RoundEvent
from fedgt_server.offences import Conducts
from fedgt_server.strategy import FedGTStrategy
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, Update
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")

NAMES = "abcd"


class Played:
    """A federation of four, whose last member sends what a test says."""

    def __init__(self, **changed: Scalar) -> None:
        self.strategy = FedGTStrategy(settings(rounds=40, **changed))
        self.grid = ScriptedGrid(*map(Node, NAMES))
        self.strategy.introduce(self.grid)
        self.number = 0
        self.sent: dict[str, list[float]] = {}

    def round(self, factor: float = 1.0, nodes: float = 1.0) -> RoundEvent:
        """Play a round; the last one's change is ``factor`` times as long as those of others."""
        self.number += 1
        replies = []
        for message in self.strategy.configure_train(
            self.number, ArrayRecord(), ConfigRecord(), self.grid
        ):
            node = self.grid.nodes[message.metadata.dst_node_id]
            node.answer(message)  # it hears what it is sent
            self.sent[node.institution] = node.heard[-1].arrays["bias"].tolist()
            hostile = node.institution == NAMES[-1]
            replies.append(_reply(message, factor if hostile else 1.0, nodes if hostile else 1.0))
        self.strategy.aggregate_train(self.number, replies)
        assert self.strategy.last_round is not None
        return self.strategy.last_round

    def notices(self) -> list[str]:
        return self.grid.nodes[len(NAMES)].notices


def _reply(message: Message, factor: float, nodes: float) -> Message:
    rng = np.random.default_rng(message.metadata.dst_node_id)
    arrays = {name: np.full_like(array, 0.01 * factor) for name, array in INITIAL.items()}
    shape = (2, 2, 4)
    arrays[GLOBAL_NODES] = (nodes * rng.standard_normal(shape) / 4).astype(np.float32)
    return Message(Update("any", arrays, {"val_accuracy": 0.5}).to_records(), reply_to=message)


def test_a_long_update_is_shortened() -> None:
    played = Played(compare_updates=False, tau=0.0)  # all weights alike
    event = played.round(factor=9.0)
    assert event.warnings == ["the update of d is shortened to 0.11 of its length"]
    assert sorted(event.institutions) == list(NAMES)
    played.round()
    # Bias starts at 1; four steps of 0.01.
    assert played.sent["a"] == pytest.approx([1.01, 1.01], abs=1e-4)


def test_one_that_goes_the_other_way_is_not_averaged_at_first() -> None:
    played = Played(compare_updates=False, tau=0.0)
    played.round(factor=-1.0)
    played.round()
    assert played.sent["a"] == pytest.approx([1.01, 1.01], abs=1e-4)
    assert played.sent["d"] == pytest.approx([0.99, 0.99], abs=1e-4)


@pytest.mark.parametrize(
    ("factor", "nodes", "reason"),
    [
        (1e4, 1.0, "its change is 1e+04 times as long as those of others"),
        (-100.0, 1.0, "its change is 100 times as long as those of others"),
        (1.0, 1000.0, "its global nodes are"),
    ],
)
def test_what_is_far_too_long_is_refused(factor: float, nodes: float, reason: str) -> None:
    played = Played()
    for _ in range(2):
        event = played.round(factor, nodes)
        assert sorted(event.institutions) == list("abc")
        assert event.missing == ["d"]
        assert event.left_out["d"].startswith(reason)
    played.round()
    assert played.sent["a"] == pytest.approx([1.02, 1.02], abs=1e-4)
    assert all("was left out" in notice for notice in played.notices())
    assert len(played.notices()) == 2


def test_without_robust_nothing_is_refused() -> None:
    played = Played(robust=False)
    assert sorted(played.round(100.0, 100.0).institutions) == list(NAMES)


@pytest.mark.parametrize("value", [2e6, -1e30, 3e38])
@pytest.mark.parametrize("robust", [True, False])
def test_no_value_can_make_a_sum_infinite(value: float, robust: bool) -> None:
    played = Played(robust=robust)
    event = played.round(factor=value * 100)
    assert "beyond ±1e+06" in event.left_out["d"]


def test_a_repeated_offender_is_in_quarantine_and_let_back_in() -> None:
    played = Played()
    for _ in range(3):
        event = played.round(factor=1000.0)
    assert event.warnings == [
        "d is in quarantine up to round 8: 3 of its updates within 10 rounds were refused"
    ]
    restored = FedGTStrategy(played.strategy.config)
    restored.restore(played.strategy.checkpoint(3))
    restored.members = played.strategy.members
    played.strategy = restored  # a coordinator that was restarted remembers it
    for number in range(4, 9):
        event = played.round()
        assert event.round == number
        assert event.left_out == {"d": "it is in quarantine up to round 8"}
    event = played.round()
    assert event.warnings == ["d is let back in after its quarantine"]
    assert sorted(event.institutions) == list(NAMES)
    # The second time is twice as long.
    for _ in range(3):
        event = played.round(factor=1000.0)
    assert "up to round 22" in event.warnings[0]


def test_offences_long_ago_do_not_count() -> None:
    conducts = Conducts()
    assert conducts.refused("a", 1) is None
    assert conducts.refused("a", 1) is None  # the same round again
    assert conducts.refused("a", 2) is None
    assert conducts.refused("a", 12) is None
    assert conducts.refused("a", 13) is None
    assert "in quarantine up to round 19" in str(conducts.refused("a", 14))
    assert not conducts.in_quarantine("b", 15)
    assert conducts.in_quarantine("a", 19)
    assert conducts.returning(20) == ["a"]
