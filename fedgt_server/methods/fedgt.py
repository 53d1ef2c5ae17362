"""FedGT at the coordinator, Algorithm 3."""

from collections.abc import Mapping

import numpy as np

from fedgt_server.aggregation import personalised_global_nodes
from fedgt_server.methods.base import MethodInfo, RoundReport, join_groups, split_groups
from fedgt_server.methods.personalised import Array32, PersonalisedAveraging
from fedgt_server.transport import Floats, centred, denoised, transport
from shared.config import RunConfig
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION, Arrays, Profile, Update


class FedGT(PersonalisedAveraging):
    """Adds global nodes: keeps μ_i of every institution and μ̂_i, what each is sent."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._nodes: dict[str, Array32] = {}  # μ_i, shape: (sets, n_g, d)
        self._sent_nodes: dict[str, Array32] = {}  # μ̂_i, shape: (attended sets, n_g, d)

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Expect Δθ, and what institutions are compared by."""
        config, shapes = self._config, super().expected(profile)
        if config.global_nodes:
            sets = 1 if config.global_node_sets == "input" else config.layers + 1
            shapes[GLOBAL_NODES] = [sets, config.global_nodes, config.hidden]
        if config.similarity == "label":
            shapes[LABEL_DISTRIBUTION] = [len(profile.classes)]
        return shapes

    def message(self, institution: str) -> Arrays:
        """Return θ̂_i and, once the institution has answered, μ̂_i."""
        arrays = super().message(institution)
        if institution in self._sent_nodes:
            arrays[GLOBAL_NODES] = self._sent_nodes[institution]
        return arrays

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Apply equations 7 and 8 for every institution that has ever answered."""
        for name, update in updates.items():
            self._record(name, update.arrays)
        similarity, plans = self._compare()
        weights = self._average(similarity, updates)
        if plans:
            self._average_nodes(weights, plans)
        return self._report(similarity, weights)

    def state_dict(self) -> Arrays:
        """Return the state of the averages and all global nodes."""
        nodes = {"nodes": self._nodes, "sent_nodes": self._sent_nodes}
        return super().state_dict() | join_groups(nodes)

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(saved)
        self._nodes, self._sent_nodes = split_groups(saved, "nodes", "sent_nodes")

    def _record(self, name: str, arrays: Arrays) -> None:
        change = self._add_change(name, arrays)
        if GLOBAL_NODES in arrays:
            self._nodes[name] = arrays[GLOBAL_NODES]
        if self._config.similarity == "update":
            self._traits[name] = change
        elif self._config.similarity == "label":
            self._traits[name] = arrays[LABEL_DISTRIBUTION]

    def _compare(self) -> tuple[Floats, list[Floats]]:
        """Return the similarity, shape (M, M), and the plans that align each set of global nodes.

        Each plan has shape (M, M, n_g, n_g).
        """
        config, names, plans = self._config, self._institutions(), []
        by_trait = config.similarity in ("update", "label")
        similarity = np.eye(len(names))
        if all(name in self._nodes for name in names):
            nodes = np.stack([self._nodes[name] for name in names]).astype(np.float64)
            for index in range(nodes.shape[1]):
                points = centred(nodes[:, index]) if config.centre_fingerprints else nodes[:, index]
                # The last set is the institutions' fingerprint: its similarity is the one kept.
                similarity, plan = transport(points, "hungarian" if by_trait else config.similarity)
                plans.append(plan)
                if config.ldp != "off" and config.denoise_similarity:
                    similarity = denoised(similarity, points, 2.0 * config.ldp_noise**2)
        return (self._trait_similarity() if by_trait else similarity), plans

    def _average_nodes(self, weights: Floats, plans: list[Floats]) -> None:
        """Compute μ̂ of the sets that are attended to; a separate fingerprint is not averaged."""
        attended = plans if self._config.global_node_sets == "input" else plans[:-1]
        names = self._institutions()
        nodes = np.stack([self._nodes[name] for name in names])
        averaged = np.stack(
            [
                personalised_global_nodes(weights, nodes[:, index], plan)
                for index, plan in enumerate(attended)
            ],
            axis=1,
        )  # shape: (M, attended sets, n_g, d)
        self._sent_nodes = dict(zip(names, averaged, strict=True))


INFO = MethodInfo(
    "FedGT",
    "a graph transformer with global nodes, personalised averages by optimal transport",
    FedGT,
    uploads=(GLOBAL_NODES, LABEL_DISTRIBUTION),
    private_updates=True,
)
