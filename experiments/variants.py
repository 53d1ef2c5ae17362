"""What is compared: methods and FedGT's ablations, each a name and the settings of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedgt_server.methods import METHODS as SERVER_METHODS
from shared.config import Scalar
from shared.errors import FedGTError

# For every method alike, as in the paper.
_EPOCHS: Mapping[str, Mapping[str, Scalar]] = {
    "amazon-photo": {"local-epochs": 2},
    "amazon-computers": {"local-epochs": 2},
}


@dataclass(frozen=True)
class Variant:
    """A row of a table."""

    name: str
    label: str
    method: str
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    preset: str = "default"
    # Further settings for one dataset, or in one setting of the data.
    by_data: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)

    def settings_of(self, dataset: str, setting: str, seed: int) -> dict[str, Scalar]:
        """Return all that a run sets besides its dataset, clients, rounds and seed."""
        of_data: dict[str, Scalar] = {}
        for found in (_EPOCHS.get(dataset), self.by_data.get(dataset), self.by_data.get(setting)):
            of_data |= found or {}
        chosen = {"method": self.method, **of_data, **self.settings}
        if self.method == "fedgt":
            # So that a run can be repeated to the bit; it is not private then.
            chosen["ldp-noise-seed"] = seed
        return chosen


# Of FedGT's model: the best of a few by validation accuracy, with seeds that no experiment has.
# With 10 disjoint clients; that CiteSeer has the default learning rate also with 20 and with
# clients of unequal size: with 10 alone a smaller one looked better, and these learned too little.
# Cora and PubMed have the defaults, Computers has Photo's.
_CHOSEN: Mapping[str, Mapping[str, Scalar]] = {
    "citeseer": {"node-dropout": 0.5},
    "amazon-photo": {"lr": 0.004},
    "amazon-computers": {"lr": 0.004},
}


# Settings of methods that differ by dataset, or by setting of the data.
_BY_DATA: Mapping[str, Mapping[str, Mapping[str, Scalar]]] = {
    "local": _CHOSEN,
    "fedgt": _CHOSEN,
    # The authors use a tau of 5 for overlapping subgraphs; else the method's default.
    "fedpub": {"overlap": {"tau": 5.0}},
}


def _ablation(name: str, label: str, **settings: Scalar) -> Variant:
    changed = {key.replace("_", "-"): value for key, value in settings.items()}
    return Variant(f"fedgt-{name}", label, "fedgt", changed, by_data=_CHOSEN)


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
        Variant(name, SERVER_METHODS[name].title, name, by_data=_BY_DATA.get(name, {}))
        for name in dict.fromkeys((*METHODS, *SERVER_METHODS))
    ),
    _ablation("no-global", "FedGT w/o global attention", global_attention=False),
    _ablation("mean", "FedGT w/o personalised aggregation", aggregation="mean"),
    _ablation("no-ot", "FedGT w/o optimal transport", similarity="none"),
    _ablation("update", "FedGT, similarity of updates", similarity="update"),
    _ablation("label", "FedGT, similarity of label distributions", similarity="label"),
    _ablation("sampler-graphsage", "FedGT, GraphSAGE sampling", sampler="graphsage"),
    _ablation("sampler-attribute", "FedGT, attribute sampling", sampler="attribute"),
    _ablation("noldp", "FedGT without privacy noise", ldp="off"),
    Variant("fedgt-paper", "FedGT, the paper's settings", "fedgt", preset="paper"),
)

VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in _ALL}


def variant(name: str) -> Variant:
    """Return the variant called ``name``."""
    if name not in VARIANTS:
        raise FedGTError(f"variant is '{name}', expected one of {', '.join(VARIANTS)}")
    return VARIANTS[name]
