"""What tests of the paper's other systems share."""

from fedgt_client.graph import Graph
from fedgt_client.methods import client_method
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from shared.config import Scalar
from tests.fedgt_client.graphs import settings, two_groups


def institution(
    method: str, graph: Graph | None = None, name: str = "alba", /, **changed: Scalar
) -> ClientMethod:
    """Return a small institution that trains with the named method."""
    return client_method(graph or two_groups(), settings(method=method, **changed), name)


def federated(method: ClientMethod, rounds: int) -> list[LocalResult]:
    """Train for some rounds in which the coordinator returns what it got."""
    results, model = [], method.initial_arrays()
    for number in range(1, rounds + 1):
        results.append(method.fit(model, number))
        model = {name: model[name] + results[-1].upload.get(name, 0) for name in model}
    return results


def assert_same(found: Arrays, expected: Arrays) -> None:
    """Equal to the byte."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].tobytes() == array.tobytes(), name
