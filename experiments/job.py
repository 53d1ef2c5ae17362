"""One cell of a grid with one seed: the unit that is run, recorded and skipped when finished."""

from dataclasses import dataclass
from typing import Any

from deploy.settings import resolve_settings
from experiments.protocol import rounds_of, trials
from experiments.variants import variant
from fedgt_client.data.catalog import CATALOG
from shared.config import Scalar

Settings = tuple[tuple[str, Scalar], ...]

# Relative seconds of a round for each node, measured roughly on Cora; they only order the runs and
# guess the time left.
_NODE_COST = {"fedgt": 1.0, "local": 0.9, "gophormer": 1.5, "graphgps": 1.5, "fedsage": 2.0}
_OTHER_COST = 0.3
# Of a client, in nodes: messages and saving, which grow with the weights of the first layer.
_CLIENT_COST, _FEATURE_COST = 50.0, 0.12
_NODE_SECONDS = 1.5e-4
# Of the nodes of the whole graph, how many all clients hold together.
_SHARE = {"overlap": 2.5, "unbalanced": 0.55}


@dataclass(frozen=True)
class Job:
    """A run of a variant, or (by ``kind``) something else that is measured on a partition.

    Two experiments that ask for the same share its record: it is known by what it is, not by who
    asks.
    """

    dataset: str
    setting: str
    clients: int
    variant: str = ""
    seed: int = 0
    rounds: int = 100
    extra: Settings = ()  # what differs from the variant, in kebab-case
    kind: str = "run"
    trial: int = 0  # of kind 'trial': its number

    @classmethod
    def of(
        cls,
        dataset: str,
        setting: str,
        clients: int,
        variant_name: str,
        seed: int,
        extra: dict[str, Scalar] | None = None,
    ) -> "Job":
        """Make a run; an ``extra`` setting that the variant has anyway is left out."""
        rounds = rounds_of(dataset)
        if not extra:
            return cls(dataset, setting, clients, variant_name, seed, rounds)
        own = resolve_settings(
            variant(variant_name).settings_of(dataset, setting, seed),
            preset=variant(variant_name).preset,
        ).to_flower()
        changed = tuple(sorted((key, value) for key, value in extra.items() if own[key] != value))
        return cls(dataset, setting, clients, variant_name, seed, rounds, changed)

    @property
    def name(self) -> str:
        """Names the record: DATASET/SETTING-CLIENTS/VARIANT[-KEY=VALUE…]-SEED."""
        return f"{self.cell}/{self.row}-{self.seed}"

    @property
    def cell(self) -> str:
        """The column of a table: DATASET/SETTING-CLIENTS."""
        return f"{self.dataset}/{self.setting}-{self.clients}"

    @property
    def row(self) -> str:
        """The row of a table: the variant with what was changed of it."""
        if self.kind == "trial":
            return f"trial-{self.variant}-{self.trial}"
        changed = "".join(f"-{key}={value}" for key, value in self.extra)
        return (self.variant if self.kind == "run" else self.kind) + changed

    def request(self) -> dict[str, Any]:
        """Return what the grid asks for; a record of another request does not answer it."""
        asked = {
            "kind": self.kind,
            "dataset": self.dataset,
            "setting": self.setting,
            "clients": self.clients,
            "seed": self.seed,
        }
        if self.kind not in ("run", "tsne", "trial"):
            return asked
        chosen = variant(self.variant)
        tried = trials(self.variant)[self.trial] if self.kind == "trial" else None
        settings = chosen.settings_of(self.dataset, self.setting, self.seed, tried)
        return asked | {
            "variant": self.variant,
            "rounds": self.rounds,
            "preset": chosen.preset,
            "settings": settings | dict(self.extra),
        }

    def values(self) -> dict[str, Scalar]:
        """Return the settings to build the run's configuration from, with its preset."""
        request = self.request()
        return {
            "dataset": self.dataset,
            "setting": self.setting,
            "seed": self.seed,
            "rounds": self.rounds,
            # A run that is interrupted starts again, so nobody would read them.
            "checkpoints": False,
            **request["settings"],
        }

    @property
    def preset(self) -> str:
        """The preset to build the configuration from."""
        return variant(self.variant).preset

    @property
    def cost(self) -> float:
        """A guess at how long it takes, in seconds of no particular machine."""
        nodes = CATALOG[self.dataset].nodes * _SHARE.get(self.setting, 1.0)
        if not self.variant:
            return nodes * 1e-4
        chosen = variant(self.variant)
        each = _NODE_COST.get(chosen.method, _OTHER_COST)
        if chosen.preset == "paper":
            each *= 4  # many small steps
        client = _CLIENT_COST + _FEATURE_COST * CATALOG[self.dataset].features
        return self.rounds * (nodes * each + self.clients * client) * _NODE_SECONDS
