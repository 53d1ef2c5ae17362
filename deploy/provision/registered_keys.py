"""The public keys in a coordinator's kit: registered, and revoked."""

from pathlib import Path

from deploy.provision.kit_files import private_folder
from deploy.provision.pki import PublicKey, fingerprint, load_public_key
from shared.errors import FedGTError

COORDINATOR = "coordinator"
PRIVATE = "private"
_MARK = 8  # characters that tell one institution's revoked keys apart


class RegisteredKeys:
    """``keys/NAME.pub`` of those who take part, ``revoked/NAME@….pub`` of those who do not.

    Nothing is ever deleted, so that one copy of the folder laid over another loses no revocation:
    what is revoked counts, whatever ``keys/`` says.
    """

    def __init__(self, coordinator: Path) -> None:
        self._keys = coordinator / "keys"
        self._revoked = coordinator / "revoked"

    def file(self, name: str) -> Path:
        """Return the file of an institution's public key."""
        return self._keys / f"{name}.pub"

    def key(self, name: str) -> PublicKey | None:
        """Return an institution's public key, or None if it has none or it is revoked."""
        if not self.file(name).exists():
            return None
        key = load_public_key(self.file(name))
        return None if self.was_revoked(key) else key

    def names(self) -> set[str]:
        """Return the institutions that have a key."""
        found = {path.stem for path in self._keys.glob("*.pub")}
        return {name for name in found if self.key(name)}

    def revoked(self) -> dict[str, PublicKey]:
        """Return revoked keys by their fingerprint."""
        keys = (load_public_key(path) for path in sorted(self._revoked.glob("*.pub")))
        return {fingerprint(key): key for key in keys}

    def was_revoked(self, key: PublicKey) -> bool:
        """Tell whether this very key is revoked."""
        return fingerprint(key) in self.revoked()

    def is_revoked(self, name: str) -> bool:
        """Tell whether an institution was revoked and has not been readmitted."""
        return self.key(name) is None and any(self._revoked.glob(f"{name}@*.pub"))

    def required(self, name: str) -> PublicKey:
        """Return an institution's public key; the error names those that have one."""
        if key := self.key(name):
            return key
        raise FedGTError(f"{name} has no key here; there are: {', '.join(sorted(self.names()))}")

    def revoke(self, name: str) -> None:
        """Take an institution's key out."""
        mark = fingerprint(self.required(name)).removeprefix("SHA256:")
        short = "".join(sign for sign in mark if sign.isalnum())[:_MARK]
        self._revoked.mkdir(parents=True, exist_ok=True)
        self.file(name).replace(self._revoked / f"{name}@{short}.pub")


def revoke(name: str, out: Path) -> tuple[str, Path | None]:
    """Take an institution out; its key's fingerprint, and where its kit was put aside."""
    if not (out / COORDINATOR).is_dir():
        raise FedGTError(f"{out} holds no kits: name the folder with --out")
    keys = RegisteredKeys(out / COORDINATOR)
    mark = fingerprint(keys.required(name))
    aside = None
    if (out / name).is_dir():
        private_folder(out / PRIVATE / "revoked")
        folder = f"{name}-{mark.removeprefix('SHA256:').replace('/', '_')}"
        aside = (out / name).rename(out / PRIVATE / "revoked" / folder)
    # Last: interrupted before it, the same command is right again.
    keys.revoke(name)
    return mark, aside
