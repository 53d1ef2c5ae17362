"""An exported model in an environment that has the wheel and nothing of the sources."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import hatchling.build
import pyarrow.parquet as pq
import pytest

from fedgt_client.assessment import assess
from fedgt_client.exported_model import export_model
from fedgt_client.model_source import open_source
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train

_ROOT = Path(__file__).parents[2]
_COMMAND = "import sys; from deploy.cli import main; sys.argv[0] = 'fedgt'; main()"


@pytest.mark.slow
def test_the_wheel_alone_predicts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    kit = make_kit(tmp_path, bank_tables(80))
    train(kit, 3)
    source = open_source(kit)
    data = source.open_data()
    found = assess(source.model, data, source.model.scores(data))
    trained = source.model.with_calibration(found.calibration)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    export_model(trained.with_schema(data.schema), found, "", elsewhere / "model")
    shutil.copytree(kit / "data", elsewhere / "graph")
    expected = trained.predict(data)

    monkeypatch.chdir(_ROOT)
    wheel = hatchling.build.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        archive.extractall(tmp_path / "installed")
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-c", _COMMAND),
            *("predict", "model", "--data", "graph", "--out", "scores.parquet"),
        ],
        cwd=elsewhere,
        env=os.environ
        | {
            "PYTHONPATH": str(tmp_path / "installed"),
            "FEDGT_CACHE": str(elsewhere / "cache"),
            "HOME": str(elsewhere),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_table(elsewhere / "scores.parquet").equals(expected)
