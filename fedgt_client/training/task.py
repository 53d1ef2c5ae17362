"""What the training loop asks of a model and its data."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.inference import NodeOutputs, infer
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.sampling import Sampler
from fedgt_client.training.batches import Batch, BatchPlan, batches
from fedgt_client.training.memory import release_freed_memory


class LearningTask(ABC):
    """A model and the subgraph it learns from."""

    model: nn.Module
    graph: GraphTensors
    class_weights: Tensor | None = None  # shape: (classes,), in the training loss; None: all 1

    @abstractmethod
    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield node ids, shape (t,), and their class scores, shape (t, classes), of one epoch.

        The training loop takes its step before it asks for the next pass.
        """

    def single_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the training nodes one by one, shapes (1,) and (1, classes).

        The label of a node must not change the scores of any.
        """
        raise NotImplementedError(f"{type(self).__name__} has no passes of single nodes")

    def penalty(self) -> Tensor | float:
        """Return the term added to the cross entropy of a step."""
        return 0.0

    def after_step(self, taken: Tensor) -> None:  # noqa: B027 (most tasks have nothing to do)
        """Do what must follow an optimiser step, if it was taken: a bool of shape ()."""

    @abstractmethod
    def predict(self, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes`` in evaluation mode, shape (len(nodes), classes)."""


class GraphTask(LearningTask):
    """A baseline's model, which reads the graph itself."""

    def __init__(self, model: GraphModel, graph: GraphTensors, batch_size: int) -> None:
        self.model = model.to(graph.device)
        self.graph = graph
        self._batch_size = batch_size  # 0: all training nodes

    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the training nodes in random order, ``batch_size`` at a time."""
        train = self.graph.splits["train"]
        shuffled = train[torch.randperm(len(train))]
        for nodes in shuffled.split(self._batch_size or max(len(train), 1)):
            if len(nodes):
                yield nodes, self.model(self.graph, nodes)

    def single_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the training nodes one by one."""
        for node in self.graph.splits["train"].split(1):
            yield node, self.model(self.graph, node)

    @torch.no_grad()
    def predict(self, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, and compute no others but what these need."""
        self.model.eval()
        if not len(nodes):
            return torch.empty(0, 0)
        scores: Tensor = self.model(self.graph, nodes)
        return scores


class TransformerTask(LearningTask):
    """The graph transformer with its sampler and its global nodes."""

    def __init__(
        self,
        model: GraphTransformer,
        graph: GraphTensors,
        sampler: Sampler,
        global_nodes: GlobalNodes,
        plan: BatchPlan,
    ) -> None:
        self.model: GraphTransformer = model.to(graph.device)
        self.graph = graph
        self.sampler = sampler
        self.global_nodes = global_nodes.to(graph.device)
        self._plan = plan
        # Nodes without a loss, if global nodes follow what the last layer makes of them.
        is_other = torch.ones(graph.num_nodes, dtype=torch.bool, device=graph.device)
        is_other[graph.splits["train"]] = False
        follow = self.global_nodes.follow_outputs(len(model.layers))
        self._others = is_other.nonzero()[:, 0] if follow else None

    def training_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield one pass over the labelled training nodes, lines 7 and 8 of Algorithm 2.

        Samples and signs of the positional encoding are redrawn; after each step the global nodes
        are updated with every node that the pass computed, labelled or not.
        """
        plan, train = self._plan, self.graph.splits["train"]
        shuffled = torch.randperm(len(train), device=train.device) if plan.train_batch else None
        nodes = train if shuffled is None else train[shuffled]
        for batch in self._batches(nodes, size=plan.train_batch):
            with plan.precision():
                output = self.model(
                    batch.inputs, self.global_nodes.centres, batch.blocks, batch.others
                )
            yield batch.targets, output.logits.float()
            self.global_nodes.update(output.representations)
            if plan.train_batch:
                del batch, output  # or they would lie beside the next ones
                release_freed_memory()

    def _batches(self, nodes: Tensor, size: int) -> Iterator[Batch]:
        return batches(
            self.graph.inputs().with_flipped_signs(),
            self.sampler.draw,
            nodes,
            size=size,
            layers=len(self.model.layers),
            others=self._others,
        )

    def single_passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the training nodes one by one, then update the global nodes with all nodes."""
        for batch in self._batches(self.graph.splits["train"], size=1):
            with self._plan.precision():
                output = self.model(batch.inputs, self.global_nodes.centres, batch.blocks)
            yield batch.targets, output.logits.float()
        with torch.no_grad():
            for _ in self.training_passes():
                pass

    def infer(self) -> Iterator[NodeOutputs]:
        """Yield the outputs of all nodes, some at a time, with each node's top samples."""
        with self._plan.precision():
            yield from infer(
                self.model, self.graph.inputs(), self.global_nodes.centres, self.sampler.top_k
            )

    def predict(self, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        return torch.cat([part.logits.float() for part in self.infer()])[nodes]

    def representations(self) -> Tensor:
        """Return normalised representations of all nodes after the last layer, shape (n, d)."""
        return torch.cat([part.representations for part in self.infer()])
