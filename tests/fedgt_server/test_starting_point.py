"""The starting point: that of most of those who were asked, and of nobody else."""

from collections.abc import Mapping

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedgt_server.starting_point import choose
from fedgt_server.strategy import FedGTStrategy
from shared.wire import Arrays, Instruction, Introduction
from tests.fedgt_server.grid import INITIAL, PROFILE, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

HOSTILE: dict[str, Arrays] = {
    "zeros": {"weight": np.zeros(3, np.float32), "bias": np.zeros(2, np.float32)},
    "at the limit": {"weight": np.full(3, 100, np.float32), "bias": np.full(2, -100, np.float32)},
    "beyond it": {"weight": np.full(3, 101, np.float32), "bias": np.zeros(2, np.float32)},
    "NaN": {"weight": np.full(3, np.nan, np.float32), "bias": np.zeros(2, np.float32)},
    "infinite": {"weight": np.zeros(3, np.float32), "bias": np.full(2, np.inf, np.float32)},
    "another shape": {"weight": np.zeros(4, np.float32), "bias": np.zeros(2, np.float32)},
    "in one dimension more": {"weight": np.zeros((3, 1), np.float32), "bias": INITIAL["bias"]},
    "double precision": {"weight": np.zeros(3), "bias": np.zeros(2)},
    "integers": {"weight": np.zeros(3, np.int32), "bias": np.zeros(2, np.int32)},
    "one array less": {"weight": np.zeros(3, np.float32)},
    "one array more": INITIAL | {"more": np.zeros(1, np.float32)},
    "nothing": {},
}


class Liar(Node):
    """Sends a starting point of its own, whether it was asked for one or not."""

    def __init__(self, institution: str, initial: Arrays) -> None:
        super().__init__(institution)
        self._initial = initial

    def _introduction(self, message: Message) -> RecordDict:
        return Introduction(self.institution, PROFILE, self._initial).to_records()


def sent(grid: ScriptedGrid) -> Mapping[str, np.ndarray]:
    """Return what institutions are sent in the first round."""
    strategy = FedGTStrategy(settings())
    strategy.introduce(grid)
    messages = list(strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid))
    assert len(messages) == len(grid.nodes)
    return Instruction.from_records(messages[0].content).arrays


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("liars", "all_of_them"), [(1, 3), (1, 4), (2, 5), (2, 6)])
def test_a_minority_does_not_choose_it(name: str, liars: int, all_of_them: int) -> None:
    first = [Liar(f"a{i}", HOSTILE[name]) for i in range(liars)]
    others = [Node(f"b{i}") for i in range(all_of_them - liars)]
    found = sent(ScriptedGrid(*first, *others))
    assert {key: array.tolist() for key, array in found.items()} == {
        key: array.tolist() for key, array in INITIAL.items()
    }


def test_those_who_were_not_asked_do_not_count() -> None:
    honest = [Node(f"b{i}") for i in range(5)]
    liars = [Liar(f"a{i}", HOSTILE["zeros"]) for i in range(6)]
    assert sent(ScriptedGrid(*honest, *liars))["bias"].tolist() == INITIAL["bias"].tolist()


def test_who_has_another_is_named() -> None:
    models = {"a": HOSTILE["zeros"], "b": HOSTILE["NaN"]} | dict.fromkeys("cde", INITIAL)
    chosen, problems = choose(models, PROFILE)
    assert chosen["bias"].tolist() == INITIAL["bias"].tolist()
    assert [line.split(":")[0] for line in problems] == [
        "the starting point of b is left out",
        "the starting point of a is another than that of most",
    ]


def test_five_are_asked() -> None:
    grid = ScriptedGrid(*(Node(name) for name in "abcdefg"))
    sent(grid)
    assert [node.asked_for_initial for node in grid.nodes.values()] == [1] * 5 + [0, 0]
