"""Global nodes: cluster centres of the representations, kept by online clustering."""

from collections.abc import Sequence

import torch
from torch import Tensor

# A cluster that holds less than this share of a node has died.
_DEAD = 1e-2


def seed_centres(points: Tensor, count: int) -> Tensor:
    """``count`` starting centres spread over ``points`` (k-means++), shape (count, d)."""
    if not count or not len(points):
        return points.new_zeros(count, points.shape[1])
    chosen = [points[torch.randint(len(points), (1,), device=points.device)]]
    distances = torch.cdist(points, chosen[0]).square().squeeze(1)
    for _ in range(1, count):
        # All points may coincide with a centre already (fewer points than centres).
        weights = distances if distances.sum() > 0 else torch.ones_like(distances)
        chosen.append(points[torch.multinomial(weights, 1)])
        distances = torch.minimum(distances, torch.cdist(points, chosen[-1]).square().squeeze(1))
    return torch.cat(chosen)


def update_global_nodes(
    points: Tensor, centres: Tensor, counts: Tensor, momentum: float
) -> tuple[Tensor, Tensor]:
    """Algorithm 1: move each centre towards the points nearest to it.

    Parameters
    ----------
    points : H_b, shape (b, d)
    centres : the global nodes μ, shape (n_g, d)
    counts : data per cluster c, shape (n_g,)
    momentum : γ

    Returns
    -------
    The new centres and counts. A cluster whose count has decayed to nothing, for which line 4
    would divide by zero, starts again at the point worst served by the others. Without any
    points all stays as it is.
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

    Layer l + 1 attends to set l; the last set stands for the institution when the coordinator
    compares institutions, and nothing attends to it.
    """

    def __init__(self, centres: Tensor, counts: Tensor, momentum: float) -> None:
        self.centres = centres  # shape: (L + 1, n_g, d)
        self.counts = counts  # shape: (L + 1, n_g)
        self._momentum = momentum

    @classmethod
    def seeded(
        cls, representations: Sequence[Tensor], count: int, momentum: float
    ) -> "GlobalNodes":
        """Start each set on points of its boundary's representations, (b, d) each."""
        finite = [_finite_rows(points) for points in representations]
        centres = torch.stack([seed_centres(points, count) for points in finite])
        sizes = [len(points) / max(count, 1) for points in finite]
        counts = torch.tensor(sizes, device=centres.device)[:, None].repeat(1, count)
        return cls(centres, counts, momentum)

    @classmethod
    def none(cls, layers: int, width: int, like: Tensor) -> "GlobalNodes":
        """Sets without any node, on the device of ``like``: no global attention."""
        empty = torch.empty(layers + 1, 0, width, device=like.device)
        return cls(empty, torch.empty(layers + 1, 0, device=like.device), 1.0)

    def update(self, representations: Sequence[Tensor]) -> None:
        """Algorithm 1 at every layer boundary."""
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
    """Without points that are not finite: one broken node would spoil a centre for good."""
    finite = points.isfinite().all(dim=1)
    return points if bool(finite.all()) else points[finite]
