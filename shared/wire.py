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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pydantic import TypeAdapter, ValidationError

from shared.errors import FedGTError
from shared.files import Array
from shared.packing import pack, unpack
from shared.precision import SCALES, Precision, decode, encode, encoded_sizes

Arrays = dict[str, Array]
Fact = str | int | bool

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
# Metrics with a meaning of their own.
NUM_EXAMPLES = "num_examples"  # training nodes, where a method weighs institutions by them
GRADIENT_NORM = "gradient_norm"  # of the round's last step; only for method gcfl


def selection_metric(select_by: str) -> str:
    """Return the name of the metric that chooses the best round, such as ``val_macro_f1``."""
    return f"val_{select_by.replace('-', '_')}"


_ARRAYS, _FACTS, _METRICS = "arrays", "facts", "metrics"
_PACKED, _LAYOUT = "packed", "safetensors"


@dataclass(frozen=True)
class Profile:
    """What institutions must agree on before their models can be averaged."""

    version: str  # of FedGT
    features: list[str]
    classes: list[str]
    parameters: dict[str, list[int]]  # shape of every parameter of the model


_PROFILE = TypeAdapter(Profile)


@dataclass(frozen=True)
class Introduction:
    """An institution's answer to a ``Question``."""

    institution: str
    profile: Profile
    initial: Arrays = field(default_factory=dict)  # the starting point, where it was asked for

    def to_records(self) -> RecordDict:
        """Return the content of a message."""
        facts = {"institution": self.institution, "profile": json.dumps(asdict(self.profile))}
        return _records(self.initial, facts)

    @classmethod
    def from_records(cls, content: RecordDict) -> "Introduction":
        """Parse the content of a message."""
        facts = _facts(content, "institution", "profile")
        profile = _parse_json(facts, "profile")
        if not isinstance(profile, dict) or profile.keys() != Profile.__annotations__.keys():
            raise FedGTError("a profile has other fields: is that another version of FedGT?")
        try:
            checked = _PROFILE.validate_json(str(facts["profile"]), strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise FedGTError(f"a profile cannot be read: {where} {problem['msg']}") from None
        if SCALES in checked.parameters:
            raise FedGTError(f"a profile has a parameter '{SCALES}': that name is taken")
        initial = decode(_encoded(content), checked.parameters)
        return cls(str(facts["institution"]), checked, initial)


@dataclass(frozen=True)
class Question:
    """The coordinator's request to a node to introduce itself."""

    want_initial: bool = False

    def to_records(self) -> RecordDict:
        """Return the content of a message."""
        return _records({}, {"want-initial": self.want_initial})

    @classmethod
    def from_records(cls, content: RecordDict) -> "Question":
        """Parse the content of a message."""
        return cls(bool(_facts(content, "want-initial")["want-initial"]))


@dataclass(frozen=True)
class Instruction:
    """What an institution is asked to do in a round."""

    round_number: int
    arrays: Arrays  # θ̂_i and μ̂_i
    best_round: int = 0  # the round whose model the institution should keep; 0: none yet
    finish: bool = False  # the run is over: train no more

    def to_records(self, precision: Precision = "float32") -> RecordDict:
        """Return the content of a message."""
        return _records(
            encode_message(self.arrays, precision),
            {"round": self.round_number, "best-round": self.best_round, "finish": self.finish},
        )

    @classmethod
    def from_records(cls, content: RecordDict) -> "Instruction":
        """Parse the content of a message."""
        facts = _facts(content, "round", "best-round", "finish")
        return cls(
            int(str(facts["round"])),
            decode(_encoded(content)),
            int(str(facts["best-round"])),
            bool(facts["finish"]),
        )


@dataclass(frozen=True)
class Update:
    """An institution's answer to an ``Instruction``."""

    institution: str
    arrays: Arrays  # parameter changes, and whatever else the method uploads
    metrics: dict[str, float]  # a metric that does not apply (no test nodes) is absent
    warnings: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of each array as it came

    def to_records(self, precision: Precision = "float32") -> RecordDict:
        """Return the content of a message."""
        # As JSON: Flower cannot count the bytes of an empty list.
        facts = {"institution": self.institution, "warnings": json.dumps(self.warnings)}
        records = _records(encode_message(self.arrays, precision), facts)
        finite = {name: value for name, value in self.metrics.items() if math.isfinite(value)}
        records[_METRICS] = MetricRecord(dict(finite))
        return records

    @classmethod
    def from_records(
        cls, content: RecordDict, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> "Update":
        """Parse the content of a message; see ``decode`` for ``shapes``."""
        facts = _facts(content, "institution", "warnings")
        metrics = content.metric_records.get(_METRICS)
        if metrics is None:
            raise FedGTError("a reply holds no metrics")
        warnings = _parse_json(facts, "warnings")
        if not isinstance(warnings, list):
            raise FedGTError("a message's 'warnings' is not a list")
        encoded = _encoded(content)
        numbers = {name: value for name, value in metrics.items() if not isinstance(value, list)}
        return cls(
            str(facts["institution"]),
            decode(encoded, shapes),
            {name: float(value) for name, value in numbers.items() if math.isfinite(value)},
            [str(warning) for warning in warnings],
            encoded_sizes(encoded),
        )


def encode_message(arrays: Arrays, precision: Precision) -> Arrays:
    """Return the arrays of a round as they travel: with int8, only parameters take 8 bits."""
    return encode(arrays, precision, keep_half=_NOT_PARAMETERS)


def count_bytes(content: RecordDict) -> int:
    """Return the size of a message's records."""
    return sum(
        record.count_bytes()
        for kind in (content.array_records, content.metric_records, content.config_records)
        for record in kind.values()
    )


def _records(arrays: Arrays, facts: Mapping[str, Fact]) -> RecordDict:
    record = ArrayRecord()
    if arrays:
        data = pack(arrays)
        record[_PACKED] = FlowerArray("uint8", (len(data),), _LAYOUT, data)
    return RecordDict({_ARRAYS: record, _FACTS: ConfigRecord(dict(facts))})


def _facts(content: RecordDict, *names: str) -> ConfigRecord:
    facts = content.config_records.get(_FACTS, ConfigRecord())
    if missing := [name for name in names if name not in facts]:
        raise FedGTError(
            f"a message does not say its '{missing[0]}': "
            "is the other side another version of FedGT?"
        )
    return facts


def _parse_json(facts: ConfigRecord, name: str) -> object:
    try:
        return json.loads(str(facts[name]))
    except ValueError:
        raise FedGTError(f"a message's '{name}' is not valid JSON") from None


def _encoded(content: RecordDict) -> Arrays:
    record = content.array_records.get(_ARRAYS)
    if not record:
        return {}
    if list(record) != [_PACKED] or record[_PACKED].stype != _LAYOUT:
        raise FedGTError(
            "a message's arrays cannot be read: is the other side another version of FedGT?"
        )
    return unpack(record[_PACKED].data)
