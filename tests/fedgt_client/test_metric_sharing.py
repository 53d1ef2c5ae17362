"""Which metrics leave: nothing more than the policy says, and as coarse as it says."""

import math

import pytest

from fedgt_client.metric_sharing import MetricSharing, Shared
from fedgt_client.policy import Policy, ShareMetrics

MEASURED = {
    "val_accuracy": 61 / 99,
    "val_majority_share": 41 / 99,
    "val_balanced_accuracy": 0.4321,
    "val_log_loss": 0.98765,
    "test_accuracy": 53 / 88,
    "train_loss": 1.23456,
    "num_examples": 53.0,
    "gradient_norm": 0.123456,
    "skipped_steps": 1.0,
    "seconds": 12.3456,
    "something_new": 0.123456,
}
NODES = {"val": 99, "test": 88}


def share(mode: ShareMetrics, nodes: dict[str, int] | None = None, **policy: object) -> Shared:
    limits = Policy.model_validate({"share_metrics": mode, **policy})
    return MetricSharing(limits, nodes or NODES, "accuracy").share(MEASURED)


def test_a_metric_that_nobody_listed_never_leaves() -> None:
    for mode in ("none", "rounded", "noised", "exact"):
        assert "something_new" not in share(mode).metrics
    chosen = share("exact", metrics=("accuracy",)).metrics
    assert chosen == {name: MEASURED[name] for name in ("val_accuracy", "test_accuracy")}


def test_none() -> None:
    assert share("none") == Shared({})


def test_exact() -> None:
    found = share("exact").metrics
    assert found == {name: MEASURED[name] for name in found}
    assert MEASURED.keys() - found.keys() == {"something_new"}
    # A simulation has no policy, and shares all.
    assert MetricSharing(None, NODES, "accuracy").share(MEASURED).metrics == MEASURED


def test_rounded() -> None:
    assert share("rounded").metrics == {
        "val_accuracy": 0.6,
        "val_majority_share": 0.4,
        "test_accuracy": 0.6,
        "num_examples": 50.0,
        "gradient_norm": 0.12,
        "seconds": 12.0,
        "metrics_step": 0.05,
    }


@pytest.mark.parametrize(
    ("nodes", "step"),
    [(1000, 0.05), (80, 0.05), (79, 0.1), (40, 0.1), (39, 0.2), (20, 0.2), (19, 0.5), (8, 0.5)],
)
def test_a_step_is_four_nodes_at_least(nodes: int, step: float) -> None:
    found = share("rounded", {"val": nodes, "test": nodes}).metrics
    assert found["metrics_step"] == step
    assert math.isclose(found["val_accuracy"] / step, round(found["val_accuracy"] / step))


def test_of_too_few_nodes_nothing_is_shared() -> None:
    found = share("rounded", {"val": 7, "test": 0}).metrics
    assert found == {"num_examples": 50.0, "gradient_norm": 0.12, "seconds": 12.0}


def test_a_coarser_step() -> None:
    assert share("rounded", metrics_step=0.15).metrics["metrics_step"] == 0.2


def test_noised() -> None:
    draws = [share("noised", metrics_epsilon=0.5) for _ in range(400)]
    values = [one.metrics["val_accuracy"] for one in draws]
    assert all(math.isclose(value * 100, round(value * 100)) for value in values)
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    assert abs(mean - 61 / 99) < 0.01
    assert 0.7 < spread / (math.sqrt(2) / (0.5 * 99)) < 1.4
    part = draws[0].part
    assert part is not None
    assert (part.unit, part.noise) == ("label", 2.0)
    assert part.arrays == ("test_accuracy", "val_accuracy")
    # What has no bound that one label moves is not shared.
    assert draws[0].metrics.keys() == {
        "val_accuracy",
        "test_accuracy",
        "num_examples",
        "gradient_norm",
        "seconds",
    }


def test_noise_of_many_nodes() -> None:
    found = share("noised", {"val": 10**6, "test": 1}, metrics_epsilon=100.0).metrics
    assert found["val_accuracy"] == 0.62
    assert 0.0 <= found["test_accuracy"] <= 1.0


@pytest.mark.parametrize(
    ("mode", "select_by", "itself"),
    [
        ("none", "accuracy", True),
        ("rounded", "accuracy", False),
        ("rounded", "macro-f1", True),
        ("rounded", "log-loss", True),
        ("noised", "accuracy", False),
        ("noised", "macro-f1", True),
        ("exact", "log-loss", False),
    ],
)
def test_who_chooses_the_best_round(mode: ShareMetrics, select_by: str, itself: bool) -> None:
    assert MetricSharing(Policy(share_metrics=mode), NODES, select_by).chooses_itself == itself


def test_a_selection_that_is_not_listed_is_the_institutions() -> None:
    policy = Policy(share_metrics="exact", metrics=("seconds",))
    assert MetricSharing(policy, NODES, "accuracy").chooses_itself


def test_warnings_that_count_nodes_stay() -> None:
    found = {
        mode: MetricSharing(Policy(share_metrics=mode), NODES, "accuracy").warnings(["7 nodes"])
        for mode in ("none", "rounded", "noised", "exact")
    }
    assert found == {"none": [], "rounded": [], "noised": [], "exact": ["7 nodes"]}
