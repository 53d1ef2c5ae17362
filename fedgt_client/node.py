"""NodeConfig: what a supernode says of its institution in ``--node-config``, validated once."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import UserConfig
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedgt_client.folders import state_dir
from fedgt_client.policy import Policy
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.text import nearest

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_CONTENT_HASH = re.compile(r"sha256:[0-9a-f]{64}")
# What the supernode itself goes by, and the app need not know.
_FOR_THE_SUPERNODE = {"approved", "app_user"}
# Settings of the institution's machine: where it has its own data, its own values count, and not
# those of the run.
LOCAL_SETTINGS = (
    "state_dir",
    "device",
    "mixed_precision",
    "threads",
    "memory_budget_mb",
    "worker_idle",
)


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class NodeConfig(BaseModel):
    """The settings of one institution's supernode, or of one simulated institution."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=_kebab, validate_by_name=True
    )

    institution: str = Field(
        default="", description="its name; simulated ones are numbered instead"
    )
    data_dir: str = Field(default="", description="its graph, as 'fedgt data import' wrote it")
    state_dir: str = Field(
        default="", description="its durable state; empty: as the run says, or per user"
    )
    partition_id: int | None = Field(
        default=None, ge=0, description="its share of the run's dataset"
    )
    num_partitions: int | None = Field(
        default=None, ge=1, description="into which the dataset is divided"
    )
    worker: bool = Field(default=True, description="keep a process between rounds")
    keep_state: bool = Field(
        default=True,
        description="write state to disk, so that a run can be resumed; off in simulations alone",
    )
    approved: tuple[str, ...] = Field(
        default=(), description="hashes of code that may run here besides the installed FedGT"
    )
    app_user: str = Field(
        default="", description="the user that runs the app, where the kit is started by root"
    )

    device: str = Field(default="auto", description="device to train on: auto, cpu, cuda, cuda:1")
    mixed_precision: bool = Field(default=False, description="use bfloat16 on CUDA devices")
    threads: int = Field(default=1, ge=0, description="CPU threads of torch; 0: torch chooses")
    memory_budget_mb: int = Field(
        default=4096, ge=1, description="memory (MiB) above which a step is split into batches"
    )
    worker_idle: float = Field(
        default=1800.0, gt=0, description="seconds without a message until the worker ends"
    )
    rehearsal: bool = Field(
        default=False,
        description="one of several institutions in one process, where the run's settings count",
    )
    policy: Policy | None = Field(
        default=None, description="what a run may ask for; none: the defaults of Policy"
    )

    @field_validator("policy", mode="before")
    @classmethod
    def _parse_policy(cls, given: Any) -> Any:
        """Take a table, or that table as JSON: Flower passes on single values alone."""
        return json.loads(given) if isinstance(given, str) else given

    @field_validator("device")
    @classmethod
    def _check_device(cls, device: str) -> str:
        if not _DEVICE.fullmatch(device):
            raise ValueError("expected auto, cpu, cuda or cuda:N")
        return device

    @field_validator("threads", "memory_budget_mb", "worker_idle", mode="before")
    @classmethod
    def _refuse_truth_values(cls, given: Any) -> Any:
        """Refuse true, which would be 1."""
        if isinstance(given, bool):
            raise ValueError("expected a number")  # noqa: TRY004  (pydantic takes this one)
        return given

    @field_validator("approved")
    @classmethod
    def _check_hashes(cls, approved: tuple[str, ...]) -> tuple[str, ...]:
        for found in approved:
            if not is_content_hash(found):
                raise ValueError(f"{found!r} should be sha256: and 64 digits, as the doctor shows")
        return approved

    @model_validator(mode="after")
    def _check_complete(self) -> "NodeConfig":
        if not self.institution and self.partition_id is None:
            raise ValueError('the node config has no institution: add institution="…"')
        if not self.data_dir and (self.partition_id is None or self.num_partitions is None):
            raise ValueError(
                "the node config has no data-dir: add data-dir=\"…\" (made by 'fedgt data import')"
            )
        if not self.keep_state and not self.is_simulated:
            raise ValueError(
                "keep-state is false: what has left an institution must be on its disk, or a round "
                "asked for again would spend its privacy budget again; only simulations go without"
            )
        if (self.partition_id or 0) >= (self.num_partitions or math.inf):
            raise ValueError(
                f"partition-id is {self.partition_id}: it should be below num-partitions, "
                f"which is {self.num_partitions}"
            )
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "NodeConfig":
        """Validate a Flower node-config.

        Raises
        ------
        FedGTError
            In one line that names the key, the value seen and what would be right.
        """
        try:
            return cls.model_validate(dict(values), by_alias=True, by_name=False)
        except ValidationError as error:
            raise FedGTError(_first_error(error)) from None

    def to_flower(self) -> UserConfig:
        """Return what the app is told of the settings that differ from their defaults."""
        values = self.model_dump(
            by_alias=True, exclude_defaults=True, exclude=_FOR_THE_SUPERNODE | {"policy"}
        )
        return values | ({"policy": self.policy.to_json()} if self.policy else {})

    @property
    def name(self) -> str:
        """What the institution is called."""
        return self.institution or f"institution-{self.partition_id:02d}"

    @property
    def uses_worker(self) -> bool:
        """Whether a worker answers messages; simulations keep their processes themselves."""
        return self.worker and self.partition_id is None

    @property
    def is_simulated(self) -> bool:
        """Whether it shares a process with the others of its run, whose user decides all."""
        return self.partition_id is not None or self.rehearsal

    @property
    def limits(self) -> Policy | None:
        """What the institution allows; None: whatever the run asks for."""
        return self.policy or (None if self.is_simulated else Policy())

    def with_local_settings(self, config: RunConfig) -> RunConfig:
        """Return the settings of a run with those of this machine in place of the run's."""
        if self.is_simulated:
            return config
        return config.model_copy(update={name: getattr(self, name) for name in LOCAL_SETTINGS})

    def state_root(self, configured: str = "") -> Path:
        """Return where durable state lies: as the node says, as the run says, or per user."""
        return Path(self.state_dir or configured or state_dir())

    def ledger_root(self, configured: str = "") -> Path:
        """Return where the ledgers of the data lie.

        Not where the run says, unless it is a simulation: with a new folder for its state, a run
        would begin a new ledger.
        """
        return self.state_root(configured if self.partition_id is not None else "")


def parse_policy(values: Mapping[str, Any]) -> Policy:
    """Validate a policy by itself; errors as of ``NodeConfig.parse``."""
    node = {"institution": "any", "data-dir": "any", "policy": values}
    return NodeConfig.parse(node).policy or Policy()


def is_content_hash(text: str) -> bool:
    """Tell whether ``text`` is the hash of code, as ``fedgt doctor`` shows it."""
    return _CONTENT_HASH.fullmatch(text) is not None


def _first_error(error: ValidationError) -> str:
    """Shorten pydantic's report to one line."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    table, key = ("", str(first["loc"][0]))
    if key == "policy" and len(first["loc"]) > 1:
        table, key = "[policy] of ", str(first["loc"][1])
    if first["type"] == "extra_forbidden":
        fields = (Policy if table else NodeConfig).model_fields
        other, place = (NodeConfig, "above [policy]") if table else (Policy, "below [policy]")
        if key in map(_kebab, other.model_fields):
            return f"{table}the node config has no key '{key}': it belongs {place}"
        return f"{table}the node config has no key '{key}': {nearest(key, map(_kebab, fields))}"
    shown = f"{message[0].lower()}{message[1:]}"
    return f"{key} is {first['input']!r} in {table}the node config: {shown}"
