"""Replies that are as they should be, and extreme: values, lengths, names, and all methods.

Whatever they hold, every round is played, what others are sent is finite, and the run goes on from
its checkpoint.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message, RecordDict

from fedgt_server.events import RoundEvent
from fedgt_server.journal import Journal
from fedgt_server.methods import METHODS, server_method
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig, Scalar
from shared.text import text_problem
from shared.wire import LONGEST_INSTITUTION, Arrays, Update
from tests.fedgt_server.grid import INITIAL, PROFILE, Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

Fill = Callable[[tuple[int, ...], int], np.ndarray]


def alternating(shape: tuple[int, ...], number: int) -> np.ndarray:
    return np.resize([1e6, -1e6], shape) * (1 if number % 2 else -1)


EXTREMES: dict[str, Fill] = {
    "zeros": lambda shape, _: np.zeros(shape),
    "minus zeros": lambda shape, _: np.full(shape, -0.0),
    "the largest": lambda shape, _: np.full(shape, 1e6),
    "the smallest": lambda shape, _: np.full(shape, 1e-45),
    "alternating": alternating,
    "one value": lambda shape, _: np.eye(1, int(np.prod(shape))).reshape(shape) * 1e6,
    "all the same": lambda shape, _: np.ones(shape),
    "zeros, then the largest": lambda shape, number: np.full(shape, 1e6 * (number > 1)),
    "the largest, then zeros": lambda shape, number: np.full(shape, 1e6 * (number < 2)),
}
SETTINGS: dict[str, dict[str, Scalar]] = {
    **{name: {"method": name} for name in METHODS},
    **{f"similarity {name}": {"similarity": name}
       for name in ("hungarian", "sinkhorn", "none", "update", "label")},
    "without noise": {"ldp": "off"},
    "agreeing-only": {"agreeing-only": True},
    "robust off": {"robust": False},
    "updates are compared": {"compare-updates": True},
    "int8": {"wire-precision": "int8"},
}  # fmt: skip
NAMES = (
    "a/b", "/", "..", "../../etc", "initial", "model/a", "mixing/", "shape", "__metadata__", "a|b",
    "</script>", "{0}", "%s%n", "=1+1", "constructor", "a" * 128, "\U0001f3e6" * 128, "ı", "NaN",
    "a\u200db", "-", "round", ".", "common.a", "global_nodes", "a b", "\\", '"', "'", "null",
)  # fmt: skip
METRICS = (
    "warnings", "bytes_up", "uploads", "bytes_down", "metrics", "model_dump", "model_config",
    "copy", "dict", "json", "event", "round", "institutions", "order", "similarity", "weights",
    "time", "val", "test_", "val_", "epsilon", "selection", "self", "model_fields_set",
)  # fmt: skip


class Filled(Node):
    """Fills all arrays that the method expects."""

    def __init__(self, institution: str, config: RunConfig, fill: Fill | None = None) -> None:
        super().__init__(institution)
        self._method, self._fill = server_method(config), fill
        self._method.begin(dict(INITIAL))

    def _update(self, number: int) -> RecordDict:
        rng = np.random.default_rng([number, *self.institution.encode()])
        arrays: Arrays = {}
        for name, size in self._method.expected(PROFILE).items():
            shape = tuple(size)
            found = self._fill(shape, number) if self._fill else rng.standard_normal(shape)
            arrays[name] = found.astype(np.float32)
        update = Update(self.institution, arrays, {"val_accuracy": 0.5, "num_examples": 1.0})
        if not self.heard[-1].finish:
            self._method.aggregate({self.institution: self._method.receive("", update)})
        return update.to_records()


def config(changed: dict[str, Scalar], rounds: int = 3) -> RunConfig:
    return settings(
        **{key.replace("-", "_"): value for key, value in changed.items()}, rounds=rounds
    )


def play(folder: Path, grid: ScriptedGrid, run: RunConfig) -> list[RoundEvent]:
    RoundLoop(grid, FedGTStrategy(run), folder).run()
    return Journal(folder / "journal.jsonl").rounds()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("how", SETTINGS)
def test_others_are_sent_what_is_finite(how: str, name: str, tmp_path: Path) -> None:
    run = config(SETTINGS[how])
    honest = [Filled(letter, run) for letter in "abc"]
    hostile = [Filled(letter, run, EXTREMES[name]) for letter in "xy"]
    rounds = play(tmp_path, ScriptedGrid(*honest, *hostile), run)
    assert len(rounds) == 3
    for event in rounds:
        assert {*"abc"} <= event.institutions.keys()
    for node in honest:
        for heard in node.heard:
            assert all(np.isfinite(array).all() for array in heard.arrays.values())


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_that_is_a_line_can_take_part(name: str, tmp_path: Path) -> None:
    assert text_problem(name, LONGEST_INSTITUTION) is None
    grid = ScriptedGrid(Node("a"), Node("b"), Node(name))
    assert [sorted(one.institutions) for one in play(tmp_path, grid, config({}, rounds=2))] == [
        sorted(["a", "b", name])
    ] * 2
    again = play(tmp_path, grid, config({"resume": True}, rounds=3))
    assert [sorted(one.institutions) for one in again] == [sorted(["a", "b", name])] * 3


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_nothing_else_than_a_metric(name: str, tmp_path: Path) -> None:
    class Measuring(Node):
        def _update(self, number: int) -> RecordDict:
            content = super()._update(number)
            if "metrics" in content:
                content.metric_records["metrics"][name] = 0.25
            return content

    grid = ScriptedGrid(Measuring("a"), Node("b"), Node("c"))
    rounds = play(tmp_path, grid, config({}, rounds=2))
    assert [sorted(event.institutions) for event in rounds] == [["a", "b", "c"]] * 2
    for event in rounds:
        part = event.institutions["a"]
        assert part.warnings == []
        assert part.bytes_up > 100
        assert part.metrics["val_accuracy"] == 0.5
    play(tmp_path, grid, config({"resume": True}, rounds=3))


def test_the_same_name_twice_is_one_institution(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a"), Node("b"), Node("b"), Node("a"))
    rounds = play(tmp_path, grid, config({}))
    assert [sorted(event.institutions) for event in rounds] == [["a", "b"]] * 3
    assert not grid.nodes[3].heard
    assert not grid.nodes[4].heard


def test_an_answer_to_the_question_with_an_update_is_no_introduction(tmp_path: Path) -> None:
    class Eager(Node):
        def _introduction(self, message: Message) -> RecordDict:
            return Update("a", {"weight": np.zeros(3, np.float32)}, {}).to_records()

    grid = ScriptedGrid(Eager("a"), Node("b"), Node("c"))
    rounds = play(tmp_path, grid, config({}))
    assert [sorted(event.institutions) for event in rounds] == [["b", "c"]] * 3
