import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema
from fedgt_client.data.schema_proposal import ColumnChoices, propose_schema, public_scaling
from shared.errors import FedGTError

GOOD: dict[str, Any] = {
    "version": 1,
    "columns": [
        {"name": "balance", "type": "numeric", "mean": 10, "std": 2},
        {"name": "country", "type": "categorical", "categories": ["DE", "FR"]},
    ],
    "labels": ["low", "high"],
}
CHOICES = ColumnChoices(id="account", label="risk")


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "schema.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2"),
        ({"version": None}, "version None"),
        ({"columns": []}, "columns"),
        ({"labels": []}, "labels"),
        ({"labels": ["a", "a "]}, "'a' occurs twice"),
        ({"rows": [1]}, "rows"),
        ({"columns": [{"name": "x", "type": "date"}]}, "columns.0"),
        ({"columns": [{"name": "x", "type": "numeric", "std": 0}]}, "columns.0.std"),
        ({"columns": [{"name": "x", "type": "numeric", "mean": "much"}]}, "columns.0.mean"),
        ({"columns": [{"name": "x", "type": "categorical"}]}, "columns.0.categories"),
        ({"columns": [{"name": "x", "type": "categorical", "categories": []}]}, "categories"),
        ({"columns": [{"name": "x", "type": "numeric"}] * 2}, "'x' occurs twice"),
        (
            {
                "columns": [
                    {"name": "c", "type": "categorical", "categories": ["a"]},
                    {"name": "c=a", "type": "numeric"},
                ]
            },
            "feature 'c=a' occurs twice",
        ),
    ],
)
def test_a_wrong_schema_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, json.dumps(GOOD | change))
    with pytest.raises(FedGTError) as caught:
        Schema.load(path)
    assert message in str(caught.value)
    assert "schema.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "3", b"\xff\xfe\x00", "[" * 100_000, '{"version": 1, "columns": NaN}'],
)
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(FedGTError, match=r"schema\.json"):
        Schema.load(written(tmp_path, content))


def test_infinite_scaling_is_refused(tmp_path: Path) -> None:
    text = json.dumps(GOOD).replace('"mean": 10', '"mean": Infinity')
    with pytest.raises(FedGTError, match=r"columns\.0\.mean"):
        Schema.load(written(tmp_path, text))


def test_a_missing_schema_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="no such file"):
        Schema.load(tmp_path / "none.json")
    with pytest.raises(FedGTError, match="cannot be read"):
        Schema.load(tmp_path)


def test_a_schema_round_trips_and_keeps_its_digest(tmp_path: Path) -> None:
    schema = Schema.load(written(tmp_path, "\ufeff" + json.dumps(GOOD, indent=7)))
    schema.save(tmp_path / "again.json")
    again = Schema.load(tmp_path / "again.json")
    assert again == schema
    assert again.digest() == schema.digest()
    assert schema.feature_names == ("balance", "country=DE", "country=FR")
    assert schema.labels == ("low", "high")


def test_labels_written_as_numbers_are_text(tmp_path: Path) -> None:
    assert Schema.load(written(tmp_path, json.dumps(GOOD | {"labels": [0, 1]}))).labels == (
        "0",
        "1",
    )


def nodes_csv(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "accounts.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (replace(CHOICES, id="nr"), "no column 'nr'"),
        (replace(CHOICES, label="class"), "no column 'class'"),
        (replace(CHOICES, label="account"), "id and the label"),
        (replace(CHOICES, exclude=("x",)), "no column 'x'"),
        (replace(CHOICES, categorical=("risk",)), "the label column and"),
        (
            ColumnChoices(
                id="account", label="risk", categorical=("balance",), exclude=("balance",)
            ),
            "excluded and categorical",
        ),
        (replace(CHOICES, numeric=("country",)), "line 2 (data row 1)"),
        (
            replace(CHOICES, categorical=("country",), max_categories=2),
            "3 distinct values",
        ),
        (replace(CHOICES, max_categories=1), "2 distinct labels"),
        (
            replace(CHOICES, exclude=("balance", "country")),
            "no column to make",
        ),
        (
            replace(CHOICES, categorical=("nothing",)),
            "every cell is empty",
        ),
    ],
)
def test_wrong_choices_are_refused(tmp_path: Path, choices: ColumnChoices, message: str) -> None:
    rows = ("1,3,DE,low,", "2,4,FR,high,", "3,5,NL,,", "4,5,NL,low,")
    path = nodes_csv(tmp_path, "account,balance,country,risk,nothing", *rows)
    with pytest.raises(FedGTError) as caught:
        propose_schema(path, choices)
    assert message in str(caught.value)


def test_no_label_at_all_is_refused(tmp_path: Path) -> None:
    path = nodes_csv(tmp_path, "account,balance,risk", "1,3,", "2,4,")
    with pytest.raises(FedGTError, match="no node has a label"):
        propose_schema(path, CHOICES)


def test_columns_are_inferred(tmp_path: Path) -> None:
    path = nodes_csv(
        tmp_path,
        "account,balance,country,branch,empty,always,risk",
        *("1,100,DE,10,,7,2", "2,200,FR,9,,7,10", "3,,DE,10,,7,", "4,300,,9,,7,2.0"),
    )
    proposal = propose_schema(path, replace(CHOICES, categorical=("branch",)))
    assert proposal.schema.columns == (
        NumericColumn(name="balance", mean=200, std=81.6),
        CategoricalColumn(name="country", categories=("DE", "FR")),
        CategoricalColumn(name="branch", categories=("9", "10")),
        NumericColumn(name="always", mean=7, std=1),
    )
    assert proposal.schema.labels == ("2", "10")
    assert proposal.omitted == {"empty": "every cell is empty"}


def test_names_and_free_text_never_reach_the_schema(tmp_path: Path) -> None:
    rows = [f"{i},{i % 7},Person {i},{'xyz'[i % 3]} told {i % 200},ok" for i in range(1000)]
    path = nodes_csv(tmp_path, "account,balance,name,story,risk", *rows)
    proposal = propose_schema(path, CHOICES)
    assert [column.name for column in proposal.schema.columns] == ["balance"]
    assert "--max-categories" in proposal.omitted["name"]
    assert "--max-categories" in proposal.omitted["story"]
    few = nodes_csv(tmp_path, "account,balance,name,risk", "1,2,Ann,a", "2,3,Bob,b", "3,1,Cid,a")
    proposal = propose_schema(few, CHOICES)
    assert "--categorical" in proposal.omitted["name"]
    assert "Ann" not in proposal.schema.model_dump_json()


def test_a_larger_limit_includes_more_categories(tmp_path: Path) -> None:
    rows = [f"{i},v{i % 150},{i % 2}" for i in range(600)]
    path = nodes_csv(tmp_path, "account,code,risk", *rows, "x,,0")
    with pytest.raises(FedGTError, match="150 distinct texts"):
        propose_schema(path, CHOICES)
    column = propose_schema(path, replace(CHOICES, max_categories=150)).schema.columns[0]
    assert isinstance(column, CategoricalColumn)
    assert len(column.categories) == 150


def test_a_typo_among_numbers_is_pointed_at(tmp_path: Path) -> None:
    rows = [f"{i},{i * 1.5},{i},a" for i in range(300)]
    path = nodes_csv(tmp_path, "account,balance,age,risk", *rows, "x,n/a,3,b")
    proposal = propose_schema(path, CHOICES)
    assert "line 302 (data row 301)" in proposal.omitted["balance"]
    with pytest.raises(FedGTError, match="'n/a' is not a number"):
        propose_schema(path, replace(CHOICES, numeric=("balance",)))


def test_parquet_types_are_respected(tmp_path: Path) -> None:
    path = tmp_path / "accounts.parquet"
    table = pa.table(
        {
            "account": [1, 2, 3, 4],
            "ratio": pa.array([0.5, None, 1.5, 1.0]),
            "active": [True, False, True, False],
            "since": pa.array([1, 2, 3, 4], pa.timestamp("s")),
            "tags": [["a"], [], ["b"], []],
            "risk": pa.array([1.0, None, 0.0, 1.0]),
        }
    )
    pq.write_table(table, path)
    proposal = propose_schema(path, CHOICES)
    assert proposal.schema.columns == (
        NumericColumn(name="ratio", mean=1, std=0.408),
        CategoricalColumn(name="active", categories=("false", "true")),
    )
    assert proposal.schema.labels == ("0", "1")
    assert set(proposal.omitted) == {"since", "tags"}


def test_scaling_is_rounded_relative_to_the_deviation() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1_700_000_000.123, 86_400, 1000)
    mean, std = public_scaling(values)
    assert len(f"{std:g}") <= 5
    assert abs(mean - values.mean()) < std / 100
    assert mean == round(mean, -2)
    assert public_scaling(np.full(3, 0.1)) == (0.1, 1.0)
    assert public_scaling(np.array([1e300, -1e300]))[1] == float("inf")
