"""FedSage+ at an institution (Zhang et al. 2021): neighbours generated, then FedAvg."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.augmentation import HiddenNodes, add_neighbours, hide_nodes
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedavg import FedAvg
from fedgt_client.model.features import to_tensor
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.state import OPTIMISER
from fedgt_client.training.optimiser import (
    ModelOptimiser,
    choose_device,
    label_warnings,
    seed_round,
    stable_number,
    step_warnings,
    take_step,
)
from shared.config import RunConfig
from shared.fedsage import OFFERED_ROWS, exchanged, generator_rounds
from shared.files import Array
from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS

# Share of nodes that the generator's training hides.
_HIDDEN = 0.2
# Its steps in a round, and visible nodes in a step at most.
_STEPS = 10
_BATCH = 512

_GENERATOR = "generator."
_PLAYED = "generator_rounds"

DISCLOSURE = (
    "fedsage uploads generated features and gradients: "
    "others can work out features of nodes here from them"
)


class FedSage(FedAvg):
    """A generator of missing neighbours, which stays here, and a GraphSAGE on the mended graph."""

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        from fedgt_client.model.neighgen import NeighGen

        super().__init__(graph, config, institution)
        self._graph, self._plain = graph, self._data
        torch.manual_seed(stable_number(f"{config.seed}/{institution}/generator"))
        self._generator = NeighGen(
            graph.num_features, width=config.hidden, samples=config.samples, dropout=config.dropout
        ).to(choose_device(config.device))
        self._generator_optimiser = ModelOptimiser(self._generator, config)
        self._generator_played = 0
        self._mended = False

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """A round of the generator; in later ones FedAvg's, on the mended graph."""
        if round_number <= generator_rounds(self._config.rounds):
            return self._generator_round(received, round_number)
        warnings = [] if self._mended else self._mend()
        result = super().fit(received, round_number)
        return LocalResult(result.upload, result.metrics, warnings + result.warnings)

    def state_dict(self) -> Arrays:
        """As FedAvg, and the generator; Adam's moments of it until its last round."""
        saved = super().state_dict() | {_PLAYED: np.array(self._generator_played)}
        for name, array in self._generator_optimiser.state_dict().items():
            if not name.startswith(OPTIMISER):
                saved[_GENERATOR + name] = array
            elif not self._mended:
                saved[OPTIMISER + _GENERATOR + name.removeprefix(OPTIMISER)] = array
        return saved

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``; the graph is mended again, in the same way."""
        super().load_state_dict(saved)
        moments = OPTIMISER + _GENERATOR
        own = {
            OPTIMISER + name.removeprefix(moments): array
            for name, array in saved.items()
            if name.startswith(moments)
        }
        own |= {
            name.removeprefix(_GENERATOR): array
            for name, array in saved.items()
            if name.startswith(_GENERATOR)
        }
        self._generator_optimiser.load_state_dict(own)
        self._generator_played = int(saved[_PLAYED])
        self._data, self._mended = self._plain, False

    def _generator_round(self, received: Arrays, round_number: int) -> LocalResult:
        """Equation 4: from nodes hidden here, and from what others made of an earlier round."""
        seed_round(self._config, self._institution, round_number)
        self._generator_optimiser.begin_round(round_number)
        self._rounds += 1
        self._generator_played += 1
        warnings = []
        if self._rounds == 1:
            warnings = [
                DISCLOSURE,
                *label_warnings(self._plain.labels[self._plain.splits["train"]]),
            ]
        impaired, losses = self._impaired(), []
        for step in range(_STEPS):
            loss = self._generator_loss(impaired)
            # A gradient is good for one step.
            foreign = self._foreign_loss(received, round_number) if step == 0 else 0.0
            if take_step(self._generator, self._generator_optimiser.optimiser, loss + foreign):
                losses.append(loss.item())
        metrics = self._evaluate() | {
            "train_loss": self._untrained_loss(),
            "generator_loss": sum(losses) / len(losses) if losses else math.nan,
            "skipped_steps": _STEPS - len(losses),
        }
        warnings += step_warnings(_STEPS - len(losses))
        return LocalResult(self._exchanged_rows(received, round_number), metrics, warnings)

    def _generator_loss(self, impaired: HiddenNodes) -> Tensor:
        """Equation 3, on visible nodes and their hidden neighbours."""
        from fedgt_client.model.neighgen import MOST, degree_loss, matching_loss

        self._generator.train()
        visible = impaired.visible
        nodes = visible[torch.randperm(len(visible))[:_BATCH]]
        latent, missing = self._generator.latent(impaired.graph, nodes), impaired.missing[nodes]
        loss = degree_loss(self._generator.counts(latent), missing)
        bereft = missing.nonzero()[:, 0]
        if not len(bereft):
            return loss
        hidden, linked = impaired.links(nodes[bereft])
        # As many as are missing: the numbers of dGen mean nothing at first.
        owners = torch.arange(len(bereft), device=nodes.device)
        owners = owners.repeat_interleave(missing[bereft].clamp_max(MOST))
        chosen = latent.index_select(0, bereft[owners])
        generated = self._generator.features(chosen, torch.randn_like(chosen))
        matching = matching_loss(generated, self._plain.dense_features()[hidden], linked[owners])
        return loss + matching / len(nodes)

    def _foreign_loss(self, received: Arrays, round_number: int) -> Tensor | float:
        """Σ_k ⟨x̃_k, g_k⟩ / K: backpropagation goes on from the gradients that others computed.

        They are of what was offered two rounds ago. That is generated again: same nodes, same
        noise, today's weights.
        """
        if GENERATED_GRADIENTS not in received:
            return 0.0
        gradients = self._tensor(received[GENERATED_GRADIENTS])
        return (self._offer(round_number - 2) * gradients).sum() / len(gradients)

    def _exchanged_rows(self, received: Arrays, round_number: int) -> Arrays:
        """What the round uploads: rows generated here, gradients of others' rows."""
        from fedgt_client.model.neighgen import nearest_gradients

        rows: dict[str, Tensor] = {}
        with torch.no_grad():
            for name in exchanged(round_number, self._config.rounds):
                if name == GENERATED_FEATURES:
                    rows[name] = self._offer(round_number)
                elif GENERATED_FEATURES in received:
                    others = self._tensor(received[GENERATED_FEATURES])
                    rows[name] = nearest_gradients(others, self._plain.dense_features())
                else:  # nobody's rows were here to judge
                    rows[name] = torch.zeros(OFFERED_ROWS, self._graph.num_features)
        return {name: torch.nan_to_num(values).cpu().numpy() for name, values in rows.items()}

    def _offer(self, round_number: int) -> Tensor:
        """Neighbours generated for nodes that a round draws, shape (rows, p)."""
        chance = self._chance(round_number, "offer")
        impaired = self._impaired()
        device = impaired.hidden.device
        picked = torch.randint(len(impaired.visible), (OFFERED_ROWS,), generator=chance)
        noise = torch.randn(OFFERED_ROWS, self._config.hidden, generator=chance).to(device)
        self._generator.eval()
        latent = self._generator.latent(impaired.graph, impaired.visible[picked.to(device)])
        return self._generator.features(latent, noise)

    @torch.no_grad()
    def _mend(self) -> list[str]:
        """Give every node the neighbours that the generator thinks it misses; warnings."""
        from fedgt_client.model.neighgen import MOST

        self._mended = True
        if not self._generator_played:
            return ["took no part in training generators: the graph is not mended"]
        self._generator.eval()
        latent = self._generator.latent(self._plain, self._plain.all_nodes())
        counts = torch.nan_to_num(self._generator.counts(latent)).round().long().clamp_max(MOST)
        owners = self._plain.all_nodes().repeat_interleave(counts)
        noise = torch.randn(len(owners), latent.shape[1], generator=self._chance(0, "mend"))
        generated = self._generator.features(latent[owners], noise.to(latent.device))
        generated = torch.nan_to_num(generated)
        mended = add_neighbours(self._graph, counts.cpu().numpy(), generated.cpu().numpy())
        self._data = GraphTensors.of(mended, latent.device)
        return []

    def _impaired(self) -> HiddenNodes:
        """The same nodes are hidden in all rounds, as in the paper."""
        return hide_nodes(self._plain, _HIDDEN, self._chance(0, "hide"))

    @torch.no_grad()
    def _untrained_loss(self) -> float:
        """The classifier's, which waits: in training's mode, so that later ones compare."""
        self._model.train()
        train = self._data.splits["train"]
        if not len(train):
            return math.nan
        scores = self._model(self._data, train)
        return functional.cross_entropy(scores, self._data.labels[train]).item()

    def _chance(self, round_number: int, purpose: str) -> torch.Generator:
        name = f"{self._config.seed}/{self._institution}/{round_number}/{purpose}"
        return torch.Generator().manual_seed(stable_number(name))

    def _tensor(self, array: Array) -> Tensor:
        return to_tensor(array, self._plain.labels.device)
