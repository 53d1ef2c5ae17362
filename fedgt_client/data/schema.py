"""Schema: what institutions agree on before they import their own tables.

It names the columns that become features, in order, how each is scaled or encoded, and the
classes. It is public within the federation and holds no rows.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as model_check

from shared.errors import FedGTError
from shared.files import write_json

VERSION: Final = 1
# In the folder of an imported graph.
SCHEMA_FILE: Final = "schema.json"

# Cells are compared without surrounding blanks, so a name with blanks could never match.
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]


class _Model(BaseModel):
    # People write labels as 0 and 1 by hand: numbers are read as text.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True
    )


class NumericColumn(_Model):
    """Column of numbers x, encoded as (x - mean) / std with public ``mean`` and ``std``."""

    name: Name
    type: Literal["numeric"] = "numeric"
    mean: float = 0.0
    std: float = Field(default=1.0, gt=0)

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


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="type")]


class Schema(_Model):
    """Feature columns in order, and the classes.

    Two institutions whose schemas have the same ``digest`` get the same features and classes.
    """

    version: Literal[1] = VERSION
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
        """Return the SHA-256 of the content, which does not depend on the file's layout."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def save(self, target: Path) -> None:
        """Write the schema as JSON, atomically."""
        write_json(target, self.model_dump(mode="json"))

    @classmethod
    def load(cls, source: Path) -> Self:
        """Read and check a schema; an error is one line that names the place in the file."""
        document = _read_json(source)
        if not isinstance(document, dict):
            raise FedGTError(f"{source} is not a schema: it holds no JSON object")
        if (version := document.get("version")) != VERSION:
            raise FedGTError(
                f"{source} has schema version {version!r}, this FedGT reads {VERSION}: "
                "make it again with 'fedgt data schema'"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise FedGTError(f"{source}: {first_error(error)}") from None


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
    steps = [str(step) for step in detail["loc"] if step not in ("numeric", "categorical")]
    message = detail["msg"].removeprefix("Value error, ")
    text = f"{'.'.join(steps)}: {message}" if steps else message
    return " ".join(text.split())


def _require_distinct(what: str, names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name!r} occurs twice")
        seen.add(name)
