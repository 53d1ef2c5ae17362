"""Many small assignment problems at once, compiled with numba: import it late.

Shortest augmenting paths, as in SciPy's ``linear_sum_assignment`` (Crouse 2016), but from a start
where rows have their nearest columns. Of several bijections that cost the same it may find another.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    return cast(Function, numba.njit(error_model="numpy")(function))


@_compiled
def assign(costs: Floats, columns: NDArray[np.intp]) -> None:
    """Write the column of each row in the cheapest bijections: shapes (k, n, n) and (k, n)."""
    size = costs.shape[1]
    of_rows, of_columns = np.empty(size), np.empty(size)  # dual variables u, v
    lengths, path = np.empty(size), np.empty(size, np.intp)
    rest, row_of = np.empty(size, np.intp), np.empty(size, np.intp)
    seen_rows, seen_columns = np.empty(size, np.bool_), np.empty(size, np.bool_)
    for k in range(len(costs)):
        cost, column_of = costs[k], columns[k]
        of_columns[:], row_of[:], column_of[:] = 0.0, -1, -1
        for row in range(size):  # to its nearest column, if it is free: most rows need no more
            nearest = 0
            for column in range(1, size):
                if cost[row, column] < cost[row, nearest]:
                    nearest = column
            of_rows[row] = cost[row, nearest]
            if row_of[nearest] < 0:
                row_of[nearest], column_of[row] = row, nearest
        for first in range(size):
            if column_of[first] >= 0:
                continue
            # Dijkstra's algorithm, from a free row to a free column.
            lengths[:], seen_rows[:], seen_columns[:] = np.inf, False, False
            for place in range(size):
                rest[place] = size - place - 1
            left, reached, row, sink = size, 0.0, first, -1
            while sink < 0:
                seen_rows[row] = True
                nearest, lowest = 0, np.inf
                for place in range(left):
                    column = rest[place]
                    length = reached + cost[row, column] - of_rows[row] - of_columns[column]
                    if length < lengths[column]:
                        lengths[column], path[column] = length, row
                    if lengths[column] < lowest or (
                        lengths[column] == lowest and row_of[column] < 0
                    ):
                        lowest, nearest = lengths[column], place
                reached, column = lowest, rest[nearest]
                if row_of[column] < 0:
                    sink = column
                row = row_of[column]
                seen_columns[column] = True
                left -= 1
                rest[nearest] = rest[left]
            of_rows[first] += reached
            for row in range(size):
                if seen_rows[row] and row != first:
                    of_rows[row] += reached - lengths[column_of[row]]
            for column in range(size):
                if seen_columns[column]:
                    of_columns[column] -= reached - lengths[column]
            column = sink
            while True:
                row = path[column]
                row_of[column] = row
                column_of[row], column = column, column_of[row]
                if row == first:
                    break
