"""What a node says of itself: wrong keys and values first."""

from pathlib import Path
from typing import Any

import pytest

from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from shared.config import RunConfig, Scalar
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
        ({**OWN, "max-epsilon": 3}, r"no key 'max-epsilon': it belongs below \[policy\]"),
        ({**OWN, "policy": {"threads": 3}}, r"no key 'threads': it belongs above \[policy\]"),
        ({**OWN, "device": "gpu"}, "device is 'gpu' .*: expected auto, cpu, cuda or cuda:N"),
        ({**OWN, "threads": True}, "threads is True .*: expected a number"),
        ({**OWN, "memory": 100}, "no key 'memory': did you mean 'memory-budget-mb'?"),
        ({**OWN, "sate-dir": "x"}, "no key 'sate-dir': did you mean 'state-dir'?"),
        ({**OWN, "threads": -1}, "threads is -1 in the node config: .*greater than or equal"),
        ({**OWN, "policy": "x"}, "policy is 'x' in the node config"),
        ({**OWN, "policy": 3}, "policy is 3 in the node config"),
        (
            {**OWN, "policy": {"max-hiden": 3}},
            r"\[policy\] of the node config has no key 'max-hiden': did you mean 'max-hidden'?",
        ),
        (
            {**OWN, "policy": '{"rounds": 3}'},
            r"\[policy\] of the node config has no key 'rounds': did you mean 'max-rounds'?",
        ),
        (
            {**OWN, "policy": {"ldp": "some"}},
            r"ldp is 'some' in \[policy\] of the node config: .*'global-nodes'",
        ),
        (
            {**OWN, "policy": {"max-epsilon": 0}},
            r"max-epsilon is 0 in \[policy\] of the node config: .*greater than 0",
        ),
        ({**OWN, "policy": {"methods": [""]}}, "a name in the list is empty"),
        ({**OWN, "policy": {"max-epsilon": float("nan")}}, "finite number"),
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
        {**OWN, "state-dir": "state", "worker": False},
        {**OWN, "keep-state": False, "rehearsal": True},
        {"partition-id": 0, "num-partitions": 3},
    ],
)
def test_written_as_it_was_read(values: dict[str, Scalar]) -> None:
    assert NodeConfig.parse(values).to_flower() == values


def test_settings_of_the_machine_are_the_institutions() -> None:
    stolen: dict[str, Scalar] = {
        "state-dir": "/etc",
        "device": "cuda:7",
        "mixed-precision": True,
        "threads": 64,
        "memory-budget-mb": 1,
        "worker-idle": 1e9,
    }
    config = RunConfig.build(stolen)
    own = {**OWN, "threads": 2, "device": "cpu", "state-dir": "mine"}
    found = NodeConfig.parse(own).with_local_settings(config)
    assert (found.threads, found.device, found.state_dir) == (2, "cpu", "mine")
    # What it does not say is as the defaults have it, not as the coordinator has it.
    unsaid = NodeConfig.parse(OWN).with_local_settings(config)
    assert unsaid == RunConfig.build()
    for simulated in ({"partition-id": 0, "num-partitions": 2}, {**OWN, "rehearsal": True}):
        assert NodeConfig.parse(simulated).with_local_settings(config) == config


def test_the_policy_travels_through_flower() -> None:
    policy = {"ldp": "all", "federations": ["banks"], "noise-seed": True}
    node = NodeConfig.parse({**OWN, "policy": policy})
    passed = node.to_flower()
    assert all(isinstance(value, str | int | float | bool) for value in passed.values())
    assert NodeConfig.parse(passed) == node
    # Nothing said, and an empty table, are the defaults; a simulation has none.
    assert (
        NodeConfig.parse(OWN).limits == NodeConfig.parse({**OWN, "policy": {}}).limits == Policy()
    )
    assert NodeConfig.parse({"partition-id": 0, "num-partitions": 2}).limits is None
    own = NodeConfig.parse({"partition-id": 0, "num-partitions": 2, "policy": {"ldp": "all"}})
    assert own.limits == Policy(ldp="all")
