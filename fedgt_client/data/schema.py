"""Schema: what institutions agree on before they import their own tables.

It names the columns that become features, in order, how each is scaled or encoded, and the
classes. It is public within the federation and holds no rows.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as model_check

from shared.errors import FedGTError
from shared.files import atomic_file

SCHEMA_FILE = "schema.json"  # in the folder of an imported graph
VERSION: Final = 2
# Version 1 has neither indicator columns nor logarithms, clipping and numbers of rows.
_READABLE: Final = (1, 2)

# Cells are compared without surrounding blanks, so a name with blanks could never match.
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]


class _Model(BaseModel):
    # People write labels as 0 and 1 by hand: numbers are read as text.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True
    )


class NumericColumn(_Model):
    """Column of numbers x, encoded as (x - mean) / std, clipped to ±``clip``.

    With ``scale`` "log" it is ln(1 + x) that is scaled, by ``log_mean`` and ``log_std``. A
    deviation of 0 says that all numbers were the same; they are then not divided by it.
    """

    name: Name
    type: Literal["numeric"] = "numeric"
    scale: Literal["linear", "log"] = "linear"
    mean: float = 0.0
    std: float = Field(default=1.0, ge=0)
    log_mean: float | None = None  # of ln(1 + x), where no x is negative
    log_std: float | None = Field(default=None, ge=0)
    clip: float | None = Field(default=None, gt=0)  # in deviations; None: not clipped
    rows: int | None = Field(default=None, ge=1)  # that the figures are of; merging needs it

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the name of the column's one feature."""
        return (self.name,)

    @property
    def scaling(self) -> tuple[float, float]:
        """Return mean and divisor of the chosen scale."""
        mean, std = self.mean, self.std
        if self.scale == "log":
            mean, std = self.log_mean or 0.0, self.log_std or 0.0
        return mean, std or 1.0

    @model_check(mode="after")
    def _complete(self) -> Self:
        if (self.log_mean is None) != (self.log_std is None):
            raise ValueError("log_mean and log_std belong together")
        if self.scale == "log" and self.log_mean is None:
            raise ValueError("scale 'log' needs log_mean and log_std, those of ln(1 + x)")
        return self


class IndicatorColumn(_Model):
    """Column of 0 and 1, or false and true, which stay as they are."""

    name: Name
    type: Literal["indicator"] = "indicator"
    mean: float = Field(default=0.0, ge=0, le=1)  # share of ones; empty cells become it
    rows: int | None = Field(default=None, ge=1)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the name of the column's one feature."""
        return (self.name,)


class CategoricalColumn(_Model):
    """Column of categories, encoded one-hot in the order of ``categories``."""

    name: Name
    type: Literal["categorical"] = "categorical"
    categories: Names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return a feature name for each category, such as ``country=DE``."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @model_check(mode="after")
    def _distinct(self) -> Self:
        _require_distinct("category", self.categories)
        return self


AnyColumn = NumericColumn | IndicatorColumn | CategoricalColumn
Column = Annotated[AnyColumn, Field(discriminator="type")]
COLUMN_TYPES = ("numeric", "indicator", "categorical")


class Schema(_Model):
    """Feature columns in order, and the classes.

    Two institutions whose schemas have the same ``digest`` get the same features and classes.
    """

    version: Literal[2] = VERSION
    description: str = ""  # what the file discloses, for people
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    labels: Names

    @model_check(mode="after")
    def _distinct(self) -> Self:
        _require_distinct("column", tuple(column.name for column in self.columns))
        _require_distinct("feature", self.feature_names)
        _require_distinct("label", self.labels)
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the p features, in order."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def digest(self) -> str:
        """Return the SHA-256 of what decides the encoding, whatever the file's layout."""
        content = {"columns": self.encoding(), "labels": self.labels}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def encoding(self) -> list[dict[str, Any]]:
        """Return what decides the encoding of each column, in order."""
        return [column.model_dump(mode="json", exclude={"rows"}) for column in self.columns]

    def save(self, target: Path) -> None:
        """Write the schema as JSON, atomically; a column a line, for people to review."""
        document = self.model_dump(mode="json", exclude_none=True)
        columns = ",\n    ".join(_json(column) for column in document.pop("columns"))
        fields = [f"{_json(name)}: {_json(value)}" for name, value in document.items()]
        fields.insert(-1, f'"columns": [\n    {columns}\n  ]')
        with atomic_file(target) as staging:
            staging.write_text("{\n  " + ",\n  ".join(fields) + "\n}\n", encoding="utf-8")

    @classmethod
    def load(cls, source: Path) -> Self:
        """Read and check a schema; an error is one line that names the place in the file."""
        document = _read_json(source)
        if not isinstance(document, dict):
            raise FedGTError(f"{source} is not a schema: it holds no JSON object")
        if (version := document.get("version")) not in _READABLE:
            raise FedGTError(
                f"{source} has schema version {version!r}, this FedGT reads 1 and {VERSION}: "
                "make it again with 'fedgt data schema'"
            )
        try:
            return cls.model_validate(document | {"version": VERSION})
        except ValidationError as error:
            raise FedGTError(f"{source}: {first_error(error)}") from None


def first_difference(ours: Sequence[object], theirs: Sequence[object]) -> int | None:
    """Return the first place where two sequences differ, which may be the end of one."""
    shorter = min(len(ours), len(theirs))
    places = (place for place in range(shorter) if ours[place] != theirs[place])
    return next(places, None if len(ours) == len(theirs) else shorter)


def value_order(value: str) -> tuple[float, str]:
    """Return a sort key that puts whole numbers by size before words."""
    whole = value.removeprefix("-")
    return (float(value) if whole.isascii() and whole.isdigit() else math.inf, value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read_json(source: Path) -> Any:
    try:
        return json.loads(source.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise FedGTError(f"{source}: no such file; make one with 'fedgt data schema'") from None
    except OSError as error:
        raise FedGTError(f"{source} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise FedGTError(
            f"{source} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise FedGTError(f"{source} is not valid JSON") from None


def first_error(error: ValidationError) -> str:
    """Return the first of pydantic's errors in one line."""
    detail = error.errors(include_url=False, include_input=False)[0]
    # The tag of a column's type is in pydantic's path but not in the file.
    steps = [str(step) for step in detail["loc"] if step not in COLUMN_TYPES]
    message = detail["msg"].removeprefix("Value error, ")
    text = f"{'.'.join(steps)}: {message}" if steps else message
    return " ".join(text.split())


def _require_distinct(what: str, names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name!r} occurs twice")
        seen.add(name)
