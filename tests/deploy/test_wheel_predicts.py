"""An exported model in an environment that has the wheel and nothing of the sources."""

import contextlib
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import hatchling.build
import pyarrow.parquet as pq
import pytest
import uv

from fedgt_client.predict.assessment import assess
from fedgt_client.predict.exported_model import export_model
from fedgt_client.predict.source import open_source
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train

_ROOT = Path(__file__).parents[2]


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

    done = subprocess.run(
        [
            *(installed_command(tmp_path), "predict", "model"),
            *("--data", "graph", "--out", "scores.parquet"),
        ],
        cwd=elsewhere,
        env={"FEDGT_CACHE": str(elsewhere / "cache"), "HOME": str(elsewhere), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_table(elsewhere / "scores.parquet").equals(expected)


def installed_command(place: Path) -> Path:
    """Return 'fedgt' of a new environment, with the wheel and, from here, what it depends on."""
    with contextlib.chdir(_ROOT):
        wheel = place / hatchling.build.build_wheel(str(place))
    environment = place / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    # Files that make sources importable, such as those of an editable install, do not come along:
    # Python reads them in an environment's own folder alone.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    subprocess.run(
        [
            *(uv.find_uv_bin(), "pip", "install", "--quiet", "--offline", "--no-deps"),
            *("--no-cache", "--python", str(python), str(wheel)),
        ],
        check=True,
        timeout=300,
    )
    found = subprocess.run(
        [python, "-c", "import fedgt_client; print(fedgt_client.__file__)"],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).is_relative_to(packages)
    return environment / "bin" / "fedgt"
