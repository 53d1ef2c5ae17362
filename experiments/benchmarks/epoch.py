"""``fedgt bench epoch``: a local round of FedGT beside FedAvg's GraphSAGE and PyG's."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from deploy.settings import resolve_settings
from experiments.benchmarks.graphs import cora_sized
from experiments.benchmarks.measure import machine
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, ratio
from experiments.benchmarks.rounds import measure_run
from fedgt_client.data.catalog import find_raw_files
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from fedgt_client.methods import client_method

REPEATS = 10
GENERATED, CORA = "generated, size of Cora", "cora/5"

_INSTITUTIONS = 5
_FEDGT, _FEDAVG, _PYG = "FedGT", "FedAvg-GraphSAGE", "PyG SAGEConv, full batch"


def bench(repeats: int, rounds: int, progress: Progress) -> Report:
    """Measure on the generated graph, and on Cora where its files are found."""
    rows: list[Row] = []
    has_cora = find_raw_files("cora") is not None
    for data in (GENERATED, CORA) if has_cora else (GENERATED,):
        progress(data)
        with tempfile.TemporaryDirectory() as cache:
            found = OwnProcess(cache=Path(cache)).run(measure_rounds, data, repeats)
        rows += [_row(data, name, found) for name in (_FEDGT, _FEDAVG, _PYG)]
    runs = _runs("cora" if has_cora else "consortium", rounds, progress)
    headings = {
        "data": "data",
        "method": "method",
        "round_ms": "round, CPU ms",
        "train_ms": "training alone",
        "of_fedavg": "of FedAvg's round",
        "of_pyg": "of PyG's round",
    }
    return Report(
        bench="epoch",
        command=f"fedgt bench epoch --repeats {repeats} --rounds {rounds}",
        machine=machine(),
        tables=(
            Table.of("rounds", "A local round with evaluation", headings, rows, labels=2),
            runs,
        ),
        notes=(
            f"CPU milliseconds of one thread for all institutions together, the shortest of "
            f"{repeats} rounds after the first. 'Training alone' is a round of the same graph "
            "without validation and test nodes.",
            f"A whole round is what 'fedgt experiment table cost' counts: messages, aggregation "
            f"and journal too, the mean of a run of {rounds} rounds without the first. Short runs "
            "cost more a round: own models are trained longer in each.",
        ),
    )


def _runs(dataset: str, rounds: int, progress: Progress) -> Table:
    """Measure whole rounds of both methods in one process."""
    rows = []
    for title, method in ((_FEDGT, "fedgt"), (_FEDAVG, "fedavg")):
        progress(f"{title}: {rounds} whole rounds of {dataset}/{_INSTITUTIONS}")
        with tempfile.TemporaryDirectory() as folder:
            process = OwnProcess(cache=Path(folder) / "cache")
            row = process.run(
                measure_run, method, dataset, _INSTITUTIONS, rounds, folder, checkpoints=False
            )
        rows.append(row | {"method": title})
    for row in rows:
        row["of_fedavg"] = ratio(row["mean_round_ms"], rows[-1]["mean_round_ms"])
    headings = {
        "data": "data",
        "method": "method",
        "mean_round_ms": "whole round, CPU ms",
        "of_fedavg": "of FedAvg's",
    }
    return Table.of("runs", "A whole round in one process", headings, rows, labels=2)


def _row(data: str, name: str, found: Row) -> Row:
    round_ms = found[name]
    return {
        "data": data,
        "method": name,
        "round_ms": round_ms,
        "train_ms": found[f"{name}, training"],
        "of_fedavg": ratio(round_ms, found[_FEDAVG]),
        "of_pyg": ratio(round_ms, found[_PYG]),
    }


def measure_rounds(data: str, repeats: int) -> Row:
    """Measure every method on the same graphs; runs in a process of its own."""
    torch.set_num_threads(1)
    graphs = _graphs(data)
    unevaluated = [_without_evaluation(graph) for graph in graphs]
    rounds: dict[str, Callable[[int], object]] = {}
    for name, method in ((_FEDGT, "fedgt"), (_FEDAVG, "fedavg")):
        rounds[name] = _federated(method, graphs)
        rounds[f"{name}, training"] = _federated(method, unevaluated)
    rounds[_PYG] = _pyg(graphs, evaluate=True)
    rounds[f"{_PYG}, training"] = _pyg(graphs, evaluate=False)
    times: dict[str, list[float]] = {name: [] for name in rounds}
    # In turns, so that a busy moment of the machine does not meet one of them alone.
    for number in range(1, repeats + 2):
        for name, play in rounds.items():
            started = time.process_time()
            play(number)
            times[name].append(1000 * (time.process_time() - started))
    return {name: min(measured[1:]) for name, measured in times.items()}


def _graphs(data: str) -> list[Graph]:
    if data == GENERATED:
        return [cora_sized()]
    return institution_graphs("cora", clients=_INSTITUTIONS, setting="disjoint", seed=0)


def _without_evaluation(graph: Graph) -> Graph:
    nothing = np.zeros(graph.num_nodes, np.bool_)
    return replace(graph, val=nothing, test=nothing)


def _federated(method: str, graphs: list[Graph]) -> Callable[[int], object]:
    """Return a round of a method at all institutions, without messages."""
    config = resolve_settings({"method": method})
    clients = [
        client_method(graph, config, f"institution-{index}") for index, graph in enumerate(graphs)
    ]
    initial = [client.initial_arrays() for client in clients]
    return lambda number: [
        client.fit(start, number) for client, start in zip(clients, initial, strict=True)
    ]


def _pyg(graphs: list[Graph], *, evaluate: bool) -> Callable[[int], object]:
    """Return an epoch, and an evaluation, of a plain GraphSAGE on each graph."""
    models = [PlainSAGE(graph) for graph in graphs]
    return lambda number: [model.round(evaluate=evaluate) for model in models]


class PlainSAGE:
    """PyG's GraphSAGE of FedAvg's size, trained on all nodes and all neighbours at once."""

    def __init__(self, graph: Graph) -> None:
        from torch_geometric.nn import GraphSAGE

        config = resolve_settings({"method": "fedavg"})
        self._model = GraphSAGE(
            graph.num_features,
            config.hidden,
            config.layers,
            graph.num_classes,
            dropout=config.dropout,
        )
        self._adam = torch.optim.Adam(self._model.parameters(), config.lr)
        self._features = torch.from_numpy(graph.dense_features())
        self._links = torch.from_numpy(np.stack(graph.arcs()))
        self._labels = torch.from_numpy(graph.labels)
        self._train = torch.from_numpy(graph.train)
        self._rest = torch.from_numpy(graph.val | graph.test)

    def round(self, *, evaluate: bool) -> float:
        """Take one step; return the accuracy on nodes without a training label."""
        self._model.train()
        self._adam.zero_grad()
        scores = self._model(self._features, self._links)
        functional.cross_entropy(scores[self._train], self._labels[self._train]).backward()
        self._adam.step()
        if not evaluate:
            return float("nan")
        self._model.eval()
        with torch.no_grad():
            scores = self._model(self._features, self._links)[self._rest]
        return float((scores.argmax(dim=1) == self._labels[self._rest]).float().mean())
