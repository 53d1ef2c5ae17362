"""Node features, dense or sparse, with the same operations.

Sparse bags of words are some hundred times smaller than the dense matrix; models keep them sparse
unless they say otherwise.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from fedgt_client.graph import Graph
from fedgt_client.model.dropout import dropped
from shared.files import release_after_reading


@dataclass(frozen=True)
class Bags:
    """Sparse feature rows as bags of weighted columns."""

    columns: Tensor  # shape: (nnz,)
    values: Tensor  # shape: (nnz,)
    offsets: Tensor  # shape: (n + 1,), where each node's bag starts
    width: int  # p
    by_column: "ByColumn | None" = None  # makes the gradient of ``project`` faster

    def rows(self, nodes: Tensor) -> "Bags":
        """Return the bags of ``nodes``, in their order."""
        lengths = self.offsets.diff()[nodes]
        offsets = functional.pad(lengths.cumsum(0), (1, 0))
        shift = (self.offsets[:-1][nodes] - offsets[:-1]).repeat_interleave(lengths)
        places = torch.arange(int(offsets[-1]), device=nodes.device) + shift
        return Bags(self.columns[places], self.values[places], offsets, self.width)

    def dense(self) -> Tensor:
        """Return the dense matrix, shape (n, p)."""
        lengths = self.offsets.diff()
        nodes = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        matrix = self.values.new_zeros(len(lengths), self.width)
        matrix[nodes, self.columns] = self.values
        return matrix

    def sorted_by_column(self) -> "Bags":
        """Return the same bags with their entries also sorted by column."""
        lengths = self.offsets.diff()
        nodes = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        order = self.columns.argsort(stable=True)
        counts = torch.bincount(self.columns, minlength=self.width)
        offsets = functional.pad(counts.cumsum(0), (1, 0))
        return replace(self, by_column=ByColumn(order, nodes[order], offsets))


@dataclass(frozen=True)
class ByColumn:
    """The entries of bags, sorted by column."""

    places: Tensor  # shape: (nnz,), in the order of the bags
    nodes: Tensor  # shape: (nnz,)
    offsets: Tensor  # shape: (p + 1,), where each column starts


Features = Tensor | Bags  # shape: (n, p)


def unit_features(graph: Graph, device: torch.device) -> Features:
    """Return the features of all nodes of a graph, each row scaled to unit length.

    So bags of words of any length and standardised columns have the same scale.
    """
    features = graph.features
    if not isinstance(features, csr_array):
        matrix = to_tensor(features, device)
        return functional.normalize(matrix, dim=1, out=matrix)  # no second copy
    counts = np.diff(features.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    squares = np.bincount(rows, features.data**2, minlength=len(counts))
    values = features.data / np.sqrt(np.maximum(squares, 1e-12))[rows].astype(np.float32)
    return Bags(
        to_tensor(features.indices, device).long(),
        to_tensor(values, device),
        to_tensor(features.indptr, device).long(),
        features.shape[1],
    ).sorted_by_column()


def to_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to the device: memory-mapped ones are read-only, which torch cannot use."""
    (copied,) = (np.array(part) for part in release_after_reading([array]))
    return torch.from_numpy(copied).to(device)


def rows_of(features: Features, nodes: Tensor) -> Features:
    """Return the rows of ``nodes``, in their order."""
    return features.rows(nodes) if isinstance(features, Bags) else features[nodes]


def dense(features: Features) -> Tensor:
    """Return the dense matrix, shape (n, p)."""
    return features.dense() if isinstance(features, Bags) else features


def scale(features: Features, factor: float) -> Features:
    """Multiply every entry by ``factor``."""
    if isinstance(features, Bags):
        return replace(features, values=features.values * factor)
    return features * factor


def with_columns(features: Features, columns: Tensor) -> Features:
    """Append columns, shape (n, k)."""
    if not isinstance(features, Bags):
        return torch.cat([features, columns], dim=1)
    (count, more), nodes = columns.shape, torch.arange(len(columns), device=columns.device)
    owners = [nodes.repeat_interleave(features.offsets.diff()), nodes.repeat_interleave(more)]
    order = torch.cat(owners).argsort(stable=True)
    added = features.width + torch.arange(more, device=columns.device).repeat(count)
    return Bags(
        torch.cat([features.columns, added])[order],
        torch.cat([features.values, columns.reshape(-1)])[order],
        features.offsets + more * torch.arange(count + 1, device=columns.device),
        features.width + more,
    )


def scale_columns(features: Features, factors: Tensor) -> Features:
    """Multiply every column by its factor, shape (p,)."""
    if isinstance(features, Bags):
        return replace(features, values=features.values * factors[features.columns])
    return features * factors


def dropout(features: Features, share: float, *, training: bool, inplace: bool = False) -> Features:
    """Drop entries at random; for sparse features, of those that are stored."""
    values = features.values if isinstance(features, Bags) else features
    kept = dropped(values, share, training=training, inplace=inplace)
    return replace(features, values=kept) if isinstance(features, Bags) else kept


def project(features: Features, weight: Tensor) -> Tensor:
    """Return X W, shapes (n, p) and (p, d) to (n, d)."""
    if not isinstance(features, Bags):
        return features @ weight
    weight = weight.contiguous()  # its rows are added up
    if features.by_column is None or features.values.requires_grad:
        return _weighted_sums(features.columns, weight, features.offsets, features.values)
    projected: Tensor = _Project.apply(weight, features)  # type: ignore[no-untyped-call]
    return projected


class _Project(torch.autograd.Function):
    """X W with constant X, whose entries are known by column.

    torch would sort them by column in every backward pass.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, features: Bags) -> Tensor:
        ctx.features = features
        return _weighted_sums(features.columns, weight, features.offsets, features.values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        features: Bags = ctx.features
        assert features.by_column is not None  # or ``project`` would not use this
        by_column, gradient = features.by_column, gradients[0].contiguous()
        values = features.values.index_select(0, by_column.places)
        return _weighted_sums(by_column.nodes, gradient, by_column.offsets, values), None


def _weighted_sums(rows: Tensor, table: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """Add up weighted rows of a table, bag by bag."""
    return functional.embedding_bag(
        rows, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
    )
