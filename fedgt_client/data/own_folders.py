"""Own graph folders of institutions that are simulated together, as a rehearsal.

The run's dataset is then ``own``, and its data folder holds ``institutions.json``, which names the
institutions and where their graphs are: simulated institutions know no more than their number.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedgt_client.data.schema import SCHEMA_FILE, Schema, first_difference
from fedgt_client.graph import Graph
from fedgt_client.node import NodeConfig
from fedgt_client.state import check_folder_name
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import write_json

OWN = "own"
_FILE = "institutions.json"

Institutions = dict[str, Path]  # folder of each institution's graph, by its name
_ENTRIES = TypeAdapter(dict[str, Path])


def name_institutions(folders: Sequence[Path]) -> Institutions:
    """Return the folders by name, sorted, so that their order does not matter."""
    named: Institutions = {}
    for folder in folders:
        # A link keeps its name; '.' and '..' have none.
        path = folder.resolve() if folder.name in ("", "..") else folder.absolute()
        if path.name in named:
            raise FedGTError(
                f"two folders are named {path.name!r}, {named[path.name]} and {path}: "
                "institutions need different names"
            )
        check_folder_name(path.name)
        named[path.name] = path
    return dict(sorted(named.items()))


def check_institutions(institutions: Mapping[str, Path]) -> None:
    """Raise an error for a folder that is no graph, cannot train, or differs from the first."""
    first: tuple[Path, Graph] | None = None
    for folder in institutions.values():
        graph = Graph.open(folder)
        if not graph.train.any():
            raise FedGTError(f"{folder}: no node is in the training split: import it with labels")
        if first is None:
            first = folder, graph
        elif problem := _difference(*first, folder, graph):
            raise FedGTError(f"{problem}: import both with the same schema")


def _difference(folder: Path, graph: Graph, other: Path, its: Graph) -> str | None:
    """Say in what two institutions do not agree."""
    for what, ours, theirs in (
        ("feature", graph.feature_names, its.feature_names),
        ("class", graph.class_names, its.class_names),
    ):
        if (place := first_difference(ours, theirs)) is not None:
            here, there = (
                repr(names[place]) if place < len(names) else "none" for names in (ours, theirs)
            )
            return f"{what} {place + 1} is {here} in {folder} and {there} in {other}"
    files = (folder / SCHEMA_FILE, other / SCHEMA_FILE)
    if not all(file.exists() for file in files):
        return None  # of graphs that were not imported
    first, second = (Schema.load(file).encoding() for file in files)
    if (place := first_difference(first, second)) is not None:
        return f"column {first[place]['name']!r} is encoded differently in {folder} and {other}"
    return None


def write_institutions(folder: Path, institutions: Mapping[str, Path]) -> None:
    """Write the file that ``own_institution`` reads; one that is there must say the same."""
    if (folder / _FILE).exists() and _read(folder) != institutions:
        raise FedGTError(f"{folder} holds a run of other institutions: choose another --out")
    write_json(folder / _FILE, {name: str(path) for name, path in institutions.items()})


def own_institution(node: NodeConfig, config: RunConfig) -> NodeConfig:
    """Return a simulated institution with the name and data of its number, if they are its own."""
    if config.dataset != OWN or node.data_dir or node.partition_id is None:
        return node
    if config.data_folder is None:
        raise FedGTError(f"dataset '{OWN}' has no data-dir: use 'fedgt run --data FOLDER ...'")
    institutions = _read(config.data_folder)
    if node.num_partitions != len(institutions):
        raise FedGTError(
            f"{config.data_folder / _FILE} names {len(institutions)} institutions, "
            f"the run has {node.num_partitions}"
        )
    name, folder = list(institutions.items())[node.partition_id]
    return node.model_copy(update={"institution": name, "data_dir": str(folder)})


def _read(folder: Path) -> Institutions:
    file = folder / _FILE
    try:
        return _ENTRIES.validate_json(file.read_bytes())
    except FileNotFoundError:
        raise FedGTError(f"{file} is missing: use 'fedgt run --data FOLDER ...'") from None
    except ValidationError:
        raise FedGTError(f"{file} does not name institutions and their folders") from None
