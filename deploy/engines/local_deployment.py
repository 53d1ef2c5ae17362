"""The federation of ``fedgt demo --deploy``: three banks, trained alone and together."""

from pathlib import Path

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.engines.journal_tail import JournalTail, follow_run
from deploy.engines.local_federation import LocalFederation
from deploy.node_file import NODE_FILE
from deploy.settings import resolve_settings
from fedgt_client.data.consortium import DEFAULT_BANKS, KINDS
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from fedgt_client.node import NodeConfig
from fedgt_server.result import Result, read_result
from fedgt_server.round_loop import Observer
from shared.config import Scalar
from shared.errors import FedGTError

_NAMES = ("bank-a", "bank-b", "bank-c")
_GIVE_UP = 900.0  # seconds without the three of them
DATA_NOTE = (
    "three similar banks out of the six of 'consortium': "
    "dissimilar banks gain nothing in so few rounds"
)


def three_banks(seed: int) -> dict[str, Graph]:
    """Return the banks of the first kind, out of the default consortium.

    Few banks of different kinds have little to learn from each other in few rounds.
    """
    banks = institution_graphs("consortium", clients=DEFAULT_BANKS, setting="disjoint", seed=seed)
    return dict(zip(_NAMES, banks[:: len(KINDS)], strict=True))


def train_alone(
    federation: LocalFederation, out: Path, values: dict[str, Scalar], observe: Observer
) -> Result:
    """Train every bank by itself, in this process: that needs neither federation nor Flower."""
    hosts = federation.institutions
    nodes = [
        NodeConfig(institution=name, data_dir=str(host.folder / "data"))
        for name, host in hosts.items()
    ]
    config = resolve_settings(with_output_paths({**values, "method": "local"}, out, len(hosts)))
    return run_institutions(config, nodes, observe)


def share_exact_metrics(federation: LocalFederation) -> None:
    """Let these banks, which nobody owns, tell their accuracies as they are."""
    for host in federation.institutions.values():
        source = host.folder / NODE_FILE
        text = source.read_text().replace('# share-metrics = "rounded"', 'share-metrics = "exact"')
        source.write_text(text)


def train_together(
    federation: LocalFederation, values: dict[str, Scalar], observe: Observer
) -> Result:
    """Train the started federation with FedGT."""
    settings = {
        **values,
        "run-name": "fedgt",
        "min-institutions": len(federation.institutions),
        "give-up-after": _GIVE_UP,
    }
    folder = federation.run_folder("fedgt")
    journal = JournalTail(folder / "journal.jsonl")
    follow_run(federation.start_run(settings), journal, observe)
    if journal.failure:
        raise FedGTError(f"{journal.failure} (more in {federation.coordinator.log})")
    if result := read_result(folder):
        return result
    raise FedGTError(f"the run ended without a result: see {federation.coordinator.log}")
