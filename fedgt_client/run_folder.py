"""Which folder holds the state of a run: a run is more than its name.

The newest run of a name has the folder of that name. When another run of the same name begins, the
earlier one's folder is set aside under the name and its token, and nothing in it changes.
"""

import logging
from contextlib import suppress
from pathlib import Path

from fedgt_client.run_record import FILE, RunRecord
from fedgt_client.state import StateStore
from shared.errors import FedGTError

logger = logging.getLogger(__name__)


def claim_folder(root: Path, federation: str, run: str, institution: str, token: str) -> StateStore:
    """Return the store of this very run; the folder of another run of its name is set aside."""
    aside = StateStore(root, federation, _with_token(run, token), institution)
    if token and aside.folder.exists():
        return aside  # a later run of the same name has taken the folder
    store = StateStore(root, federation, run, institution)
    if (store.folder / FILE).exists() and (earlier := _token_of(store.folder)) != token:
        target = _free(root / federation, _with_token(run, earlier), institution)
        target.parent.mkdir(parents=True, exist_ok=True)
        store.folder.rename(target)
        logger.info("another run '%s': the earlier one's state is in %s", run, target)
    return store


def allow_rejoin(root: Path, federation: str, run: str) -> Path:
    """Let this institution go on in a run whose state it has lost, once; return the file."""
    marker = _rejoin_marker(root, federation, run)
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return marker


def take_rejoin(root: Path, federation: str, run: str) -> bool:
    """Tell whether ``allow_rejoin`` was called, and forget it."""
    marker = _rejoin_marker(root, federation, run)
    if not marker.exists():
        return False
    marker.unlink()
    return True


def _rejoin_marker(root: Path, federation: str, run: str) -> Path:
    return root / federation / f"{run}.rejoin"


def _with_token(run: str, token: str) -> str:
    return f"{run}.{token or 'earlier'}"


def _token_of(folder: Path) -> str:
    with suppress(FedGTError):  # of a version that cannot be read
        return RunRecord.read(folder).token
    return ""


def _free(parent: Path, name: str, institution: str) -> Path:
    target, count = parent / name / institution, 1
    while target.exists():
        count += 1
        target = parent / f"{name}-{count}" / institution
    return target
