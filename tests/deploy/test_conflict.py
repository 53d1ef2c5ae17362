"""Groups of institutions that disagree: a plain mean fails, and FedGT finds the groups."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from deploy.engines.in_process import run_in_process, with_output_paths
from deploy.settings import resolve_settings
from fedgt_client.data.partition import CONFLICTING_GROUPS
from fedgt_server.events import RoundEvent
from fedgt_server.result import Result
from shared.config import Scalar

pytestmark = pytest.mark.slow

CLIENTS = 10
# With own models, or where it checks what it receives, an institution does not follow a mean that
# fails.
ASKED: dict[str, Scalar] = {
    "dataset": "consortium",
    "setting": "conflict",
    "rounds": 40,
    "seed": 903,
    "checkpoints": False,
    "own-model": False,
    "robust": False,
    "ldp-noise-seed": 1,
}


def play(folder: Path, **changed: Scalar) -> tuple[Result, RoundEvent]:
    values = with_output_paths(ASKED | changed, folder, CLIENTS)
    events: list[RoundEvent] = []
    result = run_in_process(resolve_settings(values), CLIENTS, events.append)
    return result, events[-1]


def test_personalised_averages_find_the_groups_where_a_plain_mean_fails(tmp_path: Path) -> None:
    own, last = play(tmp_path / "own")
    mean, _ = play(tmp_path / "mean", aggregation="mean")
    assert own.test_accuracy is not None
    assert mean.test_accuracy is not None
    assert own.test_accuracy > mean.test_accuracy + 0.05
    distance = 1.0 - np.array(last.similarity, np.float64)
    np.fill_diagonal(distance, 0.0)
    found = AgglomerativeClustering(
        CONFLICTING_GROUPS, metric="precomputed", linkage="average"
    ).fit_predict(distance)
    groups = np.arange(CLIENTS) % CONFLICTING_GROUPS
    assert adjusted_rand_score(groups, found) >= 0.9
