"""Eigenvectors of the largest eigenvalues of a large normalised adjacency matrix."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, SuperLU, eigsh, lobpcg, splu

from fedgt_client.preprocess.progress import Progress

Matrix = NDArray[np.float64]

_BASIS = 40  # vectors of a Lanczos basis, at least
_RESTARTS = 30
_TOLERANCE = 1e-6

_FEW_LINKS = 5  # stored arcs a node: factorising such a graph is tried first
_SHIFT = 1 + 1e-8  # beside the largest eigenvalue, 1, at which there is no inverse
_MAX_FILL = 15  # entries of the factors for each entry of the matrix
_PROBES = (4_000, 16_000)  # nodes

_BLOCK_STEPS = 200
_SPARE = 4  # vectors beyond those wanted, which speed up the others


def largest_eigenvectors(matrix: sparse.csr_array, count: int) -> Matrix:
    """Return eigenvectors of the ``count`` largest eigenvalues, descending, shape (s, count).

    Lanczos iterations converge quickly on graphs that mix well, such as social ones, and stall on
    long ones (chains, grids, trees), whose largest eigenvalues hardly differ. Those have a sparse
    factorisation, by which shift and invert spreads the eigenvalues. On what stalls and has no
    sparse factorisation either, a fixed number of LOBPCG steps gives approximate vectors.

    Parameters
    ----------
    matrix : shape (s, s), D^-1/2 A D^-1/2 of a connected graph
    """
    solvers = [_direct, _shift_and_invert]
    if matrix.nnz < _FEW_LINKS * matrix.shape[0]:
        solvers.reverse()
    for solver in solvers:
        vectors = solver(matrix, count)
        if vectors is not None:
            return vectors
    return _block_steps(matrix, count)


def _direct(matrix: sparse.csr_array, count: int) -> Matrix | None:
    """Iterate with the matrix itself; None where that stalls."""
    return _lanczos(matrix.__matmul__, matrix.shape[0], count, _TOLERANCE)


def _shift_and_invert(matrix: sparse.csr_array, count: int) -> Matrix | None:
    """Iterate with the inverse of shift · I − matrix; None where it is not sparse, or stalls."""
    factors = _sparse_factors(matrix)
    # The eigenvalues of the inverse are so large that the same accuracy needs more digits.
    return factors and _lanczos(factors.solve, matrix.shape[0], count, 1e-3 * _TOLERANCE)


def _lanczos(
    product: Callable[[Matrix], Matrix], size: int, count: int, tolerance: float
) -> Matrix | None:
    """Return the leading eigenvectors of a symmetric operator, None if they do not converge."""
    basis = min(max(_BASIS, 2 * count + 1), size)
    progress = Progress("positional encoding", _RESTARTS * (basis - count), at_most=True)

    def counted(vector: Matrix) -> Matrix:
        progress.advance(1)
        return product(vector)

    try:
        values, vectors = eigsh(
            LinearOperator((size, size), matvec=counted, dtype=np.float64),
            k=count,
            which="LA",
            v0=np.random.default_rng(0).standard_normal(size),
            ncv=basis,
            maxiter=_RESTARTS,
            tol=tolerance,
        )
    except ArpackNoConvergence:
        return None
    return np.asarray(vectors[:, np.argsort(-values)])


def _sparse_factors(matrix: sparse.csr_array) -> SuperLU | None:
    """Factorise shift · I − matrix, None if the factors would be much larger than the matrix.

    Fill-in grows with the size where it is a problem: parts of increasing size are tried first.
    """
    size = matrix.shape[0]
    near = breadth_first_order(matrix, 0, directed=False, return_predecessors=False)
    for part in (*(probe for probe in _PROBES if probe < size), size):
        nodes = np.sort(near[:part])
        block = matrix if part == size else matrix[nodes][:, nodes]
        shifted = sparse.csc_array(_SHIFT * sparse.eye_array(part) - block)
        factors = splu(
            shifted,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        if factors.nnz > _MAX_FILL * shifted.nnz:
            return None
    return factors


def _block_steps(matrix: sparse.csr_array, count: int) -> Matrix:
    """Return approximate eigenvectors, as good as a fixed number of LOBPCG steps makes them."""
    start = np.random.default_rng(0).standard_normal((matrix.shape[0], count + _SPARE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the tolerance is not reached
        values, vectors = lobpcg(matrix, start, tol=_TOLERANCE, maxiter=_BLOCK_STEPS)
    return np.asarray(vectors[:, np.argsort(-values)[:count]])
