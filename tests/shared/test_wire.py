"""Messages, through Flower's own records."""

import json
import math
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictProto

from shared.errors import FedGTError
from shared.precision import SCALES, Precision, decode, encoded_sizes
from shared.wire import (
    FUNCTIONAL_EMBEDDING,
    GENERATED_FEATURES,
    GENERATED_GRADIENTS,
    GLOBAL_NODES,
    LABEL_DISTRIBUTION,
    Arrays,
    Instruction,
    Introduction,
    Profile,
    Question,
    Update,
    count_bytes,
    encode_message,
)

PROFILE = Profile("1.0", ["age", "größe"], ["good", "bad"], {"head": [2, 3], "scale": []})
ARRAYS: Arrays = {
    "head": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float32),
    "scalar": np.array(2.5, np.float32),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


def delivered(content: RecordDict) -> RecordDict:
    """Return content as it comes out of Flower's transport: to bytes and back."""
    data = recorddict_to_proto(content).SerializeToString()
    return recorddict_from_proto(RecordDictProto.FromString(data))


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()


@pytest.mark.parametrize("kind", [Question, Introduction, Instruction, Update])
def test_empty_message_is_refused(kind: Any) -> None:
    with pytest.raises(FedGTError, match="another version of FedGT"):
        kind.from_records(RecordDict())


@pytest.mark.parametrize(
    ("kind", "content", "lost"),
    [
        (Question, Question().to_records(), "want-initial"),
        (Question, Question().to_records(), "run-token"),
        (Instruction, Instruction(1, {}).to_records(), "run-token"),
        (Instruction, Instruction(1, {}).to_records(), "last-round"),
        (Introduction, Introduction("a", PROFILE).to_records(), "institution"),
        (Introduction, Introduction("a", PROFILE).to_records(), "profile"),
        (Instruction, Instruction(1, {}).to_records(), "round"),
        (Instruction, Instruction(1, {}).to_records(), "best-round"),
        (Update, Update("a", {}, {}).to_records(), "institution"),
        (Update, Update("a", {}, {}).to_records(), "warnings"),
    ],
)
def test_missing_fact_is_named(kind: Any, content: RecordDict, lost: str) -> None:
    del content.config_records["facts"][lost]
    with pytest.raises(FedGTError, match=f"'{lost}'"):
        kind.from_records(content)


@pytest.mark.parametrize("profile", ["{", "[]", "3", '{"version": "1.0"}'])
def test_broken_profile_is_refused(profile: str) -> None:
    content = RecordDict({"facts": ConfigRecord({"institution": "a", "profile": profile})})
    with pytest.raises(FedGTError, match="profile"):
        Introduction.from_records(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 1),
        ("features", 3),
        ("features", "age"),
        ("features", ["age", None]),
        ("classes", {"good": 1}),
        ("parameters", ["head"]),
        ("parameters", {"head": 2}),
        ("parameters", {"head": ["2"]}),
    ],
)
def test_profile_with_a_field_of_the_wrong_type_is_refused(field: str, value: object) -> None:
    profile = json.dumps(vars(PROFILE) | {field: value})
    content = RecordDict({"facts": ConfigRecord({"institution": "a", "profile": profile})})
    with pytest.raises(FedGTError, match=f"a profile cannot be read: {field}"):
        Introduction.from_records(content)


@pytest.mark.parametrize("warnings", ["3", "{", '"late"', "null"])
def test_warnings_of_another_kind_are_refused(warnings: str) -> None:
    content = Update("a", {}, {}).to_records()
    content.config_records["facts"]["warnings"] = warnings
    with pytest.raises(FedGTError, match="'warnings'"):
        Update.from_records(content)


def test_profile_of_a_later_version_is_refused() -> None:
    profile = json.dumps(vars(PROFILE) | {"colour": "blue"})
    content = RecordDict({"facts": ConfigRecord({"institution": "a", "profile": profile})})
    with pytest.raises(FedGTError, match="other fields"):
        Introduction.from_records(content)


def test_update_without_metrics_is_refused() -> None:
    content = Update("a", {}, {}).to_records()
    del content["metrics"]
    with pytest.raises(FedGTError, match="metrics"):
        Update.from_records(content)


def test_arrays_of_another_kind_are_refused() -> None:
    content = Update("a", {}, {}).to_records()
    for name, array in (
        ("packed", Array("uint8", (8,), "safetensors", b"no array")),
        ("packed", Array("uint8", (0,), "safetensors", b"")),
        ("packed", Array("uint8", (2,), "other", b"")),
        ("packed", Array(np.zeros(20, np.uint8))),
        ("head", Array(np.zeros(2, np.float32))),
    ):
        content["arrays"] = ArrayRecord({name: array})
        with pytest.raises(FedGTError, match="cannot be read"):
            Update.from_records(content)


def test_all_arrays_are_one_object() -> None:
    content = Instruction(1, ARRAYS).to_records()
    assert len(content.array_records["arrays"]) == 1
    assert len(Instruction(1, {}).to_records().array_records["arrays"]) == 0


def test_question_comes_back() -> None:
    for question in (Question(), Question(want_initial=True), Question(run_token="0123abcd")):
        assert Question.from_records(delivered(question.to_records())) == question


def test_introduction_comes_back() -> None:
    for initial in ({}, ARRAYS):
        sent = Introduction("Bank of Cork", PROFILE, initial)
        found = Introduction.from_records(delivered(sent.to_records()))
        assert (found.institution, found.profile) == ("Bank of Cork", PROFILE)
        assert_same(found.initial, initial)


def test_instruction_comes_back() -> None:
    for sent in (Instruction(7, ARRAYS), Instruction(8, {}, 7, True, "0123abcd", 6)):
        found = Instruction.from_records(delivered(sent.to_records()))
        assert found.round_number == sent.round_number
        assert (found.best_round, found.finish) == (sent.best_round, sent.finish)
        assert_same(found.arrays, sent.arrays)


def test_update_comes_back() -> None:
    sent = Update("a", ARRAYS, {"val_accuracy": 0.25, "steps": 3.0}, ["no links", "größer"])
    found = Update.from_records(delivered(sent.to_records()))
    assert (found.institution, found.metrics) == ("a", {"val_accuracy": 0.25, "steps": 3.0})
    assert found.warnings == ["no links", "größer"]
    assert_same(found.arrays, ARRAYS)


def test_a_measure_that_does_not_apply_is_absent() -> None:
    sent = Update("a", {}, {"val_accuracy": math.nan, "loss": math.inf, "test_accuracy": 0.0})
    records = sent.to_records()
    assert dict(records.metric_records["metrics"]) == {"test_accuracy": 0.0}
    # Nor is one accepted from a sender.
    records["metrics"] = MetricRecord({"val_accuracy": math.nan, "test_accuracy": 0.5})
    with pytest.raises(FedGTError, match="metric val_accuracy is nan, expected 0 to 1"):
        Update.from_records(records)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_a_round_comes_back_in_any_precision(precision: Precision) -> None:
    arrays = ARRAYS | {GLOBAL_NODES: np.full((1, 2, 3), 0.3, np.float32)}
    expected = decode(encode_message(arrays, precision))
    instruction = Instruction(7, arrays).to_records(precision)
    assert_same(Instruction.from_records(delivered(instruction)).arrays, expected)
    update = Update("a", arrays, {}).to_records(precision)
    shapes = {name: array.shape for name, array in arrays.items()}
    found = Update.from_records(delivered(update), shapes)
    assert_same(found.arrays, expected)
    assert found.sizes == encoded_sizes(encode_message(arrays, precision))
    # Of another shape they are not expanded.
    others = {name: (*array.shape, 1) for name, array in arrays.items()}
    unexpected = Update.from_records(delivered(update), others).arrays
    assert_same(unexpected, {name: encode_message(arrays, precision)[name] for name in arrays})


def test_only_parameters_take_8_bits() -> None:
    special = (
        GLOBAL_NODES,
        LABEL_DISTRIBUTION,
        FUNCTIONAL_EMBEDDING,
        GENERATED_FEATURES,
        GENERATED_GRADIENTS,
    )
    arrays = {name: np.ones(3, np.float32) for name in (*special, "head")}
    kinds = {name: array.dtype.name for name, array in encode_message(arrays, "int8").items()}
    assert kinds == dict.fromkeys(special, "float16") | {"head": "int8", SCALES: "float32"}


def test_a_parameter_with_the_name_of_the_scales_is_refused() -> None:
    profile = Profile("1.0", ["age"], ["good", "bad"], {SCALES: [2]})
    with pytest.raises(FedGTError, match=f"'{SCALES}'"):
        Introduction.from_records(Introduction("a", profile).to_records())


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_counted_bytes_are_those_that_travel(precision: Precision) -> None:
    arrays: Arrays = {f"layer.{i}": np.ones((50, 300), np.float32) for i in range(20)}
    for records in (
        Instruction(3, arrays, best_round=2).to_records(precision),
        Update("a", arrays, {"val_accuracy": 0.25}, ["no links"]).to_records(precision),
    ):
        travelled = len(recorddict_to_proto(records).SerializeToString())
        assert count_bytes(records) == pytest.approx(travelled, abs=300)


def test_bytes_are_counted() -> None:
    small, large = (
        count_bytes(Instruction(1, {"head": np.zeros(size, np.float32)}).to_records())
        for size in (3000, 9000)
    )
    assert large - small == 24000
    assert count_bytes(Update("a", {}, {}, []).to_records()) > 0


@pytest.mark.parametrize("token", ["", "0123abc", "0123ABCD", "../0123a", "0123abcd\n"])
def test_a_token_that_cannot_be_part_of_a_folders_name(token: str) -> None:
    content = Question(run_token="0123abcd").to_records()
    content.config_records["facts"]["run-token"] = token
    with pytest.raises(FedGTError, match=r"run-token is .*: expected 8 hexadecimal digits"):
        Question.from_records(content)
