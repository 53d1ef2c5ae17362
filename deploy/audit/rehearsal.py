"""A run in this process whose messages are watched as its coordinator can."""

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import Message, MessageType, UserConfig
from numpy.typing import NDArray

from deploy.engines.in_process_grid import InProcessGrid
from fedgt_client.app import app, clients
from fedgt_client.data.own_folders import own_institution
from fedgt_client.data.subgraph import open_institution
from fedgt_client.graph import Graph
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.node import NodeConfig
from fedgt_server.result import Result
from fedgt_server.round_loop import Observer, RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Arrays, Instruction, Update


@dataclass(frozen=True)
class Exchange:
    """What went to an institution in a round, and what came back."""

    received: Arrays
    uploaded: Arrays


@dataclass(frozen=True)
class Institution:
    """What is known of an institution after the run: by the coordinator, and the truth."""

    name: str
    exchanges: dict[int, Exchange]  # by round
    method: FedGT
    graph: Graph  # with the labels it really has

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each class among the training nodes, shape (classes,)."""
        counts = np.bincount(self.graph.labels[self.graph.train], minlength=self.graph.num_classes)
        return np.asarray(counts / max(counts.sum(), 1), np.float64)


class WatchedGrid(InProcessGrid):
    """Keeps the messages of some rounds."""

    def __init__(
        self, node_configs: list[UserConfig], config: RunConfig, rounds: Collection[int]
    ) -> None:
        super().__init__(app, node_configs, config.to_flower())
        self._watched = rounds
        self.exchanges: dict[str, dict[int, Exchange]] = {}  # by institution and round

    def _answer(self, message: Message) -> Message:
        reply = super()._answer(message)
        if message.metadata.message_type == MessageType.TRAIN and reply.has_content():
            instruction = Instruction.from_records(message.content)
            if instruction.round_number in self._watched and not instruction.finish:
                update = Update.from_records(reply.content)
                by_round = self.exchanges.setdefault(update.institution, {})
                by_round[instruction.round_number] = Exchange(instruction.arrays, update.arrays)
        return reply


def rehearse(
    config: RunConfig, nodes: list[NodeConfig], rounds: Collection[int], observe: Observer
) -> tuple[Result, list[Institution]]:
    """Run the institutions of ``nodes`` in this process, and watch some rounds."""
    if config.method != "fedgt":
        raise FedGTError(f"an audit is of method fedgt, the run is of {config.method}")
    here = {"worker": False, "keep-state": False}
    clients.clear()  # of an earlier run in this process
    grid = WatchedGrid([node.to_flower() | here for node in nodes], config, rounds)
    with tempfile.TemporaryDirectory() as folder:
        result = RoundLoop(grid, FedGTStrategy(config), Path(folder) / "run", observe).run()
    named = {client.institution: client for client in clients}
    found = []
    for node in (own_institution(node, config) for node in nodes):
        method = named[node.name].method
        assert isinstance(method, FedGT)
        graph = open_institution(node, config)
        found.append(Institution(node.name, grid.exchanges[node.name], method, graph))
    clients.clear()
    return result, found
