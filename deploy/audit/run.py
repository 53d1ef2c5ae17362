"""An audit: a rehearsal for each of some settings, and the attacks on it."""

from collections.abc import Mapping
from pathlib import Path

from deploy.audit import measure
from deploy.audit.record import Attacked
from deploy.audit.rehearsal import rehearse
from deploy.settings import resolve_settings
from fedgt_client.node import NodeConfig
from fedgt_server.events import StartEvent
from fedgt_server.report.runs import read_start
from fedgt_server.result import read_result
from fedgt_server.round_loop import Observer
from shared.config import PRIVATE_STEPS, Scalar
from shared.errors import FedGTError

# What the settings of a run are compared with.
VARIANTS: dict[str, dict[str, Scalar]] = {
    "without noise": {"ldp": "off", "label-privacy": "off"},
    "noise on Δθ, too": {"ldp": "all"},
    "labels by randomised response, ε = 4": {
        "label-privacy": "randomised-response",
        "label-epsilon": 4.0,
    },
    "DP-SGD on labels, ε = 4": {"label-privacy": "dp-sgd", "label-epsilon": 4.0, **PRIVATE_STEPS},
}
AS_CONFIGURED = "as configured"


def run_settings(folder: Path) -> dict[str, Scalar]:
    """Return the settings of the rehearsal in ``folder``."""
    start: StartEvent | None = read_start(folder) if folder.is_dir() else None
    if start is None:
        raise FedGTError(f"{folder} holds no run: name the folder of 'fedgt run'")
    return dict(start.config)


def count_institutions(folder: Path) -> int:
    """Return how many institutions took part in the run in ``folder``."""
    result = read_result(folder)
    if result is None:
        raise FedGTError(f"{folder} holds no finished run: 'fedgt run --resume' finishes it")
    return len(result.per_client)


def attack(
    settings: Mapping[str, Scalar],
    clients: int,
    name: str,
    changed: dict[str, Scalar],
    observe: Observer,
) -> Attacked:
    """Rehearse a run with some settings changed, and attack it."""
    keep: dict[str, Scalar] = {"checkpoints": False, "resume": False, "replace": True}
    config = resolve_settings({**settings, **changed, **keep})
    last = config.rounds
    watched = sorted({1, *(max(last * quarter // 4, 1) for quarter in range(1, 5))})
    nodes = [NodeConfig(partition_id=index, num_partitions=clients) for index in range(clients)]
    result, institutions = rehearse(config, nodes, watched, observe)
    update, by_nodes, blind = measure.label_errors(institutions, config, last)
    by_model = [measure.membership_from_model(one, last) for one in institutions]
    single = [
        cosine
        for one in institutions[:1]
        for cosine in measure.single_node_features(one.graph, config, one.name)
    ]
    return Attacked(
        name=name,
        changed=changed,
        seed=config.seed,
        rounds=last,
        institutions=clients,
        test_accuracy=result.test_accuracy,
        epsilon_label=result.privacy.epsilon_label_total if result.privacy else None,
        label_error_update=update,
        label_error_nodes=by_nodes,
        label_error_gradients=measure.label_error_of_gradients(institutions, config, watched),
        label_error_blind=blind,
        member_auc_update=_mean(
            [measure.membership_from_updates(one, watched) for one in institutions]
        ),
        member_auc_model=_mean(by_model),
        worst_member_auc_model=max((x for x in by_model if x is not None), default=None),
        feature_auc=_mean([measure.occurring_features(one, config) for one in institutions]),
        single_node_cosine=_mean(single) or 0.0,
    )


def _mean(values: list[float | None] | list[float]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
