"""Graph: the in-memory and on-disk form of a graph or subgraph."""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedgt_client.csr import row_positions, weighted_csr
from shared.errors import DamagedDataError, FedGTError
from shared.files import Array, atomic_folder, open_tensors, write_json, write_tensors
from shared.json_text import parse_json

UNLABELLED = -1
SPLITS = ("train", "val", "test")

_TENSORS = "graph.safetensors"
_DESCRIPTION = "graph.json"
_FORMAT = 1
# Names of the arrays of a sparse feature matrix in the file, with their types there.
_SPARSE_PARTS = {"indptr": np.int64, "indices": np.int32, "values": np.float32}


def sparse_features(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32], columns: int
) -> csr_array:
    """Return a float32 matrix of shape (n, columns) around existing CSR arrays.

    The constructor of ``csr_array`` would copy both of the large arrays of a memory-mapped file:
    ``indices`` to 64 bits, as ``indptr`` has them (both must be of one type), and views of a file
    because it takes them for leftovers of a larger array. Only ``indptr`` is converted here.
    """
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise FedGTError("the row pointers of the sparse features do not increase from 0")
    if not len(indices) == len(values) == indptr[-1]:
        raise FedGTError(
            f"sparse features have {len(indices)} columns, {len(values)} values and "
            f"{indptr[-1]} entries by their row pointers"
        )
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise FedGTError(f"sparse features name a column outside 0..{columns - 1}")
    index_type = np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64
    shape = (len(indptr) - 1, columns)
    matrix = csr_array(shape, shape=shape, dtype=np.float32)
    matrix.indptr = indptr.astype(index_type, copy=False)
    matrix.indices = indices.astype(index_type, copy=False)
    matrix.data = values
    return matrix


@dataclass(frozen=True)
class Graph:
    """Nodes with features and labels, and links between them.

    Row ``i`` of the CSR adjacency lists the neighbours of node ``i``; an undirected link is stored
    in both rows. There are no self-loops and no duplicate links. Links have weights or not; where
    they do, an undirected link has the same weight in both rows.
    """

    indptr: NDArray[np.int64]  # shape: (n + 1,)
    indices: NDArray[np.int32]  # shape: (m,), sorted within a row
    features: NDArray[np.float32] | csr_array  # shape: (n, p)
    labels: NDArray[np.int64]  # shape: (n,), UNLABELLED where not known
    train: NDArray[np.bool_]  # shape: (n,)
    val: NDArray[np.bool_]  # shape: (n,)
    test: NDArray[np.bool_]  # shape: (n,)
    feature_names: tuple[str, ...]  # p names; part of what institutions must agree on
    class_names: tuple[str, ...]
    directed: bool = False
    weights: NDArray[np.float32] | None = None  # shape: (m,), of the arcs in ``indices``; positive

    def __post_init__(self) -> None:
        n = self.num_nodes
        if (shape := self.features.shape) != (n, self.num_features):
            raise FedGTError(f"features have shape {shape}, expected ({n}, {self.num_features})")
        for name in ("labels", *SPLITS):
            if (found := getattr(self, name).shape) != (n,):
                raise FedGTError(f"{name} has shape {found}, expected ({n},)")
        if len(self.indices) != self.indptr[-1]:
            raise FedGTError(f"indices has {len(self.indices)} entries, indptr {self.indptr[-1]}")
        if len(self.indices) and not 0 <= self.indices.min() <= self.indices.max() < n:
            raise FedGTError(f"indices name a node outside 0..{n - 1}")
        if self.weights is not None:
            _check_weights(self.weights, len(self.indices))
        if n and not UNLABELLED <= self.labels.min() <= self.labels.max() < self.num_classes:
            raise FedGTError(f"labels lie outside -1..{self.num_classes - 1}")

    @property
    def num_nodes(self) -> int:
        """Return n."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Return the number of links; an undirected link counts once."""
        return len(self.indices) if self.directed else len(self.indices) // 2

    @property
    def num_features(self) -> int:
        """Return p."""
        return len(self.feature_names)

    @property
    def num_classes(self) -> int:
        """Return the number of classes the federation agreed on, present here or not."""
        return len(self.class_names)

    def dense_features(self) -> NDArray[np.float32]:
        """Return the feature matrix with its zeros, shape (n, p)."""
        return self.features.toarray() if isinstance(self.features, csr_array) else self.features

    def arcs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return source and target of every stored arc, each of shape (m,)."""
        sources = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        return sources, self.indices.astype(np.int64)

    def subgraph(self, nodes: NDArray[np.int64]) -> "Graph":
        """Return the subgraph induced by ``nodes``, in their order; links to others are lost."""
        position = np.full(self.num_nodes, -1, np.int64)
        position[nodes] = np.arange(len(nodes))
        indptr, places = row_positions(self.indptr, nodes)
        targets = position[self.indices[places]]
        sources = np.repeat(np.arange(len(nodes)), np.diff(indptr))
        kept = targets >= 0
        indptr, indices, weights = weighted_csr(
            sources[kept],
            targets[kept],
            None if self.weights is None else self.weights[places][kept],
            len(nodes),
        )
        return replace(
            self,
            indptr=indptr,
            indices=indices,
            weights=weights,
            features=self.features[nodes],
            labels=self.labels[nodes],
            train=self.train[nodes],
            val=self.val[nodes],
            test=self.test[nodes],
        )

    def digest(self) -> str:
        """Return the SHA-256 of the graph's whole content, which caches use as a key."""
        digest = hashlib.sha256()
        for name, array in sorted(self._tensors().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(json.dumps(self._description(), sort_keys=True).encode())
        return digest.hexdigest()

    def save(self, folder: Path, *, force: bool = False) -> None:
        """Write the graph as a folder, atomically."""
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
            text = (folder / _DESCRIPTION).read_bytes()
            description = parse_json(text, str(folder / _DESCRIPTION))
            tensors = open_tensors(folder / _TENSORS)
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise FedGTError(
                f"{folder} holds no graph ({Path(missing.filename).name} is missing): "
                "make one with 'fedgt data import'"
            ) from None
        if not isinstance(description, dict) or description.get("format") != _FORMAT:
            raise FedGTError(f"{folder} was written by another version of FedGT: import it again")
        try:
            return cls._from_parts(tensors, description)
        except (KeyError, IndexError, TypeError) as error:
            raise DamagedDataError(f"{folder} is damaged ({error}): import it again") from None
        except FedGTError as error:
            raise DamagedDataError(f"{folder} is damaged: {error}") from None

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], description: dict[str, Any]) -> Self:
        feature_names = tuple(description["feature_names"])
        if "features" in tensors:
            features: Array | csr_array = tensors["features"]
        else:
            indptr, indices, values = (tensors[f"features.{part}"] for part in _SPARSE_PARTS)
            features = sparse_features(indptr, indices, values, len(feature_names))
        return cls(
            features=features,
            feature_names=feature_names,
            class_names=tuple(description["class_names"]),
            directed=description["directed"],
            weights=tensors.get("weights"),
            **{name: tensors[name] for name in ("indptr", "indices", "labels", *SPLITS)},
        )

    def _tensors(self) -> dict[str, Array]:
        tensors = {
            field.name: value
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        if isinstance(self.features, csr_array):
            arrays = (self.features.indptr, self.features.indices, self.features.data)
            for (part, kind), array in zip(_SPARSE_PARTS.items(), arrays, strict=True):
                tensors[f"features.{part}"] = array.astype(kind, copy=False)
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


def _check_weights(weights: Array, arcs: int) -> None:
    if weights.shape != (arcs,) or weights.dtype != np.float32:
        raise FedGTError(
            f"weights are {weights.dtype} of shape {weights.shape}, expected float32 of ({arcs},)"
        )
    if arcs and not (weights.min() > 0 and np.isfinite(weights.max())):
        raise FedGTError("weights must be positive and finite")
