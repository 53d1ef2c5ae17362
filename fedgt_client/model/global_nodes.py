"""Global nodes: cluster centres of the representations, kept by online clustering."""

from collections.abc import Sequence

import torch
from torch import Tensor

# A cluster whose running count is below this is dead. It must be detected early: a cluster that is
# restarted moves what trained attention has learned to attend to.
_DEAD = 0.5
# Points of a set up to which all sets are updated at once: fewer kernels, for a copy of them.
_FEW = 4096
# In units of the normalised representations.
_INITIAL_SCALE = 0.3


def update_global_nodes(
    points: Tensor, centres: Tensor, counts: Tensor, momentum: float
) -> tuple[Tensor, Tensor]:
    """Move each centre towards the points nearest to it, Algorithm 1; several sets at once.

    Nothing here waits for the device: no value is read, and no shape depends on one.

    Parameters
    ----------
    points : H_b, shape (…, b, d); those that are not finite are left out, as a single one of them
        would make a centre useless for good
    centres : the global nodes μ, shape (…, n_g, d)
    counts : data per cluster c, shape (…, n_g)
    momentum : γ

    Returns
    -------
    The new centres and counts. A cluster whose count has decayed to nothing, for which line 4
    would divide by zero, is restarted at one of the points furthest from all centres. Without
    points nothing changes.
    """
    if not points.shape[-2]:
        return centres, counts
    finite = points.sum(dim=-1).isfinite()
    points = points.where(finite[..., None], 0.0)
    squares = points.square().sum(dim=-1)[..., None] + centres.square().sum(dim=-1)[..., None, :]
    distance, nearest = (squares - 2 * points @ centres.mT).min(dim=-1)  # squared
    cluster = torch.arange(centres.shape[-2], device=points.device)
    # P, shape: (…, b, n_g)
    assignment = ((nearest[..., None] == cluster) & finite[..., None]).to(points)
    sums = (counts * momentum)[..., None] * centres + (1 - momentum) * (assignment.mT @ points)
    moved = counts * momentum + (1 - momentum) * assignment.sum(dim=-2)
    dead = moved < _DEAD
    # The furthest first; those that are not finite would come last.
    most = min(len(cluster), points.shape[-2])
    furthest = distance.where(finite, -torch.inf).topk(most).indices
    usable = finite.sum(dim=-1, keepdim=True).clamp(1, most)
    chosen = furthest.gather(-1, (dead.cumsum(-1) - 1) % usable)
    restarted = points.gather(-2, chosen[..., None].expand(centres.shape))
    means = torch.where(dead[..., None], restarted, sums / moved.clamp_min(_DEAD)[..., None])
    changed = finite.any(dim=-1, keepdim=True)
    counted = moved.masked_fill(dead, 1.0).where(changed, counts)
    return means.where(changed[..., None], centres), counted


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
        # A single set follows the input representations alone.
        followed = representations[: len(self.centres)]
        if len({points.shape for points in followed}) == 1 and len(followed[0]) <= _FEW:
            self.centres, self.counts = update_global_nodes(
                torch.stack(list(followed)), self.centres, self.counts, self._momentum
            )
            return
        centres, counts = list(self.centres), list(self.counts)
        for index, points in enumerate(followed):
            centres[index], counts[index] = update_global_nodes(
                points, centres[index], counts[index], self._momentum
            )
        self.centres, self.counts = torch.stack(centres), torch.stack(counts)

    def follow_outputs(self, layers: int) -> bool:
        """Return whether a set follows the representations after the last layer."""
        return bool(self.centres.shape[1]) and len(self.centres) > layers
