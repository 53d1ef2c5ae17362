"""``fedgt audit`` on a small run."""

import json
from pathlib import Path

import pytest

from deploy.audit.record import Attacked, Audit, markdown, read_audit, write_audit
from deploy.audit.run import attack, count_institutions, run_settings
from shared.config import Scalar
from shared.errors import FedGTError
from tests.harness.kits import fedgt


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="holds no run"):
        run_settings(tmp_path / "missing")
    with pytest.raises(FedGTError, match="holds no finished run"):
        count_institutions(tmp_path)
    with pytest.raises(FedGTError, match=r"audit.json is missing: 'fedgt audit"):
        read_audit(tmp_path)
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(FedGTError, match="not the record of an audit"):
        read_audit(tmp_path)


def test_other_methods_are_refused() -> None:
    with pytest.raises(FedGTError, match="an audit is of method fedgt, the run is of fedavg"):
        attack({"method": "fedavg"}, 2, "any", {}, lambda _: None)


def found(**changed: float | None) -> Attacked:
    values = {
        name: 0.25
        for name, field in Attacked.model_fields.items()
        if name not in ("name", "changed", "seed", "rounds", "institutions")
    }
    given = {"name": "a", "changed": {}, "seed": 1, "rounds": 2, "institutions": 3}
    return Attacked.model_validate(values | given | changed)


def test_the_table_is_made_of_the_record(tmp_path: Path) -> None:
    audit = Audit(dataset="cora", setting="disjoint", found=(found(), found(feature_auc=None)))
    write_audit(tmp_path, audit)
    assert read_audit(tmp_path) == audit
    lines = markdown(audit).splitlines()
    assert lines[0] == "| attack | a | a |"
    assert "| test accuracy, % | 25.0 | 25.0 |" in lines
    assert any(line.endswith("| 0.25 | – |") for line in lines)


@pytest.mark.slow
def test_noise_on_all_hides_what_uploads_without_noise_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    values = ("--clients", "4", "--rounds", "1", "--set", "hidden=32", "--set", "ldp=off")
    code, _, err = fedgt(capsys, monkeypatch, "run", *values, "--out", str(run), "--json")
    assert code == 0, err
    code, out, err = fedgt(capsys, monkeypatch, "audit", str(run), "--json")
    assert code == 0, err
    (plain,) = json.loads(out)["found"]
    assert plain["single_node_cosine"] > 0.5
    assert plain["label_error_update"] < plain["label_error_blind"]
    # Seeded: of fresh noise one draw in many comes closer by chance.
    noised: dict[str, Scalar] = {"ldp": "all", "ldp-noise": 50.0, "ldp-noise-seed": 1}
    hidden = attack(run_settings(run), 4, "noised", noised, lambda _: None)
    assert hidden.single_node_cosine < 0.4
    assert hidden.label_error_update > plain["label_error_update"]
    code, out, _ = fedgt(capsys, monkeypatch, "audit", str(run), "--table")
    assert out == markdown(read_audit(run))
