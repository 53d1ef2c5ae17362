import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgt_client.csr import csr_from_arcs
from fedgt_client.graph import Graph, sparse_features
from shared.errors import FedGTError
from shared.files import open_tensors, write_tensors
from tests.fedgt_client.small_graphs import random_graph, small_graph
from tests.harness.mapped import is_mapped


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(3, np.int64)}, r"labels has shape \(3,\), expected \(4,\)"),
        ({"labels": np.array([0, 1, 2, 0])}, "labels lie outside"),
        ({"labels": np.array([0, 1, -2, 0])}, "labels lie outside"),
        ({"features": np.zeros((4, 2), np.float32)}, "features have shape"),
        ({"train": np.zeros(5, np.bool_)}, "train has shape"),
        ({"indices": np.array([1, 0, 9, 1, 3, 2], np.int32)}, "outside 0..3"),
        ({"indices": np.array([1], np.int32)}, "indices has 1 entries"),
        ({"weights": np.ones(5, np.float32)}, r"shape \(5,\), expected float32 of \(6,\)"),
        ({"weights": np.ones(6)}, "weights are float64"),
        ({"weights": np.array([1, 1, 0, 1, 1, 1], np.float32)}, "positive and finite"),
        ({"weights": np.array([1, 1, -1, 1, 1, 1], np.float32)}, "positive and finite"),
        ({"weights": np.array([1, 1, np.nan, 1, 1, 1], np.float32)}, "positive and finite"),
        ({"weights": np.array([1, 1, np.inf, 1, 1, 1], np.float32)}, "positive and finite"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    graph = small_graph(4, [(0, 1), (1, 2), (2, 3)])
    with pytest.raises(FedGTError, match=message):
        replace(graph, **change)  # type: ignore[arg-type]


def test_loops_and_duplicates_are_dropped() -> None:
    graph = small_graph(3, [(0, 1), (1, 0), (0, 1), (2, 2)])
    assert graph.num_edges == 1
    assert graph.indptr.tolist() == [0, 1, 2, 2]
    assert graph.indices.tolist() == [1, 0]


def test_subgraph_loses_links_to_others() -> None:
    # 0 - 1 - 2 - 3 with the chord 0 - 3; without node 1 two of four links remain.
    graph = small_graph(4, [(0, 1), (1, 2), (2, 3), (0, 3)], [0, 1, 0, 1])
    part = graph.subgraph(np.array([3, 0, 2]))
    assert part.num_nodes == 3
    assert part.num_edges == 2
    assert sorted(zip(*(side.tolist() for side in part.arcs()), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 0),
        (2, 0),
    ]
    assert part.dense_features()[:, 0].tolist() == [3.0, 0.0, 2.0]
    assert part.labels.tolist() == [1, 0, 0]


def test_subgraph_of_nothing() -> None:
    part = small_graph(3, [(0, 1)]).subgraph(np.empty(0, np.int64))
    assert (part.num_nodes, part.num_edges) == (0, 0)


def test_permuting_nodes_keeps_the_links() -> None:
    graph = random_graph(30, 60, seed=0)
    order = np.random.default_rng(1).permutation(30)
    turned = graph.subgraph(order)
    original = {(int(a), int(b)) for a, b in zip(*graph.arcs(), strict=True)}
    assert {(int(order[a]), int(order[b])) for a, b in zip(*turned.arcs(), strict=True)} == original
    assert turned.num_edges == graph.num_edges


def test_directed_links_count_once() -> None:
    graph = small_graph(3, [(0, 1), (1, 2)])
    indptr, indices = csr_from_arcs(np.array([0, 1]), np.array([1, 2]), 3)
    assert replace(graph, indptr=indptr, indices=indices, directed=True).num_edges == 2


@pytest.mark.parametrize(
    ("indptr", "indices", "values", "message"),
    [
        ([0, 2, 1], [0], [1.0], "do not increase"),
        ([1, 1, 1], [0], [1.0], "do not increase"),
        ([0, 1, 1], [0, 1], [1.0, 1.0], "2 columns, 2 values and 1 entries"),
        ([0, 1, 1], [0], [1.0, 1.0], "1 columns, 2 values and 1 entries"),
        ([0, 1, 1], [3], [1.0], "outside 0..2"),
        ([0, 1, 1], [-1], [1.0], "outside 0..2"),
    ],
)
def test_wrong_sparse_features(
    indptr: list[int], indices: list[int], values: list[float], message: str
) -> None:
    parts = np.array(indptr), np.array(indices, np.int32), np.array(values, np.float32)
    with pytest.raises(FedGTError, match=message):
        sparse_features(*parts, columns=3)


def test_sparse_features_of_given_rows() -> None:
    dense = np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3]], np.float32)
    indptr, indices = np.array([0, 1, 1, 3]), np.array([1, 0, 2], np.int32)
    sparse = sparse_features(indptr, indices, np.array([2, 1, 3], np.float32), columns=3)
    assert np.array_equal(sparse.toarray(), dense)
    assert np.array_equal(sparse[np.array([2, 2, 1])].toarray(), dense[[2, 2, 1]])


def test_sparse_features_are_memory_mapped_and_keep_their_types(tmp_path: Path) -> None:
    dense = np.zeros((20, 5), np.float32)
    dense[::2, 3] = 1
    names = tuple("abcde")
    graph = replace(random_graph(20, 40, seed=3), features=csr_array(dense), feature_names=names)
    graph.save(tmp_path / "g")
    stored = open_tensors(tmp_path / "g" / "graph.safetensors")
    assert stored["features.indptr"].dtype == np.int64
    assert stored["features.indices"].dtype == np.int32
    assert stored["features.values"].dtype == np.float32
    opened = Graph.open(tmp_path / "g").features
    assert isinstance(opened, csr_array)
    for array in (opened.indices, opened.data):
        assert is_mapped(array), "opening a graph must not copy its features"
    assert opened.indices.dtype == np.int32


@pytest.fixture(params=["dense", "sparse"])
def graph(request: pytest.FixtureRequest) -> Graph:
    made = random_graph(20, 40, seed=3)
    made = replace(made, train=made.labels == 0)
    if request.param == "sparse":
        return replace(made, features=csr_array(made.dense_features()))
    return made


def test_save_and_open(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g")
    opened = Graph.open(tmp_path / "g")
    assert opened.digest() == graph.digest()
    assert opened.class_names == graph.class_names
    for array in (opened.indptr, opened.indices, opened.labels, opened.train):
        assert is_mapped(array)
        assert not array.flags.writeable
    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == [
        "graph.json",
        "graph.safetensors",
    ]


def test_opened_graph_can_be_sliced(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g")
    nodes = np.array([5, 1, 7])
    assert Graph.open(tmp_path / "g").subgraph(nodes).digest() == graph.subgraph(nodes).digest()


def test_digest_sees_every_part(graph: Graph) -> None:
    others = [
        replace(graph, labels=1 - graph.labels),
        replace(graph, train=~graph.train),
        replace(graph, class_names=("a", "c")),
        replace(graph, features=graph.dense_features() + 1),
        graph.subgraph(np.arange(graph.num_nodes)[::-1]),
    ]
    assert len({graph.digest(), *(other.digest() for other in others)}) == 6
    assert graph.subgraph(np.arange(graph.num_nodes)).digest() == graph.digest()


def test_existing_folder_is_not_overwritten(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g")
    with pytest.raises(FedGTError, match="exists already"):
        graph.save(tmp_path / "g")
    graph.save(tmp_path / "g", force=True)


def test_absent_graph(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="holds no graph"):
        Graph.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(FedGTError, match="holds no graph"):
        Graph.open(tmp_path / "file")


def test_cut_off_graph(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g")
    tensors = tmp_path / "g" / "graph.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-3])
    with pytest.raises(FedGTError, match=r"graph\.safetensors is damaged \(its tensors take"):
        Graph.open(tmp_path / "g")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', '{"format": 1}'])
def test_damaged_description(tmp_path: Path, graph: Graph, text: str) -> None:
    graph.save(tmp_path / "g")
    (tmp_path / "g" / "graph.json").write_text(text)
    with pytest.raises(FedGTError, match=str(tmp_path / "g")):
        Graph.open(tmp_path / "g")


def test_description_that_does_not_fit(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g")
    path = tmp_path / "g" / "graph.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"class_names": ["only"]}))
    with pytest.raises(FedGTError, match="is damaged: labels lie outside"):
        Graph.open(tmp_path / "g")


def weighted_path() -> Graph:
    """Return 0 - 1 - 2 with the weights 2 and 5."""
    return replace(small_graph(3, [(0, 1), (1, 2)]), weights=np.array([2, 2, 5, 5], np.float32))


def test_a_subgraph_keeps_the_weights_of_its_links() -> None:
    part = weighted_path().subgraph(np.array([2, 1]))
    assert part.indices.tolist() == [1, 0]
    assert part.weights is not None
    assert part.weights.tolist() == [5, 5]


def test_weights_are_saved_and_part_of_the_digest_only_where_present(tmp_path: Path) -> None:
    plain = small_graph(3, [(0, 1), (1, 2)])
    weighted = weighted_path()
    assert weighted.digest() != plain.digest()
    # As before graphs had weights: caches and saved graphs stay valid.
    assert plain.digest() == "dd85556303351dc9537eb32bcdcb1a0c45989853b0e2393f9ecc3f48db7607c5"
    weighted.save(tmp_path / "graph")
    again = Graph.open(tmp_path / "graph")
    assert again.weights is not None
    assert again.weights.tolist() == [2, 2, 5, 5]
    assert again.digest() == weighted.digest()
    plain.save(tmp_path / "plain")
    assert Graph.open(tmp_path / "plain").weights is None


def test_wrong_weights_in_a_file_are_refused(tmp_path: Path) -> None:
    weighted_path().save(tmp_path / "graph")
    file = tmp_path / "graph" / "graph.safetensors"
    tensors = {name: np.array(array) for name, array in open_tensors(file).items()}
    write_tensors(file, tensors | {"weights": np.array([1, 1, 0, 1], np.float32)})
    with pytest.raises(FedGTError, match="is damaged: weights must be positive and finite"):
        Graph.open(tmp_path / "graph")
