"""Global nodes: cluster centres of the representations, kept by online clustering."""

from collections.abc import Sequence

import torch
from torch import Tensor

# A cluster whose running count is below this is dead. It must be detected early: a cluster that is
# restarted moves what trained attention has learned to attend to.
_DEAD = 0.5
# In units of the normalised representations.
_INITIAL_SCALE = 0.3


class ClusterUpdate:
    """A step of Algorithm 1 on points that come in parts, without waiting for the device.

    All points are assigned to the centres as they were before the step.

    Parameters
    ----------
    centres : the global nodes μ, shape (n_g, d)
    counts : data per cluster c, shape (n_g,)
    """

    def __init__(self, centres: Tensor, counts: Tensor) -> None:
        self._centres, self._counts = centres, counts
        self._sums, self._sizes = torch.zeros_like(centres), torch.zeros_like(counts)
        # The points furthest from all centres, where dead clusters start again.
        self._furthest = torch.zeros_like(centres)
        self._distance = torch.full_like(counts, -torch.inf)

    def add(self, points: Tensor) -> None:
        """Assign points, shape (b, d); those that are not finite are left out.

        A single one of them would make a centre useless for good.
        """
        finite = points.sum(dim=1).isfinite()
        points = points.where(finite[:, None], 0.0)
        squares = points.square().sum(dim=1, keepdim=True) + self._centres.square().sum(dim=1)
        distance, nearest = (squares - 2 * points @ self._centres.T).min(dim=1)  # squared
        cluster = torch.arange(len(self._centres), device=points.device)
        assignment = ((nearest[:, None] == cluster) & finite[:, None]).to(points)  # P: (b, n_g)
        self._sums += assignment.T @ points
        self._sizes += assignment.sum(dim=0)
        far, which = distance.where(finite, -torch.inf).topk(min(len(cluster), len(points)))
        self._distance, kept = torch.cat([self._distance, far]).topk(len(cluster))
        self._furthest = torch.cat([self._furthest, points[which]])[kept]

    def finish(self, momentum: float) -> tuple[Tensor, Tensor]:
        """Return the new centres and counts.

        A cluster whose count has decayed to nothing, for which line 4 would divide by zero, is
        restarted at one of the points furthest from all centres. Without points nothing changes.
        """
        decayed = self._counts * momentum
        counts = decayed + (1 - momentum) * self._sizes
        sums = decayed[:, None] * self._centres + (1 - momentum) * self._sums
        dead = counts < _DEAD
        known = (self._distance > -torch.inf).sum().clamp_min(1)
        restarted = self._furthest[(dead.cumsum(0) - 1) % known]
        centres = torch.where(dead[:, None], restarted, sums / counts.clamp_min(_DEAD)[:, None])
        counts = counts.masked_fill(dead, 1.0)
        empty = self._sizes.sum() == 0
        return self._centres.where(empty, centres), self._counts.where(empty, counts)


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
    """
    update = ClusterUpdate(centres, counts)
    update.add(points)
    return update.finish(momentum)


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
        """Apply Algorithm 1 at the first layer boundaries, whose representations are given."""
        if not self.centres.shape[1]:
            return
        centres, counts = list(self.centres), list(self.counts)
        # A single set follows the input representations alone.
        for index, points in enumerate(representations[: len(centres)]):
            centres[index], counts[index] = update_global_nodes(
                points, centres[index], counts[index], self._momentum
            )
        self.centres, self.counts = torch.stack(centres), torch.stack(counts)

    def has_set_after(self, layers: int) -> bool:
        """Return whether a set follows the representations after the last layer."""
        return bool(self.centres.shape[1]) and len(self.centres) > layers

    def last_clusters(self) -> ClusterUpdate:
        """Start a step of Algorithm 1 at the last layer boundary."""
        return ClusterUpdate(self.centres[-1], self.counts[-1])

    def replace_last(self, clusters: ClusterUpdate) -> None:
        """Replace the last set by the result of such a step."""
        centres, counts = clusters.finish(self._momentum)
        self.centres = torch.cat([self.centres[:-1], centres[None]])
        self.counts = torch.cat([self.counts[:-1], counts[None]])
