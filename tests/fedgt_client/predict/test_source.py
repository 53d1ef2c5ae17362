"""Models are found where they are, and nothing else is taken for one."""

import shutil
from pathlib import Path

import pytest

from deploy.engines.in_process import run_in_process
from fedgt_client.predict.source import open_source
from fedgt_client.run_record import RunRecord
from shared.errors import FedGTError
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train
from tests.harness.small_runs import CLIENTS, small


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))


def state(kit: Path, run: str = "first") -> Path:
    return kit / "state" / "banks" / run / "bank-a"


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="is not a folder"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(FedGTError, match="holds no model"):
        open_source(tmp_path)
    kit = make_kit(tmp_path)
    with pytest.raises(FedGTError, match="has taken part in no run yet"):
        open_source(kit)


def test_a_folder_that_compares_methods(tmp_path: Path) -> None:
    for method in ("gcn", "fedgt"):
        (tmp_path / method / "institutions").mkdir(parents=True)
    with pytest.raises(FedGTError, match=r"choose the run of one; there are: .*/fedgt, .*/gcn$"):
        open_source(tmp_path)


def test_a_damaged_kit(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    (kit / "node.toml").write_text("institution = ")
    with pytest.raises(FedGTError, match="is not valid TOML"):
        open_source(kit)
    (kit / "node.toml").write_text('instituton = "bank-a"')
    with pytest.raises(FedGTError, match=r"node\.toml: .*did you mean 'institution'"):
        open_source(kit)


def test_a_run_without_a_model_yet(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 2)
    for path in state(kit).glob("best-*"):
        path.unlink()
    with pytest.raises(FedGTError, match="run first has no model yet at bank-a"):
        open_source(kit)


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2}', "[1]", "\x00"])
def test_a_damaged_record(tmp_path: Path, content: str) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    (state(kit) / "run.json").write_text(content)
    with pytest.raises(FedGTError, match=r"run\.json cannot be read") as error:
        open_source(kit)
    assert "\n" not in str(error.value)


def test_damaged_weights(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    [best] = state(kit).glob("best-*")
    best.write_bytes(best.read_bytes()[:-100])
    with pytest.raises(FedGTError, match="is damaged"):
        open_source(kit)


def test_a_damaged_evaluation(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    (state(kit) / "evaluation.json").write_text('{"format": 1}')
    with pytest.raises(FedGTError, match=r"evaluation\.json cannot be read"):
        open_source(kit)


def test_the_newest_of_several_runs_or_the_one_that_is_named(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1, run="first")
    train(kit, 2, run="second")
    assert open_source(kit).model.record.run == "second"
    assert open_source(kit, run="first").model.record.run == "first"
    with pytest.raises(FedGTError, match="has no run 'third'; there are: first, second"):
        open_source(kit, run="third")
    with pytest.raises(FedGTError, match="has no model of 'bank-b'; there are: bank-a"):
        open_source(kit, institution="bank-b")


def test_a_kit_can_be_moved_and_its_state_named_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    shutil.move(kit, tmp_path / "moved")
    source = open_source(tmp_path / "moved")
    source.check_same_data(source.open_data())
    alone = open_source(state(tmp_path / "moved"))
    assert alone.model.arrays.keys() == source.model.arrays.keys()
    # The record knows where the data was.
    assert alone.data_folder == kit / "data"
    monkeypatch.chdir(state(tmp_path / "moved"))
    assert open_source(Path()).model.round_number == alone.model.round_number


def test_data_of_another_institution(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    bank_tables(50, seed=9).imported(tmp_path / "b").save(tmp_path / "bank-b")
    source = open_source(kit)
    with pytest.raises(FedGTError, match="not what the model of bank-a was trained on"):
        source.check_same_data(source.open_data(tmp_path / "bank-b"))


def test_another_run_of_the_same_name_takes_no_old_model(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 3)
    train(kit, 1, hidden=8)
    assert open_source(kit).model.round_number == 1
    assert RunRecord.read(state(kit)).config["hidden"] == 8


def test_a_record_is_written_once_for_a_run(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 1)
    before = (state(kit) / "run.json").stat().st_mtime_ns
    train(kit, 1)
    assert (state(kit) / "run.json").stat().st_mtime_ns == before


def test_the_folder_of_a_simulated_run(tmp_path: Path) -> None:
    result = run_in_process(small(tmp_path / "run", rounds=2), CLIENTS)
    with pytest.raises(FedGTError, match="has models of 3 institutions: choose one"):
        open_source(tmp_path / "run")
    for name, expected in result.per_client.items():
        source = open_source(tmp_path / "run", institution=name)
        data = source.open_data()
        source.check_same_data(data)
        predicted = source.model.scores(data).argmax(axis=1)
        right = (predicted == data.graph.labels)[data.graph.test]
        assert expected.test_accuracy == pytest.approx(right.mean(), abs=1e-7)
