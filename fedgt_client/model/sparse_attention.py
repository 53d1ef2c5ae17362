"""Softmax attention to a few rows of a table, forward and backward without gathered copies.

Scores are a sampled matrix product and outputs are weighted sums of rows: kernels that read the
rows of a table where they lie. With the (query, row) pairs sorted once by row, the gradient of a
table is a weighted sum too, where torch's backward of a gather adds rows one by one.
"""

import math
import warnings
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Which part of it is beta does not matter here: the layout is only passed on to one product.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


class AttendedRows:
    """The rows of a table that each query attends to: its own choice, then the table's last ones.

    Queries have shape (q, d) and tables shape (n + c, d). Every head works in d / h of the
    columns, so that both are read as (q · h, d / h) and ((n + c) · h, d / h).

    Parameters
    ----------
    chosen : rows that each query attends to, shape (q, k)
    common : c, how many of the last rows all queries attend to
    nodes : n, rows before these
    heads : h
    """

    def __init__(self, chosen: Tensor, common: int, nodes: int, heads: int) -> None:
        self._chosen, self._common, self._nodes, self._heads = chosen, common, nodes, heads
        last = torch.arange(nodes, nodes + common, device=chosen.device)
        rows = torch.cat([chosen, last.expand(len(chosen), -1)], dim=1)
        head = torch.arange(heads, device=chosen.device)[:, None]
        self._rows = (rows.unsqueeze(1) * heads + head).view(-1, rows.shape[1])  # (q · h, k + c)

    def products(self, queries: Tensor, table: Tensor, bias: Tensor, scale: float) -> Tensor:
        """Return bias plus scaled inner products of queries and their rows, (q · h, k + c)."""
        pairs, width = self._rows.shape
        if not pairs * width:
            return bias.reshape(pairs, width)
        by_head = self._by_head(table)
        starts = torch.arange(0, pairs * width + 1, width, device=self._rows.device)
        layout = torch.sparse_csr_tensor(
            starts,
            self._rows.view(-1),
            bias.reshape(-1),
            size=(pairs, len(by_head)),
            check_invariants=False,
        )
        found: Tensor = torch.sparse.sampled_addmm(
            layout, self._by_head(queries), by_head.t(), beta=1.0, alpha=scale
        ).values()
        return found.view(pairs, width)

    def sums(self, weights: Tensor, table: Tensor) -> Tensor:
        """Add up the weighted rows of each query, (q · h, k + c) to (q, d)."""
        added = functional.embedding_bag(
            self._rows, self._by_head(table), per_sample_weights=weights, mode="sum"
        )
        return added.view(len(self._chosen), table.shape[1])

    def reversed_sums(self, weights: Tensor, queries: Tensor) -> Tensor:
        """Add up the weighted queries that attend to each row of a table, shape (n + c, d)."""
        places, sources, offsets = self._by_row
        added = functional.embedding_bag(
            sources,
            self._by_head(queries),
            offsets,
            per_sample_weights=weights.reshape(-1).index_select(0, places),
            mode="sum",
            include_last_offset=True,
        )
        rows = self._nodes + self._common
        added = added.view(self._heads, rows, queries.shape[1] // self._heads)
        return added.transpose(0, 1).reshape(rows, queries.shape[1])

    def _by_head(self, rows: Tensor) -> Tensor:
        """Read rows of shape (r, d) as (r · h, d / h)."""
        return rows.view(len(rows) * self._heads, rows.shape[1] // self._heads)

    @cached_property
    def _by_row(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the pairs of all heads, those of the first head first, each sorted by row.

        That is their places among the weights, their queries, and where each row's pairs start.
        """
        queries, chosen = self._chosen.shape
        device, width = self._chosen.device, chosen + self._common
        order = self._chosen.reshape(-1).argsort(stable=True)
        query, column = order // max(chosen, 1), order % max(chosen, 1)
        if self._common:  # every query attends to them: their order is known
            every = torch.arange(queries, device=device)
            last = torch.arange(chosen, width, device=device)
            query = torch.cat([query, every.repeat(self._common)])
            column = torch.cat([column, last.repeat_interleave(queries)])
        head = torch.arange(self._heads, device=device)[:, None]
        sources = query * self._heads + head  # shape: (h, q · (k + c))
        counts = torch.bincount(self._chosen.reshape(-1), minlength=self._nodes)
        counts = functional.pad(counts, (0, self._common), value=queries)
        offsets = functional.pad(counts.repeat(self._heads).cumsum(0), (1, 0))
        return (sources * width + column).view(-1), sources.view(-1), offsets


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rows: AttendedRows) -> Tensor:
    """Return softmax(Q K^T / sqrt(d / h) + bias) V over the rows of each query, shape (q, d).

    In full precision, the only one that the kernels have.

    Parameters
    ----------
    query : shape (q, d)
    key, value : tables, shape (n + c, d)
    bias : shape (q, h, k + c), -inf where a row is masked
    """
    with torch.autocast(query.device.type, enabled=False):
        tensors = (tensor.float().contiguous() for tensor in (query, key, value, bias))
        attended: Tensor = _Attend.apply(*tensors, rows)  # type: ignore[no-untyped-call]
    return attended


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rows: AttendedRows
    ) -> Tensor:
        ctx.scale = 1.0 / math.sqrt(query.shape[1] / bias.shape[1])
        weights = rows.products(query, key, bias, ctx.scale).softmax(dim=1)
        ctx.save_for_backward(query, key, value, weights)
        ctx.rows, ctx.shape = rows, bias.shape
        return rows.sums(weights, value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        query, key, value, weights = ctx.saved_tensors
        rows: AttendedRows = ctx.rows
        gradient = gradients[0].contiguous()
        of_weights = rows.products(gradient, value, torch.zeros_like(weights), 1.0)
        mean = (weights * of_weights).sum(dim=1, keepdim=True)
        of_scores = (of_weights - mean).mul_(weights)
        scaled = of_scores * ctx.scale
        return (
            rows.sums(scaled, key),
            rows.reversed_sums(scaled, query),
            rows.reversed_sums(weights, gradient),
            of_scores.view(ctx.shape),
            None,
        )
