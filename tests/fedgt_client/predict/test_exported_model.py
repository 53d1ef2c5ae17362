"""Exported models: whole, readable elsewhere, and nothing else is taken for one."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgt_client.predict import load_model, open_data
from fedgt_client.predict.assessment import ThresholdRule, assess
from fedgt_client.predict.exported_model import export_model
from fedgt_client.predict.model_card import model_card
from fedgt_client.predict.source import open_source
from shared.errors import FedGTError
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    kit = make_kit(tmp_path, bank_tables(80, positives=0.25))
    train(kit, 4, ldp="global-nodes")
    return kit


@pytest.fixture
def exported(tmp_path: Path, kit: Path) -> Path:
    source, data = open_source(kit), open_data(kit / "data")
    rule = ThresholdRule("recall", 0.9)
    found = assess(source.model, data, source.model.scores(data), rule)
    card = model_card(source.model, found, source.folder)
    export_model(source.model.with_schema(data.schema), found, card, tmp_path / "model")
    return tmp_path / "model"


def damage(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)


def edit(folder: Path, name: str, **changed: object) -> None:
    document = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(document | changed))


def test_damaged_and_foreign_folders(exported: Path, tmp_path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(FedGTError, match=message) as error:
            load_model(broken)
        assert "\n" not in str(error.value)

    def fresh() -> Path:
        shutil.rmtree(tmp_path / "broken", ignore_errors=True)
        return Path(shutil.copytree(exported, tmp_path / "broken"))

    for name in ("weights.safetensors", "schema.json", "model-card.md"):
        broken = fresh()
        damage(broken, name)
        refused(f"{re.escape(name)} is missing, changed or damaged: copy or export")
        (broken / name).unlink()
        refused(f"{re.escape(name)} is missing, changed or damaged: copy or export")
    broken = fresh()
    (broken / "model.json").write_text("{")
    refused(r"model\.json is not a model of FedGT")
    (broken / "model.json").write_text('{"model_type": "bert"}')
    refused(r"model\.json is not a model of FedGT")
    broken = fresh()
    edit(broken, "model.json", format=2)
    refused(r"model\.json is not a model of FedGT: format")
    broken = fresh()
    text = (broken / "model.json").read_text()
    assert '"temperature": 0.' in text or '"temperature": 1.' in text
    (broken / "model.json").write_text(text.replace('"temperature": ', '"temperature": 1'))
    refused(r"model\.json was changed or is damaged: copy or export the model again")


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change ``model.json`` and give it the checksums that somebody else could give it."""
    path = folder / "model.json"
    document = json.loads(path.read_text())
    change(document)
    content = {key: value for key, value in document.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    document["sha256"] = digest
    path.write_text(json.dumps(document))


def setting(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["record"]["config"].update({key: value})


def calibration(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["assessment"]["calibration"].update(values)


FORGED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "threads": (setting("threads", 100_000), "threads is 100000, expected at most 1024"),
    "samples": (setting("samples", 10**8), "samples is 100000000, expected at most 4096"),
    "encoding": (setting("positional-dimensions", 10**9), "positional-dimensions is 1000000000"),
    "width": (setting("hidden", 4_000_000), "hidden and layers are of a much larger model"),
    "layers": (setting("layers", 10**6), "hidden and layers are of a much larger model"),
    "global nodes": (setting("global-nodes", 10**9), "global-nodes are of a much larger model"),
    "tolerance": (setting("ppr-tolerance", 1e-300), "ppr-tolerance is 1e-300, expected at least"),
    "no weights": (lambda document: document.update(files={}), "lists other files"),
    "other files": (
        lambda document: document["files"].update({"../../etc/hostname": ""}),
        "lists other files",
    ),
    "temperature": (calibration(temperature=1e-308), "temperature Input should be"),
    "offsets": (calibration(offsets=[0.0]), "there are 1 offsets for 2 classes"),
    "threshold": (
        calibration(threshold={"positive": "?", "value": 0.5, "rule": "recall", "wanted": 1.0}),
        "the threshold is of other classes",
    ),
    "counts": (
        lambda document: document["record"].update(train_counts=[1]),
        "training nodes are counted for 1 of 2 classes",
    ),
    "name": (
        lambda document: document["record"].update(institution="\x1b[31ma\nb"),
        r"the institution holds the character U\+001B",
    ),
    "round": (lambda document: document.update(round=10**400), "round Input should be"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_model_that_somebody_forged_costs_nothing(exported: Path, kind: str) -> None:
    forge(exported, lambda _: None)
    load_model(exported)
    change, message = FORGED[kind]
    forge(exported, change)
    with pytest.raises(FedGTError, match=rf"model\.json is not a model of FedGT: .*{message}"):
        load_model(exported)


def test_a_model_of_a_graphics_card_is_read_without_one(
    kit: Path, exported: Path, tmp_path: Path
) -> None:
    source = open_source(kit)
    on_card = source.model.record.model_copy(
        update={"config": source.model.record.config | {"device": "cuda:3"}}
    )
    assessment = open_source(exported).assessment
    assert assessment is not None
    export_model(replace(source.model, record=on_card), assessment, "", tmp_path / "other")
    assert load_model(tmp_path / "other").record.settings.device == "auto"


def test_another_run_or_institution_than_asked_for(exported: Path) -> None:
    with pytest.raises(FedGTError, match="is a model of run first, not of second"):
        load_model(exported, run="second")
    with pytest.raises(FedGTError, match="is a model of institution bank-a, not of bank-b"):
        load_model(exported, institution="bank-b")


def test_an_export_names_no_folder_of_the_machine_that_trained(
    exported: Path, tmp_path: Path
) -> None:
    for path in exported.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()


def test_scores_are_equal_to_the_bit(kit: Path, exported: Path, tmp_path: Path) -> None:
    data = open_data(kit / "data")
    expected = load_model(kit).scores(data)
    moved = Path(shutil.move(exported, tmp_path / "elsewhere"))
    model = load_model(moved)
    np.testing.assert_array_equal(model.scores(data), expected)
    assert model.calibration.temperature != 1.0
    assert model.schema == data.schema


def test_the_threshold_comes_with_the_model(kit: Path, exported: Path) -> None:
    data = open_data(kit / "data")
    model = load_model(exported)
    threshold = model.calibration.threshold
    assert threshold is not None
    assert (threshold.positive, threshold.rule) == ("bad", "recall")
    table = model.predict(data)
    alarm = table["probability_bad"].to_numpy() >= threshold.value
    assert (np.array(table["predicted"]) == np.where(alarm, "bad", "good")).all()
    bad = data.graph.val & (data.graph.labels == 1)
    assert alarm[bad].mean() >= 0.9


def test_the_card(kit: Path, exported: Path) -> None:
    card = (exported / "model-card.md").read_text()
    for text in (
        "# Node classifier of bank-a",
        "first, started",
        "| balanced accuracy |",
        "| average precision, mean of classes |",
        "Expected calibration error on test:",
        "for recall of at least 0.9",
        "4 uploads of this data in all runs, 4 of them in this run",
        "## Limits",
    ):
        assert text in card


def test_the_card_warns_of_unbalanced_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgt_client.predict.assessment._RESAMPLES", 20)
    kit = make_kit(tmp_path, bank_tables(120, positives=0.06, seed=4))
    train(kit, 1)
    source, data = open_source(kit), open_data(kit / "data")
    found = assess(source.model, data, source.model.scores(data), with_intervals=True)
    card = model_card(source.model, found, source.folder)
    assert "the classes are unbalanced" in card
    assert "No noise was added" in card
    assert found.test is not None
    low, high = found.test.intervals["accuracy"]
    assert low <= found.test.metrics.accuracy <= high
    assert f"[{low:.3f}, {high:.3f}]" in card
