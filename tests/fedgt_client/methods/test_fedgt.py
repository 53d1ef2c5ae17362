"""FedGT at an institution, Algorithm 2."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deploy.settings import resolve_settings
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.privacy.release import Part, Release
from fedgt_client.training.device import choose_device
from fedgt_client.training.optimiser import learning_rate
from shared.config import Scalar
from shared.errors import FedGTError
from shared.files import open_tensors, write_tensors
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION
from tests.fedgt_client.graphs import settings, two_groups, without_links


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(autouse=True)
def cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDGT_CACHE", str(shared_cache))
    return shared_cache


def institution(
    cache: Path, graph: Graph | None = None, name: str = "alba", /, **changed: Scalar
) -> FedGT:
    # Some of the models that tests send are worse than the institution's own.
    config, graph = settings(**({"robust": False} | changed)), graph or two_groups()
    return FedGT(graph, config, name)


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].tobytes() == array.tobytes(), name


def federated(method: FedGT, rounds: int, first: int = 1) -> list[LocalResult]:
    """Train for some rounds in which the coordinator returns what it got."""
    results, model = [], method.initial_arrays()
    for number in range(first, first + rounds):
        results.append(method.fit(model, number))
        model = {name: model[name] + results[-1].upload[name] for name in model}
    return results


# --- wrong surroundings ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "meta", "mps"])
def test_no_such_device(name: str) -> None:
    with pytest.raises(FedGTError, match="expected auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_device_that_is_not_here() -> None:
    absent = torch.cuda.device_count()
    with pytest.raises(FedGTError, match="finds no such CUDA device"):
        choose_device(f"cuda:{absent}")
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type == ("cuda" if absent else "cpu")


# --- the round ------------------------------------------------------------------------------------


def test_all_institutions_start_alike(cache: Path) -> None:
    one = institution(cache)
    other = institution(cache, two_groups(30, seed=5), "bree")
    assert_same(one.initial_arrays(), other.initial_arrays())
    assert one.state_dict()["global_nodes.centres"].tolist() == (
        other.state_dict()["global_nodes.centres"].tolist()
    )
    seeded = institution(cache, seed=1).initial_arrays()
    assert seeded["head.weight"].tolist() != one.initial_arrays()["head.weight"].tolist()


def test_the_change_is_the_change(cache: Path) -> None:
    """Δθ = θ_after − θ̂, for a θ̂ that is not where the last round ended."""
    method = institution(cache)
    method.fit(method.initial_arrays(), 1)
    rng = np.random.default_rng(0)
    sent = {
        name: rng.standard_normal(array.shape).astype(np.float32) * np.float32(0.1)
        for name, array in method.initial_arrays().items()
    }
    result = method.fit(sent, 2)
    after = method.state_dict()
    for name, start in sent.items():
        expected = after[f"model.{name}"] - start
        assert result.upload[name].tolist() == expected.tolist(), name
    assert any(np.abs(result.upload[name]).max() > 1e-4 for name in sent)


def test_only_what_is_sent_counts(cache: Path) -> None:
    """The same θ̂, whatever order it comes in and whatever reads the result later."""
    one, other = institution(cache), institution(cache)
    sent = one.initial_arrays()
    first = one.fit(sent, 1)
    second = other.fit(dict(reversed(sent.items())), 1)
    assert_same(second.upload, first.upload)


@pytest.mark.slow
def test_learns(cache: Path) -> None:
    results = federated(institution(cache, lr=0.02, rounds=20, dropout=0.0), 20)
    assert results[-1].metrics["train_loss"] < 0.5 * results[0].metrics["train_loss"]
    assert results[-1].metrics["val_accuracy"] > 0.9
    assert results[-1].metrics["test_accuracy"] > 0.9
    assert results[-1].metrics["skipped_steps"] == 0


def test_averaged_global_nodes_are_taken_over_but_the_fingerprint_is_not(cache: Path) -> None:
    # γ = 1: nothing but what is received moves them.
    method = institution(cache, momentum=1.0)
    start = method.initial_arrays()
    before = method.fit(start, 1).upload[GLOBAL_NODES]
    counts = method.state_dict()["global_nodes.counts"].tolist()
    averaged = np.full((2, 3, 16), 0.5, np.float32)
    result = method.fit(start | {GLOBAL_NODES: averaged}, 2)
    after = result.upload[GLOBAL_NODES]
    assert after[:2].tolist() == averaged.tolist()
    assert after[2].tolist() == before[2].tolist()
    assert method.state_dict()["global_nodes.counts"].tolist() == counts
    # Those received are attended to.
    twin = institution(cache, momentum=1.0)
    twin.fit(start, 1)
    assert twin.fit(start, 2).metrics["train_loss"] != result.metrics["train_loss"]


def test_several_local_epochs(cache: Path) -> None:
    one, three = (institution(cache, local_epochs=epochs) for epochs in (1, 3))
    steps = []
    for method in (one, three):
        method.fit(method.initial_arrays(), 1)
        steps.append(int(method.state_dict()["adam.step.head.weight"]))
    assert steps == [1, 3]


def test_moments_are_kept_across_rounds(cache: Path) -> None:
    """Trap 2: Adam counts on although the weights are replaced."""
    method = institution(cache)
    start = method.initial_arrays()
    for number in (1, 2, 3):
        method.fit(start, number)
    assert int(method.state_dict()["adam.step.head.weight"]) == 3


# --- what travels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "extra"),
    [
        ({}, {GLOBAL_NODES: (3, 3, 16)}),
        ({"global-node-sets": "input"}, {GLOBAL_NODES: (1, 3, 16)}),
        ({"similarity": "update"}, {GLOBAL_NODES: (3, 3, 16)}),
        ({"similarity": "update", "global-nodes": 0}, {}),
        (
            {"similarity": "label"},
            {GLOBAL_NODES: (3, 3, 16), LABEL_DISTRIBUTION: (2,)},
        ),
    ],
)
def test_nothing_else_leaves_the_institution(
    changed: dict[str, Scalar], extra: dict[str, tuple[int, ...]], cache: Path
) -> None:
    """The change of every parameter and what clients are compared by; none is of a node's size."""
    graph = two_groups(44)
    method = institution(cache, graph, **changed)
    shapes = {name: array.shape for name, array in method.initial_arrays().items()}
    result = method.fit(method.initial_arrays(), 1)
    assert {name: array.shape for name, array in result.upload.items()} == shapes | extra
    assert {array.dtype for array in result.upload.values()} == {np.dtype(np.float32)}
    # Neither a row for each node or link, nor any of the features themselves.
    arcs = len(graph.indices)
    for name, array in result.upload.items():
        assert not {44, arcs, arcs // 2} & set(array.shape), name
    secrets = set(graph.dense_features().ravel().tolist())
    released = {value for array in result.upload.values() for value in array.ravel().tolist()}
    assert not released & secrets
    measured = ("accuracy", "balanced_accuracy", "majority_share")
    assert set(result.metrics) == {"train_loss", "skipped_steps"} | {
        f"{split}_{name}" for split in ("val", "test") for name in measured
    }


def test_label_distribution_is_of_training_nodes_and_of_shares(cache: Path) -> None:
    graph = two_groups()
    train = np.zeros(40, np.bool_)
    train[[0, 2, 4, 5]] = True
    method = institution(cache, replace(graph, train=train), similarity="label")
    upload = method.fit(method.initial_arrays(), 1).upload
    assert upload[LABEL_DISTRIBUTION].tolist() == [0.75, 0.25]
    empty = institution(cache, replace(graph, train=np.zeros(40, np.bool_)), similarity="label")
    upload = empty.fit(empty.initial_arrays(), 1).upload
    assert upload[LABEL_DISTRIBUTION].tolist() == [0.0, 0.0]


# --- privacy --------------------------------------------------------------------------------------


def noisy(cache: Path, ldp: str, **changed: Scalar) -> tuple[LocalResult, FedGT]:
    method = institution(cache, ldp=ldp, ldp_noise_seed=1, **changed)
    return method.fit(method.initial_arrays(), 1), method


def released(coordinates: int, *arrays: str, private: bool) -> Release:
    """Return a release with ε = 4 for each coordinate."""
    part = Part(
        arrays=tuple(sorted(arrays)),
        coordinates=coordinates,
        unit="coordinate",
        mechanism="laplace",
        noise=0.25,
    )
    return Release(parts=(part,), private=private)


def test_noise_is_on_the_global_nodes(cache: Path) -> None:
    (plain, _), (found, method) = noisy(cache, "off"), noisy(cache, "global-nodes")
    clipped = np.clip(plain.upload[GLOBAL_NODES], -1, 1)
    noise = found.upload[GLOBAL_NODES] - clipped
    assert np.abs(noise).mean() == pytest.approx(0.5, rel=0.3)
    for name in method.initial_arrays():
        assert found.upload[name].tolist() == plain.upload[name].tolist()
    # The institution goes on with its own, without noise.
    assert (
        method.state_dict()["global_nodes.centres"].tolist() == plain.upload[GLOBAL_NODES].tolist()
    )


def test_noise_on_all_is_on_the_change_too(cache: Path) -> None:
    (plain, _), (found, method) = noisy(cache, "off"), noisy(cache, "all")
    step = learning_rate(settings(), 1)
    for name in method.initial_arrays():
        noise = found.upload[name] - np.clip(plain.upload[name], -step, step)
        assert (noise != 0).any(), name
        if noise.size > 200:
            # λ counts in learning rates, the scale of an update's coordinates.
            assert np.abs(noise).mean() == pytest.approx(0.5 * step, rel=0.3), name
    coordinates = sum(array.size for array in found.upload.values())
    assert found.released == released(coordinates, *found.upload, private=False)


def test_shares_of_labels_are_noised_at_their_own_scale(cache: Path) -> None:
    found, _ = noisy(cache, "all", similarity="label", ldp_noise=1e-3)
    assert found.upload[LABEL_DISTRIBUTION] == pytest.approx(np.array([0.5, 0.5]), abs=0.02)


def test_what_is_released(cache: Path) -> None:
    """ε = 2 · 1 / 0.5 a coordinate; 3 sets of 3 nodes of width 16."""
    seeded = institution(cache, ldp="global-nodes", ldp_noise_seed=5)
    assert federated(seeded, 1)[0].released == released(144, GLOBAL_NODES, private=False)
    private = institution(cache, ldp="global-nodes")
    assert federated(private, 1)[0].released == released(144, GLOBAL_NODES, private=True)
    assert federated(institution(cache, ldp="off"), 1)[0].released is None


def test_seeded_noise_differs_between_institutions_and_rounds(cache: Path) -> None:
    uploads = []
    for name, number in (("alba", 1), ("bree", 1), ("alba", 2)):
        # Clipped to almost nothing: what is left is noise.
        method = institution(cache, None, name, ldp="global-nodes", ldp_noise_seed=1, ldp_clip=1e-9)
        uploads.append(method.fit(method.initial_arrays(), number).upload[GLOBAL_NODES])
    assert np.abs(uploads[0] - uploads[1]).min() > 0
    assert np.abs(uploads[0] - uploads[2]).min() > 0


# --- durability -----------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [{}, {"batch-size": 5}, {"ldp": "all", "ldp-noise-seed": 0}])
def test_restored_it_goes_on_exactly(
    changed: dict[str, Scalar], cache: Path, tmp_path: Path
) -> None:
    """Through the file, as it happens."""
    straight = institution(cache, **changed)
    start = straight.initial_arrays()
    first = straight.fit(start, 1)
    write_tensors(tmp_path / "state.safetensors", straight.state_dict())
    sent = {name: start[name] + first.upload[name] for name in start}
    sent[GLOBAL_NODES] = first.upload[GLOBAL_NODES][:2]
    expected = straight.fit(sent, 2)

    torch.manual_seed(999)  # chance elsewhere in the process does not matter
    resumed = institution(cache, **changed)
    resumed.load_state_dict(open_tensors(tmp_path / "state.safetensors"))
    found = resumed.fit(sent, 2)
    assert_same(found.upload, expected.upload)
    assert found.metrics == expected.metrics
    assert_same(resumed.state_dict(), straight.state_dict())


def test_restored_before_it_ever_learned(cache: Path) -> None:
    graph = replace(two_groups(), train=np.zeros(40, np.bool_))
    method = institution(cache, graph)
    method.fit(method.initial_arrays(), 1)
    resumed = institution(cache, graph)
    resumed.load_state_dict(method.state_dict())
    expected, found = (m.fit(m.initial_arrays(), 2) for m in (method, resumed))
    assert_same(found.upload, expected.upload)


# --- odd institutions -----------------------------------------------------------------------------


def taken(graph: Graph, count: int) -> Graph:
    return graph.subgraph(np.arange(count))


ODD = {
    "no links": (without_links(two_groups()), "no links: nodes attend to themselves"),
    "no training nodes": (
        replace(two_groups(), train=np.zeros(40, np.bool_)),
        "no labelled training nodes: nothing is learned here",
    ),
    "one class": (
        replace(two_groups(), train=two_groups().train & (two_groups().labels == 0)),
        "training nodes of one class only",
    ),
    "three nodes": (taken(two_groups(), 3), "fewer nodes than global nodes (3)"),
    "one node": (taken(two_groups(sparse=True), 1), "fewer nodes than global nodes (1)"),
}


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("kind", ODD)
def test_odd_institutions_take_part_with_a_warning(kind: str, batch: int, cache: Path) -> None:
    graph, warning = ODD[kind]
    method = institution(cache, graph, batch_size=batch, global_nodes=4, rounds=80)
    results = federated(method, 3)
    assert any(warning in text for text in results[0].warnings), results[0].warnings
    # Once is enough.
    assert results[1].warnings == results[2].warnings == []
    for array in results[-1].upload.values():
        assert np.isfinite(array).all()
    if kind == "no training nodes":
        assert math.isnan(results[0].metrics["train_loss"])
        assert not any(results[0].upload[name].any() for name in method.initial_arrays())


def test_an_ordinary_institution_has_no_warning(cache: Path) -> None:
    assert [result.warnings for result in federated(institution(cache), 2)] == [[], []]


def test_empty_training_set_in_batches_for_many_rounds(cache: Path) -> None:
    """Counts must not decay to nothing where no batch is ever computed."""
    graph = replace(two_groups(), train=np.zeros(40, np.bool_))
    method = institution(cache, graph, batch_size=8, local_epochs=150)
    result = method.fit(method.initial_arrays(), 1)
    assert np.isfinite(result.upload[GLOBAL_NODES]).all()


def test_a_value_that_is_not_finite(cache: Path) -> None:
    graph = two_groups()
    features = graph.dense_features().copy()
    features[0, 0] = np.inf
    method = institution(cache, replace(graph, features=features))
    result = method.fit(method.initial_arrays(), 1)
    assert result.metrics["skipped_steps"] == 1
    assert "1 training steps skipped: non-finite gradient" in result.warnings
    for name, array in result.upload.items():
        assert np.isfinite(array).all(), name


def test_without_validation_and_test_nodes(cache: Path) -> None:
    unset = np.zeros(40, np.bool_)
    method = institution(cache, replace(two_groups(), val=unset, test=unset))
    metrics = method.fit(method.initial_arrays(), 1).metrics
    assert math.isnan(metrics["val_accuracy"])
    assert math.isnan(metrics["test_accuracy"])


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["graphsage", "attribute"])
@pytest.mark.slow
def test_other_samplers_learn(sampler: str, cache: Path) -> None:
    results = federated(institution(cache, sampler=sampler, lr=0.02, rounds=15, dropout=0.0), 15)
    assert results[-1].metrics["train_loss"] < 0.6 * results[0].metrics["train_loss"]


def test_the_paper_s_preset(cache: Path) -> None:
    config = resolve_settings(
        {"hidden": 16, "heads": 4, "samples": 4, "device": "cpu", "ldp-noise-seed": 0},
        preset="paper",
    )
    graph = two_groups()
    method = FedGT(graph, config, "alba")
    assert not any("local_scale" in name for name in method.initial_arrays())
    start = method.initial_arrays()
    first = method.fit(start, 1)
    nodes = first.upload[GLOBAL_NODES]
    assert nodes.shape == (1, 10, 16)
    assert np.abs(nodes).max() < 0.05  # δ = 0.002, λ = 0.001
    second = method.fit(start | {GLOBAL_NODES: nodes}, 2)
    assert second.released is not None
    assert second.released.parts[0].noise == pytest.approx(1 / 4.0)
    assert second.metrics["train_loss"] > 0


def test_without_global_attention_global_nodes_still_stand_for_the_institution(
    cache: Path,
) -> None:
    method = institution(cache, global_attention=False, ldp="off")
    results = federated(method, 3)
    uploads = [result.upload[GLOBAL_NODES] for result in results]
    assert uploads[0].shape == (3, 3, 16)
    # They are clustered on, round by round.
    assert not np.array_equal(uploads[0], uploads[2])
    moved = federated(institution(cache, ldp="off"), 3)[-1].upload
    assert any(not np.array_equal(moved[name], results[-1].upload[name]) for name in moved)


@pytest.mark.parametrize("memory", [4096, 1])
def test_representations_are_those_that_global_nodes_are_centres_of(
    memory: int, cache: Path
) -> None:
    method = institution(cache, memory_budget_mb=memory)
    result = federated(method, 2)[-1]
    nodes, global_nodes = method.representations()
    assert nodes.shape == (40, 16)
    # In the same space: zero mean and unit mean square over the coordinates.
    assert np.abs(nodes.mean(axis=1)).max() < 1e-5
    assert np.square(nodes).mean(axis=1) == pytest.approx(np.ones(40), abs=1e-2)
    assert np.array_equal(global_nodes, result.upload[GLOBAL_NODES][-1])


def test_without_global_nodes(cache: Path) -> None:
    method = institution(cache, global_nodes=0, aggregation="mean")
    result = method.fit(method.initial_arrays(), 1)
    assert GLOBAL_NODES not in result.upload
    assert method.state_dict()["global_nodes.centres"].size == 0
    resumed = institution(cache, global_nodes=0, aggregation="mean")
    resumed.load_state_dict(method.state_dict())
    sent = method.initial_arrays()
    expected, found = (m.fit(sent, 2) for m in (method, resumed))
    assert_same(found.upload, expected.upload)


def test_learning_rate_by_hand() -> None:
    constant = settings(lr=0.004, lr_schedule="constant", rounds=4)
    assert [learning_rate(constant, number) for number in (1, 4)] == [0.004, 0.004]
    cosine = settings(lr=0.004, lr_schedule="cosine", rounds=4)
    rates = [learning_rate(cosine, number) for number in (1, 2, 3, 4)]
    half = math.sqrt(0.5)
    assert rates == pytest.approx([0.004, 0.002 * (1 + half), 0.002, 0.002 * (1 - half)])


def test_learning_rate_is_that_of_the_round(cache: Path) -> None:
    """At the end of a cosine schedule steps are small."""
    changes = []
    for number in (1, 100):
        method = institution(
            cache, rounds=100, lr_schedule="cosine", lr=0.01, weight_decay=0.0, adam_epsilon=1e-8
        )
        upload = method.fit(method.initial_arrays(), number).upload
        changes.append(np.abs(upload["head.weight"]).max())
    assert changes[0] == pytest.approx(0.01, rel=0.05)  # Adam's first step
    assert changes[1] == pytest.approx(learning_rate(settings(rounds=100, lr=0.01), 100), rel=0.05)
