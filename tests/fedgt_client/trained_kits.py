"""Kits of institutions that have trained."""

from pathlib import Path
from typing import Any

import tomli_w

from fedgt_client.client import FedGTClient
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from shared.config import Scalar
from tests.fedgt_client.graphs import settings
from tests.fedgt_client.tables import BankTables, bank_tables
from tests.harness.policies import ANYTHING_GOES


def make_kit(place: Path, tables: BankTables | None = None) -> Path:
    """Make a kit with imported data, as far as prediction needs one."""
    kit = place / "bank-a"
    kit.mkdir(parents=True)
    node = {"institution": "bank-a", "data-dir": "data", "state-dir": "state"}
    (kit / "node.toml").write_text(tomli_w.dumps(node))
    (tables or bank_tables()).imported(place / "csv").save(kit / "data")
    return kit


def train(
    kit: Path, rounds: int = 3, *, run: str = "first", best: int = 0, **changed: Scalar
) -> dict[int, dict[str, Any]]:
    """Train in a federation of one; keep round ``best``, by default the last.

    Returns the metrics of every round.
    """
    return train_under(ANYTHING_GOES, kit, rounds, run=run, best=best, **changed)


def train_under(
    policy: Policy,
    kit: Path,
    rounds: int = 3,
    *,
    run: str = "first",
    best: int = 0,
    **changed: Scalar,
) -> dict[int, dict[str, Any]]:
    """Train as ``train`` does, at an institution with a policy of its own."""
    node = NodeConfig(
        institution="bank-a",
        data_dir=str(kit / "data"),
        state_dir=str(kit / "state"),
        policy=policy,
    )
    client = FedGTClient.open(node, settings(federation="banks", **changed), run)
    model = client.get_parameters({}).as_dict()
    metrics: dict[int, dict[str, Any]] = {}
    for number in range(1, rounds + 1):
        upload, _, found = client.fit(NamedArrays(model), {"round": number})
        model = {name: model[name] + upload.as_dict().get(name, 0) for name in model}
        metrics[number] = dict(found)
    client.fit(NamedArrays({}), {"round": rounds + 1, "best-round": best or rounds, "finish": True})
    return metrics
