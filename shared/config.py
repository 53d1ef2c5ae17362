"""RunConfig: every setting of a run, documented here, validated once.

The same keys, in kebab-case, stand with their defaults in ``[tool.flwr.app.config]`` of
``pyproject.toml``, where Flower reads them; a test keeps the two equal. Where the paper's words and
what was measured to work differ, the difference is a key, and the preset ``paper`` sets these keys
back. What the paper leaves open (scale of inputs, space of global nodes) has no key.
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
from shared.registry import lookup

Scalar = str | int | float | bool


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
        description="a name of 'fedgt data list'; institutions "
        "with their own data say so in their node-config (data-dir)",
    )
    setting: Literal["disjoint", "overlap", "louvain", "unbalanced"] = Field(
        "disjoint", description="how a named dataset is divided among simulated institutions"
    )
    data_dir: str = Field(
        "",
        description="where raw files of named datasets lie; empty: "
        "$FEDGT_DATA, then the per-user cache",
    )
    seed: int = Field(0, ge=0, description="of partition, split, initialisation and sampling")

    # --- method and rounds --------------------------------------------------------------------
    method: str = Field(
        "fedgt",
        description="which method to train; each but fedgt brings defaults of its own for the "
        "settings below",
    )
    rounds: int = Field(100, ge=1, description="R")
    local_epochs: int = Field(1, ge=1, description="E, passes over the local data in a round")
    batch_size: int = Field(0, ge=0, description="training nodes in a step; 0: all of them")
    lr: float = Field(0.002, gt=0, description="η of Adam")
    lr_schedule: Literal["constant", "cosine"] = Field(
        "cosine", description="over the rounds; cosine falls from lr to 0"
    )
    adam_epsilon: float = Field(
        1e-4,
        gt=0,
        description="of Adam; larger than usual (1e-8), so that weights of features rarely seen "
        "here, which others have learned, move little",
    )
    weight_decay: float = Field(0.3, ge=0, description="of Adam")
    decoupled_weight_decay: bool = Field(
        True,
        description="decay weights by lr · weight-decay a step (AdamW); as a part of the gradient, "
        "Adam turns it into full steps that erase what this institution never sees",
    )

    # --- the graph transformer ----------------------------------------------------------------
    hidden: int = Field(128, ge=1, description="d")
    layers: int = Field(2, ge=1, description="L")
    heads: int = Field(4, ge=1, description="attention heads; must divide hidden")
    dropout: float = Field(0.5, ge=0, lt=1, description="on inputs and residual branches")
    node_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of nodes whose whole input a training step hides, so that neighbours "
        "must do; for small subgraphs (not in the paper)",
    )
    positional_dimensions: int = Field(8, ge=0, description="of the Laplacian encoding")
    samples: int = Field(16, ge=1, description="n_s, nodes drawn for local attention")
    sampler: str = Field(
        "ppr",
        description="where local attention samples its nodes: ppr, graphsage or attribute",
    )
    ppr_nu: float = Field(0.15, gt=0, lt=1, description="ν, the walker's chance to return")
    ppr_tolerance: float = Field(1e-5, gt=0, description="exactness of PPR, times degree")
    ppr_bias: bool = Field(
        True, description="learned multiple of log PPR in local attention (not in the paper)"
    )
    global_nodes: int = Field(10, ge=0, description="n_g; 0: no global attention")
    global_attention: bool = Field(
        True,
        description="nodes attend to the global nodes too; off: these serve only to compare "
        "institutions",
    )
    global_node_sets: Literal["layers", "input"] = Field(
        "layers",
        description="what global nodes are centres of: the representations at every "
        "layer boundary, or the input representations for all layers (as the paper has it)",
    )
    momentum: float = Field(0.9, ge=0, le=1, description="γ of the online clustering")

    # --- personalised aggregation -------------------------------------------------------------
    similarity: Literal["hungarian", "sinkhorn", "none", "update", "label"] = Field(
        "hungarian",
        description="of clients: optimal transport between global nodes, exact or "
        "entropic; without alignment; of updates; of label distributions (uploads them)",
    )
    aggregation: Literal["personalised", "mean"] = Field(
        "personalised", description="equation 8, or the plain mean of all"
    )
    tau: float = Field(5.0, ge=0, description="τ, scale of similarities in the softmax")
    centre_fingerprints: bool = Field(
        True, description="subtract the clients' common mean before the cosine (not in the paper)"
    )
    denoise_similarity: bool = Field(
        True, description="make up for what the privacy noise takes from cosines (not in the paper)"
    )

    mask_penalty: float = Field(
        0.5,
        ge=0,
        description="λ1 of FED-PUB's masks; with its authors' 0.001 none reaches 0 in 100 rounds",
    )

    # --- local differential privacy -----------------------------------------------------------
    ldp: Literal["off", "global-nodes", "all"] = Field(
        "global-nodes", description="what is clipped and noised before upload; all: Δθ too"
    )
    ldp_clip: float = Field(1.0, gt=0, description="δ, on coordinates in a public unit scale")
    ldp_noise: float = Field(0.5, gt=0, description="λ of the Laplace noise; ε = 2δ/λ a coordinate")
    ldp_noise_seed: int = Field(
        -1,
        ge=-1,
        description="-1: noise from the system's entropy; "
        "otherwise repeatable, and the run is not private",
    )

    # --- the federation -----------------------------------------------------------------------
    federation: str = Field("default", min_length=1, description="names the durable state")
    run_name: str = Field("", description="names the run's state and results; empty: Flower's id")
    results_dir: str = Field("runs", description="the coordinator's checkpoints and journal")
    min_institutions: int = Field(
        2, ge=1, description="to start a run and to end a round: the quorum"
    )
    start_institutions: int = Field(
        0, ge=0, description="to wait for before the first round; 0: min-institutions"
    )
    round_deadline: float = Field(600.0, gt=0, description="seconds a round waits for institutions")
    give_up_after: float = Field(
        3600.0, gt=0, description="seconds without quorum until the run ends with a checkpoint"
    )
    checkpoints: bool = Field(
        True,
        description="the coordinator keeps what 'resume' needs; off saves time in experiments, "
        "where institutions in one process then keep nothing either, not even the best model",
    )
    resume: bool = Field(False, description="continue run-name from its last checkpoint")

    # --- the institution's machine ------------------------------------------------------------
    state_dir: str = Field("", description="durable state of institutions; empty: per-user folder")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, …")
    mixed_precision: bool = Field(False, description="bfloat16 autocast, on CUDA devices")
    threads: int = Field(
        1,
        ge=0,
        description="of torch on the CPU; 0: its own choice. Results "
        "are bit-identical only for equal numbers",
    )
    memory_budget_mb: int = Field(4096, ge=1, description="above it a step works in batches")
    worker_idle: float = Field(
        1800.0,
        gt=0,
        description="seconds without a message until the process ends that an institution "
        "keeps between rounds",
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

    @classmethod
    def build(
        cls,
        values: Mapping[str, Scalar] | None = None,
        *,
        preset: str = "default",
        method_defaults: Mapping[str, Scalar] | None = None,
    ) -> "RunConfig":
        """Merge defaults, those of the method, the preset and ``values``; keys in kebab-case.

        A run is started with every setting resolved (see ``deploy.settings``), so whoever receives
        its settings needs neither preset nor defaults of the method.

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
    def data_folder(self) -> Path | None:
        """``data-dir`` as a path, None where it is empty."""
        return Path(self.data_dir) if self.data_dir else None


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
        "ppr-bias": False,
        "global-node-sets": "input",
        "centre-fingerprints": False,
        "denoise-similarity": False,
        "ldp-clip": 0.002,
        "ldp-noise": 0.001,
    },
}


def _first_error(error: ValidationError) -> str:
    """Return one line of pydantic's report."""
    first = error.errors()[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    key = _kebab(str(first["loc"][0]))
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(_kebab(name) for name in RunConfig.model_fields))
        return f"there is no setting '{key}'; there are: {known}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key} is {first['input']!r}: {message[0].lower()}{message[1:]}"
