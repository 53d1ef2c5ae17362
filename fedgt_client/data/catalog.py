"""Named datasets: find, download, convert and cache them."""

import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fedgt_client.data import benchmarks, consortium
from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

CONSORTIUM = "consortium"
# Part of the cache's key: increase it when the conversion of raw files changes.
_CONVERSION = 1


@dataclass(frozen=True)
class Dataset:
    """Properties of a dataset known before it is opened; counts are of the whole graph."""

    name: str
    nodes: int
    edges: int  # undirected, deduplicated, without self-loops
    classes: int
    features: int

    @property
    def source(self) -> benchmarks.Source | None:
        """Return the original files, or None if the dataset is generated."""
        return benchmarks.SOURCES.get(self.name)


CATALOG = {
    dataset.name: dataset
    for dataset in (
        Dataset(CONSORTIUM, 1162, 3522, 4, 32),  # with seed 0
        Dataset("cora", 2708, 5278, 7, 1433),
        Dataset("citeseer", 3327, 4552, 6, 3703),
        Dataset("pubmed", 19717, 44324, 3, 500),
        Dataset("amazon-computers", 13752, 245861, 10, 767),
        Dataset("amazon-photo", 7650, 119081, 8, 745),
        Dataset("ogbn-arxiv", 169343, 1157799, 40, 128),
    )
}


def dataset_names() -> tuple[str, ...]:
    """Return every name that ``load_dataset`` accepts."""
    return tuple(CATALOG)


def check_dataset(name: str, data_dir: Path | None) -> None:
    """Raise an error for an unknown name or a missing folder."""
    if name not in CATALOG:
        raise FedGTError(f"dataset is '{name}', expected one of {', '.join(CATALOG)}")
    if data_dir is not None and not data_dir.is_dir():
        raise FedGTError(f"data folder {data_dir} does not exist")


def load_dataset(
    name: str,
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    largest_component: bool | None = None,
) -> Graph:
    """Load a named dataset as one graph, not yet split: its masks are all False.

    Parameters
    ----------
    name : str
        One of ``dataset_names()``.
    data_dir : Path | None
        Searched for raw files first; then ``$FEDGT_DATA``, then the per-user cache. If none of
        them has the files, they are downloaded into the cache.
    seed : int
        Seed of the generator, for ``consortium``; real datasets do not depend on it.
    largest_component : bool | None
        Keep the largest connected component only. None: yes for the benchmarks, as in the paper,
        no for ``consortium``.
    """
    check_dataset(name, data_dir)
    source = CATALOG[name].source
    if source is None:
        graph = consortium.generate(consortium.DEFAULT_BANKS, seed)[0]
    else:
        graph = _open_benchmark(name, source, data_dir)
    reduce = source is not None if largest_component is None else largest_component
    return graph.subgraph(largest_component_nodes(graph)) if reduce else graph


def find_raw_files(name: str, data_dir: Path | None = None) -> Path | None:
    """Return the folder that holds all raw files of a dataset, or None."""
    source = CATALOG[name].source
    if source is None:
        return None
    folders = (place / folder for place in _search_folders(data_dir) for folder in source.folders)
    return next((folder for folder in folders if not source.missing(folder)), None)


def _search_folders(data_dir: Path | None) -> list[Path]:
    """Return the folders searched for raw files, in order."""
    named = os.environ.get("FEDGT_DATA")
    if named and not Path(named).is_dir():
        raise FedGTError(f"data folder {named}, set by FEDGT_DATA, does not exist")
    chosen = [data_dir] if data_dir else []
    return [*chosen, *([Path(named)] if named else []), cache_dir()]


def _open_benchmark(name: str, source: benchmarks.Source, data_dir: Path | None) -> Graph:
    """Return the converted graph from the cache, converting the raw files first if needed."""
    folder = find_raw_files(name, data_dir)
    if folder is None:
        _download(name, source, data_dir)
        folder = cache_dir() / source.folders[0]
    cached = cache_dir() / "graphs" / f"{name}-{_fingerprint(source, folder)}"
    try:
        return Graph.open(cached)
    except FedGTError:  # absent or damaged: convert again
        graph = benchmarks.convert(source, folder)
    try:
        graph.save(cached, force=cached.exists())
    except (FedGTError, OSError) as error:
        # Another process may have cached it first, or the cache is read-only; both are fine.
        logger.info("%s was not cached: %s", name, error)
    return graph


def _fingerprint(source: benchmarks.Source, folder: Path) -> str:
    """Return a digest of the raw files' contents, so that a changed file is converted again."""
    digest = hashlib.sha256(f"conversion {_CONVERSION}".encode())
    for file in source.present(folder):
        digest.update(file.encode())
        try:
            with (folder / file).open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise FedGTError(f"{folder / file} cannot be read: {error.strerror}") from None
    return digest.hexdigest()[:20]


def _download(name: str, source: benchmarks.Source, data_dir: Path | None) -> None:
    try:
        benchmarks.download(source, cache_dir())
    except OSError as error:
        folder, missing = _best_folder(source, data_dir)
        files, reason = ", ".join(Path(file).name for file in missing), " ".join(str(error).split())
        raise FedGTError(
            f"{name} is not here and could not be downloaded from {source.host} ({reason}): "
            f"put {files} into {(folder / missing[0]).parent}"
        ) from None


def _best_folder(source: benchmarks.Source, data_dir: Path | None) -> tuple[Path, list[str]]:
    """Return the folder that has most of the files, and the files missing there."""
    places = [place / folder for place in _search_folders(data_dir) for folder in source.folders]
    folder = min(places, key=lambda place: len(source.missing(place)))
    return folder, source.missing(folder)


def largest_component_nodes(graph: Graph) -> NDArray[np.int64]:
    """Return the sorted nodes of the largest connected component, the first of equal ones."""
    n = graph.num_nodes
    links = csr_array((np.ones(len(graph.indices), np.int8), graph.indices, graph.indptr), (n, n))
    component = connected_components(links, directed=True, connection="weak")[1]
    return np.flatnonzero(component == np.bincount(component).argmax())
