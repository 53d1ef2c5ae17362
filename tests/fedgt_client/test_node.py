"""What a node says of itself: wrong keys and values first."""

from pathlib import Path
from typing import Any

import pytest

from fedgt_client.node import NodeConfig
from shared.config import Scalar
from shared.errors import FedGTError

OWN: dict[str, Scalar] = {"institution": "alba", "data-dir": "data"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, 'the node config has no institution: add institution="…"'),
        ({"institution": "", "data-dir": "data"}, "the node config has no institution"),
        ({"institution": "alba"}, r"has no data-dir: add data-dir=.*fedgt data import"),
        ({"institution": "alba", "num-partitions": 2}, "has no data-dir"),
        ({"partition-id": 0}, "has no data-dir"),
        ({"partition-id": 2, "num-partitions": 2}, "partition-id is 2: it should be below"),
        ({"partition-id": -1, "num-partitions": 2}, "partition-id is -1 .*greater than or equal"),
        ({"partition-id": "x", "num-partitions": 2}, "partition-id is 'x' .*valid integer"),
        ({"partition-id": 0, "num-partitions": 0}, "num-partitions is 0 .*greater than or equal"),
        ({**OWN, "worker": "perhaps"}, "worker is 'perhaps' in the node config: .*valid boolean"),
        ({**OWN, "state-dir": 5}, "state-dir is 5 in the node config: .*valid string"),
        ({**OWN, "app-user": 5}, "app-user is 5 in the node config: .*valid string"),
        ({**OWN, "approved": "all"}, "approved is 'all' in the node config: .*valid tuple"),
        ({**OWN, "approved": ["sha256:12"]}, "'sha256:12' should be sha256: and 64 digits"),
        ({**OWN, "approved": ["1" * 64]}, "should be sha256: and 64 digits"),
        ({**OWN, "data_dri": "x"}, "no key 'data_dri': did you mean 'data-dir'?"),
        ({**OWN, "sate-dir": "x"}, "no key 'sate-dir': did you mean 'state-dir'?"),
        ({**OWN, "xyzzy": 1}, "no key 'xyzzy': there are: institution, data-dir, state-dir"),
    ],
)
def test_a_node_config_that_is_wrong(values: dict[str, Any], message: str) -> None:
    with pytest.raises(FedGTError, match=message) as caught:
        NodeConfig.parse(values)
    assert "\n" not in str(caught.value)


def test_names() -> None:
    share: dict[str, Scalar] = {"partition-id": 3, "num-partitions": 200}
    assert NodeConfig.parse({**share, "institution": "alba"}).name == "alba"
    assert NodeConfig.parse(share).name == "institution-03"
    assert NodeConfig.parse({**share, "partition-id": 0}).name == "institution-00"
    assert NodeConfig.parse({**share, "partition-id": 123}).name == "institution-123"


def test_the_node_decides_where_its_state_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_STATE", "of-the-user")
    assert NodeConfig.parse({**OWN, "state-dir": "own"}).state_root("of-the-run") == Path("own")
    assert NodeConfig.parse(OWN).state_root("of-the-run") == Path("of-the-run")
    assert NodeConfig.parse(OWN).state_root() == Path("of-the-user")


def test_who_uses_a_worker() -> None:
    assert NodeConfig.parse(OWN).uses_worker
    assert not NodeConfig.parse({**OWN, "worker": False}).uses_worker
    assert not NodeConfig.parse({**OWN, "partition-id": 0}).uses_worker


@pytest.mark.parametrize(
    "values",
    [
        OWN,
        {**OWN, "state-dir": "state", "worker": False, "keep-state": False},
        {"partition-id": 0, "num-partitions": 3},
    ],
)
def test_written_as_it_was_read(values: dict[str, Scalar]) -> None:
    assert NodeConfig.parse(values).to_flower() == values
