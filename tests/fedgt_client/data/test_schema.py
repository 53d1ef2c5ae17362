import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgt_client.data.csv_table import CsvFormat
from fedgt_client.data.schema import (
    CategoricalColumn,
    IndicatorColumn,
    NumericColumn,
    Schema,
)
from fedgt_client.data.schema_proposal import ColumnChoices, propose_schema
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
        ({"version": 3}, "version 3, this FedGT reads 1 and 2"),
        ({"version": None}, "version None"),
        ({"columns": []}, "columns"),
        ({"labels": []}, "labels"),
        ({"labels": ["a", "a "]}, "'a' occurs twice"),
        ({"rows": [1]}, "rows"),
        ({"columns": [{"name": "x", "type": "date"}]}, "columns.0"),
        ({"columns": [{"name": "x", "type": "numeric", "std": -1}]}, "columns.0.std"),
        ({"columns": [{"name": "x", "type": "numeric", "clip": 0}]}, "columns.0.clip"),
        ({"columns": [{"name": "x", "type": "numeric", "rows": 0}]}, "columns.0.rows"),
        ({"columns": [{"name": "x", "type": "numeric", "scale": "root"}]}, "columns.0.scale"),
        ({"columns": [{"name": "x", "type": "numeric", "scale": "log"}]}, "needs log_mean"),
        ({"columns": [{"name": "x", "type": "numeric", "log_std": 1}]}, "belong together"),
        ({"columns": [{"name": "x", "type": "indicator", "mean": 1.5}]}, "columns.0.mean"),
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


def test_a_schema_of_version_1_means_what_it_meant(tmp_path: Path) -> None:
    balance, country = Schema.load(written(tmp_path, json.dumps(GOOD))).columns
    assert balance == NumericColumn(name="balance", scale="linear", mean=10, std=2, clip=None)
    assert country == CategoricalColumn(name="country", categories=("DE", "FR"))


def test_the_digest_is_of_the_encoding_alone(tmp_path: Path) -> None:
    def digest(**changed: Any) -> str:
        column = {"name": "x", "type": "numeric", "mean": 1, "std": 2} | changed
        return Schema.load(written(tmp_path, json.dumps(GOOD | {"columns": [column]}))).digest()

    assert digest(rows=7) == digest(rows=8)
    assert len({digest(), digest(mean=2), digest(clip=5), digest(std=3)}) == 4
    plain = Schema.load(written(tmp_path, json.dumps(GOOD)))
    described = written(tmp_path, json.dumps(GOOD | {"version": 2, "description": "x"}))
    assert Schema.load(described).digest() == plain.digest()


def test_a_column_takes_a_line_of_the_file(tmp_path: Path) -> None:
    Schema.load(written(tmp_path, json.dumps(GOOD))).save(tmp_path / "again.json")
    lines = (tmp_path / "again.json").read_text().splitlines()
    assert sum('"name"' in line for line in lines) == 2
    assert len(lines) == 9


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
    balance, country, branch, always = proposal.schema.columns
    assert isinstance(balance, NumericColumn)
    assert (balance.scale, balance.mean, balance.std) == ("linear", 200, 81.6)
    assert (balance.rows, balance.clip) == (3, 5.0)
    assert country == CategoricalColumn(name="country", categories=("DE", "FR"))
    assert branch == CategoricalColumn(name="branch", categories=("9", "10"))
    assert isinstance(always, NumericColumn)
    assert [always.mean, always.std] == [7, 0]
    assert list(always.scaling) == [7, 1]
    assert proposal.schema.labels == ("2", "10")
    assert proposal.omitted == {"empty": "every cell is empty"}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("0,1,0,1", "indicator"),
        ("0,0,0,0", "indicator"),
        ("1,,1.0,0.00", "indicator"),
        ("True,false,TRUE,", "indicator"),
        ("0,1,2,0", "numeric"),
        ("0,0.5,1,0", "numeric"),
        ("-1,1,1,-1", "numeric"),
        ("true,1,0,1", "categorical"),
        ("yes,no,no,yes", "categorical"),
    ],
)
def test_indicators_are_told_from_numbers(tmp_path: Path, cells: str, expected: str) -> None:
    rows = [f"{i},{cell},a" for i, cell in enumerate(cells.split(","))]
    path = nodes_csv(tmp_path, "account,x,risk", *rows)
    assert propose_schema(path, CHOICES).schema.columns[0].type == expected


def test_what_is_stated_of_a_column_goes(tmp_path: Path) -> None:
    path = nodes_csv(tmp_path, "account,x,risk", "1,0,a", "2,1,b", "3,1,a")

    def proposed(**stated: tuple[str, ...]) -> Any:
        return propose_schema(path, replace(CHOICES, **stated)).schema.columns[0]  # type: ignore[arg-type]

    assert proposed() == IndicatorColumn(name="x", mean=0.667, rows=3)
    assert proposed(numeric=("x",)).type == proposed(linear=("x",)).type == "numeric"
    assert (proposed(linear=("x",)).scale, proposed(log=("x",)).scale) == ("linear", "log")
    assert proposed(categorical=("x",)).type == "categorical"


def test_heavy_tails_take_the_logarithm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "views": rng.lognormal(8, 2, 2000),
        "age": rng.normal(40, 12, 2000).clip(0),
        "change": rng.lognormal(8, 2, 2000) - 10,
    }
    header = ",".join(("account", *columns, "risk"))
    numbers = zip(*columns.values(), strict=True)
    rows = [f"{i},{','.join(f'{x:.2f}' for x in row)},a" for i, row in enumerate(numbers)]
    path = nodes_csv(tmp_path, header, *rows)
    views, age, change = propose_schema(path, CHOICES).schema.columns
    assert isinstance(views, NumericColumn)
    assert isinstance(age, NumericColumn)
    assert isinstance(change, NumericColumn)
    assert [column.scale for column in (views, age, change)] == ["log", "linear", "linear"]
    assert views.scaling == (views.log_mean, views.log_std)
    assert views.log_mean == pytest.approx(8, abs=0.2)
    assert views.log_std == pytest.approx(2, abs=0.1)
    # The other scale is there to be chosen by hand; a negative number has no logarithm.
    assert age.log_std is not None
    assert change.log_std is None
    with pytest.raises(FedGTError, match=r"line \d+ .*'change': -.* negative"):
        propose_schema(path, replace(CHOICES, log=("change",)))


def test_a_schema_says_what_it_discloses(tmp_path: Path) -> None:
    rows = [f"{i},{i * 1.5},{i % 2},{'xy'[i % 2]},{'lh'[i % 2]}" for i in range(1234)]
    path = nodes_csv(tmp_path, "account,balance,active,kind,risk", *rows)
    proposal = propose_schema(path, replace(CHOICES, digits=2))
    text = proposal.schema.description
    parts = ("labels (2)", "numeric column (1)", "indicator column (1)", "all values (2)")
    for part in (*parts, "2 significant digits"):
        assert part in text
    balance = proposal.schema.columns[0]
    assert isinstance(balance, NumericColumn)
    assert (balance.rows, balance.mean, balance.std) == (1200, 920, 530)
    exact = propose_schema(path, replace(CHOICES, digits=15)).schema.columns[0]
    assert isinstance(exact, NumericColumn)
    assert (exact.rows, exact.mean) == (1234, 924.75)


def test_columns_that_look_like_ids_are_pointed_at(tmp_path: Path) -> None:
    rows = [f"{i},{7 * i},{i / 8},{i // 2},a" for i in range(20)]
    path = nodes_csv(tmp_path, "account,number,share,age,risk", *rows)
    notes = propose_schema(path, CHOICES).notes
    assert notes["whole numbers, each in one row: --exclude if they are ids"] == ["number"]


def test_numbers_that_look_like_codes_are_pointed_at(tmp_path: Path) -> None:
    rows = [f"{i},{9000 + i // 2:05d},{i / 8},0.5,a" for i in range(20)]
    path = nodes_csv(tmp_path, "account,postcode,share,half,risk", *rows)
    notes = propose_schema(path, CHOICES).notes
    title = "numbers with leading zeros, as codes have: --categorical or --exclude"
    assert notes[title] == ["postcode"]


def test_rare_values_are_pointed_at(tmp_path: Path) -> None:
    rows = [f"{i},{int(i == 3)},{int(i < 50)},a" for i in range(100)]
    path = nodes_csv(tmp_path, "account,one,half,risk", *rows)
    assert propose_schema(path, CHOICES).notes["0 or 1 stands in fewer than 5 rows"] == ["one"]


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


def test_dates_and_decimal_commas_are_no_categories(tmp_path: Path) -> None:
    rows = [f'{i},{i},2024-01-{1 + i % 3:02d},"{i % 3},5",a' for i in range(30)]
    path = nodes_csv(tmp_path, "account,balance,since,share,risk", *rows, "x,1,,7,b")
    proposal = propose_schema(path, CHOICES)
    assert [column.name for column in proposal.schema.columns] == ["balance"]
    assert "dates or times" in proposal.omitted["since"]
    assert "--decimal-comma" in proposal.omitted["share"]
    read = propose_schema(path, replace(CHOICES, written=CsvFormat(decimal_comma=True)))
    assert [column.name for column in read.schema.columns] == ["balance", "share"]
    named = propose_schema(path, replace(CHOICES, categorical=("since",)))
    assert [column.name for column in named.schema.columns] == ["balance", "since"]


@pytest.mark.parametrize(
    "cells",
    [
        [f"{1_000_000 + 999 * i:,}" for i in range(30)],
        [f"{1000 + 37 * i:,}" for i in range(30)],  # these might have decimal commas
        [f"{i / 7:.1f}%" for i in range(30)],
        [f"€ {i}.50" for i in range(30)],
    ],
)
def test_numbers_as_people_print_them(tmp_path: Path, cells: list[str]) -> None:
    rows = [f'{i},{i},"{cell}",a' for i, cell in enumerate(cells)]
    path = nodes_csv(tmp_path, "account,balance,printed,risk", *rows)
    proposal = propose_schema(path, CHOICES)
    assert "write them as 1234.5" in proposal.omitted["printed"]
    assert [column.name for column in proposal.schema.columns] == ["balance"]


@pytest.mark.parametrize("date", ["31.12.2024", "12/31/24", "2024/12/31", "1.2.2024 08:15"])
def test_dates_as_people_write_them(tmp_path: Path, date: str) -> None:
    path = nodes_csv(tmp_path, "account,balance,since,risk", f"1,2,{date},a", "2,3,,b")
    assert "dates or times" in propose_schema(path, CHOICES).omitted["since"]


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
    path = nodes_csv(tmp_path, "account,balance,age,risk", *rows, "x,1.5x,3,b")
    proposal = propose_schema(path, CHOICES)
    assert "line 302 (data row 301)" in proposal.omitted["balance"]
    with pytest.raises(FedGTError, match=r"'1\.5x' is not a number"):
        propose_schema(path, replace(CHOICES, numeric=("balance",)))


@pytest.mark.parametrize(
    ("mark", "other", "options"),
    [
        ("NA", "?", "--empty '?' --empty NA"),
        ("n/a", "n/a", "--empty n/a"),
        ("#N/A", "#N/A", "--empty '#N/A'"),
        (r"\N", r"\N", r"--empty '\N'"),
    ],
)
def test_numbers_among_texts_for_empty_cells_are_no_categories(
    tmp_path: Path, mark: str, other: str, options: str
) -> None:
    ages = [str(20 + i % 30) for i in range(300)]
    ages[7], ages[8] = mark, other
    rows = [f'{i},{i * 1.5},{age},"{i % 40},5",a' for i, age in enumerate(ages)]
    path = nodes_csv(tmp_path, "account,balance,age,share,risk", *rows, f"x,3,4,{mark},b")
    proposal = propose_schema(path, CHOICES)
    assert [column.name for column in proposal.schema.columns] == ["balance"]
    assert proposal.omitted["age"].endswith(f"add {options}")
    assert "--decimal-comma" in proposal.omitted["share"]
    with pytest.raises(FedGTError, match=r"'age': .* is not a number; --empty .* empty cell"):
        propose_schema(path, replace(CHOICES, numeric=("age",)))
    read = propose_schema(path, replace(CHOICES, written=CsvFormat((mark, other))))
    age = read.schema.columns[1]
    assert isinstance(age, NumericColumn)
    assert age.rows == 299
    stated = propose_schema(path, replace(CHOICES, categorical=("age",))).schema.columns[1]
    assert isinstance(stated, CategoricalColumn)


def test_words_that_are_categories_stay(tmp_path: Path) -> None:
    rows = [f"{i},{i * 1.5},{('none', 'car', 'unknown')[i % 3]},a" for i in range(60)]
    proposal = propose_schema(nodes_csv(tmp_path, "account,balance,loan,risk", *rows), CHOICES)
    loan = proposal.schema.columns[1]
    assert isinstance(loan, CategoricalColumn)
    assert loan.categories == ("car", "none", "unknown")


def test_labels_that_may_stand_for_empty_cells_are_pointed_at(tmp_path: Path) -> None:
    rows = [f"{i},{i * 1.5},{('NA', 'a', 'b')[i % 3]}" for i in range(60)]
    proposal = propose_schema(nodes_csv(tmp_path, "account,balance,risk", *rows), CHOICES)
    assert proposal.schema.labels == ("NA", "a", "b")
    assert proposal.notes["labels that may stand for empty cells: --empty NA"] == ["risk"]


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
    ratio, active = proposal.schema.columns
    assert isinstance(ratio, NumericColumn)
    assert (ratio.mean, ratio.std, ratio.rows) == (1, 0.408, 3)
    assert active == IndicatorColumn(name="active", mean=0.5, rows=4)
    assert proposal.schema.labels == ("0", "1")
    assert set(proposal.omitted) == {"since", "tags"}
