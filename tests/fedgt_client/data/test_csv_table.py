"""Files as other countries and tools write them: decimal commas, compressed."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from fedgt_client.data.columns import as_text, parse_indicators, parse_numbers
from fedgt_client.data.csv_table import PLAIN, CsvFormat
from fedgt_client.data.own_data import OwnData
from fedgt_client.data.table import SelectedRows, TableFile
from fedgt_client.data.table_files import open_table
from fedgt_client.data.table_import import Tables, import_tables
from shared.errors import FedGTError
from tests.fedgt_client.tables import ROLES, SCHEMA, bank_tables

COMMA = CsvFormat(decimal_comma=True)


def written(folder: Path, *cells: str) -> tuple[TableFile, pa.ChunkedArray]:
    path = folder / "x.csv"
    path.write_text("".join(f"{line}\n" for line in ("a;x", *(f"1;{cell}" for cell in cells))))
    table = open_table(path, COMMA)
    return table, table.read(["x"])["x"]


@pytest.mark.parametrize("cell", ["1.5", "1.2345,6", "1,234.5", "1,2,3", "12.34.567", ",", "k"])
def test_what_is_no_number_with_a_decimal_comma(tmp_path: Path, cell: str) -> None:
    table, column = written(tmp_path, "2,5", cell)
    with pytest.raises(FedGTError, match=r"line 3 \(data row 2\), column 'x': .* decimal comma"):
        parse_numbers(table, "x", column)


@pytest.mark.parametrize("cell", ["nan", "inf", "1e999"])
def test_what_is_not_finite(tmp_path: Path, cell: str) -> None:
    table, column = written(tmp_path, cell)
    with pytest.raises(FedGTError, match="not a finite number"):
        parse_numbers(table, "x", column)


def test_numbers_with_a_decimal_comma(tmp_path: Path) -> None:
    cells = ("1,5", "-0,25", "1.234.567,5", "12.345", "7", ",5", "3,", "1,5e3", "")
    table, column = written(tmp_path, *cells)
    values, missing = parse_numbers(table, "x", column)
    assert values.tolist() == [1.5, -0.25, 1234567.5, 12345, 7, 0.5, 3, 1500, 0]
    assert missing.tolist() == [False] * 8 + [True]
    assert as_text(table, "x", column)[0].as_py() == "1,5"  # ids and categories stay
    some = SelectedRows.of(table, pa.array([2]).to_numpy())
    assert parse_numbers(some, "x", some.read(["x"])["x"])[0].tolist() == [1234567.5]


def test_indicators_that_became_decimals(tmp_path: Path) -> None:
    table, column = written(tmp_path, "1,0", "0,0", "")
    assert parse_indicators(table, "x", column)[0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("compressed", [False, True])
def test_new_nodes_are_read_as_the_import_was(tmp_path: Path, compressed: bool) -> None:
    tables = bank_tables(60)
    suffix = ".gz" if compressed else ""

    def european(path: Path) -> Path:
        text = path.read_text().replace(",", ";").replace(".", ",").encode()
        target = path.with_name(path.name + suffix)
        target.write_bytes(gzip.compress(text) if compressed else text)
        return target

    paths = [european(path) for path in tables.old(40).write(tmp_path)]
    imported = import_tables(Tables(paths[0], paths[1], **ROLES), SCHEMA, written=COMMA)
    imported.save(tmp_path / "data")
    new = [european(path) for path in tables.added(40).write(tmp_path, "new-")]
    grown = OwnData.open(tmp_path / "data").attach(*new)
    whole = tables.imported(tmp_path / "whole")
    assert grown.ids.to_pylist() == whole.ids.to_pylist()
    assert (grown.graph.dense_features() == whole.graph.dense_features()).all()
    assert (grown.graph.indices == whole.graph.indices).all()


def test_a_broken_row_of_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,x\n1,2\n1,2,3\n"))
    with pytest.raises(FedGTError, match=r"line 3 \(data row 2\): 3 cells, the header has 2"):
        open_table(path, PLAIN).read(["x"])


def test_a_compressed_file_that_is_damaged_further_on(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    rows = "".join(f"{place},{place * 2654435761 % 2**32}\n" for place in range(200_000))
    path.write_bytes(gzip.compress(("a,x\n" + rows).encode())[:-1000])
    with pytest.raises(FedGTError, match=r"x.csv.gz cannot be read"):
        open_table(path, PLAIN).read(["x"])
