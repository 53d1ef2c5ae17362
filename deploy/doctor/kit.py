"""An institution's kit, as the doctor reads it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.provision.federation import Address
from shared.errors import FedGTError


@dataclass(frozen=True)
class InstitutionKit:
    """Where the kit is, who it is for, and what it connects to."""

    folder: Path
    institution: str
    coordinator: Address
    node_config: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "InstitutionKit":
        """Read ``kit.toml`` and ``node.toml``."""
        facts = _read(folder / "kit.toml")
        try:
            address = Address.parse(str(facts["coordinator"]))
            institution = str(facts["institution"])
        except (KeyError, ValueError) as error:
            raise FedGTError(f"{folder / 'kit.toml'} is damaged ({error}): copy it anew") from None
        return cls(folder, institution, address, _read(folder / "node.toml"))

    def place(self, key: str) -> Path | None:
        """A path of ``node.toml``; relative ones begin in the kit."""
        value = self.node_config.get(key)
        return self.folder / str(value) if value else None


def _read(source: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedGTError(
            f"{source} is missing: name an institution's kit, made by 'fedgt provision'"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedGTError(f"{source} is not valid TOML: {error}") from None
