"""What an institution refuses, with the line that says so; its data stays closed."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.app import Message, MessageType

from deploy.engines.in_process_grid import InProcessGrid
from deploy.settings import resolve_settings
from fedgt_client.app import app, clients
from fedgt_client.methods import METHODS, method_class
from fedgt_client.policy import CAPPED, Policy
from fedgt_server.methods import METHODS as SERVER_METHODS
from shared.config import RunConfig, Scalar
from shared.errors import RefusedError
from shared.wire import Instruction, Question

# Settings that a coordinator asked for and got, before there was a policy; what it is told now.
STOLEN: dict[str, tuple[dict[str, Scalar], str]] = {
    "no noise": (
        {"ldp": "off"},
        "ldp = off, allowed: global-nodes, all ([policy] ldp)",
    ),
    "hardly any noise": (
        {"ldp-noise": 0.01},
        "ldp-noise = 0.01 with ldp-clip 1, ε 200, allowed: ε at most 4 ([policy] max-epsilon)",
    ),
    "a known noise seed": (
        {"ldp-noise-seed": 7},
        "ldp-noise-seed = 7, allowed: -1, nobody's ([policy] noise-seed)",
    ),
    "a known seed of the noise on gradients": (
        {"method": "fedavg", "label-privacy": "dp-sgd", "ldp-noise-seed": 7},
        "ldp-noise-seed = 7, allowed: -1, nobody's ([policy] noise-seed)",
    ),
    "ever other draws of exchanged labels": (
        {"method": "fedavg", "label-privacy": "randomised-response", "ldp-noise-seed": 7},
        "ldp-noise-seed = 7, allowed: -1, nobody's ([policy] noise-seed)",
    ),
    "class shares": (
        {"similarity": "label"},
        "similarity = label, which uploads label_distribution, allowed: weights, global_nodes, "
        "common_gradients, functional_embedding ([policy] arrays)",
    ),
    "features": (
        {"method": "fedsage"},
        "method = fedsage, allowed: fedgt, local, gcn, fedavg, fedper, gcfl, fedpub, gophormer, "
        "graphgps ([policy] methods)",
    ),
    "a huge model": (
        {"hidden": 65536},
        "hidden = 65536, allowed: at most 1024 ([policy] max-hidden)",
    ),
    "endless training": (
        {"local-epochs": 100000},
        "local-epochs = 100000, allowed: at most 20 ([policy] max-local-epochs)",
    ),
    "endless rounds": (
        {"rounds": 1_000_000},
        "rounds = 1e+06, allowed: at most 1000 ([policy] max-rounds)",
    ),
    "endless preparation": (
        {"ppr-tolerance": 1e-15},
        "ppr-tolerance = 1e-15, allowed: at least 1e-07 ([policy] min-ppr-tolerance)",
    ),
}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    clients.clear()
    yield
    clients.clear()


def problems(policy: Policy, **values: Scalar) -> list[str]:
    config = resolve_settings({key.replace("_", "-"): value for key, value in values.items()})
    return [str(one) for one in policy.problems(config, SERVER_METHODS[config.method].uploads)]


@pytest.mark.parametrize("name", STOLEN)
def test_settings_that_a_coordinator_stole_with(
    name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The reply and the institution's log say it; the data, which is not even there, stays shut."""
    values, line = STOLEN[name]
    node: dict[str, Scalar] = {
        "institution": "alba",
        "data-dir": str(tmp_path / "nowhere"),
        "worker": False,
    }
    grid = InProcessGrid(app, [dict(node)], resolve_settings(values).to_flower())
    for kind, content in (
        (MessageType.QUERY, Question(want_initial=True).to_records()),
        (MessageType.TRAIN, Instruction(1, {}).to_records()),
    ):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            (reply,) = grid.send_and_receive([Message(content, 1, kind)])
        assert reply.error.reason == f"alba refuses the run: {line}"
        assert f"alba refuses the run: {line}" in caplog.messages
    # Nothing is kept of it but what it was answered.
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["outbound.jsonl"]


def test_noise_of_a_millionth_is_no_setting_at_all(tmp_path: Path) -> None:
    settings = resolve_settings().to_flower() | {"ldp-noise": 1e-6}
    node: dict[str, Scalar] = {"institution": "alba", "data-dir": "nowhere", "worker": False}
    grid = InProcessGrid(app, [dict(node)], settings)
    content = Question(want_initial=True).to_records()
    (reply,) = grid.send_and_receive([Message(content, 1, MessageType.QUERY)])
    assert str(reply.error.reason).startswith(
        "ldp-noise is 1e-06, less than a thousandth of ldp-clip"
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_of_every_method_but_fedsage_are_allowed(method: str) -> None:
    assert bool(problems(Policy(), method=method)) == (method == "fedsage")


def test_the_preset_of_the_paper_is_allowed() -> None:
    config = resolve_settings(preset="paper")
    assert not Policy().problems(config, SERVER_METHODS["fedgt"].uploads)


@pytest.mark.parametrize("method", METHODS)
def test_both_halves_of_a_method_declare_the_same(method: str) -> None:
    assert method_class(method).uploads == SERVER_METHODS[method].uploads


def test_every_problem_is_told_at_once() -> None:
    found = problems(Policy(), ldp="off", similarity="label", hidden=2048, layers=99)
    assert [line.split(" ")[0] for line in found] == ["similarity", "ldp", "hidden", "layers"]


def test_every_cap() -> None:
    usual = RunConfig.build()
    for name in CAPPED:
        setting, most = name.replace("_", "-"), int(getattr(usual, name))
        at_most = Policy.model_validate({f"max-{setting}": most}, by_alias=True)
        assert not problems(at_most)
        larger: dict[str, Scalar] = {setting: most + (4 if name == "hidden" else 1)}
        (line,) = problems(at_most, **larger)
        assert line.endswith(f"allowed: at most {most} ([policy] max-{setting})")


def test_privacy_is_of_what_is_sent() -> None:
    strict = Policy(ldp="all")
    assert problems(strict) == ["ldp = global-nodes, allowed: all ([policy] ldp)"]
    assert not problems(strict, ldp="all")
    # Without global nodes there are none to protect; alone, nothing leaves.
    plain: dict[str, Scalar] = {
        "global_nodes": 0,
        "similarity": "update",
        "common_model": "off",
        "ldp": "off",
    }
    assert not problems(Policy(), **plain)
    # The gradients of a common model are protected like global nodes.
    assert problems(Policy(), **{**plain, "common_model": "chosen"}) == [
        "ldp = off, allowed: global-nodes, all ([policy] ldp)"
    ]
    assert problems(strict, **plain)
    assert not problems(strict, method="local", ldp="off")
    assert problems(strict, method="fedavg")
    # The budget of a coordinate: the ratio counts, and no rounding of it refuses the limit itself.
    assert not problems(Policy(max_epsilon=0.6), ldp_clip=0.3, ldp_noise=1.0)
    assert problems(Policy(max_epsilon=0.6), ldp_clip=0.31, ldp_noise=1.0)
    # With a norm it is the budget of the whole upload, of Gaussian noise by its own theorem.
    assert not problems(Policy(max_epsilon=0.6), ldp_norm="l1", ldp_clip=0.3, ldp_noise=1.0)
    assert problems(Policy(max_epsilon=2.0), ldp_norm="l2", ldp_clip=0.3, ldp_noise=1.0)
    assert not problems(Policy(max_epsilon=3.0), ldp_norm="l2", ldp_clip=0.3, ldp_noise=1.0)


def test_arrays_and_federations() -> None:
    weights = Policy(arrays=("weights",))
    none: dict[str, Scalar] = {"global_nodes": 0, "aggregation": "mean"}
    assert not problems(weights, **none, common_model="off")
    assert problems(weights, **none) == [
        "common-model = chosen, which uploads common_gradients, allowed: weights ([policy] arrays)"
    ]
    assert problems(weights, common_model="off")
    assert problems(Policy(arrays=()), method="fedavg") == [
        "method = fedavg, which uploads weights, allowed: no arrays ([policy] arrays)"
    ]
    banks = Policy(federations=("banks", "more"))
    assert not problems(banks, federation="more")
    assert problems(banks, federation="other") == [
        "federation = other, allowed: banks, more ([policy] federations)"
    ]
    assert problems(Policy(methods=())) == ["method = fedgt, allowed: none ([policy] methods)"]


def test_coordinators() -> None:
    assert Policy().coordinator_problem("anyone:1") is None
    policy = Policy(coordinators=("coordinator.example.org:9092",))
    assert policy.coordinator_problem("coordinator.example.org:9092") is None
    assert policy.coordinator_problem("other:9092") == (
        "coordinator = other:9092, allowed: coordinator.example.org:9092 ([policy] coordinators)"
    )


def test_the_size_of_the_model() -> None:
    policy = Policy(max_parameters=10)
    policy.check_size("alba", {"weight": [2, 4], "bias": [2]})
    with pytest.raises(RefusedError, match=r"weights = 12, allowed: at most 10 .*max-parameters"):
        policy.check_size("alba", {"weight": [2, 5], "bias": [2]})


def test_a_round_beyond_the_last() -> None:
    policy = Policy(max_rounds=10)
    policy.check_round("alba", 10)
    with pytest.raises(RefusedError, match=r"round = 11, allowed: at most 10 .*max-rounds"):
        policy.check_round("alba", 11)


def test_label_privacy() -> None:
    policy = Policy(max_label_epsilon=4.0)
    private: dict[str, Scalar] = {"label_privacy": "randomised-response"}
    assert problems(policy)
    assert not problems(policy, label_epsilon=4.0, **private)
    assert problems(policy, label_epsilon=4.1, **private)
    assert not problems(policy, method="local")  # nothing is sent


def test_a_refusal_is_read_from_a_reply() -> None:
    refusal = RefusedError("alba", "hidden = 9")
    parsed = RefusedError.parse(str(refusal))
    assert parsed is not None
    assert (parsed.institution, parsed.reason) == ("alba", "hidden = 9")
    assert RefusedError.parse("no memory") is None
