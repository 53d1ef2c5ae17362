"""Global nodes: cluster centres of the representations, kept by online clustering."""

from collections.abc import Sequence

import torch
from torch import Tensor

# A cluster whose running count is below this is dead. It must be detected early: a cluster that is
# restarted moves what trained attention has learned to attend to.
_DEAD = 0.5
# In units of the normalised representations.
_INITIAL_SCALE = 0.3


def update_global_nodes(
    points: Tensor, centres: Tensor, counts: Tensor, momentum: float
) -> tuple[Tensor, Tensor]:
    """Move each centre towards the points nearest to it, Algorithm 1.

    Parameters
    ----------
    points : H_b, shape (b, d)
    centres : the global nodes μ, shape (n_g, d)
    counts : data per cluster c, shape (n_g,)
    momentum : γ

    Returns
    -------
    The new centres and counts. A cluster whose count has decayed to nothing, for which line 4
    would divide by zero, is restarted at the point furthest from all centres. Without
    points nothing changes.
    """
    if not len(points):
        return centres, counts
    distances = torch.cdist(points, centres)
    nearest = distances.argmin(dim=1)
    assignment = torch.nn.functional.one_hot(nearest, len(centres)).to(points)  # P: (b, n_g)
    sums = (counts * momentum)[:, None] * centres + (1 - momentum) * (assignment.T @ points)
    counts = counts * momentum + (1 - momentum) * assignment.sum(dim=0)
    dead = counts < _DEAD
    centres = torch.where(dead[:, None], centres, sums / counts.clamp_min(_DEAD)[:, None])
    if dead.any():
        worst = distances.min(dim=1).values.argsort(descending=True)
        replacements = worst[torch.arange(int(dead.sum()), device=worst.device) % len(points)]
        centres[dead] = points[replacements]
        counts[dead] = 1.0
    return centres, counts


class GlobalNodes:
    """A set of n_g global nodes for every layer boundary 0…L, without gradients.

    Layer l + 1 attends to set l; the last set represents the institution when the coordinator
    compares institutions, and nothing attends to it.
    """

    def __init__(self, centres: Tensor, counts: Tensor, momentum: float) -> None:
        self.centres = centres  # shape: (L + 1, n_g, d)
        self.counts = counts  # shape: (L + 1, n_g)
        self._momentum = momentum

    @classmethod
    def initial(
        cls, *, sets: int, count: int, width: int, momentum: float, seed: int
    ) -> "GlobalNodes":
        """Create μ^(1) of Algorithm 3, the same at every institution.

        From a common start, the same global node comes to represent the same kind of nodes
        everywhere; started on each institution's own points, similar institutions would end with
        dissimilar centres. Near the origin, so that a point's nearest centre is the one in its
        direction.
        """
        generator = torch.Generator().manual_seed(seed)
        centres = _INITIAL_SCALE * torch.randn(sets, count, width, generator=generator)
        # A count of one each: the first points outweigh the random start.
        return cls(centres, torch.ones(sets, count), momentum)

    def to(self, device: torch.device) -> "GlobalNodes":
        """Return a copy on ``device``."""
        return GlobalNodes(self.centres.to(device), self.counts.to(device), self._momentum)

    def update(self, representations: Sequence[Tensor]) -> None:
        """Apply Algorithm 1 at every layer boundary."""
        if not self.centres.shape[1]:
            return
        moved = [
            update_global_nodes(_finite_rows(points), centres, counts, self._momentum)
            # A single set follows the input representations alone.
            for points, centres, counts in zip(
                representations, self.centres, self.counts, strict=False
            )
        ]
        self.centres = torch.stack([centres for centres, _ in moved])
        self.counts = torch.stack([counts for _, counts in moved])


def _finite_rows(points: Tensor) -> Tensor:
    """Remove points that are not finite: a single one would make a centre useless for good."""
    finite = points.isfinite().all(dim=1)
    return points if bool(finite.all()) else points[finite]
