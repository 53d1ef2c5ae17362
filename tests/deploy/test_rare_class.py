"""A class of 3 %: what weights and a threshold do for it, in a federation of two banks."""

from pathlib import Path

import pytest

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.settings import resolve_settings
from fedgt_client.node import NodeConfig
from fedgt_client.predict.assessment import Assessment, ThresholdRule, assess
from fedgt_client.predict.source import open_source
from tests.fedgt_client.tables import bank_tables

BANKS = ("bank-a", "bank-b")
WANTED = 0.8


def assessed(place: Path, weights: str, *, rounds: int = 12) -> list[tuple[Assessment, Assessment]]:
    """Train; return each bank's assessment without and with a threshold."""
    out = place / weights
    config = resolve_settings(
        with_output_paths(
            {
                "rounds": rounds,
                "hidden": 32,
                "select-by": "average-precision",
                "class-weights": weights,
                "ldp-noise-seed": 0,
            },
            out,
            len(BANKS),
        )
    )
    nodes = [NodeConfig(institution=name, data_dir=str(place / name)) for name in BANKS]
    run_institutions(config, nodes)
    found = []
    for name in BANKS:
        source = open_source(out, institution=name)
        data = source.open_data()
        scores = source.model.scores(data)
        rule = ThresholdRule("recall", WANTED)
        found.append((assess(source.model, data, scores), assess(source.model, data, scores, rule)))
    return found


@pytest.mark.slow
def test_rare_positives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(BANKS):
        tables = bank_tables(1500, positives=0.03, seed=number)
        tables.imported(tmp_path / "csv" / name).save(tmp_path / name)
    recall: dict[str, list[float]] = {"none": [], "balanced": []}
    for weights, found in recall.items():
        for plain, decided in assessed(tmp_path, weights):
            assert plain.test is not None
            assert decided.val is not None
            assert decided.test is not None
            bad = plain.test.metrics.classes[1]
            found.append(bad.recall)
            # Chance has the share of positives, 0.03.
            assert bad.average_precision is not None
            assert bad.average_precision > 0.4
            assert decided.val.metrics.classes[1].recall >= WANTED
            assert decided.test.metrics.classes[1].recall >= WANTED - 0.25
    assert sum(recall["balanced"]) > sum(recall["none"]) + 0.2


@pytest.mark.slow
def test_calibration_halves_the_error_that_class_weights_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(BANKS):
        tables = bank_tables(1500, positives=0.03, seed=number, spread=3.0)
        tables.imported(tmp_path / "csv" / name).save(tmp_path / name)
    for plain, _ in assessed(tmp_path, "balanced", rounds=8):
        assert plain.test is not None
        before = plain.test.calibration_error_before
        assert before > 0.05
        assert plain.test.metrics.calibration_error < before / 2
