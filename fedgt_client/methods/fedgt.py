"""FedGT at an institution, Algorithm 2."""

import numpy as np
import torch

from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.preprocess.cache import prepare
from fedgt_client.privacy import LaplaceMechanism, Release
from fedgt_client.training.loop import (
    BatchPlan,
    EpochReport,
    LocalData,
    predict,
    represent,
    train_epoch,
)
from fedgt_client.training.optimiser import (
    ModelOptimiser,
    accuracy,
    choose_device,
    label_warnings,
    learning_rate,
    seed_round,
    stable_number,
    step_warnings,
)
from shared.config import RunConfig
from shared.files import Array
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION


class FedGT(ClientMethod):
    """The graph transformer, its global nodes and its optimiser."""

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        self._config = config
        self._institution = institution
        device = choose_device(config.device)
        prepared = prepare(graph, config, cache_dir() / "prepared")
        self._data = LocalData.of(graph, prepared, config.samples, device)
        self._steps = BatchPlan.fitting(graph.num_nodes, config, device)
        # The same seed, and so the same starting point, at every institution.
        torch.manual_seed(config.seed)
        self._model = GraphTransformer(
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
        ).to(device)
        self._optimiser = ModelOptimiser(self._model, config)
        self._global_nodes = GlobalNodes.initial(
            sets=1 if config.global_node_sets == "input" else config.layers + 1,
            count=config.global_nodes,
            width=config.hidden,
            momentum=config.momentum,
            seed=config.seed,
        ).to(device)
        self._rounds = 0
        self._label_shares = _label_shares(graph)

    def initial_arrays(self) -> Arrays:
        """θ^(1)."""
        return self._optimiser.parameters()

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """RunClient of Algorithm 2: θ̂ and μ̂ in, Δθ and μ out."""
        seed_round(self._config, self._institution, round_number)
        self._take_over(received)
        start = self._optimiser.parameters()
        reports = self._train(round_number)
        metrics = self._evaluate(reports)
        upload = {name: after - start[name] for name, after in self._optimiser.parameters().items()}
        if self._config.similarity == "label":
            upload[LABEL_DISTRIBUTION] = self._label_shares
        if self._config.global_nodes:
            upload[GLOBAL_NODES] = self._global_nodes.centres.cpu().numpy()
        released = self._protect(upload, round_number)
        return LocalResult(upload, metrics, self._warnings(reports), released)

    def state_dict(self) -> Arrays:
        """Weights, Adam's moments, global nodes with their counts, rounds played here."""
        return self._optimiser.state_dict() | {
            "global_nodes.centres": self._global_nodes.centres.cpu().numpy(),
            "global_nodes.counts": self._global_nodes.counts.cpu().numpy(),
            "rounds": np.array(self._rounds),
        }

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        self._optimiser.load_state_dict(saved)
        self._global_nodes = GlobalNodes(
            self._tensor(saved["global_nodes.centres"]),
            self._tensor(saved["global_nodes.counts"]),
            self._config.momentum,
        )
        self._rounds = int(saved["rounds"])

    def representations(self) -> tuple[Array, Array]:
        """Nodes, shape (n, d), and the global nodes that stand for them, shape (n_g, d)."""
        nodes = represent(self._model, self._data, self._global_nodes, self._steps)
        return nodes.cpu().numpy(), self._global_nodes.centres[-1].cpu().numpy()

    def _train(self, round_number: int) -> list[EpochReport]:
        self._rounds += 1
        self._optimiser.begin_round(round_number)
        return [
            train_epoch(
                self._model, self._optimiser.optimiser, self._data, self._global_nodes, self._steps
            )
            for _ in range(self._config.local_epochs)
        ]

    def _evaluate(self, reports: list[EpochReport]) -> dict[str, float]:
        """Measured after local training, as in the paper; a measure without nodes is NaN."""
        scores = predict(self._model, self._data, self._global_nodes, self._steps)
        labels = self._data.labels
        val, test = self._data.splits["val"], self._data.splits["test"]
        return {
            "train_loss": reports[-1].loss,
            "val_accuracy": accuracy(scores[val], labels[val]),
            "test_accuracy": accuracy(scores[test], labels[test]),
            "skipped_steps": sum(report.skipped for report in reports),
        }

    def _take_over(self, received: Arrays) -> None:
        """θ_i ← θ̂_i, μ_i ← μ̂_i; the counts stay, the coordinator keeps this client's order."""
        received = dict(received)
        averaged = received.pop(GLOBAL_NODES, None)
        if received:
            self._optimiser.load(received)
        if averaged is not None:
            # The set that stands for this institution is its own: averaged like the others, all
            # institutions would soon look alike, whatever their data.
            centres = self._global_nodes.centres.clone()
            centres[: len(averaged)] = self._tensor(averaged)
            self._global_nodes.centres = centres

    def _protect(self, upload: Arrays, round_number: int) -> Release | None:
        """Clip and noise what the configuration names, in place."""
        config = self._config
        if config.ldp == "off":
            return None
        protected = [name for name in upload if name == GLOBAL_NODES or config.ldp == "all"]
        mechanism = LaplaceMechanism(config.ldp_clip, config.ldp_noise, config.ldp_noise_seed)
        # An update's coordinates move by about the learning rate in each step of Adam.
        step = learning_rate(config, round_number) * config.local_epochs
        origin = stable_number(self._institution)
        parameters = {name for name, _ in self._model.named_parameters()}
        for index, name in enumerate(sorted(protected)):
            scale = step if name in parameters else 1.0
            draw = (origin, round_number, index)
            upload[name] = mechanism.release(upload[name], scale=scale, draw=draw)
        coordinates = sum(upload[name].size for name in protected)
        return Release(mechanism.epsilon, coordinates, mechanism.private)

    def _warnings(self, reports: list[EpochReport]) -> list[str]:
        found = step_warnings(sum(report.skipped for report in reports))
        if self._rounds > 1:
            return found
        found += label_warnings(self._data.labels[self._data.splits["train"]])
        if not self._data.sampler.reachable:
            found.append("no links: nodes attend to themselves and the global nodes alone")
        if len(self._data.labels) < self._config.global_nodes:
            found.append(f"fewer nodes than global nodes ({len(self._data.labels)})")
        return found

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(self._data.labels.device)


def _label_shares(graph: Graph) -> Array:
    """Share of each class among the training nodes, shape (classes,)."""
    counts = np.bincount(graph.labels[graph.train], minlength=graph.num_classes)
    return np.asarray(counts / max(counts.sum(), 1), dtype=np.float32)
