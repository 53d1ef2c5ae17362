"""``federation.toml``: who takes part and where the coordinator is, validated once."""

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import field_validator as check
from pydantic import model_validator as model_check

from shared.errors import FedGTError

FLEET_PORT = 9092
RESERVED = ("coordinator", "private")  # folders beside the institutions' kits

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")

# They name folders and stand in scripts.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Place = Annotated[str, StringConstraints(min_length=1)]


class Address(BaseModel):
    """A host, by name or number, and a port."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``host``, ``host:port``, ``[v6]:port``; without a port, Flower's own."""
        host, colon, port = text.rpartition(":") if _has_port(text) else (text, "", "")
        host = host.removeprefix("[").removesuffix("]")
        if not is_host(host):
            raise ValueError(
                f"{text!r} is not an address: expected host:port, with a name or an IP"
            )
        number = int(port) if port.isdecimal() else 0
        if colon and not 1 <= number <= 65535:
            raise ValueError(f"{text!r} has no port between 1 and 65535")
        return cls(host=host, port=number or FLEET_PORT)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _has_port(text: str) -> bool:
    return text.count(":") == 1 or "]:" in text


def is_host(text: str) -> bool:
    """Tell whether ``text`` is a DNS name or an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # Four numbers that are no address are no name either.
        return bool(_HOST.fullmatch(text)) and not re.fullmatch(r"[\d.]+", text)
    return True


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=_kebab, populate_by_name=True
    )


class CoordinatorSpec(_Section):
    """The machine all institutions connect to."""

    address: str = Field(description="host:port that institutions dial")
    also: tuple[str, ...] = Field((), description="further names and IPs of the same machine")
    listen: str = Field("", description="host:port to listen on; empty: all, on address's port")
    control_port: Port = Field(8000, description="of the control API, on loopback only")

    @check("address", "listen")
    @classmethod
    def _is_address(cls, text: str) -> str:
        return str(Address.parse(text)) if text else text

    @check("also")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not is_host(host):
                raise ValueError(f"{host!r} is neither a DNS name nor an IP address")
        return hosts

    @model_check(mode="after")
    def _has_address(self) -> "CoordinatorSpec":
        if not self.address:
            raise ValueError("address is empty: say which host:port institutions dial")
        return self

    @property
    def fleet(self) -> Address:
        """What institutions dial."""
        return Address.parse(self.address)

    @property
    def listening(self) -> Address:
        """What the SuperLink binds."""
        default = Address(host="0.0.0.0", port=self.fleet.port)
        return Address.parse(self.listen) if self.listen else default


class InstitutionSpec(_Section):
    """One institution; its paths are on its own machine, relative ones in its kit."""

    name: Name
    data_dir: Place = "data"
    state_dir: Place = "state"
    port: int = Field(
        0,
        ge=0,
        le=65535,
        description="of the supernode's runtime API, on loopback only; 0: a free one at each start",
    )
    own_key: bool = Field(False, description="the institution makes its key pair itself")
    public_key: str = Field("", description="file with the public half of that pair, once sent")

    @check("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name.lower() in RESERVED:
            raise ValueError(f"{name!r} is taken: choose another name")
        return name


class FederationSpec(_Section):
    """The whole file."""

    name: Name
    coordinator: CoordinatorSpec
    institutions: Annotated[tuple[InstitutionSpec, ...], Field(min_length=1)]
    certificate_days: int = Field(365, ge=1, le=3650, description="of the server's certificate")
    schema_file: str = Field(
        "", alias="schema", description="the schema all institutions share, for 'fedgt doctor'"
    )

    @model_check(mode="after")
    def _distinct(self) -> "FederationSpec":
        seen: set[str] = set()
        for institution in self.institutions:
            # Some file systems do not tell the case of names.
            if (name := institution.name.lower()) in seen:
                raise ValueError(f"institutions: the name {institution.name!r} is given twice")
            seen.add(name)
        return self

    @classmethod
    def load(cls, source: Path) -> "FederationSpec":
        """Read and check the file; an error is one line that names the key."""
        try:
            document = tomllib.loads(source.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise FedGTError(f"{source}: no such file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FedGTError(f"{source} is not valid TOML: {error}") from None
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise FedGTError(f"{source}: {_first_error(error)}") from None


def _first_error(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    key = ".".join(_kebab(str(step)) for step in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        return f"there is no key '{key}'; there are: {', '.join(_known(problem['loc']))}"
    if problem["type"] == "string_pattern_mismatch":
        message = "use letters, digits, '-', '_' and '.', at most 63, and begin with no sign"
    if not key or problem["type"] == "value_error":
        return " ".join(f"{key}: {message}".removeprefix(": ").split())
    return " ".join(f"{key} is {problem['input']!r}: {message[0].lower()}{message[1:]}".split())


def _known(location: tuple[Any, ...]) -> list[str]:
    sections: dict[object, type[_Section]] = {
        "coordinator": CoordinatorSpec,
        "institutions": InstitutionSpec,
    }
    section = sections.get(location[0], FederationSpec) if len(location) > 1 else FederationSpec
    return [field.alias or name for name, field in section.model_fields.items()]
