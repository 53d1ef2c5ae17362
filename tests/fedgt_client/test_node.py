"""What an institution is called, and where it keeps its state."""

from pathlib import Path

import pytest

from fedgt_client.node import institution_name, state_root
from shared.errors import FedGTError


def test_nameless_node() -> None:
    with pytest.raises(FedGTError, match='add institution="…" to its --node-config'):
        institution_name({})
    with pytest.raises(FedGTError, match="does not say whose it is"):
        institution_name({"institution": ""})


def test_names() -> None:
    assert institution_name({"institution": "alba", "partition-id": 3}) == "alba"
    assert institution_name({"partition-id": 3}) == "institution-03"
    assert institution_name({"partition-id": 0, "num-partitions": 5}) == "institution-00"
    assert institution_name({"partition-id": 123}) == "institution-123"


def test_the_node_knows_best_where_its_state_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_STATE", "of-the-user")
    assert state_root({"state-dir": "own"}, "of-the-run") == Path("own")
    assert state_root({}, "of-the-run") == Path("of-the-run")
    assert state_root({}) == Path("of-the-user")
