"""Messages between the coordinator and an institution, as Flower records.

A message holds at most three records: ``arrays`` (Δθ or θ̂, global nodes), ``facts`` (round,
names, what an institution says of itself) and ``metrics`` (numbers). None of them holds node
features, labels, ids or links; but from the arrays of method fedsage others can work out features.

All arrays of a message are one Flower array: Flower sends each array as an object of its own, and
dozens of small ones take longer than their bytes alone. Flower does not look into its bytes.
They are float32 here; those of a round may travel in another precision, see ``shared.precision``.
"""

import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from shared.errors import FedGTError
from shared.files import Array
from shared.json_text import parse_json
from shared.metrics import checked_metrics
from shared.packing import Shapes, pack, unpack
from shared.precision import SCALES, Precision, decode, encode, encoded_sizes
from shared.profile import Profile as Profile
from shared.profile import parse_profile
from shared.text import plain_line, text_problem

Arrays = dict[str, Array]
Fact = str | int | bool
T = TypeVar("T", str, int, bool)

# What declarations and journals call the model's parameters, all together.
WEIGHTS = "weights"
# Arrays with a meaning of their own; every other name is a parameter of the model.
GLOBAL_NODES = "global_nodes"  # shape: (sets, n_g, d)
LABEL_DISTRIBUTION = "label_distribution"  # shape: (classes,); only for similarity 'label'

FUNCTIONAL_EMBEDDING = "functional_embedding"  # shape: (d,); only for method fedpub
# Only for method fedsage, shape: (rows, features); unlike all others they can disclose features of
# nodes. Up: what is generated here, and gradients of what others have generated; down: the reverse.
GENERATED_FEATURES = "generated_features"
GENERATED_GRADIENTS = "generated_gradients"
# All of these: few values, and with no next update to send their rounding errors with. Where
# parameters take 8 bits, they take 16.
_NOT_PARAMETERS = (
    GLOBAL_NODES,
    LABEL_DISTRIBUTION,
    FUNCTIONAL_EMBEDDING,
    GENERATED_FEATURES,
    GENERATED_GRADIENTS,
)
# Start of the names of arrays of the model that all institutions share; only for fedgt. Updates
# hold its gradients.
COMMON = "common."
COMMON_GRADIENTS = "common_gradients"  # what declarations and journals call them, all together
# Metrics with a meaning of their own.
NUM_EXAMPLES = "num_examples"  # training nodes, where a method weighs institutions by them
EPSILON = "epsilon_total"  # spent so far, by the institution's own account
# 1 where an institution has trained, but keeps its arrays: its privacy budget is spent.
UPLOAD_WITHHELD = "upload_withheld"
# 1 where an institution did not take over what it was sent: Δθ counts from its own last model.
KEPT_OWN = "kept_own"
METRICS_STEP = "metrics_step"  # to which an institution rounds its accuracies; absent: it does not
GRADIENT_NORM = "gradient_norm"  # of the round's last step; only for method gcfl
OWN_WEIGHT = "own_weight"  # of an institution's own model in its predictions; only for fedgt


def selection_metric(select_by: str) -> str:
    """Return the name of the metric that chooses the best round, such as ``val_macro_f1``."""
    return f"val_{select_by.replace('-', '_')}"


def smaller_is_better(select_by: str) -> bool:
    """Return whether the best round is that of the smallest value."""
    return select_by in ("log-loss", "calibration-error")


def new_run_token() -> str:
    """Return what tells a run from others of its name."""
    return secrets.token_hex(4)


_RUN_TOKEN = re.compile(r"[0-9a-f]{8}")
_NO_TOKEN = "-"  # Flower cannot count the bytes of an empty text
_ARRAYS, _FACTS, _METRICS = "arrays", "facts", "metrics"
_PACKED, _LAYOUT = "packed", "safetensors"

LONGEST_INSTITUTION = 128  # characters of a name
LONGEST_LINE = 500  # characters of a warning or a notice
MOST_WARNINGS = 32
_LONGEST_WARNINGS = 12 * MOST_WARNINGS * LONGEST_LINE  # as JSON: an emoji has 12 characters
_MOST_FACTS = 16
_LAST_ROUND = 10**7


@dataclass(frozen=True)
class Introduction:
    """An institution's answer to a ``Question``."""

    institution: str
    profile: Profile
    initial: Arrays = field(default_factory=dict)  # the starting point, where it was asked for

    def to_records(self) -> RecordDict:
        """Return the content of a message."""
        facts = {"institution": self.institution, "profile": json.dumps(asdict(self.profile))}
        return _records(_packed(self.initial), facts)

    @classmethod
    def from_records(cls, content: RecordDict, *, want_initial: bool = True) -> "Introduction":
        """Parse the content of a message; a starting point that is not wanted is not read."""
        facts = _facts(content)
        institution = _line(facts, "institution", LONGEST_INSTITUTION)
        reserved = (SCALES, *_NOT_PARAMETERS)
        profile = parse_profile(_fact(facts, "profile", str), reserved)
        initial: Arrays = {}
        if want_initial:
            initial = decode(_encoded(content, profile.parameters), profile.parameters)
        return cls(institution, profile, initial)


@dataclass(frozen=True)
class Question:
    """The coordinator's request to a node to introduce itself."""

    want_initial: bool = False
    run_token: str = ""  # as of ``Instruction``
    notice: str = ""  # what the node's owner should know, such as why it was refused

    def to_records(self) -> RecordDict:
        """Return the content of a message."""
        facts: dict[str, Fact] = {
            "want-initial": self.want_initial,
            "run-token": self.run_token or _NO_TOKEN,
        }
        return _records(b"", facts, self.notice)

    @classmethod
    def from_records(cls, content: RecordDict) -> "Question":
        """Parse the content of a message."""
        facts = _facts(content)
        return cls(_fact(facts, "want-initial", bool), _run_token(facts), _notice(facts))


@dataclass(frozen=True)
class Instruction:
    """What an institution is asked to do in a round."""

    round_number: int
    arrays: Arrays  # θ̂_i and μ̂_i
    best_round: int = 0  # the round whose model the institution should keep; 0: none yet
    finish: bool = False  # the run is over: train no more
    run_token: str = ""  # tells the run from others of its name; empty: it began without one
    last_round: int = 0  # the institution's last that was accepted; 0: none
    notice: str = ""  # what the institution should know, such as why its update was left out

    def to_records(self, precision: Precision = "float32") -> RecordDict:
        """Return the content of a message."""
        facts: dict[str, Fact] = {
            "round": self.round_number,
            "best-round": self.best_round,
            "finish": self.finish,
            "run-token": self.run_token or _NO_TOKEN,
            "last-round": self.last_round,
        }
        return _records(_packed(encode_message(self.arrays, precision)), facts, self.notice)

    @classmethod
    def from_records(cls, content: RecordDict) -> "Instruction":
        """Parse the content of a message."""
        facts = _facts(content)
        number = _number(facts, "round", 1, _LAST_ROUND)
        return cls(
            number,
            decode(_encoded(content)),
            _number(facts, "best-round", 0, number),
            _fact(facts, "finish", bool),
            _run_token(facts),
            _number(facts, "last-round", 0, number),
            _notice(facts),
        )


@dataclass(frozen=True)
class Update:
    """An institution's answer to an ``Instruction``."""

    institution: str
    arrays: Arrays  # parameter changes, and whatever else the method uploads
    metrics: dict[str, float]  # a metric that does not apply (no test nodes) is absent
    warnings: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of each array as it came

    def to_records(
        self, precision: Precision = "float32", packed: bytes | None = None
    ) -> RecordDict:
        """Return the content of a message; ``packed`` are the arrays as they travel, if known."""
        shown = [plain_line(warning, LONGEST_LINE) for warning in self.warnings[:MOST_WARNINGS]]
        # As JSON: Flower cannot count the bytes of an empty list.
        facts = {"institution": self.institution, "warnings": json.dumps(shown)}
        if packed is None:
            packed = _packed(encode_message(self.arrays, precision))
        records = _records(packed, facts)
        finite = {name: value for name, value in self.metrics.items() if math.isfinite(value)}
        records[_METRICS] = MetricRecord(dict(finite))
        return records

    @classmethod
    def from_records(cls, content: RecordDict, shapes: Shapes | None = None) -> "Update":
        """Parse the content of a message.

        Where the ``shapes`` of all arrays are given, a message that is larger than they can be is
        not read; see ``decode`` for arrays of other shapes.
        """
        facts = _facts(content)
        institution = _line(facts, "institution", LONGEST_INSTITUTION)
        metrics = content.metric_records.get(_METRICS)
        if metrics is None:
            raise FedGTError("a reply holds no metrics")
        measured = checked_metrics(metrics)
        warnings = _warnings(facts)
        encoded = _encoded(content, shapes)
        return cls(institution, decode(encoded, shapes), measured, warnings, encoded_sizes(encoded))


def encode_message(arrays: Arrays, precision: Precision) -> Arrays:
    """Return the arrays of a round as they travel: with int8, only parameters take 8 bits."""
    return encode(arrays, precision, keep_half=_NOT_PARAMETERS)


def read_arrays(content: RecordDict) -> tuple[Arrays, dict[str, int]]:
    """Return the arrays of any message, and the bytes that each takes in it."""
    encoded = _encoded(content)
    return decode(encoded), encoded_sizes(encoded)


def packed_arrays(content: RecordDict) -> bytes:
    """Return the arrays of any message as they travel, all together."""
    record = content.array_records.get(_ARRAYS)
    return record[_PACKED].data if record and _PACKED in record else b""


def count_bytes(content: RecordDict) -> int:
    """Return the size of a message's records."""
    return sum(
        record.count_bytes()
        for kind in (content.array_records, content.metric_records, content.config_records)
        for record in kind.values()
    )


def _packed(arrays: Arrays) -> bytes:
    return pack(arrays) if arrays else b""


def _records(data: bytes, facts: Mapping[str, Fact], notice: str = "") -> RecordDict:
    record = ArrayRecord()
    if shown := plain_line(notice, LONGEST_LINE):  # Flower cannot count the bytes of no text
        facts = {**facts, "notice": shown}
    if data:
        record[_PACKED] = FlowerArray("uint8", (len(data),), _LAYOUT, data)
    return RecordDict({_ARRAYS: record, _FACTS: ConfigRecord(dict(facts))})


def _facts(content: RecordDict) -> ConfigRecord:
    facts = content.config_records.get(_FACTS, ConfigRecord())
    if len(facts) > _MOST_FACTS:
        raise FedGTError(f"a message says {len(facts)} things, at most {_MOST_FACTS} are read")
    return facts


def _run_token(facts: ConfigRecord) -> str:
    """Return the token of a run, which becomes a part of the names of folders."""
    token = _fact(facts, "run-token", str)
    if token == _NO_TOKEN:
        return ""
    if not _RUN_TOKEN.fullmatch(token):
        raise FedGTError(f"a message's run-token is {token[:40]!r}: expected 8 hexadecimal digits")
    return token


def _fact(facts: ConfigRecord, name: str, kind: type[T]) -> T:
    value = facts.get(name)
    if value is None:
        raise FedGTError(
            f"a message does not say its '{name}': is the other side another version of FedGT?"
        )
    if type(value) is not kind:
        raise FedGTError(
            f"a message's '{name}' is of type {type(value).__name__}, expected {kind.__name__}"
        )
    return value


def _line(facts: ConfigRecord, name: str, longest: int) -> str:
    text = _fact(facts, name, str)
    if problem := text_problem(text, longest):
        raise FedGTError(f"a message's '{name}' {problem}")
    return text


def _number(facts: ConfigRecord, name: str, low: int, high: int) -> int:
    value = _fact(facts, name, int)
    if not low <= value <= high:
        raise FedGTError(f"a message's '{name}' is not within {low} to {high}")
    return value


def _notice(facts: ConfigRecord) -> str:
    return _line(facts, "notice", LONGEST_LINE) if "notice" in facts else ""


def _warnings(facts: ConfigRecord) -> list[str]:
    text = _fact(facts, "warnings", str)
    warnings = parse_json(text, "a message's 'warnings'", longest=_LONGEST_WARNINGS)
    if not isinstance(warnings, list) or not all(isinstance(line, str) for line in warnings):
        raise FedGTError("a message's 'warnings' is not a list of lines")
    if len(warnings) > MOST_WARNINGS:
        raise FedGTError(f"a message holds {len(warnings)} warnings, at most {MOST_WARNINGS}")
    for line in warnings:
        if problem := text_problem(line, LONGEST_LINE):
            raise FedGTError(f"one of a message's 'warnings' {problem}")
    return warnings


def _encoded(content: RecordDict, shapes: Shapes | None = None) -> Arrays:
    record = content.array_records.get(_ARRAYS)
    if not record:
        return {}
    if list(record) != [_PACKED] or record[_PACKED].stype != _LAYOUT:
        raise FedGTError(
            "a message's arrays cannot be read: is the other side another version of FedGT?"
        )
    return unpack(record[_PACKED].data, shapes)
