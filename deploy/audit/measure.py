"""What the attacks find in a rehearsal."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch.nn import functional

from deploy.audit.attacks import (
    auc,
    first_gradient,
    guess_shares,
    guess_shares_blindly,
    mean_error,
    single_input,
)
from deploy.audit.rehearsal import Institution
from fedgt_client.graph import Graph
from fedgt_client.methods import client_method
from fedgt_client.model.features import to_tensor
from fedgt_client.privacy.labels import private_labels
from shared.config import RunConfig
from shared.precision import decode
from shared.wire import COMMON, GLOBAL_NODES, Arrays, encode_message

Floats = NDArray[np.float64]

_FEATURES = "encoder.feature_weight"
_COMMON_FEATURES = f"{COMMON}feature_weight"
_SMALL_CASES = 10  # single nodes whose features are asked for


def first_round_clues(institutions: Sequence[Institution], config: RunConfig) -> Floats:
    """Return clues to class shares in the first Δθ, shape (institutions, classes, clues)."""
    found = []
    for one in institutions:
        exchange = one.exchanges[1]
        gradients = {
            name: first_gradient(
                exchange.uploaded[name], exchange.received[name].astype(np.float64), config
            )
            for name in ("head.weight", "head.bias")
        }
        steps = -exchange.uploaded["head.bias"].astype(np.float64) / config.lr
        weight = gradients["head.weight"]
        norms = np.linalg.norm(weight, axis=1)
        found.append(np.stack([gradients["head.bias"], steps, norms, weight.mean(axis=1)], axis=1))
    return np.stack(found)


def common_gradient_clues(institutions: Sequence[Institution], rounds: Iterable[int]) -> Floats:
    """Return clues in the gradients of the common model, shape (institutions, classes, clues).

    Of the classification layer, whose gradient is that of the mean of p − y: all rounds together.
    """
    found = []
    for one in institutions:
        gradients = [one.exchanges[number].uploaded for number in rounds]
        bias = np.sum([sent[COMMON + "head.bias"] for sent in gradients], axis=0)
        weight = np.sum([sent[COMMON + "head.weight"] for sent in gradients], axis=0)
        norms = np.linalg.norm(weight, axis=1)
        found.append(np.stack([bias, norms, weight.mean(axis=1)], axis=1).astype(np.float64))
    return np.stack(found)


def global_node_clues(institutions: Sequence[Institution], last: int) -> Floats:
    """Return clues in the last μ: the classes of cluster centres, by the model itself."""
    found = []
    for one in institutions:
        exchange = one.exchanges[last]
        _load(one, _sum(exchange.received, exchange.uploaded))
        centres = to_tensor(exchange.uploaded[GLOBAL_NODES][-1], torch.device("cpu"))
        with torch.no_grad():
            classes = one.method.task.model.eval().logits(centres).softmax(dim=1)
        sharpest = functional.one_hot(classes.argmax(dim=1), classes.shape[1]).double()
        found.append(torch.stack([classes.mean(dim=0).double(), sharpest.mean(dim=0)], dim=1))
    return torch.stack(found).numpy()


def membership_from_model(one: Institution, last: int) -> float | None:
    """Return the AUC of telling training nodes from test nodes by their loss (Yeom et al. 2018)."""
    exchange = one.exchanges[last]
    return auc(-_losses(one, _sum(exchange.received, exchange.uploaded)), _is_member(one))


def membership_from_updates(one: Institution, rounds: Iterable[int]) -> float | None:
    """Return the AUC of the same by how much Δθ of the watched rounds lowers a node's loss.

    A step lowers the loss of what it was made of more than that of other nodes.
    """
    lowered = np.zeros(len(_candidates(one)))
    for number in rounds:
        exchange = one.exchanges[number]
        after = _sum(exchange.received, exchange.uploaded)
        lowered += _losses(one, exchange.received) - _losses(one, after)
    return auc(lowered, _is_member(one))


def occurring_features(one: Institution, config: RunConfig) -> float | None:
    """Return the AUC of telling which features occur at an institution, by the first upload.

    By Δθ or by the common model's gradient, whichever tells more.
    """
    exchange = one.exchanges[1]
    start = exchange.received[_FEATURES].astype(np.float64)
    clues = [first_gradient(exchange.uploaded[_FEATURES], start, config)]
    if config.has_common_model:
        clues.append(exchange.uploaded[_COMMON_FEATURES].astype(np.float64))
    occurs = np.zeros(one.graph.num_features, np.bool_)
    occurs[one.graph.features.nonzero()[1]] = True
    found = [auc(np.linalg.norm(gradient, axis=1), occurs) for gradient in clues]
    return max((value for value in found if value is not None), default=None)


def single_node_features(graph: Graph, config: RunConfig, name: str) -> list[float]:
    """Return how well the first upload of one training node alone discloses its features."""
    found = []
    for node in np.flatnonzero(graph.train)[:_SMALL_CASES]:
        alone = replace(graph.subgraph(np.array([node])), train=np.ones(1, np.bool_))
        method = client_method(private_labels(alone, config, None)[0], config, name)
        start = method.initial_arrays()
        upload = method.fit(start, 1).upload
        sent = decode(encode_message(upload, config.wire_precision))
        gradients = [first_gradient(sent[_FEATURES], start[_FEATURES].astype(np.float64), config)]
        if config.has_common_model:
            gradients.append(sent[_COMMON_FEATURES].astype(np.float64))
        features = alone.features
        dense = features.toarray() if isinstance(features, csr_array) else features
        truth = np.asarray(dense[0], np.float64)
        found.append(max(single_input(gradient, truth) for gradient in gradients))
    return found


def label_error_of_gradients(
    institutions: Sequence[Institution], config: RunConfig, rounds: Iterable[int]
) -> float | None:
    """Return the error of class shares guessed from the common model's gradients, if there are."""
    if not config.has_common_model:
        return None
    shares = np.stack([one.shares for one in institutions])
    return mean_error(guess_shares(common_gradient_clues(institutions, rounds), shares), shares)


def label_errors(
    institutions: Sequence[Institution], config: RunConfig, last: int
) -> tuple[float, float, float]:
    """Return the error of class shares guessed from Δθ, from μ, and from nothing."""
    shares = np.stack([one.shares for one in institutions])
    by_update = guess_shares(first_round_clues(institutions, config), shares)
    by_nodes = guess_shares(global_node_clues(institutions, last), shares)
    blind = guess_shares_blindly(shares)
    return mean_error(by_update, shares), mean_error(by_nodes, shares), mean_error(blind, shares)


def _sum(received: Arrays, uploaded: Arrays) -> Arrays:
    """Return an institution's model after a round, as the coordinator knows it."""
    return {
        name: array + uploaded[name] if name != GLOBAL_NODES else array
        for name, array in received.items()
        if not name.startswith(COMMON)  # the model that all know
    }


def _load(one: Institution, arrays: Arrays) -> None:
    """Set the weights, and the global nodes that are attended to."""
    task = one.method.task
    parameters = dict(task.model.named_parameters())
    with torch.no_grad():
        for name, array in arrays.items():
            if name.startswith(COMMON):
                continue
            if name == GLOBAL_NODES:
                task.global_nodes.centres[: len(array)] = to_tensor(array, torch.device("cpu"))
            else:
                parameters[name].copy_(to_tensor(array, torch.device("cpu")))


def _candidates(one: Institution) -> NDArray[np.int64]:
    """Return the nodes of which the coordinator asks whether they were trained on."""
    return np.flatnonzero(one.graph.train | one.graph.test)


def _is_member(one: Institution) -> NDArray[np.bool_]:
    return one.graph.train[_candidates(one)]


def _losses(one: Institution, arrays: Arrays) -> Floats:
    """Return the cross entropy of each candidate under a model, as its owner evaluates it."""
    _load(one, arrays)
    nodes = to_tensor(_candidates(one), torch.device("cpu"))
    labels = to_tensor(one.graph.labels, torch.device("cpu"))[nodes]
    scores = one.method.task.predict(nodes).double()
    return np.asarray(functional.cross_entropy(scores, labels, reduction="none").numpy())
