"""Jobs that are no runs: statistics, preparation time, embeddings."""

from pathlib import Path

import pytest

from experiments.embeddings import embeddings
from experiments.job import Job
from experiments.partition_measurements import preprocessing, statistics
from fedgt_client.data.partition import partition_dataset
from fedgt_client.data.stats import partition_stats
from tests.experiments.jobs import statistics_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))


def test_statistics_are_those_of_the_partition() -> None:
    facts = statistics(statistics_of())
    graph, members = partition_dataset("consortium", clients=3, setting="disjoint", seed=0)
    expected = partition_stats(graph, members)
    assert facts["missing_links"] == expected.missing_links
    assert facts["heterogeneity"] == pytest.approx(expected.heterogeneity, abs=1e-5)
    assert facts["nodes"] == [len(nodes) for nodes in members]
    assert [sum(counts) for counts in facts["labels"]] == [
        sum(client.labels) for client in expected.clients
    ]


def test_every_client_s_preparation_is_timed(tmp_path: Path) -> None:
    job = Job("consortium", "disjoint", 3, kind="preprocessing")
    facts = preprocessing(job, tmp_path)
    assert len(facts["nodes"]) == 3
    assert len(facts["prepare_seconds"]) == 3
    # Nothing was found prepared: each has files of its own.
    assert all(len(list((tmp_path / str(index)).iterdir())) == 1 for index in range(3))
    assert all(value > 0 for value in facts["prepare_seconds"])


@pytest.mark.slow
def test_embeddings_of_two_institutions(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    extra = (("global-nodes", 4), ("heads", 2), ("hidden", 16), ("samples", 4))
    job = Job("consortium", "disjoint", 3, "fedgt", rounds=2, extra=extra, kind="tsne")
    rounds: list[int] = []
    facts = embeddings(job, tmp_path, rounds.append)
    assert rounds == [1, 2]
    assert len(facts["institutions"]) == 2
    expected = statistics(statistics_of())["nodes"]
    for size, institution in zip(expected, facts["institutions"], strict=False):
        assert len(institution["nodes"]) == len(institution["labels"]) == size
        assert len(institution["global_nodes"]) == 4
        assert all(len(point) == 2 for point in institution["nodes"])
    assert "data-dir" not in facts["config"]
