"""FedGT at an institution, Algorithm 2."""

from typing import ClassVar

import numpy as np

from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.features import to_tensor
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.preprocess.cache import prepare
from fedgt_client.privacy import LaplaceMechanism, Release
from fedgt_client.sampling import Sampler
from fedgt_client.training.batches import BatchPlan
from fedgt_client.training.optimiser import learning_rate
from fedgt_client.training.seeding import stable_hash
from fedgt_client.training.task import TransformerTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION

_CENTRES, _COUNTS = "global_nodes.centres", "global_nodes.counts"


class FedGT(TrainedMethod[TransformerTask]):
    """The graph transformer, its global nodes and its optimiser."""

    private_updates: ClassVar[bool] = True

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        super().__init__(graph, config, institution)
        self._label_shares = _label_shares(graph)

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
            GraphTensors.of(graph, self._device, prepared.encoding),
            Sampler(prepared.pool, config.samples, self._device),
            global_nodes,
            BatchPlan.fitting(graph, config, self._device),
        )

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Run RunClient of Algorithm 2: θ̂ and μ̂ in, Δθ and μ out."""
        self._load(received)
        start = self._exchanged()
        result = self._train(round_number)
        upload = self._optimiser.change(start)
        if self._config.similarity == "label":
            upload[LABEL_DISTRIBUTION] = self._label_shares
        if self._config.global_nodes:
            upload[GLOBAL_NODES] = self._task.global_nodes.centres.cpu().numpy()
        released = self._protect(upload, round_number)
        return LocalResult(upload, result.metrics, result.warnings, released)

    def state_dict(self) -> Arrays:
        """Return weights, Adam's moments, number of rounds, global nodes with their counts."""
        return super().state_dict() | {
            _CENTRES: self._task.global_nodes.centres.cpu().numpy(),
            _COUNTS: self._task.global_nodes.counts.cpu().numpy(),
        }

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(saved)
        self._task.global_nodes = GlobalNodes(
            to_tensor(saved[_CENTRES], self._device),
            to_tensor(saved[_COUNTS], self._device),
            self._config.momentum,
        )

    def representations(self) -> tuple[Array, Array]:
        """Return nodes, shape (n, d), and the global nodes that represent them, (n_g, d)."""
        nodes = self._task.representations()
        return nodes.cpu().numpy(), self._task.global_nodes.centres[-1].cpu().numpy()

    def _load(self, received: Arrays) -> None:
        """Set θ_i ← θ̂_i, μ_i ← μ̂_i; counts stay, as μ̂_i comes in this institution's order."""
        received = dict(received)
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
        protected = [name for name in upload if name == GLOBAL_NODES or config.ldp == "all"]
        mechanism = LaplaceMechanism(config.ldp_clip, config.ldp_noise, config.ldp_noise_seed)
        # An update's coordinates move by about the learning rate in each step of Adam.
        step = learning_rate(config, round_number) * config.local_epochs
        origin = stable_hash(self._institution)
        for index, name in enumerate(sorted(protected)):
            scale = 1.0 if name in (GLOBAL_NODES, LABEL_DISTRIBUTION) else step
            draw = (origin, round_number, index)
            upload[name] = mechanism.release(upload[name], scale=scale, draw=draw)
        coordinates = sum(upload[name].size for name in protected)
        return Release(mechanism.epsilon, coordinates, mechanism.private)

    def _data_warnings(self) -> list[str]:
        found, nodes = super()._data_warnings(), self._task.graph.num_nodes
        if not self._task.sampler.reachable:
            found.append("no links: nodes attend to themselves and the global nodes alone")
        if nodes < self._config.global_nodes:
            found.append(f"fewer nodes than global nodes ({nodes})")
        return found


def _label_shares(graph: Graph) -> Array:
    """Return the share of each class among the training nodes, shape (classes,)."""
    counts = np.bincount(graph.labels[graph.train], minlength=graph.num_classes)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float32)
