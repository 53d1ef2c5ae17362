"""Policies of institutions in tests that are about something else."""

from typing import Any

from fedgt_client.methods import METHODS
from fedgt_client.policy import Policy

# Runs whose noise can be repeated, without noise, of every method, as long as a test needs.
ANYTHING: dict[str, Any] = {
    "methods": list(METHODS),
    "arrays": [
        "weights",
        "global_nodes",
        "common_gradients",
        "functional_embedding",
        "label_distribution",
        "generated_features",
        "generated_gradients",
    ],
    "ldp": "off",
    "max-epsilon": 1e9,
    "noise-seed": True,
    "max-rounds": 1_000_000,
    "share-metrics": "exact",
}
ANYTHING_GOES = Policy.model_validate(ANYTHING, by_alias=True, by_name=False)
