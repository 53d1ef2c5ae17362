"""FedSage+ at an institution (Zhang et al. 2021): generate missing neighbours, then FedAvg."""

import math
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedgt_client.augmentation import HiddenNodes, add_neighbours, hide_nodes
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedavg import FedAvg
from fedgt_client.methods.trained import step_warnings
from fedgt_client.model.features import to_tensor
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.neighgen import (
    MAX_GENERATED,
    NeighGen,
    degree_loss,
    matching_loss,
    nearest_gradients,
)
from fedgt_client.state import OPTIMISER
from fedgt_client.training.evaluation import evaluate
from fedgt_client.training.optimiser import ModelOptimiser, take_step
from fedgt_client.training.seeding import seed_round, stable_hash
from shared.config import RunConfig
from shared.fedsage import OFFERED_ROWS, exchanged, generator_rounds
from shared.files import Array
from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS, NUM_EXAMPLES, WEIGHTS

# Share of nodes that are hidden to train the generator, as its authors do.
_HIDDEN_SHARE = 0.1
# The generator's steps in a round, and the maximum of visible nodes in a step.
_STEPS = 10
_BATCH = 512

_GENERATOR = "generator."
_GENERATOR_MOMENTS = OPTIMISER + _GENERATOR
_GENERATOR_ROUNDS = "generator_rounds"

DISCLOSURE = (
    "fedsage uploads generated features and gradients: "
    "others can work out features of nodes here from them"
)


class FedSage(FedAvg):
    """A local generator of missing neighbours, and a GraphSAGE on the augmented graph."""

    uploads: ClassVar[tuple[str, ...]] = (WEIGHTS, GENERATED_FEATURES, GENERATED_GRADIENTS)
    metrics: ClassVar[tuple[str, ...]] = (NUM_EXAMPLES, "generator_loss")

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        super().__init__(graph, config, institution)
        self._graph, self._original = graph, self._task.graph
        torch.manual_seed(stable_hash(f"{config.seed}/{institution}/generator"))
        self._generator = NeighGen(
            graph.num_features, width=config.hidden, samples=config.samples, dropout=config.dropout
        ).to(self._device)
        self._generator_optimiser = ModelOptimiser(self._generator, config)
        self._generator_rounds = 0
        self._augmented = False

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Run a round of the generator; in later rounds FedAvg's on the augmented graph."""
        if round_number <= generator_rounds(self._config.rounds):
            return self._fit_generator(received, round_number)
        warnings = [] if self._augmented else self._augment()
        result = super().fit(received, round_number)
        return LocalResult(result.upload, result.metrics, warnings + result.warnings)

    def state_dict(self) -> Arrays:
        """Return FedAvg's state and the generator; Adam's moments of it until its last round."""
        saved = super().state_dict() | {_GENERATOR_ROUNDS: np.array(self._generator_rounds)}
        for name, array in self._generator_optimiser.state_dict().items():
            if not name.startswith(OPTIMISER):
                saved[_GENERATOR + name] = array
            elif not self._augmented:
                saved[_GENERATOR_MOMENTS + name.removeprefix(OPTIMISER)] = array
        return saved

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned; the next round augments the graph as before."""
        super().load_state_dict(saved)
        own = {
            OPTIMISER + name.removeprefix(_GENERATOR_MOMENTS): array
            for name, array in saved.items()
            if name.startswith(_GENERATOR_MOMENTS)
        }
        own |= {
            name.removeprefix(_GENERATOR): array
            for name, array in saved.items()
            if name.startswith(_GENERATOR)
        }
        self._generator_optimiser.load_state_dict(own)
        self._generator_rounds = int(saved[_GENERATOR_ROUNDS])
        self._task.graph, self._augmented = self._original, False

    def predict(self, nodes: NDArray[np.int64]) -> Array:
        """Return class scores on the augmented graph, if training has come to it."""
        if self._rounds > self._generator_rounds and not self._augmented:
            self._augment()
        return super().predict(nodes)

    def _fit_generator(self, received: Arrays, round_number: int) -> LocalResult:
        """Train the generator, equation 4: on nodes hidden here and on gradients of others."""
        seed_round(self._config, self._institution, round_number)
        self._generator_optimiser.set_round(round_number)
        self._rounds += 1
        self._generator_rounds += 1
        warnings = [DISCLOSURE, *self._data_warnings()] if self._rounds == 1 else []
        hidden, losses = self._hidden_nodes(), []
        for step in range(_STEPS):
            loss = self._generator_loss(hidden)
            # A gradient is valid for one step.
            foreign = self._foreign_loss(received, round_number) if step == 0 else 0.0
            if take_step(self._generator_optimiser.adam, loss + foreign):
                losses.append(loss.item())
        metrics = evaluate(self._task, self._config.select_by) | {
            "train_loss": self._untrained_loss(),
            "generator_loss": sum(losses) / len(losses) if losses else math.nan,
            "skipped_steps": _STEPS - len(losses),
        }
        warnings += step_warnings(_STEPS - len(losses))
        return LocalResult(self._rows_to_upload(received, round_number), metrics, warnings)

    def _generator_loss(self, hidden: HiddenNodes) -> Tensor:
        """Return equation 3 on visible nodes and their hidden neighbours."""
        self._generator.train()
        visible = hidden.visible
        nodes = visible[torch.randperm(len(visible))[:_BATCH]]
        latent, missing = self._generator.latent(hidden.graph, nodes), hidden.missing[nodes]
        loss = degree_loss(self._generator.counts(latent), missing)
        affected = missing.nonzero()[:, 0]
        if not len(affected):
            return loss
        ids, linked = hidden.hidden_neighbours(nodes[affected])
        # As many as are missing: the counts of dGen mean nothing at first.
        owners = torch.arange(len(affected), device=nodes.device)
        owners = owners.repeat_interleave(missing[affected].clamp_max(MAX_GENERATED))
        chosen = latent.index_select(0, affected[owners])
        generated = self._generator.features(chosen, torch.randn_like(chosen))
        matching = matching_loss(generated, self._original.dense_features()[ids], linked[owners])
        return loss + matching / len(nodes)

    def _foreign_loss(self, received: Arrays, round_number: int) -> Tensor | float:
        """Return Σ_k ⟨x̃_k, g_k⟩ / K: backpropagation continues from the gradients of others.

        They belong to the rows offered two rounds ago. These are generated again: same nodes, same
        noise, current weights.
        """
        if GENERATED_GRADIENTS not in received:
            return 0.0
        gradients = to_tensor(received[GENERATED_GRADIENTS], self._device)
        return (self._offer(round_number - 2) * gradients).sum() / len(gradients)

    def _rows_to_upload(self, received: Arrays, round_number: int) -> Arrays:
        """Return what the round uploads: rows generated here, gradients of others' rows."""
        rows: dict[str, Tensor] = {}
        with torch.no_grad():
            for name in exchanged(round_number, self._config.rounds):
                if name == GENERATED_FEATURES:
                    rows[name] = self._offer(round_number)
                elif GENERATED_FEATURES in received:
                    others = to_tensor(received[GENERATED_FEATURES], self._device)
                    rows[name] = nearest_gradients(others, self._original.dense_features())
                else:  # no rows of others were received
                    rows[name] = torch.zeros(OFFERED_ROWS, self._graph.num_features)
        return {name: torch.nan_to_num(values).cpu().numpy() for name, values in rows.items()}

    def _offer(self, round_number: int) -> Tensor:
        """Generate neighbours for nodes sampled in a round, shape (rows, p)."""
        generator = self._random(round_number, "offer")
        hidden = self._hidden_nodes()
        picked = torch.randint(len(hidden.visible), (OFFERED_ROWS,), generator=generator)
        noise = torch.randn(OFFERED_ROWS, self._config.hidden, generator=generator)
        self._generator.eval()
        latent = self._generator.latent(hidden.graph, hidden.visible[picked.to(self._device)])
        return self._generator.features(latent, noise.to(self._device))

    @torch.no_grad()
    def _augment(self) -> list[str]:
        """Add the neighbours that the generator predicts for every node; return warnings."""
        self._augmented = True
        if not self._generator_rounds:
            return ["took no part in training generators: the graph is not augmented"]
        self._generator.eval()
        latent = self._generator.latent(self._original, self._original.all_nodes())
        counts = torch.nan_to_num(self._generator.counts(latent)).round().long()
        counts = counts.clamp_max(MAX_GENERATED)
        owners = self._original.all_nodes().repeat_interleave(counts)
        # The name is part of the seed: another would change results.
        noise = torch.randn(len(owners), latent.shape[1], generator=self._random(0, "mend"))
        generated = self._generator.features(latent[owners], noise.to(self._device))
        generated = torch.nan_to_num(generated)
        augmented = add_neighbours(self._graph, counts.cpu().numpy(), generated.cpu().numpy())
        self._task.graph = GraphTensors.of(augmented, self._device)
        return []

    def _hidden_nodes(self) -> HiddenNodes:
        """Hide the same nodes in all rounds, as in the paper."""
        return hide_nodes(self._original, _HIDDEN_SHARE, self._random(0, "hide"))

    @torch.no_grad()
    def _untrained_loss(self) -> float:
        """Return the classifier's loss in training mode, comparable with later rounds."""
        graph, model = self._task.graph, self._task.model.train()
        train = graph.splits["train"]
        if not len(train):
            return math.nan
        return functional.cross_entropy(model(graph, train), graph.labels[train]).item()

    def _random(self, round_number: int, purpose: str) -> torch.Generator:
        name = f"{self._config.seed}/{self._institution}/{round_number}/{purpose}"
        return torch.Generator().manual_seed(stable_hash(name))
