"""RunConfig: every setting of a run, documented here, validated once.

The same keys, in kebab-case, stand with their defaults in ``[tool.flwr.app.config]`` of
``pyproject.toml``, where Flower reads them; a test keeps the two equal. Where the paper and what
was measured to work differ, the difference is a key, and the preset ``paper`` sets these keys back.
What the paper leaves open (scale of inputs, space of global nodes) has no key.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from shared.errors import FedGTError
from shared.precision import Precision
from shared.registry import lookup
from shared.text import nearest

Scalar = str | int | float | bool

# Of clipping bound and noise: with less noise, what is called protected would not be.
LARGEST_CLIP_RATIO = 1000.0


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class RunConfig(BaseModel):
    """The settings of one run, the same for all institutions."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    # --- what to learn from -------------------------------------------------------------------
    dataset: str = Field(
        "consortium",
        description="name of a dataset in 'fedgt data list', or 'own' for the folders of "
        "'fedgt run --data'; institutions with their own data name its folder in their "
        "node-config (data-dir)",
    )
    setting: Literal["disjoint", "overlap", "louvain", "unbalanced", "conflict"] = Field(
        "disjoint",
        description="how a named dataset is divided among simulated institutions; conflict: as "
        "disjoint, and every second institution means the next class by a label",
    )
    data_dir: str = Field(
        "",
        description="folder with the raw files of named datasets, or of dataset 'own' with "
        "institutions.json; empty: $FEDGT_DATA, or else the per-user cache",
    )
    seed: int = Field(
        0, ge=0, description="random seed of partition, split, initialisation and sampling"
    )

    # --- method and rounds --------------------------------------------------------------------
    method: str = Field(
        "fedgt",
        description="method to train; every method but fedgt has its own defaults for some of the "
        "settings below",
    )
    rounds: int = Field(100, ge=1, description="number of rounds (R)")
    local_epochs: int = Field(1, ge=1, description="passes over the local data in a round (E)")
    batch_size: int = Field(0, ge=0, description="training nodes in one step; 0: all of them")
    lr: float = Field(0.002, gt=0, description="learning rate of Adam (η)")
    lr_schedule: Literal["constant", "cosine"] = Field(
        "cosine", description="learning rate over the rounds; cosine: it falls from lr to 0"
    )
    adam_epsilon: float = Field(
        1e-4,
        gt=0,
        description="epsilon of Adam; larger than the usual 1e-8, so that weights that others "
        "have learned, of features rarely seen at this institution, change little",
    )
    weight_decay: float = Field(0.3, ge=0, description="weight decay of Adam")
    decoupled_weight_decay: bool = Field(
        True,
        description="multiply weights by 1 − lr · weight-decay in each step (AdamW); off: the "
        "decay is part of the gradient, and Adam then erases weights that the local data never use",
    )

    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="weights of classes in the training loss; balanced: each class of an "
        "institution's training nodes counts the same, for rare classes",
    )
    select_by: Literal[
        "accuracy",
        "balanced-accuracy",
        "macro-f1",
        "roc-auc",
        "average-precision",
        "log-loss",
        "calibration-error",
    ] = Field(
        "accuracy",
        description="metric whose mean over institutions, on validation nodes, chooses the best "
        "round (see robust); roc-auc and average-precision are means over classes",
    )

    # --- the graph transformer ----------------------------------------------------------------
    hidden: int = Field(64, ge=1, description="hidden width (d)")
    layers: int = Field(1, ge=1, description="number of layers (L)")
    heads: int = Field(4, ge=1, description="number of attention heads; must divide hidden")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout on inputs and residual branches")
    node_dropout: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="share of nodes whose whole input is hidden in a training step, so that the "
        "model relies on neighbours; for small subgraphs (not in the paper)",
    )
    positional_dimensions: int = Field(8, ge=0, description="dimensions of the Laplacian encoding")
    samples: int = Field(16, ge=1, description="number of nodes sampled for local attention (n_s)")
    sampler: str = Field(
        "ppr",
        description="how nodes are sampled for local attention: ppr, graphsage or attribute",
    )
    ppr_nu: float = Field(
        0.15, gt=0, lt=1, description="probability that the random walk of PPR restarts (ν)"
    )
    ppr_tolerance: float = Field(
        5e-5,
        gt=0,
        description="probability per link below which PPR's random walk is not followed further at "
        "a node; parts of up to 1,000 nodes are solved exactly",
    )
    ppr_bias: bool = Field(
        True,
        description="learned multiple of the sampler's log-weight in local attention "
        "(not in the paper)",
    )
    global_nodes: int = Field(
        10, ge=0, description="number of global nodes (n_g); 0: no global attention"
    )
    global_attention: bool = Field(
        True,
        description="nodes also attend to the global nodes; off: global nodes are only used to "
        "compare institutions",
    )
    global_node_sets: Literal["layers", "input"] = Field(
        "layers",
        description="representations that global nodes are cluster centres of: those before and "
        "after every layer, or the input representations for all layers (as in the paper)",
    )
    own_model: bool = Field(
        True,
        description="each institution also trains a GCN for itself, which it uploads nothing of, "
        "and predicts by the federated model, by its own or by the mean of both, whichever is "
        "best on its validation nodes (not in the paper)",
    )
    common_model: Literal["off", "mean", "chosen"] = Field(
        "chosen",
        description="all institutions together also train a small model (predict then propagate) "
        "by gradients that the coordinator averages (FedSGD). Predictions are by the mean of it "
        "and the personalised model, or chosen: by whichever of the two and their mean is best on "
        "an institution's validation nodes (not in the paper; none with label-privacy 'dp-sgd')",
    )
    momentum: float = Field(
        0.9, ge=0, le=1, description="momentum of the online clustering of global nodes (γ)"
    )

    # --- personalised aggregation -------------------------------------------------------------
    similarity: Literal["hungarian", "sinkhorn", "none", "update", "label"] = Field(
        "hungarian",
        description="how institutions are compared: global nodes aligned by exact (hungarian) or "
        "entropic (sinkhorn) optimal transport, or not aligned (none); parameter updates (update); "
        "label distributions, which are then uploaded (label)",
    )
    compare_updates: bool = Field(
        True,
        description="look for groups of institutions whose gradients of the common model, or "
        "without one whose updates, go different ways: similar data may mean different things. "
        "Where there are some, they count as much as similarity (not in the paper)",
    )
    aggregation: Literal["personalised", "mean"] = Field(
        "personalised", description="weights by similarity (equation 8), or the plain mean"
    )
    tau: float = Field(5.0, ge=0, description="scale of similarities in the softmax (τ)")
    centre_fingerprints: bool = Field(
        True, description="subtract the institutions' mean before comparing (not in the paper)"
    )
    denoise_similarity: bool = Field(
        True, description="correct similarities for the privacy noise (not in the paper)"
    )

    robust: bool = Field(
        True,
        description="withstand careless or hostile institutions: the best round is chosen by "
        "what institutions gained, of which the largest third count for no more than the next "
        "largest, of equal rounds the last; updates much longer than others' are shortened or "
        "refused; in the first 15 rounds, and where groups of institutions disagree, FedGT "
        "averages an institution only with those whose updates agree with its own; so it does for "
        "one that was worse off with what it was sent, which keeps its own model (not in the "
        "paper)",
    )

    agreeing_only: bool = Field(
        False,
        description="with robust, average an institution only with those whose updates agree with "
        "its own: for members that may be hostile or have opposite tasks; where all have the same "
        "task it costs accuracy (not in the paper)",
    )

    mask_penalty: float = Field(
        0.5,
        ge=0,
        description="penalty on FED-PUB's masks (λ1); with its authors' 0.001 no mask entry "
        "reaches 0 in 100 rounds",
    )

    # --- local differential privacy -----------------------------------------------------------
    ldp: Literal["off", "global-nodes", "all"] = Field(
        "global-nodes",
        description="what is clipped and gets noise before upload: global nodes and the gradients "
        "of the common model; all: parameter updates too",
    )
    ldp_norm: Literal["coordinate", "l1", "l2"] = Field(
        "coordinate",
        description="what ldp-clip bounds: each value, with Laplace noise; or the L1 norm (Laplace "
        "noise) or the L2 norm (Gaussian noise) of all that is protected, and ε is then of the "
        "whole upload",
    )
    ldp_clip: float = Field(
        1.0, gt=0, description="clipping bound, on a public scale of unit coordinates (δ)"
    )
    ldp_noise: float = Field(
        0.5,
        gt=0,
        description="scale of the noise (λ), at least a thousandth of ldp-clip; a coordinate, or "
        "with l1 an upload, costs ε = 2δ/λ",
    )
    ldp_update_scale: Literal["step", "one"] = Field(
        "step",
        description="the unit of ldp-clip and ldp-noise for parameter updates: about what a "
        "coordinate moves in a round (learning rate times local epochs), or 1, as in the paper",
    )
    ldp_noise_seed: int = Field(
        -1,
        ge=-1,
        description="seed of the noise; -1: random noise from the operating system; "
        "otherwise the noise is repeatable, and the run is not private",
    )

    label_privacy: Literal["off", "randomised-response", "dp-sgd"] = Field(
        "off",
        description="differential privacy of a training node's label, with label-epsilon: labels "
        "are exchanged at random once and for all, or gradients of single nodes are clipped and "
        "get noise in every step (methods fedgt and fedavg; few plain steps by default, see below)",
    )
    label_epsilon: float = Field(
        4.0,
        gt=0,
        description="ε of a training node's label: with randomised-response of all that ever "
        "leaves, with dp-sgd of the run's rounds",
    )
    gradient_clip: float = Field(
        1.0, gt=0, description="largest L2 norm of a training node's gradient with dp-sgd"
    )
    private_layers: Literal["head", "all"] = Field(
        "head",
        description="what dp-sgd trains: the last layer, on top of weights that stay as they "
        "began, or all; the noise grows with the number of weights",
    )

    privacy_budget: float = Field(
        0.0,
        ge=0,
        description="largest ε, composed over all uploads of an institution's data in all runs, "
        "after which it uploads nothing more, but goes on receiving and training; 0: no limit. "
        "Of a coordinate, with noise on each",
    )

    # --- messages -----------------------------------------------------------------------------
    wire_precision: Precision = Field(
        "int8",
        description="type of the values in a round's messages, both ways; int8: weights take 8 "
        "bits with a scale for every 256, other arrays are float16. What rounding takes from an "
        "update is added to the institution's next one",
    )

    # --- the federation -----------------------------------------------------------------------
    federation: str = Field(
        "default",
        min_length=1,
        description="name of the federation, and of the folder with its state",
    )
    run_name: str = Field(
        "", description="name of the run, in state and results; empty: Flower's id"
    )
    results_dir: str = Field(
        "runs", description="folder of the coordinator's checkpoints and journal"
    )
    min_institutions: int = Field(
        2, ge=1, description="institutions needed to start a run and to end a round (quorum)"
    )
    start_institutions: int = Field(
        0, ge=0, description="institutions to wait for before the first round; 0: min-institutions"
    )
    agreed_columns: str = Field(
        "",
        pattern="^([0-9a-f]{64})?$",
        description="SHA-256 of the names of features and classes that institutions must have "
        "(shared.profile.columns_digest); empty: those that most of them have",
    )
    round_deadline: float = Field(
        600.0, gt=0, description="seconds a round waits for institutions at most"
    )
    give_up_after: float = Field(
        3600.0,
        gt=0,
        description="seconds below the quorum after which the run ends with a checkpoint",
    )
    checkpoints: bool = Field(
        True,
        description="write what 'resume' needs; off saves time in experiments: institutions in "
        "one process then write nothing either, not even the best model",
    )
    resume: bool = Field(False, description="continue run-name from its last checkpoint")
    replace: bool = Field(
        False,
        description="set an earlier run of this run-name aside; off: where there is one, the run "
        "is refused",
    )
    models_memory_mb: int = Field(
        512,
        ge=0,
        description="memory (MiB) of the coordinator for the institutions' models, where each gets "
        "one of its own; the others are in a scratch file in results-dir",
    )

    # --- the institution's machine ------------------------------------------------------------
    # Of simulations alone: an institution with its own data says these in its node.toml.
    state_dir: str = Field(
        "", description="folder of the institutions' state; empty: a per-user folder"
    )
    device: str = Field("auto", description="device to train on: auto, cpu, cuda, cuda:1, …")
    mixed_precision: bool = Field(False, description="use bfloat16 autocast on CUDA devices")
    threads: int = Field(
        1,
        ge=0,
        description="CPU threads of torch; 0: torch chooses. Results "
        "are bit-identical only for the same number",
    )
    memory_budget_mb: int = Field(
        4096, ge=1, description="estimated memory (MiB) above which a step is split into batches"
    )
    worker_idle: float = Field(
        1800.0,
        gt=0,
        description="seconds without a message after which an institution's worker process ends",
    )

    @field_validator("federation", "run_name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if name and (not re.fullmatch(r"[\w.-]+", name) or name.startswith(".")):
            raise ValueError("use letters, digits, '-', '_' and '.' for a name of folders")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        if self.resume and not self.checkpoints:
            raise ValueError("resume is on, but checkpoints is off: there is nothing to resume")
        if self.ldp_clip > LARGEST_CLIP_RATIO * self.ldp_noise:
            raise ValueError(
                f"ldp-noise is {self.ldp_noise:g}, less than a thousandth of ldp-clip "
                f"{self.ldp_clip:g}: that hides nothing; say ldp off, or add noise"
            )
        if self.label_privacy == "dp-sgd":
            self._check_private_steps()
        if self.hidden % self.heads:
            raise ValueError(f"heads is {self.heads}, which does not divide hidden {self.hidden}")
        if (
            self.global_nodes == 0
            and self.method == "fedgt"
            and self.similarity in ("hungarian", "sinkhorn", "none")
            and self.aggregation == "personalised"
        ):
            raise ValueError(
                f"similarity '{self.similarity}' compares global nodes, but global-nodes is 0: "
                "choose similarity update or label, or aggregation mean"
            )
        return self

    def _check_private_steps(self) -> None:
        """Refuse what would use labels beside the gradients of single nodes."""
        allowed: dict[str, tuple[Scalar, ...]] = {
            "method": ("fedgt", "fedavg"),
            "class-weights": ("none",),
            "batch-size": (0,),
        }
        if self.method == "fedgt":
            allowed["similarity"] = ("hungarian", "sinkhorn", "none", "update")
        for key, values in allowed.items():
            if (found := getattr(self, key.replace("-", "_"))) not in values:
                expected = " or ".join(str(value) for value in values)
                raise ValueError(
                    f"label-privacy is 'dp-sgd', but {key} is {found!r}: choose {expected}, or "
                    "label-privacy randomised-response"
                )

    @classmethod
    def build(
        cls,
        values: Mapping[str, Scalar] | None = None,
        *,
        preset: str = "default",
        method_defaults: Mapping[str, Scalar] | None = None,
    ) -> "RunConfig":
        """Merge defaults, those of the method, the preset and ``values``; keys in kebab-case.

        A run is started with every setting resolved (see ``deploy.settings``), so a process that
        receives its settings needs neither preset nor defaults of the method.

        Raises
        ------
        FedGTError
            In one line that names the key, the value seen and what would be right.
        """
        merged = {
            **(method_defaults or {}),
            **lookup(PRESETS, "preset", preset),
            **(values or {}),
        }
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            raise FedGTError(_first_error(error)) from None

    @staticmethod
    def privacy_defaults(values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Return the defaults that the label privacy of a run's settings brings along."""
        return PRIVATE_STEPS if values.get("label-privacy") == "dp-sgd" else {}

    def check_privacy(self, *, private_updates: bool) -> None:
        """Raise FedGTError if noise on all updates is configured, but the method adds none."""
        if self.ldp == "all" and not private_updates:
            raise FedGTError(
                f"ldp is 'all', but method {self.method} uploads its updates without noise: "
                "choose method fedgt, or ldp off"
            )

    def to_flower(self) -> dict[str, Scalar]:
        """Return the settings as Flower's run-config takes them."""
        return dict(self.model_dump(by_alias=True))

    @property
    def has_common_model(self) -> bool:
        """Whether institutions share a model. DP-SGD promises nothing of its gradients."""
        return self.common_model != "off" and self.label_privacy != "dp-sgd"

    @property
    def data_folder(self) -> Path | None:
        """``data-dir`` as a path, None where it is empty."""
        return Path(self.data_dir) if self.data_dir else None


# What differs from the defaults of a method with label-privacy dp-sgd. Few plain gradient steps:
# each costs budget, Adam would make every value of the noise equally large, and dropout is noise
# on top of noise. Similarity weights gain nothing. The last layer reads a wide model, which is
# not trained.
PRIVATE_STEPS: dict[str, Scalar] = {
    "hidden": 128,
    "layers": 2,
    "rounds": 3,
    "lr": 3.0,
    "lr-schedule": "constant",
    "adam-epsilon": 1.0,
    "weight-decay": 0.0,
    "dropout": 0.0,
    "node-dropout": 0.0,
    "aggregation": "mean",
}

# Each entry: what differs from the defaults.
PRESETS: dict[str, dict[str, Scalar]] = {
    "default": {},
    "paper": {
        "batch-size": 64,
        "lr": 0.001,
        "lr-schedule": "constant",
        "adam-epsilon": 1e-8,
        "weight-decay": 5e-4,
        "decoupled-weight-decay": False,
        "hidden": 128,
        "layers": 2,
        "node-dropout": 0.0,
        "ppr-bias": False,
        "global-node-sets": "input",
        "centre-fingerprints": False,
        "denoise-similarity": False,
        "compare-updates": False,
        "own-model": False,
        "common-model": "off",
        "ldp-update-scale": "one",
        "ldp-clip": 0.002,
        "ldp-noise": 0.001,
        "wire-precision": "float32",
        "robust": False,
    },
}


def _first_error(error: ValidationError) -> str:
    """Return one line of pydantic's report."""
    first = error.errors()[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    key = _kebab(str(first["loc"][0]))
    if first["type"] == "extra_forbidden":
        known = sorted(map(_kebab, RunConfig.model_fields))
        return f"there is no setting '{key}': {nearest(key, known)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key} is {first['input']!r}: {message[0].lower()}{message[1:]}"
