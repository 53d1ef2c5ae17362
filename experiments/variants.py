"""What is compared: methods and FedGT's ablations, each a name and the settings of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.choices import chosen_settings
from experiments.protocol import epochs_of
from fedgt_server.methods import METHODS as SERVER_METHODS
from shared.config import Scalar
from shared.errors import FedGTError


@dataclass(frozen=True)
class Variant:
    """A row of a table."""

    name: str
    label: str
    method: str
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    preset: str = "default"
    # Whose trials chose the settings; empty: none did.
    chosen_for: str = ""

    def settings_of(
        self, dataset: str, setting: str, seed: int, tried: Mapping[str, Scalar] | None = None
    ) -> dict[str, Scalar]:
        """Return all that a run sets besides its dataset, clients, rounds and seed.

        ``tried`` are the settings of a trial; without it those that the trials have chosen.
        """
        if tried is None:
            tried = (chosen_settings(self.chosen_for, dataset) if self.chosen_for else None) or {}
        chosen = {
            "method": self.method,
            **epochs_of(dataset),
            **_AUTHORS.get(self.method, {}).get(setting, {}),
            **tried,
            **self.settings,
        }
        if self.method == "fedgt":
            # So that a run can be repeated to the bit; it is not private then.
            chosen["ldp-noise-seed"] = seed
        return chosen


# What authors set for one kind of partition alone.
_AUTHORS: Mapping[str, Mapping[str, Mapping[str, Scalar]]] = {
    "fedpub": {"overlap": {"tau": 5.0}},
}


def _ablation(name: str, label: str, **settings: Scalar) -> Variant:
    changed = {key.replace("_", "-"): value for key, value in settings.items()}
    return Variant(f"fedgt-{name}", label, "fedgt", changed, chosen_for="fedgt")


# The methods of the paper's tables in their order, with the plain GCN as baseline. By name: a
# method that is added to FedGT can be run as a variant, and changes no table.
METHODS = (
    "local",
    "gcn",
    "fedavg",
    "fedper",
    "gcfl",
    "fedsage",
    "fedpub",
    "gophormer",
    "graphgps",
    "fedgt",
)

_ALL = (
    *(
        Variant(name, SERVER_METHODS[name].title, name, chosen_for=name)
        for name in dict.fromkeys((*METHODS, *SERVER_METHODS))
    ),
    _ablation("no-global", "FedGT w/o global attention", global_attention=False),
    # ``robust`` personalises, too: it leaves those out of an average who disagree.
    _ablation("mean", "FedGT w/o personalised aggregation", aggregation="mean", robust=False),
    _ablation("no-own", "FedGT w/o own models", own_model=False),
    _ablation("no-common", "FedGT w/o the common model", common_model="off"),
    _ablation("transformer", "FedGT w/o both", own_model=False, common_model="off"),
    _ablation(
        "transformer-mean",
        "FedGT w/o both, w/o personalised aggregation",
        own_model=False,
        common_model="off",
        aggregation="mean",
        robust=False,
    ),
    _ablation("no-updates", "FedGT, updates not compared", compare_updates=False),
    _ablation("no-ot", "FedGT w/o optimal transport", similarity="none"),
    _ablation("update", "FedGT, similarity of updates", similarity="update"),
    _ablation("label", "FedGT, similarity of label distributions", similarity="label"),
    _ablation("sampler-graphsage", "FedGT, GraphSAGE sampling", sampler="graphsage"),
    _ablation("sampler-attribute", "FedGT, attribute sampling", sampler="attribute"),
    _ablation("noldp", "FedGT without privacy noise", ldp="off"),
    Variant("fedgt-paper", "FedGT (paper)", "fedgt", preset="paper"),
    # On one graph with all links, which is what a federation is to be measured by.
    Variant("fedgt-whole", "FedGT's model, whole graph", "local", chosen_for="fedgt"),
    Variant("gcn-whole", "GCN, whole graph", "gcn", chosen_for="gcn"),
)

# Both are run with one client, and belong to every column of their dataset.
WHOLE = ("gcn-whole", "fedgt-whole")
# What institutions reach without any exchange.
ALONE = ("gcn", "local")

VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in _ALL}


def variant(name: str) -> Variant:
    """Return the variant called ``name``."""
    if name not in VARIANTS:
        raise FedGTError(f"variant is '{name}', expected one of {', '.join(VARIANTS)}")
    return VARIANTS[name]
