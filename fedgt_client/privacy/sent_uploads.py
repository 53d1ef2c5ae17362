"""Uploads of the last rounds on disk: asked again, an institution sends the very same.

With fresh noise a coordinator that repeats a round could average the noise away.
"""

import hashlib
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from fedgt_client.named_arrays import NamedArrays
from fedgt_client.privacy.release import Release
from shared.errors import FedGTError
from shared.files import atomic_file
from shared.packing import unpack
from shared.precision import Precision, decode

logger = logging.getLogger(__name__)

# Rounds; as many as there are states to go back to.
_KEPT = 3


@dataclass(frozen=True)
class SentUpload:
    """All that an institution answers in a round."""

    arrays: NamedArrays  # as the coordinator reads them
    examples: int
    metrics: dict[str, float | str]
    release: Release

    def packed(self, precision: Precision) -> bytes:
        """Return the arrays as they travel."""
        return self.arrays.packed(precision)

    def content(self, precision: Precision) -> str:
        """Return the SHA-256 of the arrays as they travel."""
        return hashlib.sha256(self.packed(precision)).hexdigest()

    def noised_metrics(self) -> str:
        """Return the SHA-256 of the metrics that have noise; empty: none has."""
        noised = {name for part in self.release.protected for name in part.arrays}
        values = {name: self.metrics[name] for name in sorted(noised & self.metrics.keys())}
        return hashlib.sha256(json.dumps(values).encode()).hexdigest() if values else ""


class SentUploads:
    """A file for each of the last rounds.

    Parameters
    ----------
    folder : of the run's state; None: nothing is kept
    precision : of the messages
    key : digest of the data and of the run's settings; another one is another run, even if it has
        the same name
    """

    def __init__(self, folder: Path | None, precision: Precision, key: str) -> None:
        self._folder = folder
        self._precision = precision
        self._key = key

    def load(self, round_number: int) -> SentUpload | None:
        """Return what was sent in a round of this run; None where it is not known any more."""
        path = self._path(round_number)
        if path is None or not path.exists():
            return None
        try:
            header, _, packed = path.read_bytes().partition(b"\n")
            facts = json.loads(header)
            if facts["key"] != self._key:
                return None
            encoded = unpack(packed)
            return SentUpload(
                NamedArrays(decode(encoded), encoded),
                facts["examples"],
                facts["metrics"],
                Release.model_validate(facts["release"]),
            )
        except (FedGTError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("%s cannot be read, its upload counts as not sent: %s", path, error)
            return None

    def has(self, round_number: int) -> bool:
        """Tell whether there is a file of a round, also one that cannot be sent again."""
        path = self._path(round_number)
        return path is not None and path.exists()

    def save(self, round_number: int, sent: SentUpload) -> None:
        """Keep an upload durably, and forget those of rounds long before it."""
        path = self._path(round_number)
        if path is None or self._folder is None:
            return
        facts = {
            "key": self._key,
            "examples": sent.examples,
            "metrics": sent.metrics,
            "release": sent.release.model_dump(mode="json"),
        }
        unused = [
            other
            for other in self._folder.glob("sent-*.bin")
            if (number := re.fullmatch(r"sent-(\d+)\.bin", other.name))
            and int(number[1]) <= round_number - _KEPT
        ]
        over = unused.pop() if unused else None
        with (
            atomic_file(path, mode=0o600, durable=True, over=over) as staging,
            staging.open("r+b") as stream,
        ):
            stream.write(json.dumps(facts).encode() + b"\n" + sent.packed(self._precision))
            stream.truncate()
        for other in unused:
            other.unlink(missing_ok=True)

    def _path(self, round_number: int) -> Path | None:
        return self._folder / f"sent-{round_number:06d}.bin" if self._folder else None
