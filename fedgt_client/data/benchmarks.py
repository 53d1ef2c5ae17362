"""Convert raw files of the paper's datasets to graphs with PyTorch Geometric's dataset classes.

The raw files' folder is never written to: PyG works on symbolic links in a temporary folder.
"""

import contextlib
import importlib.util
import io
import shutil
import socket
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedgt_client.csr import undirected
from fedgt_client.data import ogb
from fedgt_client.graph import Graph
from shared.errors import FedGTError
from shared.files import atomic_file

_SPARSE_BELOW = 0.25  # features with a smaller share of non-zero entries are stored sparse
_CONNECT_SECONDS = 5.0
_PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class Source:
    """Original files of a dataset, and their reader."""

    family: str  # planetoid, amazon or ogb
    title: str  # the name its reader uses
    folders: tuple[str, ...]  # possible places in a data folder, our own layout first
    files: tuple[str, ...]  # required files, relative to such a folder
    host: str  # where it is downloaded from
    class_names: tuple[str, ...]  # in the order of the labels
    extras: tuple[str, ...] = ()  # files that are used if present

    def missing(self, folder: Path) -> list[str]:
        """Return the required files that are not in ``folder``."""
        try:
            return [file for file in self.files if not (folder / file).is_file()]
        except PermissionError:
            raise FedGTError(f"{folder} may not be read: change its permissions") from None

    def present(self, folder: Path) -> list[str]:
        """Return all files that a graph made from ``folder`` depends on."""
        return [*self.files, *(file for file in self.extras if (folder / file).is_file())]


def _planetoid(title: str, *class_names: str) -> Source:
    files = tuple(f"raw/ind.{title.lower()}.{part}" for part in _PLANETOID_PARTS)
    folders = (f"planetoid/{title}", title)
    return Source("planetoid", title, folders, files, "github.com", class_names)


def _amazon(title: str, *class_names: str) -> Source:
    files = (f"raw/amazon_electronics_{title.lower()}.npz",)
    return Source("amazon", title, (f"amazon/{title}", title), files, "github.com", class_names)


# The Planetoid files contain no class names. Their order was determined by comparing class sizes,
# which are all different, with those of the original collections.
SOURCES = {
    "cora": _planetoid(
        "Cora",
        "Theory",
        "Reinforcement_Learning",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Case_Based",
        "Rule_Learning",
    ),
    "citeseer": _planetoid("CiteSeer", "AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": _planetoid(
        "PubMed",
        "Diabetes Mellitus, Experimental",
        "Diabetes Mellitus Type 1",
        "Diabetes Mellitus Type 2",
    ),
    "amazon-computers": _amazon(
        "Computers",
        "Desktops",
        "Data Storage",
        "Laptops",
        "Monitors",
        "Computer Components",
        "Video Projectors",
        "Routers",
        "Tablets",
        "Networking Products",
        "Webcams",
    ),
    "amazon-photo": _amazon(
        "Photo",
        "Film Photography",
        "Digital Cameras",
        "Binoculars & Scopes",
        "Lenses",
        "Tripods & Monopods",
        "Video Surveillance",
        "Lighting & Studio",
        "Flashes",
    ),
    "ogbn-arxiv": Source(
        "ogb",
        "ogbn-arxiv",
        ("ogbn_arxiv", "ogb/ogbn_arxiv", "ogbn_arxiv_pyg", "arxiv"),
        ogb.FILES,
        "snap.stanford.edu",
        ogb.CLASS_NAMES,
        ogb.EXTRAS,
    ),
}


def convert(source: Source, folder: Path) -> Graph:
    """Convert the raw files in ``folder`` to an undirected graph with row-normalised features."""
    if source.family == "ogb":
        return ogb.read_graph(folder)
    with tempfile.TemporaryDirectory() as root:
        raw = Path(root) / source.title / "raw"
        raw.mkdir(parents=True)
        for file in source.files:
            (raw / Path(file).name).symlink_to((folder / file).resolve())
        try:
            with _silenced():
                data = _pyg_dataset(source, Path(root))[0]
        except Exception as error:  # PyG, numpy and pickle raise many kinds for damaged files
            raise FedGTError(_damage_message(source, folder, raw)) from error
    if source.family == "planetoid":
        _check_test_index(source, folder)
    return _from_pyg(source, data)


def download(source: Source, cache: Path) -> None:
    """Download the raw files with PyG (or ``ogb``) into the per-user cache.

    Raises OSError if that fails.
    """
    if not {"http", "https", "all"} & urllib.request.getproxies().keys():
        # PyG has no timeout, and its import takes seconds before it could fail.
        socket.create_connection((source.host, 443), timeout=_CONNECT_SECONDS).close()
    with tempfile.TemporaryDirectory() as root:
        try:
            with _silenced():
                _fetch(source, Path(root))
        except Exception as error:
            raise OSError(f"download from {source.host} failed: {error}") from error
        fetched = Path(root) / Path(source.folders[0]).name
        target = cache / source.folders[0]
        for file in source.present(fetched):
            _copy_atomically(fetched / file, target / file)


def _copy_atomically(source: Path, target: Path) -> None:
    """Copy a file into place atomically, even across file systems."""
    with atomic_file(target) as staging:
        shutil.copyfile(source, staging)


def _fetch(source: Source, root: Path) -> None:
    if source.family != "ogb":
        _pyg_dataset(source, root)
    elif importlib.util.find_spec("ogb"):
        from ogb.nodeproppred import NodePropPredDataset

        NodePropPredDataset(source.title, root=str(root))
    else:
        raise OSError("the package 'ogb', which downloads it, is not installed")


def _pyg_dataset(source: Source, root: Path) -> Any:
    # Imported here: it takes seconds, and nothing else in this package needs torch.
    from torch_geometric.datasets import Amazon, Planetoid

    reader = Planetoid if source.family == "planetoid" else Amazon
    return reader(str(root), source.title)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Suppress PyG's progress output and its warnings about its own files."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            yield


def _damage_message(source: Source, folder: Path, raw: Path) -> str:
    """Return a message that names the unreadable file, found by reading each file alone."""
    if source.family == "planetoid":
        from torch_geometric.io.planetoid import read_file

        for part, file in zip(_PLANETOID_PARTS, source.files, strict=True):
            try:
                with _silenced():
                    read_file(str(raw), source.title, part)
            except Exception:
                return f"{folder / file} cannot be read: it is damaged, get it again"
        return f"the files in {folder / 'raw'} do not fit together: get them again"
    return f"{folder / source.files[0]} cannot be read: it is damaged, get it again"


def _check_test_index(source: Source, folder: Path) -> None:
    """Raise an error for a truncated index, which would give nodes the features of others."""
    from torch_geometric.io.planetoid import read_file

    with _silenced():
        named, rows = (
            len(read_file(str(folder / "raw"), source.title, part)) for part in ("test.index", "ty")
        )
    if named != rows:
        index = next(file for file in source.files if file.endswith("test.index"))
        raise FedGTError(f"{folder / index} names {named} nodes, expected {rows}: get it again")


def _from_pyg(source: Source, data: Any) -> Graph:
    features = row_normalise(data.x.numpy())
    labels = data.y.numpy().astype(np.int64)
    sources, targets = data.edge_index.numpy()
    indptr, indices = undirected(sources, targets, len(labels))
    unset = np.zeros(len(labels), np.bool_)
    sparse = np.count_nonzero(features) < _SPARSE_BELOW * features.size
    return Graph(
        indptr=indptr,
        indices=indices,
        features=csr_array(features) if sparse else features,
        labels=labels,
        train=unset,
        val=unset,
        test=unset,
        feature_names=tuple(f"word-{column}" for column in range(features.shape[1])),
        class_names=source.class_names,
    )


def row_normalise(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to sum to 1, as FedSage and FED-PUB do; zero rows stay zero.

    ``features`` has shape (n, p) and no negative entries.
    """
    sums = features.sum(axis=1, keepdims=True, dtype=np.float64)
    return (features / np.where(sums > 0, sums, 1.0)).astype(np.float32)
