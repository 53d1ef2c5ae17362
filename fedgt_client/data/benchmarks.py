"""Raw files of the paper's datasets -> ``Graph``, through PyTorch Geometric's own classes.

Nothing is ever written beside the raw files: PyG works on links to them in a temporary folder.
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

from fedgt_client.data import ogb
from fedgt_client.graph import Graph, SparseRows, undirected
from shared.errors import FedGTError
from shared.files import atomic_file

_SPARSE_BELOW = 0.25  # share of non-zero features under which they are kept sparse
_CONNECT_SECONDS = 5.0
_PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class Source:
    """The original files of a dataset, and who reads them."""

    family: str  # planetoid, amazon or ogb
    title: str  # the name its reader knows it by
    folders: tuple[str, ...]  # where it may lie in a data folder, our own layout first
    files: tuple[str, ...]  # what it consists of, relative to such a folder
    host: str  # whence it is downloaded
    class_names: tuple[str, ...]  # in the order of the labels
    extras: tuple[str, ...] = ()  # files that are used where they are present

    def missing(self, folder: Path) -> list[str]:
        """The files that are not in ``folder``."""
        try:
            return [file for file in self.files if not (folder / file).is_file()]
        except PermissionError:
            raise FedGTError(f"{folder} may not be read: change its permissions") from None

    def present(self, folder: Path) -> list[str]:
        """All files that a graph made from ``folder`` depends on."""
        return [*self.files, *(file for file in self.extras if (folder / file).is_file())]


def _planetoid(title: str, *class_names: str) -> Source:
    files = tuple(f"raw/ind.{title.lower()}.{part}" for part in _PLANETOID_PARTS)
    folders = (f"planetoid/{title}", title)
    return Source("planetoid", title, folders, files, "github.com", class_names)


def _amazon(title: str, *class_names: str) -> Source:
    files = (f"raw/amazon_electronics_{title.lower()}.npz",)
    return Source("amazon", title, (f"amazon/{title}", title), files, "github.com", class_names)


# The Planetoid files carry no class names. Their order was found by comparing class sizes, which
# are all different, with those of the original collections.
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
    """The graph whose raw files lie in ``folder``; undirected, features row-normalised."""
    if source.family == "ogb":
        return ogb.read(folder)
    with tempfile.TemporaryDirectory() as root:
        raw = Path(root) / source.title / "raw"
        raw.mkdir(parents=True)
        for file in source.files:
            (raw / Path(file).name).symlink_to((folder / file).resolve())
        try:
            with _quietly():
                data = _pyg_dataset(source, Path(root))[0]
        except Exception as error:  # whatever a damaged file makes PyG, numpy or pickle raise
            raise FedGTError(_damage(source, folder, raw)) from error
    if source.family == "planetoid":
        _check_test_index(source, folder)
    return _from_pyg(source, data)


def download(source: Source, cache: Path) -> None:
    """Let PyG (or ``ogb``) fetch the raw files, and keep them in the per-user cache.

    Raises OSError where that is not possible.
    """
    if not {"http", "https", "all"} & urllib.request.getproxies().keys():
        # PyG sets no time limit of its own, and takes seconds to import before it could fail.
        socket.create_connection((source.host, 443), timeout=_CONNECT_SECONDS).close()
    with tempfile.TemporaryDirectory() as root:
        try:
            with _quietly():
                _fetch(source, Path(root))
        except Exception as error:
            raise OSError(f"download from {source.host} failed: {error}") from error
        fetched = Path(root) / Path(source.folders[0]).name
        target = cache / source.folders[0]
        for file in source.present(fetched):
            _install(fetched / file, target / file)


def _install(source: Path, target: Path) -> None:
    """Move a file into place whole, even across file systems."""
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
def _quietly() -> Iterator[None]:
    """PyG reports progress and warns of the age of its own files; neither is ours to show."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            yield


def _damage(source: Source, folder: Path, raw: Path) -> str:
    """Name the file that cannot be read, by reading each alone."""
    if source.family == "planetoid":
        from torch_geometric.io.planetoid import read_file

        for part, file in zip(_PLANETOID_PARTS, source.files, strict=True):
            try:
                with _quietly():
                    read_file(str(raw), source.title, part)
            except Exception:
                return f"{folder / file} cannot be read: it is damaged, get it again"
        return f"the files in {folder / 'raw'} do not fit together: get them again"
    return f"{folder / source.files[0]} cannot be read: it is damaged, get it again"


def _check_test_index(source: Source, folder: Path) -> None:
    """A cut-off index would silently give some nodes the features of others."""
    from torch_geometric.io.planetoid import read_file

    with _quietly():
        named, rows = (
            len(read_file(str(folder / "raw"), source.title, part)) for part in ("test.index", "ty")
        )
    if named != rows:
        index = next(file for file in source.files if file.endswith("test.index"))
        raise FedGTError(f"{folder / index} names {named} nodes, expected {rows}: get it again")


def _from_pyg(source: Source, data: Any) -> Graph:
    features = row_normalised(data.x.numpy())
    labels = data.y.numpy().astype(np.int64)
    sources, targets = data.edge_index.numpy()
    indptr, indices = undirected(sources, targets, len(labels))
    unset = np.zeros(len(labels), np.bool_)
    sparse = np.count_nonzero(features) < _SPARSE_BELOW * features.size
    return Graph(
        indptr=indptr,
        indices=indices,
        features=SparseRows.from_dense(features) if sparse else features,
        labels=labels,
        train=unset,
        val=unset,
        test=unset,
        feature_names=tuple(f"word-{column}" for column in range(features.shape[1])),
        class_names=source.class_names,
    )


def row_normalised(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to sum to 1, as the paper's lineage (FedSage, FED-PUB) does; zero rows stay.

    ``features`` has shape (n, p) and no negative entries.
    """
    sums = features.sum(axis=1, keepdims=True, dtype=np.float64)
    return (features / np.where(sums > 0, sums, 1.0)).astype(np.float32)
