"""FedSage+: a generator that learns here and from others, and an augmented graph."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from fedgt_client.graph import UNLABELLED, Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedsage import DISCLOSURE, FedSage
from shared.config import Scalar
from shared.fedsage import OFFERED_ROWS, exchanged, generator_rounds
from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS, NUM_EXAMPLES
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.methods.baselines import assert_same, federated, institution
from tests.fedgt_client.methods.test_trained import ODD

ROUNDS = 8
GENERATOR = generator_rounds(ROUNDS)


def fedsage(graph: Graph | None = None, **changed: Scalar) -> FedSage:
    return cast(FedSage, institution("fedsage", graph, **{"rounds": ROUNDS, **changed}))


def sent(method: FedSage, round_number: int) -> Arrays:
    """Return what a coordinator sends: rows and gradients of others, later a model."""
    if round_number > GENERATOR:
        return method.initial_arrays()
    rng = np.random.default_rng(round_number)
    message = {}
    for name, since in ((GENERATED_FEATURES, 2), (GENERATED_GRADIENTS, 3)):
        if round_number >= since:
            message[name] = rng.standard_normal((OFFERED_ROWS, 6)).astype(np.float32)
    return message


def played(method: FedSage, rounds: int = ROUNDS) -> list[LocalResult]:
    return [method.fit(sent(method, number), number) for number in range(1, rounds + 1)]


def generator_of(method: FedSage) -> Arrays:
    return {n: a for n, a in method.state_dict().items() if n.startswith("generator.")}


@pytest.mark.slow
def test_the_generator_s_loss_falls() -> None:
    method = fedsage(rounds=120, dropout=0.0)
    losses = [r.metrics["generator_loss"] for r in federated(method, generator_rounds(120))]
    assert len(losses) == 12
    assert np.mean(losses[-3:]) < 0.7 * losses[0]


def test_what_goes_up_in_which_round() -> None:
    method = fedsage()
    results = played(method)
    for number, result in enumerate(results, start=1):
        if number > GENERATOR:
            assert result.upload.keys() == method.initial_arrays().keys()
            assert result.metrics[NUM_EXAMPLES] == 14
        else:
            assert tuple(result.upload) == exchanged(number, ROUNDS)
            assert {array.shape for array in result.upload.values()} <= {(OFFERED_ROWS, 6)}
            assert "val_accuracy" in result.metrics
    assert not any("generator" in name for name in results[-1].upload)


def test_it_says_what_it_discloses_once() -> None:
    results = played(fedsage(), 3)
    assert [DISCLOSURE in result.warnings for result in results] == [True, False, False]


def test_gradients_of_others_go_on_as_if_they_were_computed_here() -> None:
    """Through uploads and back, the gradient of equation 4's foreign term is the true one."""
    from fedgt_client.model.neighgen import squared_distances

    here = fedsage()
    there = cast(FedSage, institution("fedsage", two_groups(30, seed=5), "bree", rounds=ROUNDS))
    offered = here.fit({}, 1).upload[GENERATED_FEATURES]
    there.fit({}, 1)
    answer = there.fit({GENERATED_FEATURES: offered}, 2).upload[GENERATED_GRADIENTS]
    parameters = list(here._generator.parameters())
    foreign = here._foreign_loss({GENERATED_GRADIENTS: answer}, 3)
    assert isinstance(foreign, torch.Tensor)
    direct = squared_distances(here._offer(1), there._original.dense_features()).amin(dim=1).mean()
    found, expected = (
        torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in (foreign, direct)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    # All but dGen's two have a part in it.
    assert sum(bool(one.any()) for one in found) == len(parameters) - 2


def test_gradients_of_others_change_the_generator() -> None:
    alone, helped = fedsage(), fedsage()
    for method in (alone, helped):
        played(method, 2)
    message = sent(helped, 3)
    helped.fit(message, 3)
    alone.fit({GENERATED_FEATURES: message[GENERATED_FEATURES]}, 3)
    one, other = generator_of(alone), generator_of(helped)
    name = "generator.model.feature.2.weight"
    assert not np.allclose(one[name], other[name], atol=1e-4)


def test_the_graph_is_augmented_after_the_generator_s_rounds() -> None:
    graph = two_groups()
    method = fedsage(graph)
    played(method, GENERATOR)
    assert method._task.graph.num_nodes == 40
    played_after = method.fit(method.initial_arrays(), GENERATOR + 1)
    data = method._task.graph
    added = data.num_nodes - 40
    assert 0 < added <= 5 * 40
    assert (data.labels[40:] == UNLABELLED).all()
    for name, nodes in data.splits.items():
        assert nodes.tolist() == np.flatnonzero(getattr(graph, name)).tolist()
    torch.testing.assert_close(data.dense_features()[40:].norm(dim=1), torch.ones(added))
    assert (data.indptr.diff()[40:] == 1).all()
    assert (data.neighbours[data.indptr[40] :] < 40).all()
    assert played_after.metrics[NUM_EXAMPLES] == graph.train.sum()


@pytest.mark.slow
def test_killed_after_any_round_it_goes_on_to_the_byte() -> None:
    whole, last = fedsage(), fedsage().state_dict()
    for number in range(1, ROUNDS + 1):
        resumed = fedsage()
        if number > 1:
            resumed.load_state_dict(last)
        found, expected = (m.fit(sent(m, number), number) for m in (resumed, whole))
        assert_same(found.upload, expected.upload)
        assert found.metrics == expected.metrics
        last = resumed.state_dict()
        assert_same(last, whole.state_dict())
        assert any("adam.generator." in name for name in last) == (number <= GENERATOR)


def test_who_comes_after_the_generator_s_rounds_has_no_augmented_graph() -> None:
    method = fedsage()
    results = [method.fit(method.initial_arrays(), number) for number in (5, 6)]
    assert any("not augmented" in text for text in results[0].warnings)
    assert results[1].warnings == []
    assert method._task.graph.num_nodes == 40


@pytest.mark.parametrize("kind", ODD)
def test_odd_institutions_go_through_all_rounds(kind: str) -> None:
    results = played(fedsage(ODD[kind][0]))
    for result in results:
        for array in result.upload.values():
            assert np.isfinite(array).all()
            assert array.dtype == np.float32


def test_a_value_that_is_not_finite_does_not_go_up() -> None:
    features = two_groups().dense_features().copy()
    features[:, 0] = np.nan
    for result in played(fedsage(replace(two_groups(), features=features))):
        for array in result.upload.values():
            assert np.isfinite(array).all()
