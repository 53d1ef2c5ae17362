"""Institutions that do not match, and updates that cannot be averaged."""

from dataclasses import replace

import numpy as np
import pytest

from fedgt_server.admission import profile_mismatch, update_error
from shared.wire import Arrays, Profile, Update

AGREED = Profile("1.0", ["age", "income", "debt"], ["good", "bad"], {"head": [3, 2], "bias": [2]})
EXPECTED = {"head": [3, 2], "bias": [2]}


def update(**changed: np.ndarray) -> Update:
    arrays: Arrays = {"head": np.zeros((3, 2), np.float32), "bias": np.zeros(2, np.float32)}
    return Update("here", arrays | changed, {})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(AGREED, version="2.0"), "has FedGT 2.0 installed, the coordinator 1.0"),
        (
            replace(AGREED, features=["age", "income"]),
            "has other feature columns than alba: 2 instead of 3, without 'debt'",
        ),
        (
            replace(AGREED, features=["age", "income", "debt", "zip"]),
            "has other feature columns than alba: 4 instead of 3, with 'zip'",
        ),
        (
            replace(AGREED, features=["age", "debt", "income"]),
            "has other feature columns than alba: number 2 is 'debt', not 'income'",
        ),
        (
            replace(AGREED, classes=["bad", "good"]),
            "has other classes than alba: number 1 is 'bad', not 'good'",
        ),
        (
            replace(AGREED, classes=["good", "bad", "ugly"]),
            "has other classes than alba: 3 instead of 2, with 'ugly'",
        ),
        (
            replace(AGREED, parameters={"head": [3, 4], "bias": [2]}),
            "has another model than alba: head has shape [3, 4], not [3, 2]",
        ),
        (
            replace(AGREED, parameters={"head": [3, 2], "scale": [2]}),
            "has another model than alba: without 'bias' and with 'scale'",
        ),
    ],
)
def test_each_mismatch_is_named(other: Profile, message: str) -> None:
    assert profile_mismatch(AGREED, other, "alba") == message


def test_many_mismatches_are_cut_short() -> None:
    other = replace(AGREED, features=[f"f{i}" for i in range(9)])
    assert str(profile_mismatch(AGREED, other, "alba")).endswith("with 'f0', 'f1', 'f2' and 6 more")


def test_the_same_profile_is_no_mismatch() -> None:
    assert profile_mismatch(AGREED, replace(AGREED, features=list(AGREED.features)), "alba") is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (update(extra=np.zeros(1, np.float32)), "it comes with 'extra'"),
        (update(head=np.zeros((2, 3), np.float32)), "head has shape [2, 3], expected [3, 2]"),
        (update(head=np.zeros(6, np.float32)), "head has shape [6], expected [3, 2]"),
        (update(bias=np.zeros(2)), "bias is of type float64, expected float32"),
        (update(bias=np.zeros(2, np.int32)), "bias is of type int32, expected float32"),
        (
            update(bias=np.array([0, np.nan], np.float32)),
            "bias holds values that are not finite",
        ),
        (
            update(bias=np.array([0, -np.inf], np.float32)),
            "bias holds values that are not finite",
        ),
        (Update("here", {"head": np.zeros((3, 2), np.float32)}, {}), "it comes without 'bias'"),
        (Update("here", {}, {}), "it comes without 'bias', 'head'"),
    ],
)
def test_each_error_is_named(given: Update, message: str) -> None:
    assert update_error(given, EXPECTED) == message


def test_a_good_update_has_no_error() -> None:
    assert update_error(update(), EXPECTED) is None
    assert update_error(Update("here", {}, {}), {}) is None
