"""Local training."""

from pathlib import Path

import numpy as np
import pytest

from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.local import Local
from tests.fedgt_client.graphs import settings, two_groups


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path))


def test_uploads_nothing_and_takes_nothing() -> None:
    config, graph = settings(method="local", ldp="all"), two_groups()
    method = Local(graph, config, "alba")
    foreign = {name: np.full_like(a, 7.0) for name, a in method.initial_arrays().items()}
    for number in (1, 2, 3):
        result = method.fit(foreign, number)
        assert result.upload == {}
        assert result.warnings == []
    assert {"train_loss", "val_accuracy", "test_accuracy"} < set(result.metrics)
    assert np.abs(method.initial_arrays()["head.weight"]).max() < 1.0


def test_is_fedgt_left_alone() -> None:
    """Its first round is that of FedGT; then each goes on from where it ended itself."""
    config, graph = settings(), two_groups()
    local, fedgt = Local(graph, config, "a"), FedGT(graph, config, "a")
    for number in (1, 2):
        expected = fedgt.fit(fedgt.initial_arrays(), number)
        assert local.fit({}, number).metrics == expected.metrics
