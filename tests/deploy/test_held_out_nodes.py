"""Accounts that were not there at training, against a training that had them without labels."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.settings import resolve_settings
from fedgt_client.data.partition import institution_graphs
from fedgt_client.data.schema import NumericColumn, Schema
from fedgt_client.data.table_import import Tables, import_tables
from fedgt_client.graph import SPLITS, Graph
from fedgt_client.node import NodeConfig
from fedgt_client.predict import Model, load_model, open_data

BANKS, ROUNDS, SEED = 6, 40, 1


def tables_of(graph: Graph) -> tuple[pa.Table, pa.Table]:
    """Return a graph as tables of nodes and links."""
    split = np.full(graph.num_nodes, "", dtype=object)
    for name in SPLITS:
        split[getattr(graph, name)] = name
    features = dict(zip(graph.feature_names, graph.dense_features().T, strict=True))
    names = np.array(graph.class_names)[graph.labels]
    ids = [str(number) for number in range(graph.num_nodes)]
    nodes = pa.table({"id": ids, "class": names, "split": pa.array(split), **features})
    sources, targets = graph.arcs()
    return nodes, pa.table({"from": sources, "to": targets})


def train(place: Path, parts: list[tuple[pa.Table, pa.Table]], schema: Schema) -> list[Model]:
    """Import the tables of every bank, train together, return the models."""
    nodes = []
    for number, part in enumerate(parts):
        folder = place / f"bank-{number}"
        folder.mkdir(parents=True)
        paths = [folder / "nodes.parquet", folder / "edges.parquet"]
        for table, path in zip(part, paths, strict=True):
            pq.write_table(table, path)
        tables = Tables(paths[0], paths[1], "id", "class", "from", "to", split="split")
        import_tables(tables, schema).save(folder / "data")
        nodes.append(NodeConfig(institution=folder.name, data_dir=str(folder / "data")))
    settings = {"rounds": ROUNDS, "seed": SEED, "ldp-noise-seed": 0}
    run_institutions(
        resolve_settings(with_output_paths(dict(settings), place / "run", BANKS)), nodes
    )
    return [load_model(place / "run", institution=f"bank-{number}") for number in range(BANKS)]


@pytest.mark.slow
def test_held_out_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    graphs = institution_graphs("consortium", clients=BANKS, setting="disjoint", seed=SEED)
    schema = Schema(
        columns=tuple(NumericColumn(name=name) for name in graphs[0].feature_names),
        labels=graphs[0].class_names,
    )
    rng = np.random.default_rng(SEED)
    whole, old, added, accuracy = [], [], [], {"there": 0.0, "new": 0.0}
    for graph in graphs:
        nodes, edges = tables_of(graph)
        test = np.flatnonzero(graph.test)  # half of them: a fifth of all nodes
        held = np.isin(np.arange(graph.num_nodes), rng.permutation(test)[: len(test) // 2])
        touches = held[edges["from"].to_numpy()] | held[edges["to"].to_numpy()]
        whole.append((nodes, edges))
        old.append((nodes.filter(~held), edges.filter(~touches)))
        added.append((nodes.filter(held), edges.filter(touches)))
    models = {"there": train(tmp_path / "all", whole, schema)}
    models["new"] = train(tmp_path / "old", old, schema)
    for number, (nodes, edges) in enumerate(added):
        data = open_data(tmp_path / "all" / f"bank-{number}" / "data")
        grown = open_data(tmp_path / "old" / f"bank-{number}" / "data")
        grown = grown.attach(nodes.drop_columns(["class"]), edges)
        truth = dict(zip(nodes["id"].to_pylist(), nodes["class"].to_pylist(), strict=True))
        for kind, place in (("there", data), ("new", grown)):
            table = models[kind][number].predict(place)
            found = dict(zip(table["id"].to_pylist(), table["predicted"].to_pylist(), strict=True))
            right = [found[node] == label for node, label in truth.items()]
            accuracy[kind] += float(np.mean(right)) / BANKS
    # Of some 230 nodes: over ten seeds the mean is 1.5 points, over four others it was 2.3, of
    # which single seeds gave +0.8 to -5.4. The smaller graph of the training costs it.
    assert accuracy["new"] > accuracy["there"] - 0.07, accuracy
    assert accuracy["new"] > 0.7, accuracy
