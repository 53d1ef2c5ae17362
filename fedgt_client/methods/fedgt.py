"""FedGT at an institution, Algorithm 2."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.common_model import CommonModel
from fedgt_client.methods.own_model import OwnModel
from fedgt_client.methods.trained import TrainedMethod, unshared
from fedgt_client.model.features import to_tensor
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.preprocess.cache import prepare
from fedgt_client.privacy.mechanism import NoiseMechanism
from fedgt_client.privacy.release import Release
from fedgt_client.sampling import Sampler
from fedgt_client.training.batches import BatchPlan
from fedgt_client.training.evaluation import evaluated_nodes, measure
from fedgt_client.training.optimiser import learning_rate
from fedgt_client.training.received_model import validated
from fedgt_client.training.seeding import stable_hash
from fedgt_client.training.task import TransformerTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import (
    COMMON,
    COMMON_GRADIENTS,
    GLOBAL_NODES,
    LABEL_DISTRIBUTION,
    OWN_WEIGHT,
    WEIGHTS,
)

_CENTRES, _COUNTS = "global_nodes.centres", "global_nodes.counts"


class FedGT(TrainedMethod[TransformerTask]):
    """The graph transformer, its global nodes and its optimiser."""

    private_updates: ClassVar[bool] = True
    uploads: ClassVar[tuple[str, ...]] = (
        WEIGHTS,
        GLOBAL_NODES,
        LABEL_DISTRIBUTION,
        COMMON_GRADIENTS,
    )
    metrics: ClassVar[tuple[str, ...]] = (OWN_WEIGHT,)

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        super().__init__(graph, config, institution)
        self._label_shares = _label_shares(graph)
        self._own: OwnModel | None = None
        # With noise on gradients, no other model may learn from the labels.
        if config.own_model and config.label_privacy != "dp-sgd":
            self._own = OwnModel(self._task, graph.num_classes, config)
        self._common: CommonModel | None = None
        if config.has_common_model:
            self._common = CommonModel(self._task, graph.num_classes, config)

    @property
    def own_weight(self) -> float:
        """The weight of the institution's own GCN in its predictions: 0, 0.5 or 1."""
        return self._own.weight if self._own else 0.0

    @property
    def transformer_weight(self) -> float:
        """The weight of the graph transformer in its predictions."""
        common = self._common.weight if self._common else 0.0
        return (1.0 - common) * (1.0 - self.own_weight)

    def _build_task(self, graph: Graph) -> TransformerTask:
        config = self._config
        prepared = prepare(graph, config, cache_dir() / "prepared")
        model = GraphTransformer(
            features=graph.num_features,
            classes=graph.num_classes,
            positional_dimensions=config.positional_dimensions,
            width=config.hidden,
            layers=config.layers,
            heads=config.heads,
            dropout=config.dropout,
            node_dropout=config.node_dropout,
            ppr_bias=config.ppr_bias,
            global_attention=config.global_attention,
        )
        global_nodes = GlobalNodes.initial(
            sets=1 if config.global_node_sets == "input" else config.layers + 1,
            count=config.global_nodes,
            width=config.hidden,
            momentum=config.momentum,
            seed=config.seed,
        )
        return TransformerTask(
            model,
            # Attention reads samples; links are for the institution's own GCN.
            GraphTensors.of(graph, self._device, prepared.encoding, links=config.own_model),
            Sampler(prepared.pool, config.samples, self._device),
            global_nodes,
            BatchPlan.fitting(graph, config, self._device),
        )

    def initial_arrays(self) -> Arrays:
        """Return θ^(1), and the starting point of the common model."""
        return super().initial_arrays() | (self._common.parameters() if self._common else {})

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Run RunClient of Algorithm 2: θ̂ and μ̂ in, Δθ and μ out."""
        start, result = self._train_from(received, round_number)
        upload = self._optimiser.change(start)
        if self._config.similarity == "label":
            upload[LABEL_DISTRIBUTION] = self._label_shares
        if self._config.global_nodes:
            upload[GLOBAL_NODES] = self._task.global_nodes.centres.cpu().numpy()
        if self._common:
            upload |= self._common.gradient()
        released = self._protect(upload, round_number)
        return LocalResult(upload, result.metrics, result.warnings, released)

    def state_dict(self) -> Arrays:
        """Return weights, Adam's moments, number of rounds, global nodes with their counts."""
        return super().state_dict() | self._beside()

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(saved)
        self._set_beside(saved)

    def _beside(self) -> Arrays:
        """Return the state of all but the graph transformer."""
        own = self._own.state_dict() if self._own else {}
        common = self._common.state_dict() if self._common else {}
        nodes = self._task.global_nodes
        centres, counts = nodes.centres.cpu().numpy(), nodes.counts.cpu().numpy()
        return own | common | {_CENTRES: centres, _COUNTS: counts}

    def _set_beside(self, saved: Arrays) -> None:
        for model in (self._own, self._common):
            if model:
                model.load_state_dict(saved)
        self._task.global_nodes = GlobalNodes(
            to_tensor(saved[_CENTRES], self._device),
            to_tensor(saved[_COUNTS], self._device),
            self._config.momentum,
        )

    def predict(self, nodes: NDArray[np.int64]) -> Array:
        """Return class scores of the mixture that was chosen, shape (len(nodes), classes)."""
        scores = super().predict(nodes)
        if self.transformer_weight == 1.0:
            return scores
        places = to_tensor(nodes, self._device)
        return self._mix(places, to_tensor(scores, self._device)).cpu().numpy()

    def mixed_scores(self, node: int, scores: Array, without: int = -1) -> Array:
        """Return the scores that the prediction of one node is made of, shape (classes,).

        Parameters
        ----------
        scores : of the graph transformer, shape (classes,)
        without : a node that the other models are to do without
        """
        place = to_tensor(np.array([node]), self._device)
        found = to_tensor(scores[None], self._device)
        for model in (self._common, self._own):
            if model:
                found = model.mix_without(place, found, without)
        return found[0].cpu().numpy()

    def _mix(self, nodes: Tensor, scores: Tensor) -> Tensor:
        """Return the scores of this model and those beside it, shape (len(nodes), classes)."""
        for model in (self._common, self._own):
            if model:
                scores = model.mix(nodes, scores)
        return scores

    def _evaluate(self) -> dict[str, float]:
        """Measure the mixture of this model and the institution's own, chosen on validation."""
        if self._own is None and self._common is None:
            return super()._evaluate()
        graph = self._task.graph
        nodes = evaluated_nodes(graph)
        scores = self._task.predict(nodes)
        self._last_losses = validated(graph, scores, self.accuracy_step)
        told = {}
        if self._common:
            scores = self._common.choose(nodes, scores)
        if self._own:
            self._own.train()
            scores = self._own.choose(nodes, scores)
            told[OWN_WEIGHT] = self._own.weight
        return measure(graph, scores, self._config.select_by) | told

    def representations(self) -> tuple[Array, Array]:
        """Return nodes, shape (n, d), and the global nodes that represent them, (n_g, d)."""
        nodes = self._task.representations()
        return nodes.cpu().numpy(), self._task.global_nodes.centres[-1].cpu().numpy()

    def _snapshot(self) -> Arrays:
        return super()._snapshot() | unshared(self._beside())

    def _rewind(self, saved: Arrays) -> None:
        super()._rewind(saved)
        received = self._common.parameters() if self._common else {}
        self._set_beside(saved)
        if self._common:  # its gradient is that at the weights which all have
            self._common.load(received)

    def _load(self, received: Arrays) -> None:
        """Set θ_i ← θ̂_i, μ_i ← μ̂_i; counts stay, as μ̂_i comes in this institution's order."""
        common = {name: array for name, array in received.items() if name.startswith(COMMON)}
        if self._common and all(np.isfinite(array).all() for array in common.values()):
            self._common.load(common)
        received = {name: array for name, array in received.items() if name not in common}
        averaged = received.pop(GLOBAL_NODES, None)
        self._optimiser.load(received)
        if averaged is not None:
            # The set that represents this institution is its own: averaged like the others, all
            # institutions would soon look alike, whatever their data.
            centres = self._task.global_nodes.centres.clone()
            centres[: len(averaged)] = to_tensor(averaged, self._device)
            self._task.global_nodes.centres = centres

    def _protect(self, upload: Arrays, round_number: int) -> Release | None:
        """Clip and noise what the configuration names, in place."""
        config = self._config
        if config.ldp == "off":
            return None
        chosen = {
            name: array
            for name, array in upload.items()
            if name == GLOBAL_NODES or name.startswith(COMMON) or config.ldp == "all"
        }
        if not chosen:
            return None
        mechanism = NoiseMechanism(
            config.ldp_norm, config.ldp_clip, config.ldp_noise, config.ldp_noise_seed
        )
        # An update's coordinates move by about the learning rate in each step of Adam.
        step = learning_rate(config, round_number) * config.local_epochs
        if config.ldp_update_scale == "one":
            step = 1.0
        scales = {name: 1.0 if _has_unit_scale(name) else step for name in chosen}
        draw = (stable_hash(self._institution), round_number)
        upload |= mechanism.release(chosen, scales, draw)
        return Release(parts=(mechanism.part(chosen),), private=mechanism.private)

    def _data_warnings(self) -> list[str]:
        found, nodes = super()._data_warnings(), self._task.graph.num_nodes
        if not self._task.sampler.reachable:
            found.append("no links: nodes attend to themselves and the global nodes alone")
        if nodes < self._config.global_nodes:
            found.append(f"fewer nodes than global nodes ({nodes})")
        return found


def _has_unit_scale(name: str) -> bool:
    """Tell whether the values of an array are about 1, and not about a step of training."""
    return name in (GLOBAL_NODES, LABEL_DISTRIBUTION) or name.startswith(COMMON)


def _label_shares(graph: Graph) -> Array:
    """Return the share of each class among the training nodes, shape (classes,)."""
    counts = np.bincount(graph.labels[graph.train], minlength=graph.num_classes)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float32)
