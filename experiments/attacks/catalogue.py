"""Attacks by name: crude ones, and those of attackers who know the rules of ``fedgt_server``."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from experiments.attacks.hostile import Attack, Seen, changed, parameters, parts
from fedgt_server.robust import SHORTENED, length
from shared.wire import COMMON, GLOBAL_NODES, Arrays, Instruction, Update

LATE = 10  # the round from which some attack
PATIENT = 16  # the first round in which FedGT averages who does not agree; others wait for it
_ONCE = 5


def scaled(factor: float) -> Attack:
    """Multiply the change."""
    return lambda update, *_: changed(update, _times(parameters(update), factor))


def filled(value: float, only_in: int | None = None) -> Attack:
    """Set every change to a value, always or in one round."""

    def attack(update: Update, asked: Instruction, _: Seen, __: int) -> Update:
        if only_in not in (None, asked.round_number):
            return update
        arrays = parameters(update).items()
        return changed(update, {name: np.full_like(array, value) for name, array in arrays})

    return attack


def noise(times: float) -> Attack:
    """Send noise, some times as long as the honest change."""

    def attack(update: Update, asked: Instruction, _: Seen, node: int) -> Update:
        rng = np.random.default_rng(100 * asked.round_number + node)
        sent: Arrays = {}
        for honest in parts(update):
            drawn = _drawn(honest, rng)
            sent |= _times(drawn, times * _length(honest) / _length(drawn))
        return changed(update, sent)

    return attack


def nodes(change: Callable[[np.ndarray], np.ndarray]) -> Attack:
    """Change the global nodes alone."""

    def attack(update: Update, *_: object) -> Update:
        if GLOBAL_NODES not in update.arrays:
            return update
        return changed(update, {GLOBAL_NODES: change(update.arrays[GLOBAL_NODES])})

    return attack


def nodes_of(victim: int, attack: Attack) -> Attack:
    """Send a victim's global nodes, to weigh much with it, beside an attack."""

    def copying(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        sent = attack(update, asked, seen, node)
        if victim not in seen.honest or GLOBAL_NODES not in seen.honest[victim].arrays:
            return sent
        return changed(sent, {GLOBAL_NODES: seen.honest[victim].arrays[GLOBAL_NODES]})

    return copying


def reporting(attack: Attack | None, metrics: Callable[[int], dict[str, float]]) -> Attack:
    """Report other metrics, by round, beside an attack or an honest change."""

    def lying(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        sent = attack(update, asked, seen, node) if attack else update
        return changed(sent, metrics=metrics(asked.round_number))

    return lying


def late(attack: Attack, start: int = LATE) -> Attack:
    """Be honest first, and attack from a late round on."""

    def waiting(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        return attack(update, asked, seen, node) if asked.round_number >= start else update

    return waiting


def by_degrees(start: int, rounds: int) -> Attack:
    """Turn the change round at once, and the common gradient over some rounds, at its length.

    In each it is still close to what it was in the last: for a rule that compares them.
    """

    def turning(update: Update, asked: Instruction, _: Seen, __: int) -> Update:
        angle = np.pi * min(1.0, (asked.round_number - start + 1) / rounds)
        rng = np.random.default_rng(11)  # the same for all attackers
        sent: Arrays = {}
        for own in parts(update):
            if not next(iter(own)).startswith(COMMON):
                sent |= _times(own, -1.0)
                continue
            drawn = _drawn(own, rng)
            aside = _times(drawn, float(np.sin(angle)) * _length(own) / _length(drawn))
            sent |= _plus(_times(own, float(np.cos(angle))), aside)
        return changed(update, sent)

    return late(turning, start)


def early(attack: Attack, last: int) -> Attack:
    """Attack up to a round, and be honest afterwards."""

    def once(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        return attack(update, asked, seen, node) if asked.round_number <= last else update

    return once


def every_other_round(attack: Attack) -> Attack:
    """Attack in odd rounds and be honest in even ones, which is too seldom for a quarantine."""

    def alternating(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        return attack(update, asked, seen, node) if asked.round_number % 2 else update

    return alternating


def under_the_limit(update: Update, _: Instruction, seen: Seen, __: int) -> Update:
    """Turn the change round, just shorter than what would be shortened."""
    sent: Arrays = {}
    for own in parts(update):
        lengths = [length(honest.arrays, own) for honest in seen.honest.values()]
        wanted = 0.99 * SHORTENED * float(np.median(lengths)) if lengths else _length(own)
        sent |= _times(own, -wanted / _length(own))
    return changed(update, sent)


def mean_turned(share: float) -> Attack:
    """Send a share of the mean of the honest changes, turned round (Xie et al. 2020)."""

    def attack(update: Update, _: Instruction, seen: Seen, __: int) -> Update:
        return changed(update, _times(_mean(seen), -share))

    return attack


def as_far_as_others(update: Update, _: Instruction, seen: Seen, __: int) -> Update:
    """Turn the mean round as far as the honest are apart (Shejwalkar & Houmansadr 2021, min-max).

    The largest γ with which mean − γ · mean / ‖mean‖ is from no honest change further away than
    the two honest ones that are furthest from each other.
    """
    sent: Arrays = {}
    for own in parts(update) if len(seen.honest) > 1 else ():
        honest = [{name: one.arrays[name] for name in own} for one in seen.honest.values()]
        vectors = np.stack([_vector(one) for one in honest])
        mean = vectors.mean(axis=0)
        apart = max(np.linalg.norm(one - other) for one in vectors for other in vectors)
        # ‖mean − γ u − g‖² = γ² − 2 γ u·(mean − g) + ‖mean − g‖², for every honest g.
        unit = mean / max(np.linalg.norm(mean), 1e-12)
        along, squares = (mean - vectors) @ unit, ((mean - vectors) ** 2).sum(axis=1)
        gamma = float((along + np.sqrt(along**2 + apart**2 - squares)).min())
        sent |= _times(_mean(seen, own), 1.0 - gamma / max(float(np.linalg.norm(mean)), 1e-12))
    return changed(update, sent)


def output_bias(update: Update, _: Instruction, seen: Seen, __: int) -> Update:
    """Spend the whole length of the common gradient on the output's bias, for the first class."""
    gradients = [own for own in parts(update) if next(iter(own)).startswith(COMMON)]
    sent: Arrays = {}
    for own in gradients:
        lengths = [length(honest.arrays, own) for honest in seen.honest.values()]
        bias = min((name for name in own if own[name].ndim == 1), key=lambda name: own[name].size)
        sent = _times(own, 0.0)
        sent[bias][0] = -np.median(lengths or [_length(own)])
    return changed(update, sent)


def own_group(factor: float) -> Attack:
    """Ask, all attackers alike, for the same at random in every round; multiply the change.

    Groups are looked for in the directions of common gradients.
    """

    def attack(update: Update, *_: object) -> Update:
        rng = np.random.default_rng(13)
        sent: Arrays = {}
        for own in parts(update):
            drawn = _drawn(own, rng)
            asked = next(iter(own)).startswith(COMMON)
            sent |= _times(drawn, _length(own) / _length(drawn)) if asked else _times(own, factor)
        return changed(update, sent)

    return attack


def in_group_of(victim: int) -> Attack:
    """Send a victim's common gradient, to be in its group, and turn the change round."""

    def attack(update: Update, _: Instruction, seen: Seen, __: int) -> Update:
        if victim not in seen.honest:
            return update
        known = parameters(seen.honest[victim])
        gradients = {name: array for name, array in known.items() if name.startswith(COMMON)}
        return changed(update, _times(parameters(update), -1.0) | gradients)

    return attack


def late_change(attack: Attack, start: int) -> Attack:
    """Attack by the common gradient from the first round on, by all else from a late one."""

    def waiting(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        sent = attack(update, asked, seen, node)
        if asked.round_number >= start:
            return sent
        honest = {n: a for n, a in update.arrays.items() if not n.startswith(COMMON)}
        return changed(sent, honest)

    return waiting


def noisy_nodes(times: float) -> Attack:
    """Send noise as global nodes, some times as long as the others'."""

    def attack(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        rng = np.random.default_rng(100 * asked.round_number + node)
        own = {GLOBAL_NODES: update.arrays[GLOBAL_NODES]}
        lengths = [length(honest.arrays, own) for honest in seen.honest.values()]
        drawn = _drawn(own, rng)
        wanted = times * float(np.median(lengths or [_length(own)]))
        return changed(update, _times(drawn, wanted / _length(drawn)))

    return attack


def together(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
    """Send, all attackers alike, the mean of the honest changes turned round, at honest length."""
    mean = _mean(seen)
    if not mean:
        return scaled(-1.0)(update, asked, seen, node)
    sent: Arrays = {}
    for own in parts(update):
        turned = {name: mean[name] for name in own}
        sent |= _times(turned, -_length(own) / _length(turned))
    return changed(update, sent)


def little(update: Update, *rest: object) -> Update:
    """Stay within the spread of the honest: mean − 1.5 deviations (Baruch et al. 2019)."""
    seen = next(one for one in rest if isinstance(one, Seen))
    mean = _mean(seen)
    if len(seen.honest) < 2:
        return update
    stacked = {
        name: np.stack([honest.arrays[name] for honest in seen.honest.values()]) for name in mean
    }
    moved = {name: mean[name] - 1.5 * stacked[name].std(axis=0) for name in mean}
    return changed(update, {name: array.astype(np.float32) for name, array in moved.items()})


def drift(update: Update, _: Instruction, __: Seen, node: int) -> Update:
    """Add to the honest change a third of its length, in the same direction in every round."""
    rng = np.random.default_rng(7)  # the same for all attackers
    sent: Arrays = {}
    for honest in parts(update):
        drawn = _drawn(honest, rng)
        sent |= _plus(honest, _times(drawn, _length(honest) / (3 * _length(drawn))))
    return changed(update, sent)


def mimic(victim: int) -> Attack:
    """Agree with a victim to be averaged into its model, and carry noise of twice the length."""
    carried = noise(2.0)

    def attack(update: Update, asked: Instruction, seen: Seen, node: int) -> Update:
        if victim not in seen.honest:
            return update
        wanted = parameters(seen.honest[victim])
        spoilt = carried(update, asked, seen, node).arrays
        return nodes_of(victim, lambda *_: changed(update, _plus(wanted, spoilt)))(
            update, asked, seen, node
        )

    return attack


def _accuracy_lie(number: int) -> dict[str, float]:
    return {"val_accuracy": 1.0 if number == 1 else 0.0}


CRUDE: dict[str, Attack] = {
    "sign-flip": scaled(-1.0),
    "×100": scaled(100.0),
    "×−100": scaled(-100.0),
    "×1e6": scaled(1e6),
    "noise 10× the norm": noise(10.0),
    "noise 100× the norm": noise(100.0),
    "NaN": filled(float("nan")),
    "3e38": filled(3e38),
    "3e38 once, in round 5": filled(3e38, only_in=_ONCE),
    "victim's nodes, noise 10×": nodes_of(1, noise(10.0)),
    "victim's nodes, ×−100": nodes_of(1, scaled(-100.0)),
    "global nodes ×1000": nodes(lambda found: found * np.float32(1000.0)),
    "global nodes of 1e30": nodes(lambda found: np.full_like(found, 1e30)),
    "val_accuracy 1e308 in round 1": reporting(
        None, lambda number: {"val_accuracy": 1e308} if number == 1 else {}
    ),
    "val_accuracy 1 in round 1, then 0": reporting(None, _accuracy_lie),
    "num_examples 1e30, sign-flip": reporting(scaled(-1.0), lambda _: {"num_examples": 1e30}),
}
ADAPTIVE: dict[str, Attack] = {
    "sign-flip under the limit": under_the_limit,
    "mean turned round, together": together,
    "a little is enough": little,
    "slow drift": drift,
    "sign-flip from round 10": late(scaled(-1.0)),
    "under the limit from round 10": late(under_the_limit),
    "agrees with a victim, noise 2×": mimic(1),
    "global nodes ×−2.9": nodes(lambda found: found * np.float32(-2.9)),
    "says it kept its own, sign-flip": reporting(scaled(-1.0), lambda _: {"kept_own": 1.0}),
    "num_examples 1e9, sign-flip": reporting(scaled(-1.0), lambda _: {"num_examples": 1e9}),
    "says it kept its own": reporting(None, lambda _: {"kept_own": 1.0}),
    "under the limit up to round 3": early(under_the_limit, 3),
    "sign-flip in every other round": every_other_round(scaled(-1.0)),
    "half the mean turned round": mean_turned(0.5),
    "as far as others are apart": as_far_as_others,
    "common model's output bias": output_bias,
    "global nodes of noise, 2.9×": noisy_nodes(2.9),
    "sign-flip, val_accuracy 1 in round 1": reporting(scaled(-1.0), _accuracy_lie),
}
# Of attackers who know for how long nobody is trusted; for runs of more rounds than that.
SLEEPERS: dict[str, Attack] = {
    "sign-flip from round 16": late(scaled(-1.0), PATIENT),
    "noise 10× the norm from round 16": late(noise(10.0), PATIENT),
    "mean turned round, together, from round 16": late(together, PATIENT),
    "sign-flip by degrees, from round 16": by_degrees(PATIENT, 10),
    "always the same common gradient": own_group(1.0),
    "a group of their own, sign-flip from round 16": late_change(own_group(-1.0), PATIENT),
    "victim's common gradient, sign-flip from round 16": late_change(in_group_of(1), PATIENT),
}
ATTACKS: Mapping[str, Attack] = CRUDE | ADAPTIVE | SLEEPERS
# Of a method that averages by numbers of examples, without global nodes.
OF_AVERAGES = (
    "sign-flip",
    "×−100",
    "noise 10× the norm",
    "NaN",
    "3e38 once, in round 5",
    "num_examples 1e30, sign-flip",
    "num_examples 1e9, sign-flip",
    "sign-flip under the limit",
    "mean turned round, together",
)


def _times(arrays: Arrays, factor: float) -> Arrays:
    return {name: array * np.float32(factor) for name, array in arrays.items()}


def _drawn(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    return {name: rng.standard_normal(a.shape).astype(np.float32) for name, a in arrays.items()}


def _plus(arrays: Arrays, others: Arrays) -> Arrays:
    return {name: array + others[name] for name, array in arrays.items()}


def _mean(seen: Seen, names: Iterable[str] = ()) -> Arrays:
    """Return the mean honest change; of all arrays, where no names are given."""
    updates = [parameters(update) for update in seen.honest.values()]
    if not updates:
        return {}
    return {
        name: np.mean([update[name] for update in updates], axis=0).astype(np.float32)
        for name in names or updates[0]
    }


def _vector(arrays: Arrays) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays.values()]).astype(np.float64)


def _length(arrays: Arrays) -> float:
    return max(length(arrays, arrays), 1e-12)
