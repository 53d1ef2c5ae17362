from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgt_client.data.schema import (
    CategoricalColumn,
    IndicatorColumn,
    NumericColumn,
    Schema,
)
from fedgt_client.data.schema_merge import merge_schemas
from fedgt_client.data.schema_proposal import ColumnChoices, propose_schema
from shared.errors import FedGTError

LOGS: dict[str, Any] = {"log_mean": 1.0, "log_std": 0.5}


def schema(*columns: Any, labels: tuple[str, ...] = ("a",)) -> Schema:
    return Schema(columns=columns, labels=labels)


def numeric(**values: Any) -> NumericColumn:
    return NumericColumn(**{"name": "x", "mean": 2, "std": 1, "rows": 10, **values})


def indicator(**values: Any) -> IndicatorColumn:
    return IndicatorColumn(**{"name": "x", "mean": 0.5, "rows": 10, **values})


def categories(*names: str) -> CategoricalColumn:
    return CategoricalColumn(name="x", categories=names)


def merged(*columns: Any) -> Any:
    return merge_schemas({f"{i}.json": schema(c) for i, c in enumerate(columns)}).schema.columns[0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((numeric(),), "two schemas or more"),
        ((numeric(), categories("a")), "'x' is numeric in 0.json and categorical in 1.json"),
        ((categories("a"), categories("b"), indicator()), "0.json and indicator in 2.json"),
        ((numeric(), numeric(rows=None)), "1.json does not say of how many rows"),
        ((indicator(rows=None), indicator()), "0.json does not say of how many rows"),
        ((numeric(), numeric(name="y")), "no column is in all of 0.json, 1.json"),
    ],
)
def test_what_cannot_be_merged_is_one_line(columns: tuple[Any, ...], message: str) -> None:
    with pytest.raises(FedGTError) as caught:
        merged(*columns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_are_pooled() -> None:
    column = merged(numeric(mean=0, std=0, rows=2), numeric(mean=2, std=0, rows=2))
    assert (column.rows, column.mean, column.std) == (4, 1, 1)
    assert column.scale == "linear"
    assert column.log_mean is None


def test_indicators_stay_and_are_weighed() -> None:
    column = merged(indicator(mean=0.5, rows=30), indicator(mean=0, rows=10))
    assert column == IndicatorColumn(name="x", mean=0.375, rows=40)


def test_an_indicator_here_and_numbers_there_are_numbers() -> None:
    column = merged(indicator(mean=0.5, rows=2), numeric(mean=5, std=0, rows=2))
    assert column.type == "numeric"
    assert (column.rows, column.mean) == (4, 2.75)
    assert column.std == pytest.approx(np.std([0, 1, 5, 5]))
    logs = {"log_mean": np.log1p(5), "log_std": 0}
    column = merged(indicator(mean=0.5, rows=2), numeric(mean=5, std=0, rows=2, **logs))
    assert column.log_mean == pytest.approx(np.mean(np.log1p([0, 1, 5, 5])))
    assert column.log_std == pytest.approx(np.std(np.log1p([0, 1, 5, 5])))


def test_the_scale_is_that_of_all_or_the_rules() -> None:
    log = numeric(scale="log", mean=2, std=9, **LOGS)
    assert merged(log, log).scale == "log"
    # One institution chose otherwise: the pooled deviation decides.
    assert merged(log, numeric(mean=2, std=9, **LOGS)).scale == "log"
    assert merged(log, numeric(mean=90, std=1, **LOGS)).scale == "linear"
    # Without logarithms of one, whose numbers are negative, there is none.
    assert merged(log, numeric(mean=-2)).scale == "linear"


def test_the_widest_clip_goes() -> None:
    assert merged(numeric(clip=5), numeric(clip=7)).clip == 7
    assert merged(numeric(clip=5), numeric(clip=None)).clip is None


def test_categories_and_labels_are_united() -> None:
    files = {
        "a.json": schema(categories("b", "10"), labels=("low", "high")),
        "b.json": schema(categories("9", "b"), labels=("middle",)),
    }
    found = merge_schemas(files).schema
    assert found.columns == (categories("9", "10", "b"),)
    assert found.labels == ("high", "low", "middle")
    turned = merge_schemas(dict(reversed(files.items()))).schema
    assert turned.digest() == found.digest()
    same = merge_schemas({"a.json": files["a.json"], "c.json": files["a.json"]}).schema
    assert same.labels == ("low", "high")


def test_columns_that_one_lacks_are_left_out() -> None:
    both, one = numeric(), numeric(name="y")
    found = merge_schemas({"a.json": schema(both, one), "b.json": schema(both)})
    assert [column.name for column in found.schema.columns] == ["x"]
    assert found.omitted == {"y": "b.json"}


def test_merged_proposals_equal_the_proposal_of_all_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    choices = ColumnChoices(id="id", label="risk", digits=15)
    lines: list[list[str]] = []
    for part, size in enumerate((300, 700)):
        x, y = rng.lognormal(part, 2, size), rng.integers(0, 2 + part, size)
        lines.append([f"{part}-{i},{x[i]:.3f},{y[i]},{i % 2}" for i in range(size)])

    def proposed(rows: list[str]) -> Schema:
        (tmp_path / "nodes.csv").write_text("\n".join(["id,x,y,risk", *rows]) + "\n")
        return propose_schema(tmp_path / "nodes.csv", choices).schema

    whole = proposed(lines[0] + lines[1])
    found = merge_schemas({"a": proposed(lines[0]), "b": proposed(lines[1])}).schema
    assert found.labels == whole.labels
    for ours, theirs in zip(found.columns, whole.columns, strict=True):
        assert isinstance(ours, NumericColumn)
        assert isinstance(theirs, NumericColumn)
        assert (ours.scale, ours.rows, ours.clip) == (theirs.scale, theirs.rows, theirs.clip)
        for name in ("mean", "std", "log_mean", "log_std"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-12)
