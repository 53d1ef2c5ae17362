"""The code that an institution approved: what it has installed, and what ``node.toml`` lists."""

import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from deploy.approval.content import Files, content_hash, difference, read_bundle
from deploy.engines.app_bundle import stage_flower_app
from deploy.flower.bundle import build_app_bundle
from fedgt_client.node import is_content_hash
from shared.errors import FedGTError


@cache
def installed_files() -> Files:
    """Return the files of the bundle that the FedGT installed here makes of itself."""
    with tempfile.TemporaryDirectory() as scratch:
        bundle = build_app_bundle(stage_flower_app(Path(scratch) / "fedgt"))
    return read_bundle(bundle)


def installed_hash() -> str:
    """Return the content hash of the FedGT installed here."""
    return content_hash(installed_files())


def hash_of(code: str) -> str:
    """Return the content hash of a bundle, of the folder of an app, or the hash that it is."""
    if is_content_hash(code):
        return code
    source = Path(code)
    if source.is_dir():
        return content_hash(read_bundle(_build(source)))
    if not source.is_file():
        raise FedGTError(
            f"{code} is no bundle, no folder and no hash: a hash is sha256: and 64 digits"
        )
    return content_hash(read_bundle(source.read_bytes()))


def _build(folder: Path) -> bytes:
    try:
        return build_app_bundle(folder)
    except ValueError as error:
        raise FedGTError(f"{folder} is not a Flower app: {error}") from None


class ApprovedCode:
    """Refuses every bundle that the institution did not approve."""

    def __init__(self, institution: str, more: Iterable[str] = ()) -> None:
        self._institution = institution
        self.hashes = (installed_hash(), *more)

    def refusal(self, bundle: bytes) -> str | None:
        """Return why a bundle may not run here, in one line; None if it may."""
        try:
            files = read_bundle(bundle)
            found = content_hash(files)
        except FedGTError as error:
            return f"{self._institution} refuses the app: {error}"
        if found in self.hashes:
            return None
        return (
            f"{self._institution} refuses the app with code {found}, which it did not approve: "
            f"{difference(files, installed_files())}"
        )
