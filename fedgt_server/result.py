"""A run's result, as the paper reports it."""

from collections import Counter
from typing import Any

from fedgt_server.journal import Journal
from shared.config import RunConfig


def summarise(journal: Journal, config: RunConfig) -> dict[str, Any]:
    """Test accuracy at the round of best mean validation accuracy, clients averaged unweighted."""
    rounds = journal.rounds()
    best = next(event for event in rounds if event["round"] == rounds[-1]["best_round"])
    institutions = [facts for event in rounds for facts in event["institutions"].values()]
    return {
        "method": config.method,
        "test_accuracy": best["test_accuracy"],
        "val_accuracy": best["val_accuracy"],
        "best_round": best["round"],
        "rounds": len(rounds),
        "per_client": {
            name: {key: facts.get(key) for key in ("val_accuracy", "test_accuracy")}
            for name, facts in sorted(best["institutions"].items())
        },
        "seconds": sum(event["seconds"] for event in rounds),
        "bytes_up": sum(facts["bytes_up"] for facts in institutions),
        "bytes_down": sum(facts["bytes_down"] for facts in institutions),
        "uploads": _uploads(institutions),
        "similarity_spread": [event.get("similarity_spread") for event in rounds],
        "privacy": _privacy(rounds[-1]["institutions"]),
        "config": config.to_flower(),
    }


def _uploads(institutions: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes of everything that left an institution, by name."""
    total: Counter[str] = Counter()
    for facts in institutions:
        total.update(facts.get("uploads", {}))
    return dict(sorted(total.items()))


def _privacy(institutions: dict[str, dict[str, Any]]) -> dict[str, float] | None:
    """The largest budget that any institution has spent; None without LDP."""
    spent = [facts for facts in institutions.values() if "epsilon_total" in facts]
    if not spent:
        return None
    keys = ("epsilon_coordinate", "epsilon_coordinate_total", "epsilon_total")
    return {key: max(facts[key] for facts in spent) for key in keys} | {
        "private": all(facts["epsilon_private"] for facts in spent)
    }
