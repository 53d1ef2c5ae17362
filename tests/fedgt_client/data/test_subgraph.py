"""Which subgraph an institution holds."""

from pathlib import Path

import pytest

from fedgt_client.data import subgraph
from fedgt_client.data.partition import institution_graphs
from fedgt_client.data.subgraph import open_institution
from fedgt_client.graph import Graph
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError
from tests.fedgt_client.graphs import settings, two_groups


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_folder_that_holds_no_graph(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="holds no graph"):
        open_institution(
            NodeConfig(institution="alba", data_dir=str(tmp_path / "nowhere")), settings()
        )


def test_own_data_is_opened(tmp_path: Path) -> None:
    graph = two_groups()
    graph.save(tmp_path / "own")
    node = NodeConfig(data_dir=str(tmp_path / "own"), partition_id=0)
    assert open_institution(node, settings()).digest() == graph.digest()


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace the dataset by small graphs; return the calls that partition it."""
    calls: list[int] = []

    def make(dataset: str, *, clients: int, seed: int, **_: object) -> list[Graph]:
        calls.append(clients)
        return [two_groups(20 + 2 * index, seed=seed) for index in range(clients)]

    monkeypatch.setattr(subgraph, "institution_graphs", make)
    return calls


def share(index: int, clients: int = 3, *, seed: int = 0, setting: str = "disjoint") -> Graph:
    config = settings(dataset="cora", seed=seed, setting=setting)
    return open_institution(NodeConfig(partition_id=index, num_partitions=clients), config)


def test_a_dataset_is_partitioned_once(divided: list[int]) -> None:
    sizes = [share(index).num_nodes for index in (2, 0, 1, 2)]
    assert sizes == [24, 20, 22, 24]
    assert divided == [3]
    assert share(1).digest() == two_groups(22).digest()


def test_each_partition_is_cached_separately(divided: list[int]) -> None:
    share(0)
    share(0, 4)
    share(0, seed=1)
    share(0, setting="overlap")
    assert divided == [3, 4, 3, 3]
    assert share(0, seed=1).digest() == two_groups(20, seed=1).digest()


def test_banks_of_the_consortium() -> None:
    config = settings(dataset="consortium")
    found = open_institution(NodeConfig(partition_id=1, num_partitions=3), config)
    expected = institution_graphs("consortium", clients=3, setting="disjoint", seed=0)
    assert found.digest() == expected[1].digest()
