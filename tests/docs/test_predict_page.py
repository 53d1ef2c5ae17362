"""The Python of the page on predictions runs as it stands."""

import re
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from fedgt_client.predict.assessment import assess
from fedgt_client.predict.exported_model import export_model
from fedgt_client.predict.source import open_source
from tests.docs.documents import ROOT
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train

PAGE = ROOT / "docs" / "predict.md"


@pytest.mark.slow
def test_the_python_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tables = bank_tables(60)
    kit = make_kit(tmp_path, tables.old(50))
    train(kit, 1)
    tables.added(50).write(tmp_path, "new-")
    source = open_source(kit)
    data = source.open_data()
    found = assess(source.model, data, source.model.scores(data))
    export_model(source.model.with_schema(data.schema), found, "", tmp_path / "model")

    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert cast(pa.Table, names["table"]).num_rows == 50
    assert cast(pa.Table, names["scored"]).num_rows == 60
    assert cast(pa.Table, names["risky"]).num_rows <= 10
    assert cast("np.ndarray", names["scores"]).shape == (60, 2)
