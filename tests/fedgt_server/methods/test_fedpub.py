"""FED-PUB at the coordinator, by hand."""

import math

import numpy as np
import pytest

from deploy.settings import resolve_settings
from fedgt_server.methods.fedpub import FedPub
from shared.wire import FUNCTIONAL_EMBEDDING, Arrays, Profile, Update

INITIAL: Arrays = {"weight": np.zeros(2, np.float32)}


def update(name: str, change: float, embedding: list[float]) -> Update:
    return Update(
        name,
        {
            "weight": np.full(2, change, np.float32),
            FUNCTIONAL_EMBEDDING: np.array(embedding, np.float32),
        },
        {},
    )


def begun() -> FedPub:
    method = FedPub(resolve_settings({"method": "fedpub", "hidden": 4, "tau": 2.0}))
    method.begin(INITIAL)
    for name in ("a", "b"):
        method.message(name)
    return method


def test_weights_are_softmax_of_cosines() -> None:
    """cos = 0 between a and b: α = e² / (e² + 1) for itself."""
    method = begun()
    report = method.aggregate(
        {"a": update("a", 1.0, [3, 0, 0, 0]), "b": update("b", 5.0, [0, 2, 0, 0])}
    )
    own = math.exp(2) / (math.exp(2) + 1)
    assert method.message("a")["weight"] == pytest.approx([own * 1 + (1 - own) * 5] * 2)
    assert method.message("b")["weight"] == pytest.approx([own * 5 + (1 - own) * 1] * 2)
    assert report.facts["similarity"] == [[1.0, 0.0], [0.0, 1.0]]
    assert method.message("newcomer")["weight"].tolist() == [3.0, 3.0]


def test_the_length_of_an_embedding_does_not_count() -> None:
    method = begun()
    method.aggregate({"a": update("a", 1.0, [1, 1, 0, 0]), "b": update("b", 5.0, [9, 9, 0, 0])})
    assert method.message("a")["weight"] == pytest.approx([3.0, 3.0])


def test_an_update_must_hold_the_embedding() -> None:
    profile = Profile("1", [], ["x"], {"weight": [2]})
    assert begun().expected(profile) == {"weight": [2], FUNCTIONAL_EMBEDDING: [4]}


def test_restored() -> None:
    method, other = begun(), begun()
    method.aggregate({"a": update("a", 1.0, [1, 0, 0, 0]), "b": update("b", 5.0, [1, 2, 0, 0])})
    other.load_state_dict(method.state_dict())
    for name in ("a", "b", "new"):
        assert other.message(name)["weight"].tolist() == method.message(name)["weight"].tolist()
