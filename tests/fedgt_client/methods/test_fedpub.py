"""FED-PUB: masks that are personal and sparse, and the embedding all compute alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from deploy.settings import resolve_settings
from fedgt_client.methods import fedpub
from fedgt_client.methods.fedpub import random_graph
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.masked_gcn import MaskedGCN
from shared.wire import FUNCTIONAL_EMBEDDING
from tests.fedgt_client.graphs import dense_adjacency, two_groups
from tests.fedgt_client.methods.baselines import federated, institution


def test_masks_stay_at_home_and_the_embedding_goes() -> None:
    method = institution("fedpub")
    names = method.initial_arrays().keys()
    result = method.fit(method.initial_arrays(), 1)
    assert not any("mask" in name for name in result.upload)
    assert result.upload.keys() == names | {FUNCTIONAL_EMBEDDING}
    assert result.upload[FUNCTIONAL_EMBEDDING].shape == (16,)
    assert "model.head.mask" in method.state_dict()


@pytest.mark.slow
def test_masks_become_sparse_in_a_run() -> None:
    """As many steps as a run has, at the method's own rate and λ1; a feature is never seen here."""
    graph, rounds = two_groups(), resolve_settings({"method": "fedpub"}).rounds
    features = graph.dense_features().copy()
    features[:, 5] = 0.0
    method = institution("fedpub", replace(graph, features=features), rounds=rounds)
    results = federated(method, rounds)
    masks = [
        np.abs(a) for n, a in method.state_dict().items() if n.endswith("mask") and "adam" not in n
    ]
    share = sum(int((mask == 0.0).sum()) for mask in masks) / sum(mask.size for mask in masks)
    assert 0.1 < share < 0.9
    assert results[-1].metrics["mask_sparsity"] >= share
    assert results[0].metrics["mask_sparsity"] == 0.0
    first = np.abs(method.state_dict()["model.layers.0.mask"])
    assert (first[5] == 0.0).all()  # nothing speaks for keeping it
    assert (first[:2] > 0.1).any()
    assert results[-1].metrics["val_accuracy"] > 0.9


def test_a_masked_weight_counts_in_training_and_not_in_evaluation() -> None:
    model = MaskedGCN(6, 2, width=4, layers=2, dropout=0.0, threshold=1e-3)
    tensors = GraphTensors.of(two_groups(), torch.device("cpu"))
    with torch.no_grad():
        model.head.mask.fill_(5e-4)
    nodes = tensors.all_nodes()
    assert model.train()(tensors, nodes).abs().max() > 0
    assert model.eval()(tensors, nodes).abs().max() == 0
    assert model.sparsity() == pytest.approx(8 / (24 + 16 + 8))


def test_a_convolution_by_hand() -> None:
    """D^-1/2 (A + I) D^-1/2 X (θ ⊙ μ) + b."""
    graph = two_groups()
    tensors = GraphTensors.of(graph, torch.device("cpu"))
    model = MaskedGCN(6, 2, width=4, layers=1, dropout=0.0, threshold=1e-3).eval()
    weights = dict(model.named_parameters())
    with torch.no_grad():
        weights["layers.0.mask"].normal_()
    adjacency = torch.from_numpy(dense_adjacency(graph)).float() + torch.eye(40)
    scale = adjacency.sum(1).rsqrt()
    weight = weights["layers.0.weight"] * weights["layers.0.mask"]
    expected = scale[:, None] * adjacency * scale @ tensors.dense_features() @ weight
    found = model.representations(tensors.features, tensors.num_nodes, tensors.edge_index())
    torch.testing.assert_close(found, expected)


def test_the_proximal_term_keeps_near_from_the_second_round_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def changes(strength: float) -> tuple[float, float]:
        """How far two rounds from the same model go."""
        monkeypatch.setattr(fedpub, "_PROXIMITY", strength)
        method = institution("fedpub", dropout=0.0, local_epochs=10)
        sent = method.initial_arrays()
        uploads = [method.fit(sent, number).upload for number in (1, 2)]
        first, second = (
            sum(float(np.square(upload[name]).sum()) for name in sent) for upload in uploads
        )
        return first, second

    free, authors, strong = (changes(strength) for strength in (0.0, fedpub._PROXIMITY, 1.0))
    assert free[0] == authors[0] == strong[0]
    assert free[1] > authors[1] > 2 * strong[1]


def test_the_functional_embedding_is_the_mean_of_the_random_graph() -> None:
    """Equation 4, by the weights and masks as they are after training."""
    method = institution("fedpub", hidden=16)
    found = method.fit(method.initial_arrays(), 1).upload[FUNCTIONAL_EMBEDDING]
    model = MaskedGCN(6, 2, width=16, layers=2, dropout=0.5, threshold=1e-3).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(method.state_dict()[f"model.{name}"]))
        features, links = map(torch.from_numpy, random_graph(6, resolve_settings({}).seed))
        expected = model.representations(features, len(features), links).mean(0)
    assert np.abs(found).max() > 0.01
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_the_random_graph_is_the_same_for_everyone() -> None:
    (features, links), (again, _) = random_graph(7, seed=3), random_graph(7, seed=3)
    assert features.tobytes() == again.tobytes()
    assert features.shape == (500, 7)
    assert (links // 100)[0].tolist() == (links // 100)[1].tolist()
    assert abs(len(links[0]) / (5 * 100 * 99) - 0.1) < 0.01
    one, other = (institution("fedpub", two_groups(n), "a") for n in (40, 44))
    assert one.initial_arrays().keys() == other.initial_arrays().keys()
