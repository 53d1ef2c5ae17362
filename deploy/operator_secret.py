"""The secret of the coordinator's operator, which the control API asks for."""

import secrets
import stat
from pathlib import Path

from shared.errors import FedGTError

OPERATOR_SECRET = "operator.secret"

_BYTES = 32


def new_operator_secret() -> bytes:
    """Return a secret, as text that fits into a header."""
    return secrets.token_hex(_BYTES).encode() + b"\n"


def read_operator_secret(source: Path) -> bytes:
    """Read a secret that its owner alone can read."""
    try:
        mode = stat.S_IMODE(source.stat().st_mode)
        secret = source.read_bytes().strip()
    except FileNotFoundError:
        raise FedGTError(
            f"{source} is missing: 'fedgt provision federation.toml' makes it where the kits are"
        ) from None
    except PermissionError:
        raise FedGTError(f"{source} cannot be read: it is for the coordinator's operator") from None
    if mode & 0o077:
        raise FedGTError(f"others may read {source} (mode {mode:04o}): chmod 600 {source}")
    if len(secret) < 2 * _BYTES or not secret.isalnum():
        raise FedGTError(f"{source} is damaged: copy it again from where the kits were made")
    return secret
