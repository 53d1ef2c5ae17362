"""Policy: what an institution allows a run, from ``[policy]`` of its ``node.toml``.

The coordinator says what a run is; here the institution says what it takes part in. All of it is
decided from settings and declarations, before the institution's data is opened.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fedgt_client.privacy.accounting import Loss, composed
from shared.config import RunConfig
from shared.errors import RefusedError
from shared.wire import (
    COMMON_GRADIENTS,
    FUNCTIONAL_EMBEDDING,
    GLOBAL_NODES,
    LABEL_DISTRIBUTION,
    WEIGHTS,
)

# Weakest first.
_LDP = ("off", "global-nodes", "all")
_TOLERATED = 1 + 1e-9  # of a budget that was computed, for rounding

ShareMetrics = Literal["none", "rounded", "noised", "exact"]


class Problem(NamedTuple):
    """A setting of a run that the institution does not allow."""

    setting: str
    asked: str
    allowed: str
    key: str  # of the policy

    def __str__(self) -> str:
        return f"{self.setting} = {self.asked}, allowed: {self.allowed} ([policy] {self.key})"


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Policy(BaseModel):
    """What an institution allows; the defaults are those of an institution that says nothing."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        validate_by_name=True,
        allow_inf_nan=False,
    )

    federations: tuple[str, ...] = Field(
        default=(), description="federations to take part in; empty: any"
    )
    coordinators: tuple[str, ...] = Field(
        default=(), description="host:port of coordinators to connect to; empty: any"
    )
    methods: tuple[str, ...] = Field(
        default=(
            "fedgt",
            "local",
            "gcn",
            "fedavg",
            "fedper",
            "gcfl",
            "fedpub",
            "gophormer",
            "graphgps",
        ),
        description="methods to train with; by default all that send no features of nodes",
    )
    arrays: tuple[str, ...] = Field(
        default=(WEIGHTS, GLOBAL_NODES, COMMON_GRADIENTS, FUNCTIONAL_EMBEDDING),
        description="arrays that may leave; besides these there are label_distribution, "
        "generated_features and generated_gradients",
    )
    ldp: Literal["off", "global-nodes", "all"] = Field(
        default="global-nodes",
        description="what must have noise before it leaves, at least: off, global-nodes (and "
        "common_gradients), all",
    )
    max_epsilon: float = Field(
        default=4.0,
        gt=0,
        description="largest ε of a coordinate in one upload, or of all of it with ldp-norm",
    )
    noise_seed: bool = Field(
        default=False, description="allow noise that whoever knows ldp-noise-seed can draw again"
    )
    max_label_epsilon: float = Field(
        default=0.0,
        ge=0,
        description="largest label-epsilon; runs without label-privacy are then refused; 0: any",
    )
    privacy_budget: float = Field(
        default=0.0,
        ge=0,
        description="largest ε over all uploads of the data in all runs; then nothing more is "
        "uploaded, whatever the run's privacy-budget; 0: no limit",
    )
    share_metrics: ShareMetrics = Field(
        default="rounded",
        description="how accuracies leave: none (the best round is then chosen here, by your own "
        "validation nodes), rounded, noised, exact",
    )
    metrics: tuple[str, ...] = Field(
        default=(
            "accuracy",
            "balanced_accuracy",
            "majority_share",
            "macro_f1",
            "roc_auc",
            "average_precision",
            "log_loss",
            "train_loss",
            "generator_loss",
            "skipped_steps",
            "gradient_norm",
            "mask_sparsity",
            "num_examples",
            "seconds",
        ),
        description="metrics that may leave; losses and skipped steps leave exactly or not at all",
    )
    metrics_step: float = Field(
        default=0.05,
        gt=0,
        le=0.5,
        description="step of share-metrics rounded, at least; larger where it would be fewer than "
        "4 nodes",
    )
    metrics_epsilon: float = Field(
        default=0.5, gt=0, description="ε of one node's label in a round with share-metrics noised"
    )
    max_rounds: int = Field(default=1000, ge=1, description="largest rounds")
    max_local_epochs: int = Field(default=20, ge=1, description="largest local-epochs")
    max_hidden: int = Field(default=1024, ge=1, description="largest hidden")
    max_layers: int = Field(default=16, ge=1, description="largest layers")
    max_samples: int = Field(default=256, ge=1, description="largest samples")
    max_global_nodes: int = Field(default=256, ge=0, description="largest global-nodes")
    max_positional_dimensions: int = Field(
        default=64, ge=0, description="largest positional-dimensions"
    )
    min_ppr_tolerance: float = Field(
        default=1e-7, gt=0, description="smallest ppr-tolerance: preparing takes longer below"
    )
    min_ppr_nu: float = Field(
        default=0.01, gt=0, description="smallest ppr-nu: preparing takes longer below"
    )
    max_parameters: int = Field(
        default=50_000_000, ge=1, description="values of a model's weights at most"
    )
    max_memory_mb: int = Field(
        default=0,
        ge=0,
        description="memory (MiB) of the process that trains, which is stopped beyond; 0: no limit",
    )
    max_round_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="seconds after which a round that still trains is stopped here",
    )

    @field_validator("arrays", "methods", "federations", "coordinators")
    @classmethod
    def _no_empty_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if "" in names:
            raise ValueError("a name in the list is empty")
        return names

    def problems(self, config: RunConfig, uploads: Collection[str]) -> list[Problem]:
        """Return what of a run is not allowed.

        ``uploads`` are the arrays that the run's method declares; see ``sent_arrays``.
        """
        sent = sent_arrays(uploads, config)
        return [*self._identity(config), *self._privacy(config, sent), *self._caps(config)]

    def check(self, institution: str, config: RunConfig, uploads: Collection[str]) -> None:
        """Raise RefusedError, in one line with every problem, where a run is not allowed."""
        if problems := self.problems(config, uploads):
            raise RefusedError(institution, "; ".join(map(str, problems)))

    def check_size(self, institution: str, parameters: Mapping[str, Collection[int]]) -> None:
        """Raise RefusedError where a model, by the shapes of its weights, is too large."""
        values = sum(_product(shape) for shape in parameters.values())
        if values > self.max_parameters:
            found = Problem(
                "weights", str(values), f"at most {self.max_parameters}", "max-parameters"
            )
            raise RefusedError(institution, str(found))

    def check_round(self, institution: str, number: int) -> None:
        """Raise RefusedError for a round after the last that is allowed."""
        if number > self.max_rounds:
            found = Problem("round", str(number), f"at most {self.max_rounds}", "max-rounds")
            raise RefusedError(institution, str(found))

    def coordinator_problem(self, address: str) -> str | None:
        """Return why this institution does not connect to a coordinator; None where it does."""
        if not self.coordinators or address in self.coordinators:
            return None
        return str(
            Problem("coordinator", address, _listed(self.coordinators, "none"), "coordinators")
        )

    def to_json(self) -> str:
        """Return what differs from the defaults, for Flower, which passes on single values."""
        return json.dumps(self.model_dump(by_alias=True, exclude_defaults=True, mode="json"))

    def _identity(self, config: RunConfig) -> Iterator[Problem]:
        for setting, asked, allowed in (
            ("federation", config.federation, self.federations),
            ("method", config.method, self.methods),
        ):
            if asked not in allowed and (allowed or setting == "method"):
                yield Problem(setting, asked, _listed(allowed, "none"), f"{setting}s")

    def _privacy(self, config: RunConfig, sent: Collection[str]) -> Iterator[Problem]:
        for name in sent if config.method in self.methods else ():
            if name not in self.arrays:
                setting, asked = _sender(name, config)
                uploaded = f"{asked}, which uploads {name}"
                yield Problem(setting, uploaded, _listed(self.arrays, "no arrays"), "arrays")
        with_noise = (GLOBAL_NODES, COMMON_GRADIENTS)
        protected = {"off": (), "global-nodes": with_noise, "all": tuple(sent)}[self.ldp]
        if any(name in sent for name in protected) and _rank(config.ldp) < _rank(self.ldp):
            enough = _listed(_LDP[_rank(self.ldp) :], "")
            yield Problem("ldp", config.ldp, enough, "ldp")
        if sent and self.max_label_epsilon:
            yield from self._label_privacy(config)
        has_noise = config.ldp != "off"
        if has_noise and sent and (epsilon := _epsilon(config)) > self.max_epsilon * _TOLERATED:
            strength = f"{config.ldp_noise:g} with ldp-clip {config.ldp_clip:g}, ε {epsilon:g}"
            yield Problem("ldp-noise", strength, f"ε at most {self.max_epsilon:g}", "max-epsilon")
        # The noise of labels and of gradients is drawn with this seed, too.
        has_noise |= config.label_privacy != "off"
        if has_noise and config.ldp_noise_seed >= 0 and not self.noise_seed:
            yield Problem(
                "ldp-noise-seed", str(config.ldp_noise_seed), "-1, nobody's", "noise-seed"
            )

    def _label_privacy(self, config: RunConfig) -> Iterator[Problem]:
        if config.label_privacy == "off":
            enough = "randomised-response, dp-sgd"
            yield Problem("label-privacy", "off", enough, "max-label-epsilon")
        elif config.label_epsilon > self.max_label_epsilon:
            most = f"at most {self.max_label_epsilon:g}"
            asked = f"{config.label_epsilon:g}"
            yield Problem("label-epsilon", asked, most, "max-label-epsilon")

    def _caps(self, config: RunConfig) -> Iterator[Problem]:
        for name in CAPPED:
            asked, most = getattr(config, name), getattr(self, f"max_{name}")
            if asked > most:
                setting = _kebab(name)
                yield Problem(setting, f"{asked:g}", f"at most {most:g}", f"max-{setting}")
        if config.ppr_tolerance < self.min_ppr_tolerance:
            yield Problem(
                "ppr-tolerance",
                f"{config.ppr_tolerance:g}",
                f"at least {self.min_ppr_tolerance:g}",
                "min-ppr-tolerance",
            )
        if config.ppr_nu < self.min_ppr_nu:
            yield Problem(
                "ppr-nu", f"{config.ppr_nu:g}", f"at least {self.min_ppr_nu:g}", "min-ppr-nu"
            )


# Settings of a run that may not be larger than the policy's key of the same name with 'max-'.
CAPPED = (
    "rounds",
    "local_epochs",
    "hidden",
    "layers",
    "samples",
    "global_nodes",
    "positional_dimensions",
)


def sent_arrays(uploads: Collection[str], config: RunConfig) -> list[str]:
    """Return which of the arrays that a method declares it uploads with these settings."""
    unused = {
        GLOBAL_NODES: config.global_nodes == 0,
        LABEL_DISTRIBUTION: config.similarity != "label",
        COMMON_GRADIENTS: not config.has_common_model,
    }
    return [name for name in uploads if not unused.get(name, False)]


def _sender(array: str, config: RunConfig) -> tuple[str, str]:
    """Return the setting to which an upload is due, and its value."""
    if array == LABEL_DISTRIBUTION:
        return "similarity", config.similarity
    if array == COMMON_GRADIENTS:
        return "common-model", config.common_model
    return "method", config.method


def _epsilon(config: RunConfig) -> float:
    """Return ε of one upload: of a coordinate, or with a norm of all of it, which is no less."""
    noise = config.ldp_noise / (2.0 * config.ldp_clip)
    return composed({Loss("gaussian" if config.ldp_norm == "l2" else "laplace", noise): 1})


def _rank(ldp: str) -> int:
    return _LDP.index(ldp) if ldp in _LDP else -1


def _listed(names: Collection[str], empty: str) -> str:
    return ", ".join(names) or empty


def _product(shape: Collection[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found
