"""Lines about a long preparation."""

import numpy as np
import pytest

from fedgt_client.csr import undirected
from fedgt_client.graph import Graph
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.preprocess.ppr import personalised_pagerank
from fedgt_client.preprocess.progress import Progress


class Clock:
    """Replaces time.monotonic."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level("INFO")
    clock = Clock()
    monkeypatch.setattr("fedgt_client.preprocess.progress.time.monotonic", clock)
    return clock


def test_nothing_of_what_is_quick(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("PPR", 10)
    for _ in range(10):
        clock.now += 0.19
        progress.advance(1)
    assert not caplog.messages


def test_time_left_now_and_then(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("PPR", 100)
    for _ in range(100):
        clock.now += 0.5
        progress.advance(1)
    assert caplog.messages[0] == "preparing: PPR 4 %, 48 s left"
    assert caplog.messages[1] == "preparing: PPR 24 %, 38 s left"
    assert len(caplog.messages) == 5


def test_an_upper_bound_is_called_one(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("encoding", 10, at_most=True)
    clock.now += 5
    progress.advance(5)
    assert caplog.messages == ["preparing: encoding 50 %, at most 5 s left"]


def test_small_components_are_counted_as_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr("fedgt_client.preprocess.progress._FIRST", 0.0)
    first = np.array([0, 2, 4, 5])  # two pairs, then a path of three nodes
    graph = unlabelled(8, first, first + 1)
    personalised_pagerank(graph)
    laplacian_encoding(graph, 2)
    steps = [line.split(" %")[0] for line in caplog.messages]
    assert steps == [
        "preparing: PPR of small components 57",
        "preparing: positional encoding of small components 57",
    ]


def unlabelled(nodes: int, sources: np.ndarray, targets: np.ndarray) -> Graph:
    indptr, indices = undirected(sources, targets, nodes)
    unset, labels = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
    features = np.zeros((nodes, 0), np.float32)
    return Graph(indptr, indices, features, labels, unset, unset, unset, (), ("a",))
