"""Every upload of a run passes here: written to the ledger before it leaves, or withheld."""

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from fedgt_client.named_arrays import NamedArrays
from fedgt_client.privacy.ledger import Entry, Ledger
from fedgt_client.privacy.sent_uploads import SentUpload, SentUploads
from shared.config import RunConfig
from shared.wire import UPLOAD_WITHHELD

logger = logging.getLogger(__name__)

# Settings that do not change what an upload is: of the coordinator's own work, of public data and
# of the institution's machine. Else who changes one of them would get another draw of a round.
NOT_OF_THE_UPLOAD = {
    "dataset",
    "setting",
    "data-dir",
    "resume",
    "replace",
    "checkpoints",
    "results-dir",
    "min-institutions",
    "start-institutions",
    "agreed-columns",
    "round-deadline",
    "give-up-after",
    "models-memory-mb",
    "tau",
    "aggregation",
    "compare-updates",
    "centre-fingerprints",
    "denoise-similarity",
    "agreeing-only",
    "state-dir",
    "threads",
    "worker-idle",
    "device",
    "mixed-precision",
    "memory-budget-mb",
}


@dataclass(frozen=True)
class RunOfInstitution:
    """Whose uploads they are."""

    federation: str
    run: str
    institution: str


class Releases:
    """The uploads of one institution in one run.

    Parameters
    ----------
    owner : the run and the institution
    config : the settings of the run
    ledger : of the institution's data
    folder : of the run's state, where uploads are kept; None: nowhere
    digest : of the data
    limit : ε that no unit's total may pass (see ``Spent``); 0: none
    """

    def __init__(
        self,
        owner: RunOfInstitution,
        config: RunConfig,
        ledger: Ledger,
        folder: Path | None,
        digest: str,
        limit: float = 0.0,
    ) -> None:
        self._owner = owner
        self._ledger = ledger
        self._precision = config.wire_precision
        self._sent = SentUploads(folder, self._precision, _run_key(config, digest))
        self._limit = limit
        self._has_warned = False

    def again(self, round_number: int) -> SentUpload | None:
        """Return what was sent with noise in this round before, None where nothing was."""
        if (sent := self._sent.load(round_number)) is None:
            return None
        with self._ledger.locked():
            return self._counted(round_number, sent)

    def has_left(self, round_number: int) -> bool:
        """Tell whether something with noise was sent in this round, with whatever settings."""
        return self._sent.has(round_number)

    def release(self, round_number: int, upload: SentUpload) -> SentUpload:
        """Return what may leave: the upload, now in the ledger, or no arrays.

        If another process has answered the same round meanwhile with noise, its upload is returned.
        """
        if not upload.arrays and not upload.release.protected:
            return upload
        upload = replace(upload, release=upload.release.complete(upload.arrays.as_dict()))
        with self._ledger.locked():
            is_noised = upload.release.private and _has_noise(upload)
            if self._limit and not is_noised:
                return self._withheld(upload, "has no noise that others cannot draw again")
            if upload.release.protected:
                if sent := self._sent.load(round_number):
                    return self._counted(round_number, sent)
                if self._limit and self._ledger.spent().epsilon_with(upload.release) > self._limit:
                    return self._withheld(upload, "would pass it")
                # Kept first: a crash before the ledger's line then costs nothing.
                self._sent.save(round_number, upload)
            return self._counted(round_number, upload)

    def _counted(self, round_number: int, upload: SentUpload) -> SentUpload:
        """Return an upload with the totals that it leads to; it is counted once."""
        entry = self._entry(round_number, upload)
        if not self._ledger.contains(entry):
            self._ledger.append(entry)
        reported = self._ledger.spent().metrics(upload.release)
        return replace(upload, metrics={**upload.metrics, **reported})

    def _entry(self, round_number: int, upload: SentUpload) -> Entry:
        return Entry(
            federation=self._owner.federation,
            run=self._owner.run,
            institution=self._owner.institution,
            round=round_number,
            content=upload.content(self._precision),
            metrics=upload.noised_metrics(),
            release=upload.release,
        )

    def _withheld(self, upload: SentUpload, why: str) -> SentUpload:
        reason = (
            f"nothing is uploaded: there is a privacy budget of ε = {self._limit:g}, and the next "
            f"upload {why}"
        )
        if not self._has_warned:
            logger.warning("%s: %s", self._owner.institution, reason)
            self._has_warned = True
        warnings = [str(upload.metrics["warnings"])] if "warnings" in upload.metrics else []
        said = "\n".join([*warnings, reason])
        noised = {name for part in upload.release.protected for name in part.arrays}
        metrics = {name: value for name, value in upload.metrics.items() if name not in noised}
        metrics |= {UPLOAD_WITHHELD: 1.0, "warnings": said}
        return replace(upload, arrays=NamedArrays({}), metrics=metrics)


def _run_key(config: RunConfig, digest: str) -> str:
    settings = {k: v for k, v in config.to_flower().items() if k not in NOT_OF_THE_UPLOAD}
    return hashlib.sha256((digest + json.dumps(settings, sort_keys=True)).encode()).hexdigest()


def _has_noise(upload: SentUpload) -> bool:
    """Tell whether arrays of an upload have noise; of one without arrays, anything in it."""
    noised = {name for part in upload.release.protected for name in part.arrays}
    arrays = set(upload.arrays.as_dict())
    return bool(noised & arrays) if arrays else bool(upload.release.protected)
