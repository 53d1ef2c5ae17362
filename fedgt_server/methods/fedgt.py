"""FedGT at the coordinator, Algorithm 3."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedgt_server.aggregation import Array32, personalised_global_nodes
from fedgt_server.methods.base import MethodInfo, RoundReport, join_groups, split_groups
from fedgt_server.methods.personalised import PersonalisedAveraging
from fedgt_server.transport import (
    Floats,
    centred,
    denoised,
    transport_blocks,
    transport_similarity,
)
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

    def receive(self, institution: str, update: Update) -> Update:
        """Add Δθ_i to θ̂_i, and keep μ_i and what institutions are compared by."""
        arrays = update.arrays
        change = self._add_change(institution, arrays)
        if GLOBAL_NODES in arrays:
            # A copy: it may be a part of the whole message.
            self._nodes[institution] = np.array(arrays[GLOBAL_NODES])
        if self._config.similarity == "update":
            self._set_trait(institution, change)
        elif self._config.similarity == "label":
            self._set_trait(institution, arrays[LABEL_DISTRIBUTION])
        return replace(update, arrays={})

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Apply equations 7 and 8 for every institution that has ever answered."""
        self._receive_all(updates)
        similarity = self._similarity()
        weights = self._weights(similarity, updates)
        self._average(weights)
        self._average_nodes(weights)
        return self._report(similarity, weights)

    def state_dict(self) -> Arrays:
        """Return the state of the averages and all global nodes."""
        nodes = {"nodes": self._nodes, "sent_nodes": self._sent_nodes}
        return super().state_dict() | join_groups(nodes)

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(saved)
        self._nodes, self._sent_nodes = split_groups(saved, "nodes", "sent_nodes")

    def _similarity(self) -> Floats:
        """Return the similarity of all institutions, shape (M, M)."""
        config = self._config
        if config.similarity in ("update", "label"):
            return self._trait_similarity()
        if not self._have_nodes():
            return np.eye(len(self._institutions()))
        fingerprints = self._points(-1)  # the last set
        similarity = transport_similarity(fingerprints, config.similarity)
        if config.ldp != "off" and config.denoise_similarity:
            similarity = denoised(similarity, fingerprints, 2.0 * config.ldp_noise**2)
        return similarity

    def _average_nodes(self, weights: Array32) -> None:
        """Compute μ̂ of the sets that are attended to; a separate fingerprint is not averaged."""
        if not self._have_nodes():
            return
        config, names = self._config, self._institutions()
        sets = len(self._nodes[names[0]])
        attended = sets if config.global_node_sets == "input" else sets - 1
        plan = "hungarian" if config.similarity in ("update", "label") else config.similarity
        averaged = np.stack(
            [
                personalised_global_nodes(
                    weights, self._set(index), transport_blocks(self._points(index), plan)
                )
                for index in range(attended)
            ],
            axis=1,
        )  # shape: (M, attended sets, n_g, d)
        self._sent_nodes = dict(zip(names, averaged, strict=True))

    def _have_nodes(self) -> bool:
        return all(name in self._nodes for name in self._institutions())

    def _set(self, index: int) -> Array32:
        """Return one set of every institution's global nodes, shape (M, n_g, d)."""
        return np.stack([self._nodes[name][index] for name in self._institutions()])

    def _points(self, index: int) -> Floats:
        """Return a set as it is compared, shape (M, n_g, d)."""
        points = self._set(index).astype(np.float64)
        return centred(points) if self._config.centre_fingerprints else points


INFO = MethodInfo(
    "FedGT",
    "a graph transformer with global nodes, personalised averages by optimal transport",
    FedGT,
    uploads=(GLOBAL_NODES, LABEL_DISTRIBUTION),
    private_updates=True,
)
