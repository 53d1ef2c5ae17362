"""Kits, as the doctor reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.node_file import NODE_FILE, read_node_file, read_toml
from deploy.provision.federation_spec import Address
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError


@dataclass(frozen=True)
class InstitutionKit:
    """Where the kit is, who it is for, and what it connects to."""

    folder: Path
    federation: str
    institution: str
    coordinator: Address
    node: NodeConfig

    @classmethod
    def open(cls, folder: Path) -> "InstitutionKit":
        """Read ``kit.toml`` and ``node.toml``."""
        source = folder / "kit.toml"
        facts = read_toml(source)
        with _report_damage(source):
            address = Address.parse(str(facts["coordinator"]))
            federation, institution = str(facts["federation"]), str(facts["institution"])
        node = read_node_file(folder / NODE_FILE)
        return cls(folder, federation, institution, address, node)

    @property
    def data_dir(self) -> Path:
        """The institution's graph; a relative path begins in the kit."""
        return self.folder / self.node.data_dir

    @property
    def state_dir(self) -> Path:
        """The institution's durable state; a relative path begins in the kit."""
        return self.folder / (self.node.state_dir or "state")


@dataclass(frozen=True)
class CoordinatorKit:
    """Where the kit is, what institutions dial, and what the SuperLink binds."""

    folder: Path
    address: Address
    listen: Address
    control: Address

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Tell whether ``folder`` is a coordinator's kit."""
        return (folder / "control.toml").exists()

    @classmethod
    def open(cls, folder: Path) -> "CoordinatorKit":
        """Read ``control.toml``."""
        source = folder / "control.toml"
        facts = read_toml(source)
        with _report_damage(source):
            address, listen, control = (
                Address.parse(str(facts[key])) for key in ("address", "listen", "control")
            )
        return cls(folder, address, listen, control)


@contextmanager
def _report_damage(source: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError) as error:
        raise FedGTError(f"{source} is damaged ({error}): copy it again") from None
