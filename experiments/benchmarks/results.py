"""Committed reports of the benchmarks, which the documents' tables are made from."""

from pathlib import Path

from pydantic import ValidationError

from experiments.benchmarks.report import Report, Row
from shared.errors import FedGTError

RESULTS = Path(__file__).parent / "results"


def load(folder: Path, bench: str) -> Report | None:
    """Return the report of a benchmark; None where there is none."""
    path = folder / f"{bench}.json"
    if not path.exists():
        return None
    try:
        return Report.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise FedGTError(
            f"{path} is not a report of 'fedgt bench {bench} --json': {first['msg']}"
        ) from None


def rows_of(folder: Path, bench: str, table: str) -> tuple[Row, ...]:
    """Return the rows of a table; none where the benchmark has not been run."""
    report = load(folder, bench)
    return report.table(table).rows if report else ()
