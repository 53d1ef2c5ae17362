"""Flower's simulation gives what one process gives, and leaves nothing behind."""

import io
import os
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import hatchling.build
import numpy as np
import psutil
import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import get_fab_metadata

from deploy.engines.app_bundle import stage_flower_app
from deploy.engines.in_process import run_in_process
from deploy.engines.simulation import run_simulation
from shared.errors import FedGTError
from shared.version import VERSION
from tests.harness.small_runs import CLIENTS, checkpoint, small

pytest.importorskip("ray")

_ROOT = Path(__file__).parents[3]
_WHEEL_SIZE = 1_000_000  # bytes at the most; a third are lock files for kits
_START = 240.0  # seconds to the first round, on a machine that has other things to do


def still_running(processes: list[psutil.Process]) -> list[str]:
    return [
        process.name()
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def descendants() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


def scratch_folders() -> list[Path]:
    """Return the scratch folders of this process; others may be simulating at the same time."""
    return list(Path("/tmp").glob(f"fg{os.getpid()}-*"))


def test_the_app_is_complete(tmp_path: Path) -> None:
    app = stage_flower_app(tmp_path / "fedgt")
    bundle = build_fab_from_disk(app)
    assert get_fab_metadata(bundle) == ("fedgt/fedgt", VERSION)
    packed = set(zipfile.ZipFile(io.BytesIO(bundle)).namelist())
    for package in ("fedgt_client", "fedgt_server", "shared"):
        written = {str(path.relative_to(app)) for path in (app / package).rglob("*.py")}
        assert written <= packed
    assert not [name for name in packed if name.startswith(("tests", "deploy", "experiments"))]


def test_a_wheel_is_to_bring_what_the_app_needs() -> None:
    pyproject = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    wheel = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]
    brought = {name: f"deploy/app/{name}" for name in ("pyproject.toml", "LICENSE")}
    locks = ("requirements-client.lock", "requirements-server.lock")
    brought |= {f"deploy/docker/{name}": f"deploy/app/{name}" for name in locks}
    assert wheel["force-include"] == brought
    assert wheel["packages"] == ["fedgt", "fedgt_client", "fedgt_server", "shared", "deploy"]
    for package in wheel["packages"]:
        assert (_ROOT / package / "py.typed").exists()


@pytest.mark.slow
def test_a_wheel_brings_what_the_app_needs_and_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_ROOT)
    wheel = tmp_path / hatchling.build.build_wheel(str(tmp_path))
    assert wheel.stat().st_size < _WHEEL_SIZE
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if name.startswith(("experiments/", "tests/"))]
    packages = ("fedgt", "fedgt_client", "fedgt_server", "shared", "deploy")
    assert {name.partition("/")[0] for name in names} == {*packages, f"fedgt-{VERSION}.dist-info"}
    assert {f"{package}/py.typed" for package in packages} <= names
    assert {"deploy/app/pyproject.toml", "deploy/app/LICENSE"} <= names
    for package in packages:
        assert {str(path.relative_to(_ROOT)) for path in (_ROOT / package).rglob("*.py")} <= names


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_same_result_as_in_process(tmp_path: Path) -> None:
    before = set(descendants())
    seen: list[int] = []
    ours = run_in_process(small(tmp_path / "one", rounds=3), CLIENTS)
    ray = run_simulation(
        small(tmp_path / "ray", rounds=3), CLIENTS, lambda event: seen.append(event.round)
    )
    assert seen == [1, 2, 3]
    assert ray.per_client == ours.per_client
    for number in (2, 3):
        expected = checkpoint(tmp_path / "one", number)
        found = checkpoint(tmp_path / "ray", number)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-6, err_msg=name)
    assert not still_running(list(set(descendants()) - before))
    assert not scratch_folders()


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_a_failing_run_is_one_line(tmp_path: Path) -> None:
    before = set(descendants())
    config = small(tmp_path / "a", dataset="cora", data_dir=str(tmp_path / "nowhere"))
    with pytest.raises(FedGTError, match=r"no institution can take part: .*nowhere") as fault:
        run_simulation(config, CLIENTS)
    assert len(str(fault.value).splitlines()) == 1
    assert str(tmp_path / "a" / "flower.log") in str(fault.value)
    assert not still_running(list(set(descendants()) - before))


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    out = tmp_path / "a"
    command = Path(sys.executable).parent / "fedgt"
    arguments = ("--engine", "flower", "--rounds", "5000", "--clients", "2", "--out", str(out))
    run = subprocess.Popen(
        [command, "run", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
        # As in a terminal, also where the tests run in the background of a shell.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + _START
        while not (out / "checkpoints").exists() and time.monotonic() < deadline:
            assert run.poll() is None
            time.sleep(0.5)
        family = psutil.Process(run.pid).children(recursive=True)
        assert any("raylet" in process.name() for process in family)
        run.send_signal(how)
        _, errors = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 128 + how
    assert "Traceback" not in errors
    assert not still_running(family)
