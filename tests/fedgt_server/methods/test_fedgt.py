"""FedGT at the coordinator, Algorithm 3."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from deploy.settings import resolve_settings
from fedgt_server.aggregation import softmax_weights
from fedgt_server.checkpoint import Checkpoint, CheckpointFacts, Checkpoints
from fedgt_server.methods.fedgt import FedGT
from fedgt_server.transport import centred
from shared.config import RunConfig, Scalar
from shared.wire import COMMON, GLOBAL_NODES, LABEL_DISTRIBUTION, Arrays, Profile, Update
from tests.fedgt_server.plans import transport

# Not in the order of their names, as a model's parameters are not.
INITIAL: Arrays = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.array([10.0, 20.0], np.float32),
}
NAMES = ("a", "b", "c", "d")
COMMON_WEIGHT = f"{COMMON}weight"
SETS, COUNT, WIDTH = 3, 5, 8


def settings(**changed: Scalar) -> RunConfig:
    """Return settings that compare institutions as the paper does."""
    values: dict[str, Scalar] = {
        "ldp": "off",
        "robust": False,
        "hidden": WIDTH,
        "heads": 2,
        "global-nodes": COUNT,
        "tau": 5.0,
        "compare-updates": False,
    }
    return resolve_settings(values | {k.replace("_", "-"): v for k, v in changed.items()})


def begun(**changed: Scalar) -> FedGT:
    method = FedGT(settings(**changed))
    method.begin(INITIAL)
    return method


def update(name: str, seed: int, **changed: np.ndarray) -> Update:
    rng = np.random.default_rng(seed)
    arrays: Arrays = {
        # As they came over the wire: in any order.
        "bias": rng.standard_normal(2).astype(np.float32),
        "weight": rng.standard_normal((2, 3)).astype(np.float32),
        GLOBAL_NODES: rng.standard_normal((SETS, COUNT, WIDTH)).astype(np.float32),
    }
    return Update(name, arrays | changed, {})


def round_of(*names: str, offset: int = 0) -> dict[str, Update]:
    return {name: update(name, offset + NAMES.index(name)) for name in names}


def play(method: FedGT, updates: Mapping[str, Update]) -> dict[str, Arrays]:
    """Return what a round's institutions are sent after it."""
    for name in updates:
        method.message(name)
    method.aggregate(updates)
    return {name: method.message(name) for name in updates}


def shuffled(updates: Mapping[str, Update], seed: int) -> dict[str, Update]:
    """Every set of every client in an order of its own."""
    rng = np.random.default_rng(seed)
    return {
        name: Update(
            name,
            given.arrays
            | {
                GLOBAL_NODES: np.stack(
                    [s[rng.permutation(COUNT)] for s in given.arrays[GLOBAL_NODES]]
                )
            },
            {},
        )
        for name, given in updates.items()
    }


def test_updates_must_hold_what_clients_are_compared_by() -> None:
    profile = Profile("1", [], ["x", "y", "z"], {"weight": [2, 3], "bias": [2]})
    assert FedGT(settings()).expected(profile) == {
        "weight": [2, 3],
        "bias": [2],
        GLOBAL_NODES: [2, COUNT, WIDTH],
    }
    one_set = FedGT(settings(global_node_sets="input", layers=4)).expected(profile)
    assert one_set[GLOBAL_NODES] == [1, COUNT, WIDTH]
    by_label = FedGT(settings(similarity="label", global_nodes=0)).expected(profile)
    assert by_label == {"weight": [2, 3], "bias": [2], LABEL_DISTRIBUTION: [3]}
    assert profile.parameters == {"weight": [2, 3], "bias": [2]}


def test_all_start_from_the_same_point() -> None:
    method = begun()
    for name in ("a", "b"):
        message = method.message(name)
        assert message["weight"].tolist() == INITIAL["weight"].tolist()
        assert message["bias"].tolist() == INITIAL["bias"].tolist()
        assert GLOBAL_NODES not in message


def test_model_is_what_was_sent_plus_the_change() -> None:
    """Trap 12: with one client, θ̂ of the next round is θ̂ + Δθ, round after round."""
    method = begun()
    expected = {name: array.copy() for name, array in INITIAL.items()}
    for number in range(3):
        change = update("a", number)
        sent = play(method, {"a": change})["a"]
        for name in expected:
            expected[name] += change.arrays[name]
            assert sent[name] == pytest.approx(expected[name], rel=1e-6)


def test_three_clients_by_hand() -> None:
    """Label shares (1, 0), (0, 1) and (0.6, 0.8): cosines 0, 0.6 and 0.8; τ = 1."""
    method = begun(similarity="label", global_nodes=0, tau=1.0)
    shares = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.6, 0.8]}
    changes = {"a": 1.0, "b": 2.0, "c": 4.0}
    updates = {
        name: Update(
            name,
            {
                "weight": np.full((2, 3), changes[name], np.float32),
                "bias": np.zeros(2, np.float32),
                LABEL_DISTRIBUTION: np.array(shares[name], np.float32),
            },
            {},
        )
        for name in shares
    }
    sent = play(method, updates)
    total = math.e + 1 + math.exp(0.6)
    change = (math.e * 1 + 1 * 2 + math.exp(0.6) * 4) / total
    assert change == pytest.approx(2.167128, rel=1e-6)
    assert sent["a"]["weight"] == pytest.approx(INITIAL["weight"] + change, rel=1e-6)
    assert sent["a"]["bias"] == pytest.approx(INITIAL["bias"])
    total = math.e + math.exp(0.6) + math.exp(0.8)
    change = (math.exp(0.6) * 1 + math.exp(0.8) * 2 + math.e * 4) / total
    assert sent["c"]["weight"] == pytest.approx(INITIAL["weight"] + change, rel=1e-6)


@pytest.mark.parametrize("similarity", ["hungarian", "sinkhorn"])
def test_order_of_global_nodes_changes_no_model(similarity: str) -> None:
    updates = round_of(*NAMES)
    straight, other = begun(similarity=similarity), begun(similarity=similarity)
    expected = play(straight, updates)
    found = play(other, shuffled(updates, 7))
    for name in NAMES:
        assert found[name]["weight"] == pytest.approx(expected[name]["weight"], abs=1e-5)
        assert found[name]["bias"] == pytest.approx(expected[name]["bias"], abs=1e-5)
    facts, others = straight.aggregate(updates).facts, other.aggregate(shuffled(updates, 7)).facts
    assert np.array(others["similarity"]) == pytest.approx(np.array(facts["similarity"]))


def test_order_of_global_nodes_orders_what_is_sent_back() -> None:
    """μ̂ comes in the receiver's own order, whatever the order of the others."""
    updates = round_of(*NAMES)
    expected = play(begun(), updates)
    others = shuffled(updates, 3) | {"a": updates["a"]}
    found = play(begun(), others)
    assert found["a"][GLOBAL_NODES] == pytest.approx(expected["a"][GLOBAL_NODES], abs=1e-5)
    order = np.array([2, 0, 1, 4, 3])
    mine = updates["a"].arrays | {GLOBAL_NODES: updates["a"].arrays[GLOBAL_NODES][:, order]}
    found = play(begun(), updates | {"a": Update("a", mine, {})})
    assert found["a"][GLOBAL_NODES] == pytest.approx(
        expected["a"][GLOBAL_NODES][:, order], abs=1e-5
    )


def test_without_alignment_the_order_matters() -> None:
    updates = round_of(*NAMES)
    expected = play(begun(similarity="none"), updates)
    found = play(begun(similarity="none"), shuffled(updates, 7))
    assert np.abs(found["a"]["weight"] - expected["a"]["weight"]).max() > 1e-3


def test_renaming_clients_renames_results() -> None:
    updates = round_of(*NAMES)
    renamed = dict(zip(NAMES, reversed(NAMES), strict=True))
    expected = play(begun(), updates)
    found = play(begun(), {renamed[name]: given for name, given in updates.items()})
    for name in NAMES:
        for key in expected[name]:
            assert found[renamed[name]][key] == pytest.approx(expected[name][key], abs=1e-5)


def test_identical_clients_get_identical_models() -> None:
    updates = round_of("a", "b", "c")
    updates["b"] = Update("b", updates["a"].arrays, {})
    sent = play(begun(), updates)
    for key in sent["a"]:
        assert sent["a"][key] == pytest.approx(sent["b"][key], abs=1e-6)
    assert np.abs(sent["a"]["weight"] - sent["c"]["weight"]).max() > 1e-3


def test_tau_of_zero_and_mean_are_the_plain_mean() -> None:
    updates = round_of(*NAMES)
    mean = INITIAL["weight"] + np.mean([u.arrays["weight"] for u in updates.values()], axis=0)
    for method in (begun(tau=0.0), begun(aggregation="mean")):
        sent = play(method, updates)
        for name in NAMES:
            assert sent[name]["weight"] == pytest.approx(mean, abs=1e-5)


def test_large_tau_leaves_everyone_with_its_own() -> None:
    """S_ii = 1 is the largest of a row, so the nearest client is the client itself."""
    updates = round_of(*NAMES)
    sent = play(begun(tau=1e6), updates)
    for name in NAMES:
        own = INITIAL["weight"] + updates[name].arrays["weight"]
        assert sent[name]["weight"] == pytest.approx(own, abs=1e-5)
        nodes = updates[name].arrays[GLOBAL_NODES]
        assert sent[name][GLOBAL_NODES] == pytest.approx(nodes[:-1], abs=1e-5)


@pytest.mark.parametrize("centre", [True, False])
def test_the_last_set_is_the_fingerprint(centre: bool) -> None:
    method, updates = begun(centre_fingerprints=centre), round_of(*NAMES)
    for name in NAMES:
        method.message(name)
    facts = method.aggregate(updates).facts
    last = np.stack([updates[n].arrays[GLOBAL_NODES][-1] for n in NAMES]).astype(np.float64)
    expected, _ = transport(centred(last) if centre else last, "hungarian")
    assert facts["order"] == list(NAMES)
    assert np.array(facts["similarity"]) == pytest.approx(expected, abs=1e-4)
    weights = softmax_weights(expected, 5.0)
    assert np.array(facts["weights"]) == pytest.approx(weights, abs=1e-4)
    assert facts["self_weight"] == pytest.approx(np.diag(weights).mean())
    off = expected[~np.eye(4, dtype=bool)]
    assert facts["similarity_spread"] == pytest.approx(off.std())


def test_every_attended_set_is_averaged_and_the_fingerprint_is_not() -> None:
    updates = round_of(*NAMES)
    assert play(begun(), updates)["a"][GLOBAL_NODES].shape == (SETS - 1, COUNT, WIDTH)
    one_set = {
        name: Update(name, u.arrays | {GLOBAL_NODES: u.arrays[GLOBAL_NODES][:1]}, {})
        for name, u in updates.items()
    }
    sent = play(begun(global_node_sets="input"), one_set)
    assert sent["a"][GLOBAL_NODES].shape == (1, COUNT, WIDTH)


def test_update_similarity_is_the_cosine_of_changes() -> None:
    method = begun(similarity="update")
    updates = round_of("a", "b", "c")
    still = {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
    updates["c"] = Update("c", updates["c"].arrays | still, {})
    for name in updates:
        method.message(name)
    similarity = np.array(method.aggregate(updates).facts["similarity"])
    a, b = (
        np.concatenate([updates[n].arrays["bias"], updates[n].arrays["weight"].ravel()])
        for n in "ab"
    )
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert similarity[0, 1] == pytest.approx(cosine, abs=1e-4)
    # One that learned nothing is unlike the others, and still nearest to itself.
    assert similarity[2].tolist() == [0.0, 0.0, 1.0]
    assert GLOBAL_NODES in method.message("a")


def test_missing_client_is_not_averaged_into_others_but_gets_its_own() -> None:
    method, first = begun(), round_of("a", "b", "c")
    sent = play(method, first)
    own = {k: INITIAL[k] + first["c"].arrays[k] for k in ("weight", "bias")}
    second = round_of("a", "b", offset=50)
    for name in second:
        method.message(name)
    method.aggregate(second)

    # What two clients who never met the third would be sent, from the same θ̂.
    theirs = {
        name: {k: sent[name][k] + second[name].arrays[k] for k in ("weight", "bias")}
        for name in second
    }
    names = ["a", "b", "c"]
    nodes = [(second if n in second else first)[n].arrays[GLOBAL_NODES][-1] for n in names]
    similarity, _ = transport(centred(np.stack(nodes).astype(np.float64)), "hungarian")
    weights = softmax_weights(similarity[:2, :2], 5.0)
    for row, name in enumerate(("a", "b")):
        expected = weights[row, 0] * theirs["a"]["weight"] + weights[row, 1] * theirs["b"]["weight"]
        assert method.message(name)["weight"] == pytest.approx(expected, abs=1e-5)
    weights = softmax_weights(similarity, 5.0)[2]
    models = [theirs["a"]["bias"], theirs["b"]["bias"], own["bias"]]
    expected = sum(w * m for w, m in zip(weights, models, strict=True))
    assert method.message("c")["bias"] == pytest.approx(expected, abs=1e-5)


def test_newcomer_gets_the_plain_mean() -> None:
    method, updates = begun(), round_of("a", "b")
    play(method, updates)
    message = method.message("newcomer")
    mean = INITIAL["weight"] + (updates["a"].arrays["weight"] + updates["b"].arrays["weight"]) / 2
    assert message["weight"] == pytest.approx(mean, abs=1e-6)
    assert GLOBAL_NODES not in message
    # Its update counts from there.
    change = update("newcomer", 9)
    method.aggregate(round_of("a", "b", offset=20) | {"newcomer": change})
    known = method.state_dict()["model/newcomer"]
    assert known[:2] == pytest.approx(message["bias"] + change.arrays["bias"], abs=1e-6)


def test_restored_through_a_checkpoint_it_goes_on_exactly(tmp_path: Path) -> None:
    """The file has an order of its own; parameters must not change places."""
    straight, interrupted = begun(), begun()
    for method in (straight, interrupted):
        play(method, round_of("b", "a", "c"))
    checkpoints = Checkpoints(tmp_path)
    facts = CheckpointFacts(config={}, best=None, profile=None)
    checkpoints.save(Checkpoint(1, facts, interrupted.state_dict()))
    saved = checkpoints.newest()
    assert saved is not None
    resumed = FedGT(settings())
    resumed.load_state_dict(saved.arrays)
    for name in ("a", "b", "c", "newcomer"):
        assert_same(resumed.message(name), straight.message(name))
    for method in (straight, resumed):
        method.aggregate(round_of("a", "c", offset=30))
    for name in ("a", "b", "c", "late"):
        assert_same(resumed.message(name), straight.message(name))
    assert_same(resumed.state_dict(), straight.state_dict())


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()


def test_models_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    """Without memory for models, every bit is the same, also from a checkpoint."""
    in_memory = begun(similarity="update")
    on_disk = begun(similarity="update", models_memory_mb=0, results_dir=str(tmp_path / "runs"))
    rounds = [round_of(*NAMES), round_of("a", "d", offset=10), round_of("b", offset=20)]
    for updates in rounds[:2]:
        for method in (in_memory, on_disk):
            play(method, updates)
    assert not list((tmp_path / "runs").iterdir())  # the scratch files have no name
    assert_same(on_disk.state_dict(), in_memory.state_dict())
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    facts = CheckpointFacts(config={}, best=None, profile=None)
    checkpoints.save(Checkpoint(2, facts, on_disk.state_dict()))
    saved = checkpoints.newest()
    assert saved is not None
    resumed = FedGT(settings(similarity="update", models_memory_mb=0, results_dir=str(tmp_path)))
    resumed.load_state_dict(saved.arrays)
    for method in (in_memory, on_disk, resumed):
        play(method, rounds[2])
    for method in (on_disk, resumed):
        assert_same(method.state_dict(), in_memory.state_dict())
        for name in (*NAMES, "newcomer"):
            assert_same(method.message(name), in_memory.message(name))


@pytest.mark.parametrize("similarity", ["hungarian", "update"])
def test_blocks_of_columns_do_not_change_the_averages(
    similarity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = round_of(*NAMES)
    expected = play(begun(similarity=similarity), updates)
    monkeypatch.setattr("fedgt_server.methods.personalised._BLOCK", 4 * len(NAMES) * 3)
    found = play(begun(similarity=similarity), updates)
    for name in NAMES:
        for key in expected[name]:
            assert found[name][key] == pytest.approx(expected[name][key], abs=1e-6)


def test_updates_that_are_received_one_by_one() -> None:
    """A second answer counts from the same θ̂; what was sent stays as it is until the end."""
    updates = round_of(*NAMES)
    at_once, one_by_one = begun(compare_updates=True), begun(compare_updates=True)
    expected = play(at_once, updates)
    one_by_one.receive("a", update("a", 99))
    kept = {name: one_by_one.receive(name, given) for name, given in updates.items()}
    assert [given.arrays for given in kept.values()] == [{}] * len(NAMES)
    assert one_by_one.message("a")["bias"].tolist() == INITIAL["bias"].tolist()
    assert one_by_one.message("z")["bias"].tolist() == INITIAL["bias"].tolist()
    one_by_one.aggregate(kept)
    for name in NAMES:
        assert_same(one_by_one.message(name), expected[name])


def test_what_is_sent_does_not_change_afterwards() -> None:
    method = begun()
    sent = play(method, round_of(*NAMES))["a"]["weight"]
    before = sent.copy()
    play(method, round_of(*NAMES, offset=10))
    assert sent.tolist() == before.tolist()


def test_of_many_institutions_only_the_strongest_weights_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    updates, tau = round_of(*NAMES), 5.0
    similarity = np.array(begun().aggregate(updates).facts["similarity"])
    monkeypatch.setattr("fedgt_server.methods.personalised._FEW", 3)
    monkeypatch.setattr("fedgt_server.methods.personalised._STRONGEST", 2)
    facts = begun(tau=tau).aggregate(updates).facts
    assert not facts.keys() & {"similarity", "weights"}
    weights = softmax_weights(similarity, tau)
    others = sorted(range(1, 4), key=lambda other: -weights[0, other])[:2]
    assert list(facts["strongest"]["a"]) == [NAMES[other] for other in others]
    assert list(facts["strongest"]["a"].values()) == pytest.approx(
        [weights[0, other] for other in others], abs=1e-3
    )
    assert facts["similarity_spread"] > 0.0


def test_dead_spread_warns() -> None:
    alike = {name: update(name, 0) for name in NAMES}
    for method, warns in ((begun(), True), (begun(aggregation="mean"), False)):
        for name in alike:
            method.message(name)
        # All start alike: only a spread that does not grow is dead.
        assert method.aggregate(alike).warnings == []
        warnings = method.aggregate(alike).warnings
        assert any("look alike" in warning for warning in warnings) is warns
    method = begun()
    for name in NAMES:
        method.message(name)
    assert method.aggregate(round_of(*NAMES)).warnings == []


# --- compared by updates too ----------------------------------------------------------------------


def opposed(name: str, seed: int) -> Update:
    """Return an update of one of two groups that have the same data and want opposite things."""
    sign = 1.0 if name in ("a", "c") else -1.0
    given = update(name, seed)
    noise = {key: 0.3 * given.arrays[key] for key in INITIAL}
    wanted = {key: (sign + noise[key]).astype(np.float32) for key in INITIAL}
    return Update(name, given.arrays | wanted | {GLOBAL_NODES: SAME}, {})


SAME = np.random.default_rng(7).standard_normal((SETS, COUNT, WIDTH)).astype(np.float32)


def test_groups_with_the_same_data_that_disagree_are_told_apart() -> None:
    groups = np.array([[name in ("a", "c") for name in NAMES]])
    alike = groups == groups.T
    for compared, apart in ((False, False), (True, True)):
        method = begun(compare_updates=compared)
        for number in range(3):
            updates = {n: opposed(n, 10 * number + i) for i, n in enumerate(NAMES)}
            facts = method.aggregate(updates).facts
        weights = np.array(facts["weights"])
        assert (weights[~alike].max() < 0.01) == apart
        assert weights[alike] == pytest.approx(0.5 if apart else 0.25, abs=0.01)


@pytest.mark.parametrize("common", [False, True])
def test_groups_are_told_by_gradients_at_the_same_weights_where_there_are_any(common: bool) -> None:
    """Updates and gradients disagree here, a and c against the rest, and a and b."""
    method = FedGT(settings(compare_updates=True))
    method.begin(INITIAL | ({COMMON_WEIGHT: np.zeros(64, np.float32)} if common else {}))
    rng = np.random.default_rng(0)
    updates = {n: opposed(n, i) for i, n in enumerate(NAMES)}
    for name, given in updates.items() if common else ():
        wanted = (1.0 if name in ("a", "b") else -1.0) + 0.3 * rng.standard_normal(64)
        given.arrays[COMMON_WEIGHT] = wanted.astype(np.float32)
    facts = method.aggregate(updates).facts  # those of this round count in it
    together = [name in (("a", "b") if common else ("a", "c")) for name in NAMES]
    alike = np.equal.outer(together, together)
    similarity = np.array(facts["similarity"])
    assert similarity[alike].min() > similarity[~alike].max() + 0.5


def test_what_updates_so_far_were_survives_a_checkpoint() -> None:
    method, again = (begun(compare_updates=True) for _ in range(2))
    play(method, round_of(*NAMES))
    again.load_state_dict({name: np.array(array) for name, array in method.state_dict().items()})
    sent = [play(one, round_of(*NAMES, offset=20)) for one in (method, again)]
    for name in NAMES:
        assert_same(sent[1][name], sent[0][name])


def test_who_turns_against_its_own_common_gradients_is_named_after_a_checkpoint_too() -> None:
    def common(sign: int) -> dict[str, Update]:
        gradient = np.array([1.0, 2.0], np.float32)
        return {
            n: update(n, 0, **{COMMON_WEIGHT: (sign if n == "c" else 1) * gradient}) for n in NAMES
        }

    method, again = (FedGT(settings(robust=True)) for _ in range(2))
    method.begin(INITIAL | {COMMON_WEIGHT: np.zeros(2, np.float32)})
    for _ in range(3):
        assert not any("gradient" in line for line in method.aggregate(common(1)).warnings)
    again.load_state_dict({name: np.array(array) for name, array in method.state_dict().items()})
    for one in (method, again):
        named = [line for line in one.aggregate(common(-1)).warnings if "gradient" in line]
        assert len(named) == 1
        assert named[0].startswith("c: ")
    assert again.message("a")[COMMON_WEIGHT].tolist() == method.message("a")[COMMON_WEIGHT].tolist()


def test_a_single_institution_is_like_itself() -> None:
    method = begun(compare_updates=True)
    sent = play(method, round_of("a"))["a"]["bias"]
    expected = INITIAL["bias"] + update("a", 0).arrays["bias"]
    assert sent.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("refused", [False, True])
def test_a_state_holds_averages_or_the_weights_that_make_them(refused: bool) -> None:
    method = begun()
    method.aggregate(round_of("a", "b"))
    if refused:  # and nobody else answers: what is sent stays, the model does not
        method.receive("a", update("a", 7))
        method.refuse("a")
    state = {name: np.array(array) for name, array in method.state_dict().items()}
    assert ("mixing/" in state) != refused
    assert ("sent/a" in state) == refused
    other = begun()
    other.load_state_dict(state)
    for name in ("a", "b", "new"):
        expected = method.message(name)
        for key, array in other.message(name).items():
            np.testing.assert_array_equal(array, expected[key])
