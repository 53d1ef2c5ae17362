"""Which data it is."""

from dataclasses import replace

import numpy as np

from fedgt_client.privacy.digest import data_digest
from tests.fedgt_client.graphs import two_groups, without_links


def test_another_split_schema_or_name_is_the_same_data() -> None:
    graph = two_groups()
    other = replace(
        graph,
        train=graph.val,
        val=graph.train,
        features=np.asarray(graph.features) * 2,
        feature_names=tuple("abcdef"),
    )
    assert other.digest() != graph.digest()
    assert data_digest(other) == data_digest(graph)


def test_a_schema_that_orders_or_merges_classes_otherwise_is_the_same_data() -> None:
    graph = two_groups()
    assert data_digest(replace(graph, labels=1 - graph.labels)) == data_digest(graph)
    merged = replace(graph, labels=0 * graph.labels, class_names=("all",))
    assert data_digest(merged) == data_digest(graph)


def test_other_links_are_other_data() -> None:
    graph = two_groups()
    assert data_digest(two_groups(seed=1)) != data_digest(graph)
    alone = without_links(graph)
    assert data_digest(alone) != data_digest(graph)
    assert data_digest(replace(alone, labels=1 - alone.labels)) != data_digest(alone)


def test_the_type_of_an_array_does_not_matter() -> None:
    graph = two_groups()
    wide = replace(graph, indices=graph.indices.astype(np.int64))
    assert data_digest(wide) == data_digest(graph)
