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

    def ask(self, node: int, number: int, model: Arrays) -> Message:
        """Send a model and return the answer, which may be an error."""
        content = Instruction(number, model).to_records()
        (reply,) = self._grid.send_and_receive([Message(content, node, MessageType.TRAIN)])
        return reply

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
        return bool(differences.mean() > max(by_chance, 0.15 * math.log(classes)))

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


def true_shares(graph: Graph) -> NDArray[np.float64]:
    labels = graph.labels[graph.train]
    return np.asarray(np.bincount(labels, minlength=graph.num_classes) / len(labels), np.float64)


# Of a representation that is the same for every node. Gradients are then far below Adam's epsilon,
# whatever that is, and a step is the gradient itself.
_TINY = 1e-8


def stolen_shares(attacker: Attacker, unit: float, rounds: int = 1) -> NDArray[np.float64]:
    """Read each class's share of the training nodes from changes of a model without opinion.

    Parameters
    ----------
    unit : learning rate over Adam's epsilon
    """
    model = {name: np.zeros_like(array) for name, array in attacker.initial(1).items()}
    model["head_norm.bias"][:] = _TINY
    changes = [attacker.update(1, n + 1, model).arrays["head.weight"] for n in range(rounds)]
    mean = np.asarray(np.mean(changes, axis=(0, 2), dtype=np.float64))
    return np.asarray(1.0 / len(mean) + mean / (unit * _TINY), np.float64)


def stolen_features(attacker: Attacker, columns: int, hidden: int) -> NDArray[np.float64]:
    """Read features of single training nodes from one change of a GraphSAGE model.

    All hidden units look in the same direction, each from another threshold on: what a unit's
    gradient has and its neighbour's has not is of the nodes between the two, often a single one.
    """
    rng = np.random.default_rng(0)
    model = {name: np.zeros_like(array) for name, array in attacker.initial(1).items()}
    model["layers.0.own"][:] = rng.standard_normal((columns, 1)) / columns**0.5
    model["layers.0.bias"][:] = -np.sort(rng.normal(scale=0.3, size=hidden))
    model["layers.1.own"][:, 0] = 1e-3
    change = attacker.update(1, 1, model).arrays
    sums, counts = (
        np.diff(change[f"layers.0.{name}"].astype(np.float64)) for name in ("own", "bias")
    )
    found = np.abs(counts) > 1e-2 * np.abs(counts).max()
    return np.asarray((sums[:, found] / counts[found]).T)


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


def test_a_model_made_for_it_reads_shares_of_training_classes(
    tmp_path: Path, graphs: list[Graph]
) -> None:
    """No setting need be odd, so none can be refused: docs/privacy.md says so."""
    default = Attacker(tmp_path, graphs[:1], None, dropout=0.0)
    found = stolen_shares(default, float(_SMALL["lr"]) / 1e-4)
    np.testing.assert_allclose(found, true_shares(graphs[0]), atol=0.01)


def test_noise_on_single_values_does_not_hide_what_many_have_in_common(
    tmp_path: Path, graphs: list[Graph]
) -> None:
    """With ldp 'all' at the largest ε by default, ten rounds read the shares nearly as well."""
    noisy: dict[str, Scalar] = {"ldp": "all", "ldp-update-scale": "one", "lr": 1e4, "rounds": 10}
    wide: dict[str, Scalar] = {"hidden": 256, "layers": 1, "lr-schedule": "constant"}
    attacker = Attacker(tmp_path, graphs[:1], Policy(ldp="all"), dropout=0.0, **noisy, **wide)
    found = stolen_shares(attacker, 1e4 / 1e-4, rounds=10)
    np.testing.assert_allclose(found, true_shares(graphs[0]), atol=0.08)


@pytest.mark.parametrize("privacy", ["randomised-response", "dp-sgd"])
def test_privacy_of_labels_hides_shares_of_few_nodes(
    privacy: str, tmp_path: Path, graphs: list[Graph]
) -> None:
    policy = Policy(max_label_epsilon=1.0)
    settings: dict[str, Scalar] = {"label-privacy": privacy, "label-epsilon": 1.0}
    private = Attacker(tmp_path, graphs[:1], policy, dropout=0.0, **settings)
    found = stolen_shares(private, float(_SMALL["lr"]) / 1e-4)
    assert np.abs(found - true_shares(graphs[0])).max() > 0.02


def test_a_model_made_for_it_reads_features_of_training_nodes(
    tmp_path: Path, graphs: list[Graph]
) -> None:
    """Of more than half of all training nodes, in a round: docs/privacy.md says so."""
    graph, hidden = graphs[0], 1024
    settings: dict[str, Scalar] = {"adam-epsilon": 1e6, "lr": 1e6, "weight-decay": 0.0}
    width: dict[str, Scalar] = {"hidden": hidden, "dropout": 0.0}
    attacker = Attacker(tmp_path, graphs[:1], None, method="fedavg", **settings, **width)
    found = stolen_features(attacker, graph.num_features, hidden)
    true = np.asarray(graph.features)[graph.train]
    true = true / np.linalg.norm(true, axis=1, keepdims=True)  # as models read them
    distances = np.abs(true[:, None] - found).max(axis=2).min(axis=1)
    assert (distances < 0.01).mean() > 0.5


@pytest.mark.parametrize("mode", [None, "exact"])
def test_the_number_of_nodes_by_a_warning(
    mode: ShareMetrics | None, tmp_path: Path, graphs: list[Graph]
) -> None:
    """An institution is warned of fewer nodes than global nodes, whose number others choose."""
    nodes = graphs[0].num_nodes
    told = []
    for count in (nodes, nodes + 1):
        settings: dict[str, Scalar] = {"global-nodes": count}
        bank = Attacker(tmp_path / str(count), graphs[:1], mode, **settings)
        told.append(bank.update(1, 1, bank.initial(1)).warnings)
    assert (told[0] != told[1]) == (mode == "exact")


@pytest.mark.parametrize(
    ("method", "own"), [("fedper", "layers.1.bias"), ("fedpub", "layers.0.mask")]
)
def test_what_is_personal_is_not_set_by_others(
    method: str, own: str, tmp_path: Path, graphs: list[Graph]
) -> None:
    """With a personal layer of its choice, a coordinator would read labels from the others."""
    bank = Attacker(tmp_path, graphs[:1], None, method=method)
    model = bank.initial(1)
    assert own not in model
    reply = bank.ask(1, 1, model | {own: np.zeros(4, np.float32)})
    assert reply.error.reason == f"a message holds '{own}', which is not exchanged"
    assert not bank.ask(1, 1, model).has_error()


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
