"""docs/notebook.ipynb: its cells, one after the other."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fedgt
from shared.errors import FedGTError
from tests.docs.documents import ROOT

_CELLS = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="holds no run"):
        fedgt.load_run(tmp_path)


def test_it_is_saved_without_output() -> None:
    assert all(not cell.get("outputs") for cell in _CELLS)


@pytest.mark.slow
def test_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph_cache: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("FEDGT_CACHE", str(graph_cache))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    monkeypatch.setenv("PATH", path)
    names: dict[str, Any] = {}
    for cell in _CELLS:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"]).replace("--rounds 10", "--rounds 2 --set hidden=16")
            exec(compile(code, "notebook", "exec"), names)
    assert Path("curves.png").stat().st_size > 5_000
    assert set(names["table"].method) == {"fedgt", "local"}
    assert list(names["curves"].index) == [1, 2]
