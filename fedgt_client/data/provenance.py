"""Whose data a folder holds, and whether it is what was imported."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from fedgt_client.graph import Graph
from shared.errors import FedGTError

SUMMARY_FILE = "summary.json"  # beside the graph, written by 'fedgt data import'
SHOWN = 12  # digits of a digest that people compare


class Provenance(BaseModel):
    """What 'fedgt data import' noted beside the graph; empty where it could not know."""

    institution: str = ""
    graph_digest: str = ""

    def problem(self, institution: str, digest: str) -> str | None:
        """Say why a graph with this digest is not what was imported for ``institution``."""
        if self.institution and self.institution != institution:
            return f"the data was imported for {self.institution!r}, not for {institution!r}"
        if self.graph_digest and self.graph_digest != digest:
            return (
                f"the data is not what was imported (digest {self.graph_digest[:SHOWN]} then, "
                f"{digest[:SHOWN]} now)"
            )
        return None


def read_provenance(folder: Path) -> Provenance:
    """Read what the import noted; nothing of graphs that were made otherwise."""
    try:
        return Provenance.model_validate_json((folder / SUMMARY_FILE).read_bytes())
    except (OSError, ValidationError):
        return Provenance()


@dataclass(frozen=True)
class DataFiles:
    """The files of a data folder, as they were when it was opened."""

    folder: Path
    stamps: tuple[tuple[str, int, int, int], ...]  # name, inode, size, time of change
    digest: str

    @classmethod
    def of(cls, folder: Path, digest: str) -> "DataFiles":
        """Note the files of a folder whose graph has this digest."""
        return cls(folder, _stamps(folder), digest)

    def digest_now(self) -> str:
        """Return the digest of the graph that is there now; read again where a file changed."""
        if _stamps(self.folder) == self.stamps:
            return self.digest
        return Graph.open(self.folder).digest()


def _stamps(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    try:
        found = [(path.name, path.stat()) for path in folder.iterdir()]
    except OSError as error:
        raise FedGTError(
            f"the data folder cannot be read ({error.strerror}): put it back"
        ) from None
    return tuple(
        sorted((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found)
    )
