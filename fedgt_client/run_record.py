"""``run.json``: what a run was, beside the state that an institution keeps of it.

The weights alone cannot be used again: prediction needs the settings, the names of features and
classes, and which data the model was trained on.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.graph import Graph
from fedgt_client.node import NodeConfig
from fedgt_client.privacy.digest import data_digest
from shared.config import RunConfig, Scalar
from shared.earlier_settings import LATER_SETTINGS
from shared.errors import ChangedDataError, FedGTError
from shared.files import write_json
from shared.version import installed_version

FILE = "run.json"


class RunRecord(BaseModel):
    """One institution's part in one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    fedgt: str  # version that trained
    federation: str
    run: str
    token: str = ""  # tells the run from others of its name; empty: it began without one
    institution: str
    started: str  # ISO 8601
    config: dict[str, Scalar]
    node: dict[str, Scalar]  # where the data is, on the machine that trained
    features: tuple[str, ...]
    classes: tuple[str, ...]
    graph_digest: str
    data_digest: str = ""  # of the ledger of what was released; empty: before there was one
    nodes: int
    links: int
    train_counts: tuple[int, ...]  # training nodes of each class
    # Who chooses the best round: the mean over institutions, or this institution's validation.
    chosen_by: Literal["federation", "institution"] = "federation"
    schema_digest: str | None  # None: not data that 'fedgt data import' wrote

    @classmethod
    def of(
        cls,
        node: NodeConfig,
        config: RunConfig,
        run: str,
        graph: Graph,
        token: str = "",
        *,
        chooses_itself: bool = False,
    ) -> "RunRecord":
        """Return the record of a run that starts now."""
        place: dict[str, Scalar] = {}
        if node.data_dir:
            place["data-dir"] = str(Path(node.data_dir).absolute())
        labels = graph.labels[graph.train]
        schema = Path(node.data_dir) / SCHEMA_FILE
        return cls(
            fedgt=installed_version(),
            federation=config.federation,
            run=run,
            token=token,
            institution=node.name,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            config=config.to_flower(),
            node={**node.to_flower(), **place},
            features=graph.feature_names,
            classes=graph.class_names,
            graph_digest=graph.digest(),
            data_digest=data_digest(graph),
            nodes=graph.num_nodes,
            links=graph.num_edges,
            chosen_by="institution" if chooses_itself else "federation",
            train_counts=tuple(int((labels == c).sum()) for c in range(graph.num_classes)),
            schema_digest=Schema.load(schema).digest()
            if node.data_dir and schema.exists()
            else None,
        )

    @property
    def settings(self) -> RunConfig:
        """The settings of the run."""
        return RunConfig.build(LATER_SETTINGS | self.config)

    def write(self, folder: Path) -> None:
        """Write the record, unless it is there: a process that takes over keeps the date.

        Raises
        ------
        FedGTError
            When the run began here with other data, or with another promise about labels.
        """
        try:
            kept = RunRecord.read(folder)
        except FedGTError:  # none yet, or of another version
            kept = None
        if kept and kept.token == self.token:
            check_same_data(self.run, kept.graph_digest, self.graph_digest)
            _check_same_promise(self.run, kept.config, self.config)
        if kept is None or kept.model_copy(update={"started": self.started}) != self:
            write_json(folder / FILE, self.model_dump(mode="json"))

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read the record of the state in ``folder``."""
        path = folder / FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise FedGTError(f"{path} is missing: {folder} is not a run's state") from None
        except ValidationError as error:
            raise FedGTError(f"{path} cannot be read: {first_problem(error)}") from None


def check_same_data(run: str, began_with: str, found: str) -> None:
    """Raise ChangedDataError where the data's digest is not that of the run's beginning."""
    if began_with != found:
        raise ChangedDataError(
            f"this institution's data has changed during run {run} (digest {began_with[:12]} when "
            f"it began, {found[:12]} now): put the first back, or start another run"
        )


def _check_same_promise(run: str, before: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> None:
    """Raise FedGTError where noise on gradients is for other steps than when the run began."""
    if "dp-sgd" not in (before.get("label-privacy"), now.get("label-privacy")):
        return
    for key in ("label-privacy", "label-epsilon", "rounds", "local-epochs"):
        if before.get(key) != now.get(key):
            raise FedGTError(
                f"{key} is {now.get(key)} and was {before.get(key)} when run {run} began: with "
                "label-privacy dp-sgd the promise is about all of a run; start another one"
            )


def first_problem(error: ValidationError) -> str:
    """Return the first of pydantic's errors in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return " ".join(f"{where} {problem['msg']}".split())
