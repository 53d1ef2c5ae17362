"""What a coordinator works out from metrics: all where they are exact, and nothing by default.

Real institutions train and evaluate what the attacker sends; what it sees went through the wire.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message, MessageType
from numpy.typing import NDArray

from deploy.engines.in_process_grid import InProcessGrid
from deploy.settings import resolve_settings
from fedgt_client.app import app, clients
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from fedgt_client.policy import Policy, ShareMetrics
from shared.config import Scalar
from shared.wire import Arrays, Instruction, Introduction, Question, Update

BANKS = 3
_SMALL: dict[str, Scalar] = {
    "hidden": 16,
    "layers": 2,
    "node-dropout": 0.0,
    "heads": 2,
    "samples": 4,
    "global-nodes": 4,
    "lr": 0.02,
    "rounds": 8,
    # Or institutions would not follow a model that names one class.
    "robust": False,
    "own-model": False,
    "common-model": "off",
}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    clients.clear()
    yield
    clients.clear()


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return institution_graphs("consortium", clients=BANKS, setting="disjoint", seed=0)


class Attacker:
    """A coordinator, who sends whatever it likes and reads what comes back."""

    def __init__(
        self,
        place: Path,
        graphs: Sequence[Graph],
        mode: ShareMetrics | Policy | None,
        **settings: Scalar,
    ) -> None:
        policy = Policy(share_metrics=mode) if isinstance(mode, str) else mode
        nodes = []
        for index, graph in enumerate(graphs):
            graph.save(place / str(index))
            node: dict[str, Scalar] = {
                "institution": f"bank-{index}",
                "data-dir": str(place / str(index)),
                "state-dir": str(place / "state"),
                "worker": False,
            }
            if policy:  # else it has said nothing
                node["policy"] = policy.to_json()
            nodes.append(node)
        self._nodes, self._settings = nodes, {**_SMALL, **settings}
        self.begin("first")

    def begin(self, run: str) -> None:
        """Begin another run, in which institutions know nothing of those before."""
        config = resolve_settings({**self._settings, "run-name": run})
        self._grid = InProcessGrid(app, self._nodes, config.to_flower())

    def _send(self, node: int, message: Message) -> Message:
        (reply,) = self._grid.send_and_receive([message])
        assert not reply.has_error(), reply.error
        return reply

    def initial(self, node: int) -> Arrays:
        question = Question(want_initial=True).to_records()
        reply = self._send(node, Message(question, node, MessageType.QUERY))
        return Introduction.from_records(reply.content).initial

    def update(self, node: int, number: int, model: Arrays) -> Update:
        content = Instruction(number, model).to_records()
        reply = self._send(node, Message(content, node, MessageType.TRAIN))
        return Update.from_records(reply.content)

    def metrics(self, node: int, number: int, model: Arrays) -> dict[str, float]:
        return self.update(node, number, model).metrics


def constant(model: Arrays, label: int) -> Arrays:
    """Return a model that names one class, whatever it sees and learns in a round."""
    found = {name: np.zeros_like(array) for name, array in model.items()}
    found["head.bias"][label] = 1e6
    return found


def denominator(shares: Sequence[float], largest: int = 500) -> int:
    """Return the smallest number of nodes that all shares can be fractions of."""
    return next(
        n
        for n in range(1, largest + 1)
        if all(abs(share * n - round(share * n)) < 1e-4 for share in shares)
    )


def stolen_sizes(attacker: Attacker) -> list[int]:
    """Work out the number of validation nodes of every institution from eight rounds."""
    sizes = []
    for node in range(1, BANKS + 1):
        model, seen = attacker.initial(node), []
        for number in range(1, 9):
            found = attacker.metrics(node, number, model).get("val_accuracy", 0.0)
            seen.append(found)
        sizes.append(denominator(seen))
    return sizes


def stolen_counts(attacker: Attacker, node: int, nodes: int, classes: int) -> list[int]:
    """Work out how many validation nodes there are of each class, if ``nodes`` is known."""
    model = attacker.initial(node)
    return [
        round(
            attacker.metrics(node, label + 1, constant(model, label)).get("val_accuracy", 0.0)
            * nodes
        )
        for label in range(classes)
    ]


def threshold(count: int, nodes: int, classes: int) -> float:
    """Return from which logit on a model that denies a class seems worse than one without opinion.

    By the rule of ``received_model``, if ``count`` of the validation nodes are of the class.
    """

    def seems_worse(logit: float) -> bool:
        others = math.log(classes - 1 + math.exp(-logit)) - math.log(classes)
        differences = np.full(nodes, others)
        differences[:count] += logit
        by_chance = 2.5 * differences.std(ddof=1) / nodes**0.5
        return bool(differences.mean() > max(by_chance, 0.05 * math.log(classes)))

    return bisected(seems_worse)


def bisected(is_enough: Callable[[float], bool]) -> float:
    """Return the smallest logit that is enough, to a thousandth; the largest where none is."""
    low, high = 0.0, 64.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def stolen_by_complaints(attacker: Attacker, label: int, nodes: int, classes: int) -> list[int]:
    """Return which counts of a class agree with when an institution keeps its own model."""
    empty = {name: np.zeros_like(array) for name, array in attacker.initial(1).items()}

    def is_kept(logit: float) -> bool:
        attacker.begin(f"denies-{label}-by-{logit:.6f}")
        denying = {name: array.copy() for name, array in empty.items()}
        denying["head.bias"][label] = -logit
        attacker.metrics(1, 1, empty)  # what it compares with
        return "kept_own" in attacker.metrics(1, 2, denying)

    seen = bisected(is_kept)
    predicted = [threshold(count, nodes, classes) for count in range(nodes + 1)]
    nearest = min(abs(seen - one) for one in predicted)
    return [count for count, one in enumerate(predicted) if abs(seen - one) <= nearest + 1e-2]


# With a large epsilon, Adam's first step is the gradient itself.
_BARE_GRADIENT: dict[str, Scalar] = {
    "adam-epsilon": 1e6,
    "lr": 1e6,
    "weight-decay": 0.0,
    "wire-precision": "float32",
}


def stolen_shares(attacker: Attacker) -> NDArray[np.float64]:
    """Read each class's share of the training nodes from the change of a model without opinion."""
    empty = {name: np.zeros_like(array) for name, array in attacker.initial(1).items()}
    change = attacker.update(1, 1, empty).arrays["head.bias"]
    return np.asarray(1.0 / len(change) + change, np.float64)


def true_counts(graph: Graph) -> list[int]:
    counts = np.bincount(graph.labels[graph.val], minlength=graph.num_classes)
    return [int(count) for count in counts]


@pytest.mark.slow
def test_the_number_of_validation_nodes(tmp_path: Path, graphs: list[Graph]) -> None:
    sizes = [int(graph.val.sum()) for graph in graphs]
    assert stolen_sizes(Attacker(tmp_path / "exact", graphs, "exact")) == sizes
    found = stolen_sizes(Attacker(tmp_path / "default", graphs, None))
    assert all(one != size for one, size in zip(found, sizes, strict=True)), found


def test_the_number_of_nodes_of_each_class(tmp_path: Path, graphs: list[Graph]) -> None:
    exact = Attacker(tmp_path / "exact", graphs, "exact")
    default = Attacker(tmp_path / "default", graphs, None)
    for node, graph in enumerate(graphs, start=1):
        size, classes = int(graph.val.sum()), graph.num_classes
        assert stolen_counts(exact, node, size, classes) == true_counts(graph)
        # Even to one who knows the number of nodes from elsewhere.
        assert stolen_counts(default, node, size, classes) != true_counts(graph)


@pytest.mark.slow
def test_what_institutions_complain_of(tmp_path: Path, graphs: list[Graph]) -> None:
    """By when an institution keeps its own model, a class is counted in two rounds a bit.

    With a learning rate of almost nothing, all institutions compare constant models.
    """
    settings: dict[str, Scalar] = {"robust": True, "lr": 1e-12, "weight-decay": 0.0}
    graph = graphs[0]
    size, classes = int(graph.val.sum()), graph.num_classes
    label = int(np.argmax(true_counts(graph)))
    count = true_counts(graph)[label]
    exact = Attacker(tmp_path / "exact", graphs[:1], "exact", **settings)
    found = stolen_by_complaints(exact, label, size, classes)
    assert count in found
    assert len(found) <= 2  # of about a hundred
    for mode in (None, "none"):
        other = Attacker(tmp_path / str(mode), graphs[:1], mode, **settings)
        assert count not in stolen_by_complaints(other, label, size, classes), mode


@pytest.mark.parametrize("mode", [None, "none"])
def test_a_spoilt_model_is_noticed_by_what_is_shared(
    mode: ShareMetrics | None, tmp_path: Path, graphs: list[Graph]
) -> None:
    learning: dict[str, Scalar] = {"robust": True, "local-epochs": 10, "dropout": 0.0}
    bank = Attacker(tmp_path, graphs[:1], mode, **learning)
    model = bank.initial(1)
    seen = [bank.metrics(1, number, model) for number in range(1, 6)]
    rarest = int(np.argmin(true_counts(graphs[0])))
    spoilt = bank.metrics(1, 6, constant(model, rarest))
    assert all("kept_own" not in found for found in seen)
    if mode == "none":
        assert "kept_own" not in spoilt
    else:
        assert spoilt["kept_own"] == 1.0
        assert spoilt["val_accuracy"] >= seen[-1]["val_accuracy"] - 0.1


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (Policy(max_label_epsilon=1.0), {"label-privacy": "randomised-response"}),
        (Policy(max_label_epsilon=1.0), {"label-privacy": "dp-sgd", "gradient-clip": 1.0}),
        (Policy(ldp="all"), {"ldp": "all"}),
    ],
)
def test_only_privacy_of_labels_or_of_updates_hides_training_classes(
    policy: Policy, settings: dict[str, Scalar], tmp_path: Path, graphs: list[Graph]
) -> None:
    """By default, a coordinator that asks for it reads exact shares: docs/privacy.md says so."""
    labels = graphs[0].labels[graphs[0].train]
    shares = np.bincount(labels, minlength=graphs[0].num_classes) / len(labels)
    default = Attacker(tmp_path / "default", graphs[:1], None, **_BARE_GRADIENT)
    np.testing.assert_allclose(stolen_shares(default), shares, atol=1e-5)
    asked = {**_BARE_GRADIENT, "label-epsilon": 1.0, **settings}
    private = Attacker(tmp_path / "private", graphs[:1], policy, **asked)
    assert np.abs(stolen_shares(private) - shares).max() > 0.02


def test_a_loss_cannot_be_blown_up(tmp_path: Path, graphs: list[Graph]) -> None:
    """A model that is wrong by a million on one class shows its share to six digits by its loss."""
    graph = graphs[0]
    labels = graph.labels[graph.train]
    exact = Attacker(tmp_path / "exact", graphs[:1], "exact")
    wrong = constant(exact.initial(1), 0)
    wrong["head.bias"][0] = -1e6
    seen = exact.metrics(1, 1, wrong)["train_loss"]
    assert math.isclose(seen / 1e6, (labels == 0).mean(), abs_tol=1e-4)
    default = Attacker(tmp_path / "default", graphs[:1], None)
    assert not [name for name in default.metrics(1, 1, wrong) if name.endswith("loss")]


def test_nothing_that_was_measured_leaves_with_none(tmp_path: Path, graphs: list[Graph]) -> None:
    none = Attacker(tmp_path, graphs[:1], "none")
    found = none.metrics(1, 1, none.initial(1))
    assert all(name.startswith("epsilon") for name in found), found
