"""FED-PUB at the coordinator (Baek et al. 2023, section 4.1)."""

import numpy as np

from fedgt_server.methods.base import ServerMethod
from fedgt_server.methods.fedgt import FedGT
from fedgt_server.transport import Floats, unit_rows
from shared.wire import FUNCTIONAL_EMBEDDING, Arrays, Profile


class FedPub(FedGT):
    """θ̂_i = Σ_j α_ij θ_j as in FedGT, with other similarities (equations 3 and 4).

    Two institutions are alike whose models make the same of a random graph that all share. The
    authors, too, let institutions compute these functional embeddings.
    """

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Δθ without the masks, and the functional embedding."""
        return ServerMethod.expected(self, profile) | {FUNCTIONAL_EMBEDDING: [self._config.hidden]}

    def _remember(self, name: str, arrays: Arrays) -> None:
        self._known["model"][name] = self._known["sent"][name] + self._flat(arrays)
        self._known["trait"][name] = arrays[FUNCTIONAL_EMBEDDING]

    def _compare(self, names: list[str]) -> tuple[Floats, list[Floats]]:
        """S_ij = cos(h_i, h_j), shape (M, M); there is nothing to align."""
        embeddings = np.stack([self._known["trait"][name] for name in names])
        directions = unit_rows(embeddings.astype(np.float64))
        similarity = directions @ directions.T
        np.fill_diagonal(similarity, 1.0)  # also where an embedding is zero
        return similarity, []
