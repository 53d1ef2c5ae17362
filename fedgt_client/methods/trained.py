"""The common ground of the paper's other systems: a graph model trained here and averaged there."""

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from fedgt_client.model.graph_tensors import GraphModel, GraphTensors
from fedgt_client.training.loop import EpochReport
from fedgt_client.training.optimiser import (
    ModelOptimiser,
    accuracy,
    choose_device,
    label_warnings,
    seed_round,
    step_warnings,
    take_step,
)
from shared.config import RunConfig
from shared.wire import NUM_EXAMPLES


class TrainedMethod(ClientMethod):
    """θ̂ in, Δθ and the number of training examples out."""

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        self._config = config
        self._institution = institution
        device = choose_device(config.device)
        self._data = self._tensors(graph, device)
        # The same seed, and so the same starting point, at every institution.
        torch.manual_seed(config.seed)
        self._model = self._build(graph).to(device)
        self._optimiser = ModelOptimiser(self._model, config)
        self._rounds = 0

    @abstractmethod
    def _build(self, graph: Graph) -> GraphModel:
        """The model. Modules that import PyG, which takes seconds, are imported in here."""

    def _tensors(self, graph: Graph, device: torch.device) -> GraphTensors:
        return GraphTensors.of(graph, device)

    def _travels(self, name: str) -> bool:
        """Whether a parameter is exchanged."""
        return True

    def _penalty(self) -> Tensor | float:
        """What a step's loss has beside the cross entropy."""
        return 0.0

    def _after_step(self) -> None:
        """What a step is followed by; nothing, where a method does not say otherwise."""

    def initial_arrays(self) -> Arrays:
        """θ^(1), of what is exchanged."""
        return self._exchanged()

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """A round of federated averaging (McMahan et al. 2017, ClientUpdate of Algorithm 1)."""
        self._optimiser.load(received)
        start = self._exchanged()
        result = self._train(round_number)
        upload = {name: after - start[name] for name, after in self._exchanged().items()}
        examples = {NUM_EXAMPLES: float(len(self._data.splits["train"]))}
        return LocalResult(upload, result.metrics | examples, result.warnings)

    def state_dict(self) -> Arrays:
        """Weights, Adam's moments, rounds played here."""
        return self._optimiser.state_dict() | {"rounds": np.array(self._rounds)}

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        self._optimiser.load_state_dict(saved)
        self._rounds = int(saved["rounds"])

    def _train(self, round_number: int) -> LocalResult:
        """Local epochs, then an evaluation; nothing to upload."""
        seed_round(self._config, self._institution, round_number)
        self._optimiser.begin_round(round_number)
        self._rounds += 1
        reports = [self._epoch() for _ in range(self._config.local_epochs)]
        skipped = sum(report.skipped for report in reports)
        warnings = step_warnings(skipped)
        if self._rounds == 1:
            warnings += label_warnings(self._data.labels[self._data.splits["train"]])
        metrics = self._evaluate() | {"train_loss": reports[-1].loss, "skipped_steps": skipped}
        return LocalResult({}, metrics, warnings)

    def _epoch(self) -> EpochReport:
        """One pass over the training nodes."""
        self._model.train()
        train = self._data.splits["train"]
        losses, counted, skipped = 0.0, 0, 0
        order = train[torch.randperm(len(train))]
        for batch in order.split(self._config.batch_size or max(len(train), 1)):
            if not len(batch):
                continue
            scores = self._model(self._data, batch)
            loss = functional.cross_entropy(scores, self._data.labels[batch])
            if take_step(self._model, self._optimiser.optimiser, loss + self._penalty()):
                losses += loss.item() * len(batch)
                counted += len(batch)
                self._after_step()
            else:
                skipped += 1
        return EpochReport(losses / counted if counted else math.nan, skipped)

    @torch.no_grad()
    def _evaluate(self) -> dict[str, float]:
        """Measured after local training, as in the paper; a measure without nodes is NaN."""
        self._model.eval()
        val, test = self._data.splits["val"], self._data.splits["test"]
        # No others: some models compute each node by itself.
        nodes = torch.cat([val, test])
        if not len(nodes):
            return {"val_accuracy": math.nan, "test_accuracy": math.nan}
        scores, labels = self._model(self._data, nodes), self._data.labels[nodes]
        return {
            "val_accuracy": accuracy(scores[: len(val)], labels[: len(val)]),
            "test_accuracy": accuracy(scores[len(val) :], labels[len(val) :]),
        }

    def _exchanged(self) -> Arrays:
        return {n: array for n, array in self._optimiser.parameters().items() if self._travels(n)}
