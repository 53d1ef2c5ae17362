"""What a schema discloses about the rows it was made of, in words."""

from collections import Counter
from collections.abc import Sequence

from fedgt_client.data.schema import AnyColumn, CategoricalColumn


def disclosure(columns: Sequence[AnyColumn], labels: Sequence[str]) -> str:
    """Say what columns and labels disclose."""
    kinds = Counter(column.type for column in columns)
    categories = sum(len(c.categories) for c in columns if isinstance(c, CategoricalColumn))
    parts = ["the names of all columns", f"the labels ({len(labels)})"]
    if count := kinds["numeric"]:
        parts.append(
            "number of filled cells, mean and standard deviation, also those of ln(1 + x), "
            f"of each numeric column ({count})"
        )
    if count := kinds["indicator"]:
        parts.append(f"number of filled cells and share of ones of each indicator column ({count})")
    if count := kinds["categorical"]:
        parts.append(f"all values ({categories}) of each categorical column ({count})")
    return f"Discloses {'; '.join(parts)}. No minimum or maximum, no rows."
