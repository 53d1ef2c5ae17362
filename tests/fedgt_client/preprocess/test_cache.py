"""Prepared once, then found."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.preprocess.cache import prepare
from shared.config import Scalar
from shared.files import open_tensors, write_tensors
from tests.fedgt_client.graphs import settings, two_groups, with_weights
from tests.harness.mapped import is_mapped


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if anything is computed from now on."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("prepared again")

    monkeypatch.setattr("fedgt_client.preprocess.ppr.personalised_pagerank", fail)
    monkeypatch.setattr("fedgt_client.preprocess.cache.laplacian_encoding", fail)


def test_second_time_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = two_groups()
    first = prepare(graph, settings(), tmp_path)
    forbid(monkeypatch)
    # Of what is not prepared nothing matters: neither seed nor model.
    second = prepare(two_groups(), settings(seed=3, lr=0.5, hidden=32, rounds=9), tmp_path)
    assert second.pool[0].tolist() == first.pool[0].tolist()
    assert second.pool[1].tolist() == first.pool[1].tolist()
    assert second.encoding.tolist() == first.encoding.tolist()
    assert first.pool[0].shape == (40, 16)
    assert first.encoding.shape == (40, 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"samples": 5},
        {"sampler": "graphsage"},
        {"sampler": "attribute"},
        {"ppr_nu": 0.3},
        {"ppr_tolerance": 1e-3},
        {"positional_dimensions": 3},
    ],
)
def test_other_parameters_are_prepared_again(
    changed: dict[str, Scalar], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(two_groups(), settings(), tmp_path)
    prepare(two_groups(), settings(**changed), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_graph_is_prepared_again(tmp_path: Path) -> None:
    graph = two_groups()
    features = graph.dense_features() + np.float32(1)
    weighted = with_weights(graph)
    others = (graph, two_groups(seed=1), replace(graph, features=features), weighted)
    for other in (*others, with_weights(graph, seed=1)):
        prepare(other, settings(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_seed_counts_where_the_pool_is_drawn(tmp_path: Path) -> None:
    for seed in (0, 1):
        prepare(two_groups(), settings(sampler="graphsage", seed=seed), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_memory_mapped(tmp_path: Path) -> None:
    prepared = prepare(two_groups(), settings(), tmp_path)
    for array in (*prepared.pool, prepared.encoding):
        assert is_mapped(array)
        assert not array.flags.writeable


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "another graph's", "no JSON"])
def test_a_damaged_file_is_made_anew(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = prepare(two_groups(), settings(), tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    prepare(two_groups(60), settings(), tmp_path / "other")
    (other,) = (tmp_path / "other").iterdir()
    content = {
        "empty": b"",
        "cut": whole[:-100],
        "zeros": whole[:header] + bytes(len(whole) - header),
        "another graph's": other.read_bytes(),
        "no JSON": whole[:8] + b"?" * (len(whole) - 8),
    }
    path.unlink()  # the arrays of `first` are still mapped to it
    path.write_bytes(content[damage])
    again = prepare(two_groups(), settings(), tmp_path)
    assert "prepared again" in caplog.text
    assert again.pool[0].tolist() == first.pool[0].tolist()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["encoding", "weights"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_file_with_values_that_are_not_finite_is_made_anew(
    name: str, value: float, tmp_path: Path
) -> None:
    prepare(two_groups(), settings(), tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    arrays = {key: np.array(array) for key, array in open_tensors(path).items()}
    arrays[name][3, 0] = value
    write_tensors(path, arrays)
    again = prepare(two_groups(), settings(), tmp_path)
    assert np.isfinite(again.encoding).all()
    assert path.read_bytes() == whole


def test_files_that_were_not_read_for_long_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [two_groups(nodes) for nodes in (40, 50, 60)]
    prepare(graphs[0], settings(), tmp_path)
    (first,) = tmp_path.iterdir()
    prepare(graphs[1], settings(), tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, ns=(0, 1 if path == first else 2))
    prepare(graphs[0], settings(), tmp_path)  # read again: now the second is the older one
    monkeypatch.setattr("fedgt_client.preprocess.cache._LARGEST", 3 * first.stat().st_size)
    prepare(graphs[2], settings(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr("fedgt_client.preprocess.cache._LARGEST", 1)
    prepare(graphs[1], settings(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    forbid(monkeypatch)
    prepare(graphs[1], settings(), tmp_path)
