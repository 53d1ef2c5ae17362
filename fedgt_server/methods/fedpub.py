"""FED-PUB at the coordinator (Baek et al. 2023, section 4.1)."""

from collections.abc import Mapping
from dataclasses import replace

from fedgt_server.methods.base import BASELINE_DEFAULTS, MethodInfo, RoundReport
from fedgt_server.methods.personalised import PersonalisedAveraging
from shared.wire import FUNCTIONAL_EMBEDDING, WEIGHTS, Profile, Update


class FedPub(PersonalisedAveraging):
    """θ̂_i = Σ_j α_ij θ_j with similarities of functional embeddings (equations 3 and 4).

    Two institutions are similar if their models have similar outputs on a random graph that all
    share. As in the authors' code, institutions compute these functional embeddings.
    """

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Expect Δθ without the masks, and the functional embedding."""
        return super().expected(profile) | {FUNCTIONAL_EMBEDDING: [self._config.hidden]}

    def receive(self, institution: str, update: Update) -> Update:
        """Add Δθ_i to θ̂_i, and keep the functional embedding."""
        self._add_change(institution, update)
        self._set_trait(institution, update.arrays[FUNCTIONAL_EMBEDDING])
        return replace(update, arrays={})

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Average with S_ij = cos(h_i, h_j)."""
        self._receive_all(updates)
        similarity = self._trait_similarity()
        weights = self._weights(similarity, updates)
        self._average(weights)
        return self._report(similarity, weights)


INFO = MethodInfo(
    "FED-PUB",
    "a masked GCN, personalised averages by similarity of functional embeddings",
    FedPub,
    # As in the authors' code; for overlapping subgraphs they use a tau of 5.
    defaults=BASELINE_DEFAULTS | {"weight-decay": 1e-6, "tau": 3.0},
    uploads=(
        WEIGHTS,
        FUNCTIONAL_EMBEDDING,
    ),
)
