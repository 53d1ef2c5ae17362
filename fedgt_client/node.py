"""What an institution is called and where it keeps its state: known before torch is."""

from pathlib import Path

from flwr.app import UserConfig

from fedgt_client.folders import state_dir
from shared.errors import FedGTError


def institution_name(node_config: UserConfig) -> str:
    """As the institution calls itself; simulated ones are numbered."""
    if name := node_config.get("institution"):
        return str(name)
    if "partition-id" in node_config:
        return f"institution-{int(node_config['partition-id']):02d}"
    raise FedGTError(
        'this supernode does not say whose it is: add institution="…" to its --node-config'
    )


def state_root(node_config: UserConfig, configured: str = "") -> Path:
    """Where durable state lies: as the node says, else as the run says, else per user."""
    return Path(str(node_config.get("state-dir") or configured or state_dir()))
