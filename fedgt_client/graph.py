"""Graph: the one form in which a (sub)graph travels through the code."""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shared.errors import FedGTError
from shared.files import Array, atomic_folder, open_tensors, write_json, write_tensors

UNLABELLED = -1
SPLITS = ("train", "val", "test")

_TENSORS = "graph.safetensors"
_DESCRIPTION = "graph.json"
_FORMAT = 1
_SPARSE_PARTS = ("indptr", "indices", "values")


@dataclass(frozen=True)
class SparseRows:
    """A float32 matrix of shape (n, p) whose rows are mostly zero, in CSR form."""

    indptr: NDArray[np.int64]  # shape: (n + 1,)
    indices: NDArray[np.int32]  # shape: (nnz,)
    values: NDArray[np.float32]  # shape: (nnz,)
    columns: int  # p

    @classmethod
    def from_dense(cls, dense: NDArray[np.float32]) -> Self:
        """The non-zero entries of ``dense``, shape (n, p)."""
        rows, columns = np.nonzero(dense)
        indptr = np.zeros(len(dense) + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=len(dense)), out=indptr[1:])
        return cls(
            indptr,
            columns.astype(np.int32),
            dense[rows, columns].astype(np.float32),
            dense.shape[1],
        )

    def rows(self, nodes: NDArray[np.int64]) -> "SparseRows":
        """The rows of ``nodes``, in their order."""
        indptr, positions = _row_positions(self.indptr, nodes)
        return SparseRows(indptr, self.indices[positions], self.values[positions], self.columns)

    def dense(self) -> NDArray[np.float32]:
        """The same matrix with its zeros, shape (n, p)."""
        matrix = np.zeros((len(self.indptr) - 1, self.columns), np.float32)
        rows = np.repeat(np.arange(len(matrix)), np.diff(self.indptr))
        matrix[rows, self.indices] = self.values
        return matrix


@dataclass(frozen=True)
class Graph:
    """Nodes with features and labels, and links between them.

    Row ``i`` of the CSR adjacency lists the neighbours of node ``i``; an undirected link stands in
    both rows. There are no self-loops and no duplicate links.
    """

    indptr: NDArray[np.int64]  # shape: (n + 1,)
    indices: NDArray[np.int32]  # shape: (m,), sorted within a row
    features: NDArray[np.float32] | SparseRows  # shape: (n, p)
    labels: NDArray[np.int64]  # shape: (n,), UNLABELLED where not known
    train: NDArray[np.bool_]  # shape: (n,)
    val: NDArray[np.bool_]  # shape: (n,)
    test: NDArray[np.bool_]  # shape: (n,)
    feature_names: tuple[str, ...]  # p names; part of what institutions must agree on
    class_names: tuple[str, ...]
    directed: bool = False

    def __post_init__(self) -> None:
        n = self.num_nodes
        if isinstance(self.features, SparseRows):
            shape = (len(self.features.indptr) - 1, self.features.columns)
        else:
            shape = self.features.shape
        if shape != (n, len(self.feature_names)):
            raise FedGTError(
                f"features have shape {shape}, expected ({n}, {len(self.feature_names)})"
            )
        for name in ("labels", *SPLITS):
            if (found := getattr(self, name).shape) != (n,):
                raise FedGTError(f"{name} has shape {found}, expected ({n},)")
        if len(self.indices) != self.indptr[-1]:
            raise FedGTError(f"indices has {len(self.indices)} entries, indptr {self.indptr[-1]}")
        if len(self.indices) and not 0 <= self.indices.min() <= self.indices.max() < n:
            raise FedGTError(f"indices name a node outside 0..{n - 1}")
        if n and not UNLABELLED <= self.labels.min() <= self.labels.max() < self.num_classes:
            raise FedGTError(f"labels lie outside -1..{self.num_classes - 1}")

    @property
    def num_nodes(self) -> int:
        """n."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Links, an undirected one counted once."""
        return len(self.indices) if self.directed else len(self.indices) // 2

    @property
    def num_features(self) -> int:
        """p."""
        return len(self.feature_names)

    @property
    def num_classes(self) -> int:
        """Classes the federation agreed on, present here or not."""
        return len(self.class_names)

    def dense_features(self) -> NDArray[np.float32]:
        """The feature matrix with its zeros, shape (n, p)."""
        return self.features.dense() if isinstance(self.features, SparseRows) else self.features

    def arcs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target of every stored arc, each of shape (m,)."""
        sources = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        return sources, self.indices.astype(np.int64)

    def subgraph(self, nodes: NDArray[np.int64]) -> "Graph":
        """What the given nodes hold among themselves; links to others are lost."""
        position = np.full(self.num_nodes, -1, np.int64)
        position[nodes] = np.arange(len(nodes))
        indptr, places = _row_positions(self.indptr, nodes)
        targets = position[self.indices[places]]
        sources = np.repeat(np.arange(len(nodes)), np.diff(indptr))
        kept = targets >= 0
        indptr, indices = csr_from_arcs(sources[kept], targets[kept], len(nodes))
        features = self.features
        return replace(
            self,
            indptr=indptr,
            indices=indices,
            features=features.rows(nodes) if isinstance(features, SparseRows) else features[nodes],
            labels=self.labels[nodes],
            train=self.train[nodes],
            val=self.val[nodes],
            test=self.test[nodes],
        )

    def digest(self) -> str:
        """A SHA-256 of everything the graph holds, to key caches by content."""
        digest = hashlib.sha256()
        for name, array in sorted(self._tensors().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(json.dumps(self._description(), sort_keys=True).encode())
        return digest.hexdigest()

    def save(self, folder: Path, *, force: bool = False) -> None:
        """Write the graph as a folder, whole or not at all."""
        with atomic_folder(folder, force=force) as staging:
            self.write_into(staging)

    def write_into(self, folder: Path) -> None:
        """Write the graph's two files into an existing folder."""
        write_tensors(folder / _TENSORS, self._tensors())
        write_json(folder / _DESCRIPTION, self._description())

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a saved graph, its arrays memory-mapped and read-only."""
        try:
            description = json.loads((folder / _DESCRIPTION).read_text())
            tensors = open_tensors(folder / _TENSORS)
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise FedGTError(
                f"{folder} holds no graph ({Path(missing.filename).name} is missing): "
                "make one with 'fedgt data import'"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise FedGTError(f"{folder / _DESCRIPTION} is not valid JSON: write it again") from None
        if not isinstance(description, dict) or description.get("format") != _FORMAT:
            raise FedGTError(f"{folder} was written by another version of FedGT: import it again")
        try:
            return cls._from_parts(tensors, description)
        except (KeyError, IndexError, TypeError) as error:
            raise FedGTError(f"{folder} is damaged ({error}): import it again") from None
        except FedGTError as error:
            raise FedGTError(f"{folder} is damaged: {error}") from None

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], description: dict[str, Any]) -> Self:
        feature_names = tuple(description["feature_names"])
        if "features" in tensors:
            features: Array | SparseRows = tensors["features"]
        else:
            indptr, indices, values = (tensors[f"features.{part}"] for part in _SPARSE_PARTS)
            features = SparseRows(indptr, indices, values, len(feature_names))
        return cls(
            features=features,
            feature_names=feature_names,
            class_names=tuple(description["class_names"]),
            directed=description["directed"],
            **{name: tensors[name] for name in ("indptr", "indices", "labels", *SPLITS)},
        )

    def _tensors(self) -> dict[str, Array]:
        tensors = {
            field.name: value
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        if isinstance(self.features, SparseRows):
            for part in _SPARSE_PARTS:
                tensors[f"features.{part}"] = getattr(self.features, part)
        return tensors

    def _description(self) -> dict[str, object]:
        return {
            "format": _FORMAT,
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "directed": self.directed,
            "class_names": list(self.class_names),
            "feature_names": list(self.feature_names),
        }


def csr_from_arcs(
    sources: NDArray[np.int64], targets: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """CSR form of the given arcs, rows sorted, duplicates and self-loops dropped.

    Returns ``indptr`` of shape (num_nodes + 1,) and ``indices``.
    """
    kept = sources != targets
    # One sortable number an arc: a single sort both orders and deduplicates. np.unique would hash
    # first, which takes ten times as long for millions of arcs.
    keys = np.sort(sources[kept].astype(np.int64) * num_nodes + targets[kept])
    keys = keys[np.diff(keys, prepend=-1) != 0]
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(keys // max(num_nodes, 1), minlength=num_nodes), out=indptr[1:])
    return indptr, (keys % max(num_nodes, 1)).astype(np.int32)


def undirected(
    sources: NDArray[np.int64], targets: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """As ``csr_from_arcs``, with every arc in both directions."""
    return csr_from_arcs(
        np.concatenate([sources, targets]), np.concatenate([targets, sources]), num_nodes
    )


def _row_positions(
    indptr: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """New indptr for the chosen rows, and where their entries stand in the old arrays."""
    lengths = np.diff(indptr)[rows]
    chosen = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=chosen[1:])
    positions = np.arange(chosen[-1]) + np.repeat(indptr[rows] - chosen[:-1], lengths)
    return chosen, positions
