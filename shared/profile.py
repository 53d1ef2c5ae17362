"""Profile: what institutions must agree on before their models can be averaged."""

import hashlib
import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from shared.errors import FedGTError
from shared.text import plain_line, text_problem

LONGEST_NAME = 200  # characters of the name of a feature, class or parameter
_LONGEST_VERSION = 64
_LONGEST_PROFILE = 2**25  # characters of JSON
_MOST_FEATURES = 200_000
_MOST_CLASSES = 20_000
_MOST_PARAMETERS = 2_000
_MOST_DIMENSIONS = 8
_MOST_VALUES = 2**31  # of all parameters together: 8 GB

_PARAMETER = re.compile(r"[A-Za-z0-9_.\[\]-]{1,200}")
_OTHER_FIELDS = ("unexpected_keyword_argument", "missing", "dataclass_type")


def _check_name(name: str) -> str:
    if problem := text_problem(name, LONGEST_NAME):
        raise ValueError(problem)
    return name


def _check_version(version: str) -> str:
    if problem := text_problem(version, _LONGEST_VERSION):
        raise ValueError(problem)
    return version


def _check_parameters(parameters: dict[str, list[int]]) -> dict[str, list[int]]:
    for name in parameters:
        if not _PARAMETER.fullmatch(name) or name.startswith("__"):
            raise ValueError(f"'{plain_line(name, 40)}' cannot name a parameter")
    if sum(math.prod(shape) for shape in parameters.values()) > _MOST_VALUES:
        raise ValueError(f"there are more than {_MOST_VALUES} values")
    return parameters


_Name = Annotated[str, AfterValidator(_check_name)]
_Size = Annotated[int, Field(ge=0, le=_MOST_VALUES)]
_Shape = Annotated[list[_Size], Field(max_length=_MOST_DIMENSIONS)]


@dataclass(frozen=True)
class Profile:
    """What institutions must agree on before their models can be averaged."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    version: Annotated[str, AfterValidator(_check_version)]  # of FedGT
    features: Annotated[list[_Name], Field(max_length=_MOST_FEATURES)]
    classes: Annotated[list[_Name], Field(max_length=_MOST_CLASSES)]
    # Shape of every parameter of the model.
    parameters: Annotated[
        dict[str, _Shape],
        Field(max_length=_MOST_PARAMETERS),
        AfterValidator(_check_parameters),
    ]


_PARSER = TypeAdapter(Profile)


def columns_digest(features: Sequence[str], classes: Sequence[str]) -> str:
    """Return the SHA-256 of the names of features and classes, in their order."""
    content = json.dumps({"features": list(features), "classes": list(classes)})
    return hashlib.sha256(content.encode()).hexdigest()


def parse_profile(text: str, reserved: Collection[str] = ()) -> Profile:
    """Return a profile that came as JSON from another party.

    Parameters
    ----------
    reserved : names that no parameter can have

    Raises
    ------
    FedGTError
        When it is too large, has other fields, or one that is out of its bounds.
    """
    if len(text) > _LONGEST_PROFILE:
        raise FedGTError(f"a profile has {len(text)} characters, at most {_LONGEST_PROFILE}")
    try:
        profile = _PARSER.validate_json(text.encode(), strict=True)
    except UnicodeEncodeError:
        raise FedGTError("a profile cannot be read: it holds text that is not UTF-8") from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        if problem["type"] in _OTHER_FIELDS:
            raise FedGTError(
                "a profile has other fields: is that another version of FedGT?"
            ) from None
        where = plain_line(".".join(map(str, problem["loc"])), 80)
        raise FedGTError(f"a profile cannot be read: {where} {problem['msg']}") from None
    if taken := sorted(profile.parameters.keys() & set(reserved)):
        raise FedGTError(f"a profile has a parameter '{taken[0]}': that name is taken")
    return profile
