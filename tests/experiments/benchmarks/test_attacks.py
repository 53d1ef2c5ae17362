"""The table of attacks: what attackers send, and records that are not played again."""

import json
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.attacks.catalogue import ADAPTIVE, ATTACKS, CRUDE, PATIENT, SLEEPERS
from experiments.attacks.hostile import Seen
from experiments.benchmarks.attack_tables import attack_tables
from experiments.benchmarks.attacks import ALONE, NOBODY, Case, bench, cases
from experiments.benchmarks.cli import app
from fedgt_server.methods.fedgt import _PROBATION
from fedgt_server.robust import SHORTENED, length
from shared.wire import COMMON, GLOBAL_NODES, Arrays, Instruction, Update


def update(value: float, nodes: float = 1.0) -> Update:
    arrays = {
        "weight": np.full(4, value, np.float32),
        GLOBAL_NODES: np.full((1, 2, 3), nodes, np.float32),
    }
    return Update("any", arrays, {"val_accuracy": 0.5})


SEEN = Seen({1: update(1.0, nodes=7.0), 2: update(3.0)})


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_keeps_to_the_shapes(name: str) -> None:
    honest = update(2.0)
    for number in (1, 5, 12):
        sent = ATTACKS[name](honest, Instruction(number, {}), SEEN, 6)
        assert {key: array.shape for key, array in sent.arrays.items()} == {
            "weight": (4,),
            GLOBAL_NODES: (1, 2, 3),
        }
        assert all(array.dtype == np.float32 for array in sent.arrays.values())


def test_a_common_gradient_turns_by_degrees_at_its_length() -> None:
    attack, gradient = ATTACKS["sign-flip by degrees, from round 16"], np.full(4, 2.0, np.float32)
    name = f"{COMMON}weight"
    honest = Update("any", {"weight": gradient, name: gradient}, {})
    cosines = []
    for number in range(15, 31):
        sent = attack(honest, Instruction(number, {}), SEEN, 6).arrays
        assert sent["weight"].tolist() == ([2.0] * 4 if number == 15 else [-2.0] * 4)
        cosines.append(float(sent[name] @ gradient) / 16.0)
    assert cosines[:1] == [1.0]
    assert all(before - after < 0.8 for before, after in pairwise(cosines))
    assert cosines[10:] == pytest.approx([-1.0] * 6)


def test_what_attackers_send() -> None:
    def sent(name: str, number: int = 12) -> Update:
        return ATTACKS[name](update(2.0), Instruction(number, {}), SEEN, 6)

    assert sent("sign-flip").arrays["weight"].tolist() == [-2.0] * 4
    limit = SHORTENED * 4.0  # the median of lengths 2 and 6
    assert length(sent("sign-flip under the limit").arrays, ["weight"]) == pytest.approx(
        0.99 * limit
    )
    assert sent("mean turned round, together").arrays["weight"].tolist() == [-2.0] * 4
    assert sent("sign-flip from round 10", 9).arrays["weight"].tolist() == [2.0] * 4
    assert sent("sign-flip from round 10", 10).arrays["weight"].tolist() == [-2.0] * 4
    assert sent("victim's nodes, ×−100").arrays[GLOBAL_NODES].max() == 7.0
    assert sent("num_examples 1e30, sign-flip").metrics["num_examples"] == 1e30
    assert sent("sign-flip from round 16", 15).arrays["weight"].tolist() == [2.0] * 4
    assert sent("sign-flip from round 16", 16).arrays["weight"].tolist() == [-2.0] * 4
    assert sent("under the limit up to round 3", 4).arrays["weight"].tolist() == [2.0] * 4
    assert sent("under the limit up to round 3", 3).arrays["weight"].max() < 0
    assert sent("sign-flip in every other round", 3).arrays["weight"].tolist() == [-2.0] * 4
    assert sent("sign-flip in every other round", 4).arrays["weight"].tolist() == [2.0] * 4
    assert sent("half the mean turned round").arrays["weight"].tolist() == [-1.0] * 4
    assert sent("says it kept its own").metrics["kept_own"] == 1.0
    noise = sent("global nodes of noise, 2.9×").arrays
    median = update(1.0, nodes=4.0).arrays  # of 1 and 7
    assert length(noise, [GLOBAL_NODES]) == pytest.approx(2.9 * length(median, [GLOBAL_NODES]))
    assert sent("3e38 once, in round 5", 4).arrays["weight"].tolist() == [2.0] * 4


def test_gradients_of_a_common_model_are_attacked_by_their_own_measure() -> None:
    gradient = {f"{COMMON}weight": np.full(9, 100.0, np.float32)}
    honest = Update("any", update(2.0).arrays | gradient, {})
    others = {node: Update("", one.arrays | gradient, {}) for node, one in SEEN.honest.items()}
    factors = {"noise 10× the norm": 10.0, "mean turned round, together": 1.0, "slow drift": 1.0}
    for name, factor in factors.items():
        sent = ATTACKS[name](honest, Instruction(12, {}), Seen(others), 6).arrays
        for part in ({"weight"}, set(gradient)):
            found = length(sent, part) / length(honest.arrays, part)
            assert found == pytest.approx(factor, rel=0.4 if name == "slow drift" else 1e-5)


def test_an_attack_on_the_output_bias_is_no_longer_than_others() -> None:
    weight, bias = np.full((3, 2), 2.0, np.float32), np.ones(2, np.float32)
    gradient: Arrays = {f"{COMMON}weight": weight, f"{COMMON}bias": bias}
    honest = Update("any", update(2.0).arrays | gradient, {})
    others = {node: Update("", one.arrays | gradient, {}) for node, one in SEEN.honest.items()}
    sent = ATTACKS["common model's output bias"](honest, Instruction(1, {}), Seen(others), 6).arrays
    assert length(sent, gradient) == pytest.approx(length(gradient, gradient))
    assert sent[f"{COMMON}bias"][0] < 0
    assert sent[f"{COMMON}bias"][1:].tolist() + sent[f"{COMMON}weight"].ravel().tolist() == [0] * 7
    assert sent["weight"].tolist() == honest.arrays["weight"].tolist()


def test_attackers_of_groups_alter_common_gradients_before_they_alter_changes() -> None:
    gradient = {f"{COMMON}weight": np.full(9, 3.0, np.float32)}
    own = Update("any", update(2.0).arrays | gradient, {})
    victim = {f"{COMMON}weight": np.full(9, 5.0, np.float32)}
    others = {node: Update("", one.arrays | victim, {}) for node, one in SEEN.honest.items()}
    late = " from round 16"
    for name, changes in (
        ("always the same common gradient", (2.0, 2.0)),
        (f"a group of their own, sign-flip{late}", (2.0, -2.0)),
        (f"victim's common gradient, sign-flip{late}", (2.0, -2.0)),
    ):
        sent = [
            ATTACKS[name](own, Instruction(number, {}), Seen(others), node).arrays
            for number, node in ((15, 5), (16, 6))
        ]
        assert [arrays["weight"].tolist() for arrays in sent] == [[c] * 4 for c in changes]
        asked = [arrays[f"{COMMON}weight"].tolist() for arrays in sent]
        assert asked[0] == asked[1]
        assert (
            asked[0] == [5.0] * 9
            if name.startswith("victim")
            else length(sent[0], gradient) == pytest.approx(9.0)
        )


def test_as_far_as_others_is_no_further() -> None:
    rng = np.random.default_rng(0)
    drawn = [update(1.0) for _ in range(4)]
    for one in drawn:
        one.arrays["weight"] = (1.0 + rng.standard_normal(4)).astype(np.float32)
    seen = Seen(dict(enumerate(drawn, start=1)))
    sent = ATTACKS["as far as others are apart"](update(1.0), Instruction(1, {}), seen, 6)
    vectors = [one.arrays["weight"] for one in drawn]
    apart = max(np.linalg.norm(one - other) for one in vectors for other in vectors)
    away = max(np.linalg.norm(sent.arrays["weight"] - one) for one in vectors)
    assert away == pytest.approx(apart, rel=1e-4)
    assert sent.arrays["weight"] @ np.mean(vectors, axis=0) < 0


def test_every_attack_is_in_the_table_with_one_and_two_attackers() -> None:
    found = cases()
    assert len(set(found)) == len(found)
    assert {Case("FedGT", name, count) for name in CRUDE | ADAPTIVE for count in (1, 2)} <= {*found}


def test_attackers_wait_only_in_runs_that_are_long_enough() -> None:
    assert not {case for case in cases() if case.attack in SLEEPERS}
    assert PATIENT == _PROBATION + 1
    for name in ("FedGT", "FedGT, agreeing-only"):
        assert {Case(name, attack, 2) for attack in SLEEPERS} <= {*cases(PATIENT)}


@pytest.mark.slow
def test_a_run_is_played_once(tmp_path: Path) -> None:
    records = tmp_path / "runs.jsonl"
    command = "fedgt bench attacks --only 'FedGT: NaN' --seed 0 --rounds 2 --json --records"
    arguments = [*shlex.split(command)[2:], str(records)]
    first, again = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert first.exit_code == again.exit_code == 0, first.output
    tables = [json.loads(one.stdout)["tables"] for one in (first, again)]
    assert tables[0] == tables[1]
    assert [row["attackers"] for row in tables[0][0]["rows"]] == [1, 2]
    assert [row["rounds"] for row in tables[0][0]["rows"]] == [2, 2]
    assert len(records.read_text().splitlines()) == 2  # not four


def test_points_lost_are_beside_nobody(tmp_path: Path) -> None:
    records = tmp_path / "runs.jsonl"
    chosen = [Case("FedGT", NOBODY, 0), Case("FedGT", "NaN", 1)]
    outcomes = [{"last": 80.0, "kept": 81.0}, {"last": 78.5, "kept": 81.5}]
    with records.open("w") as stream:
        for case, outcome in zip(chosen, outcomes, strict=True):
            full = outcome | {"kept_round": 1, "rounds": 2, "error": ""}
            line = case._asdict() | {"seed": 0, "rounds": 2, "outcome": full}
            stream.write(json.dumps(line) + "\n")
    report = bench(chosen, [0], 2, records, lambda _: None)
    row = report.table("attacks").rows[1]
    assert (row["last_lost"], row["kept_lost"]) == (1.5, -0.5)


def test_the_page_compares_seed_by_seed(tmp_path: Path) -> None:
    records = tmp_path / "attacks.jsonl"
    assert attack_tables(records) == "Not measured yet.\n"
    played = [
        (Case("FedGT", NOBODY, 0), 0, 80.0),
        (Case("FedGT", NOBODY, 0), 1, 60.0),
        (Case("FedGT", "NaN", 1), 1, 59.0),  # beside 60, not beside 70
        (Case("FedGT", "NaN", 2), 0, 78.0),
        (Case(ALONE, NOBODY, 0), 0, 70.0),
    ]
    with records.open("w") as stream:
        for case, seed, at in played:
            full = {"last": at, "kept": at + 1, "kept_round": 1, "rounds": 15, "error": ""}
            line = case._asdict() | {"seed": seed, "rounds": 15, "outcome": full}
            stream.write(json.dumps(line) + "\n")
    rows = [line.strip("| ").split(" | ") for line in attack_tables(records).splitlines()[4:]]
    assert rows[0][:3] == ["nobody attacks", "0, 1", "70.0 / 71.0"]
    assert rows[1][:3] == ["training alone", "0", "70.0 / 71.0"]
    assert rows[2] == ["NaN", "0, 1", "59.0 / 60.0", "1.0 / 1.0", "78.0 / 79.0", "2.0 / 2.0"]


def test_an_unknown_row_is_refused(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["attacks", "--only", "no such attack"])
    assert found.exit_code != 0
    assert "no such attack" in str(found.exception)
