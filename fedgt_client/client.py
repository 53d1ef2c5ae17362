"""What a round does at an institution, top to bottom."""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar

from fedgt_client.data.own_folders import own_institution
from fedgt_client.data.provenance import DataFiles, read_provenance
from fedgt_client.data.subgraph import open_institution
from fedgt_client.error_feedback import ErrorFeedback
from fedgt_client.graph import Graph
from fedgt_client.methods import ClientMethod, client_method
from fedgt_client.metric_sharing import MetricSharing
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from fedgt_client.privacy.digest import data_digest, earlier_data_digest
from fedgt_client.privacy.labels import LabelPromise, private_labels
from fedgt_client.privacy.ledger import RUN_LEDGER, Ledger, carry_over, ledger_path
from fedgt_client.privacy.outbound import uploaded_contents
from fedgt_client.privacy.release import Release
from fedgt_client.privacy.releases import Releases, RunOfInstitution
from fedgt_client.privacy.sent_uploads import SentUpload
from fedgt_client.run_folder import claim_folder, take_rejoin
from fedgt_client.run_record import RunRecord, check_same_data
from fedgt_client.state import KEPT, InMemoryState, SavedRound, StateStore
from shared.config import RunConfig
from shared.errors import ChangedDataError, FedGTError
from shared.text import plain_line
from shared.version import installed_version
from shared.wire import (
    KEPT_OWN,
    LONGEST_LINE,
    NUM_EXAMPLES,
    WEIGHTS,
    Arrays,
    Profile,
    selection_metric,
    smaller_is_better,
)

logger = logging.getLogger(__name__)


class FedGTClient(NumPyClient):
    """One institution in one run: its subgraph, its model, its durable state.

    Arrays have names: ``fit`` and ``get_parameters`` return ``NamedArrays``. Who has a plain list,
    as Flower's own callers do, may pass it to ``fit`` in the order of ``get_parameters``.
    """

    def __init__(
        self,
        institution: str,
        profile: Callable[[ClientMethod], Profile],
        method: Callable[[], ClientMethod],
        store: StateStore,
        releases: Releases,
        config: RunConfig,
        data: DataFiles | None = None,
        labels: LabelPromise | None = None,
        sharing: MetricSharing | None = None,
    ) -> None:
        self.institution = institution
        self._new_method = method
        self._method = method()
        self._profile = profile(self._method)
        self.precision = config.wire_precision
        # With ldp 'all', all parameters have noise.
        added_up = self._profile.parameters if config.ldp != "all" else ()
        self._feedback = ErrorFeedback(self.precision, added_up)
        self._store = store
        self._releases = releases
        self._in_memory: SavedRound | None = None  # whose state it is
        self._data = data  # None: not a folder of its own
        self._labels = labels  # what is promised of training labels; None: nothing
        self._run = store.run
        # Noise on gradients keeps its promise for as many; 0: there is none.
        self._private_rounds = config.rounds if config.label_privacy == "dp-sgd" else 0
        self._sharing = sharing or MetricSharing(None, {}, config.select_by)
        self._select_by = config.select_by
        self._limits: Policy | None = None

    @classmethod
    def open(
        cls, node: NodeConfig, config: RunConfig, run_name: str, run_token: str = ""
    ) -> "FedGTClient":
        """Open the institution's data and prepare it, unless that is already done."""
        config = node.with_local_settings(config)
        torch.set_num_threads(config.threads or torch.get_num_threads())
        node = own_institution(node, config)
        graph = open_institution(node, config)
        nodes = {"val": int(graph.val.sum()), "test": int(graph.test.sum())}
        sharing = MetricSharing(node.limits, nodes, config.select_by)
        if sharing.mode == "noised":
            # What validation labels choose would show in more than the value that has noise.
            unchosen = "off" if config.common_model == "off" else "mean"
            quiet = {"own_model": False, "common_model": unchosen}
            config = config.model_copy(update=quiet)
        if sharing.told_step is None:  # that it keeps its own model tells of validation labels
            config = config.model_copy(update={"robust": False})
        place = (node.state_root(config.state_dir), config.federation, run_name, node.name)
        data = None
        if node.keep_state:
            store = claim_folder(*place, run_token)
            record = RunRecord.of(
                node,
                config,
                run_name,
                graph,
                run_token,
                chooses_itself=sharing.chooses_itself,
            )
            if node.data_dir:
                _check_owner(node, record.graph_digest)
                data = DataFiles.of(Path(node.data_dir), record.graph_digest)
            record.write(store.folder)
        else:
            store = InMemoryState(*place)
        digest = data_digest(graph)
        if node.data_dir and store.writes:
            carry_over(node.ledger_root(config.state_dir), earlier_data_digest(graph), digest)
        ledger = _ledger(node, config, store, digest)
        releases = _releases(node, config, store, ledger, digest)
        # From here on nothing sees the labels that training nodes really have.
        most = node.limits.max_label_epsilon if node.limits else 0.0
        graph, promise = private_labels(graph, config, ledger.folder, most)
        client = cls(
            node.name,
            lambda method: Profile(
                version=installed_version(),
                features=list(graph.feature_names),
                classes=list(graph.class_names),
                parameters={
                    name: list(array.shape) for name, array in method.initial_arrays().items()
                },
            ),
            lambda: _method(graph, config, node.name, sharing),
            store,
            releases,
            config,
            data,
            promise,
            sharing,
        )
        if limits := node.limits:
            limits.check_size(node.name, client._profile.parameters)
            client._limits = limits
        return client

    @property
    def method(self) -> ClientMethod:
        """The method as the last round left it."""
        return self._method

    def get_properties(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Return the institution's name, and as JSON what all institutions must agree on."""
        return {"institution": self.institution, "profile": json.dumps(asdict(self._profile))}

    def get_parameters(self, config: dict[str, Scalar]) -> NamedArrays:
        """Return the seeded starting point."""
        return NamedArrays(self._new_method().initial_arrays())

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NamedArrays, int, dict[str, Scalar]]:
        """Restore the state before this round, train, evaluate, save; return what is uploaded.

        Parameters
        ----------
        parameters
            What the coordinator sent: ``NamedArrays``, or a list in the order of
            ``get_parameters``.
        config
            ``round``, counted from 1; ``best-round``, whose model to keep, 0 for none; ``finish``,
            whether the run is over and there is nothing to train; ``last-round``, this
            institution's last round that the coordinator has, 0 for none.

        Returns
        -------
            The arrays to upload, rounded to what ``precision`` can express, the number of training
            nodes where the method weighs institutions by it (else 0), and the metrics, with
            ``warnings`` a line each.
        """
        started, round_number = time.monotonic(), int(config["round"])
        if self._limits and not config.get("finish", False):
            # Whatever the run's settings say of the number of its rounds.
            self._limits.check_round(self.institution, round_number)
        if 0 < self._private_rounds < round_number and not config.get("finish", False):
            raise FedGTError(
                f"round {round_number} is not trained: the noise on gradients is for "
                f"{self._private_rounds} rounds"
            )
        self._check_data()
        self._restore(round_number, int(config.get("last-round", 0)))
        best_round = int(config.get("best-round", 0))
        if not self._sharing.chooses_itself:
            self._store.keep_best(best_round)
        if config.get("finish", False):
            self._log_result(best_round)
            return NamedArrays({}), 0, {}
        if sent := self._releases.again(round_number):
            return _reply(sent)
        self._check_not_repeated(round_number)
        result = self._method.fit(self._named(parameters), round_number)
        self._check_declared(result.upload)
        upload = self._feedback.apply(result.upload)
        state: Arrays = {}
        if self._store.writes:
            state = self._method.state_dict() | self._feedback.state_dict()
        self._in_memory = self._store.save(round_number, state)
        measured = {k: v for k, v in result.metrics.items() if math.isfinite(v)}
        self._store.log_metrics(round_number, measured)
        if self._chooses_itself(best_round):
            metric = selection_metric(self._select_by)
            smaller = smaller_is_better(self._select_by)
            self._store.keep_if_best(round_number, metric, smaller=smaller)
        logger.info("%s, round %d: %s", self.institution, round_number, _measured_text(measured))
        for warning in result.warnings:
            logger.warning("%s: %s", self.institution, warning)
        measured["seconds"] = time.monotonic() - started
        shared = self._sharing.share(measured)
        metrics: dict[str, float | str] = dict(shared.metrics)
        if KEPT_OWN in measured:  # no metric: it says what the upload counts from
            metrics[KEPT_OWN] = 1.0
        if result.warnings and (told := self._sharing.warnings(result.warnings)):
            metrics["warnings"] = "\n".join(told)
        examples = int(shared.metrics.get(NUM_EXAMPLES, 0))
        release = result.released or Release.unprotected()
        if self._labels:
            release = self._labels.of(release, result.upload)
        if shared.part:
            release = release.with_part(shared.part)
        return _reply(
            self._releases.release(round_number, SentUpload(upload, examples, metrics, release))
        )

    def _check_declared(self, upload: Arrays) -> None:
        """Refuse to send arrays that the method has not declared: a policy cannot know of them."""
        declared = set(self._method.uploads)
        if WEIGHTS in declared:
            declared.update(self._profile.parameters)
        if more := sorted(upload.keys() - declared):
            raise FedGTError(f"the method uploads {more[0]!r}, which it does not declare")

    def _chooses_itself(self, best_round: int) -> bool:
        """Tell whether this institution keeps the model that is best by its own validation.

        Also where it joined after the run's best round, of which it has none.
        """
        return self._sharing.chooses_itself or 0 < best_round < self._store.first_round()

    def _log_result(self, best_round: int) -> None:
        """Tell the institution what its best model is worth, and where it is."""
        if best := self._store.best():
            logger.info(
                "%s: run %s is over; best model %sof round %d (%s) in %s; 'fedgt predict' uses it",
                self.institution,
                self._run,
                "by its own validation " if self._chooses_itself(best_round) else "",
                best.round_number,
                _measured_text(self._store.metrics_of(best.round_number)),
                best.path,
            )

    def _named(self, parameters: NDArrays) -> Arrays:
        """Return arrays by name; raise FedGTError for any that are not exchanged."""
        if isinstance(parameters, NamedArrays):
            received = parameters.as_dict()
            self._check_exchanged(received)
            return received
        names = list(self._profile.parameters)
        if len(parameters) != len(names):
            raise FedGTError(
                f"fit got {len(parameters)} arrays, expected the {len(names)} of get_parameters"
            )
        return dict(zip(names, parameters, strict=True))

    def _check_exchanged(self, received: Arrays) -> None:
        """Refuse what this method does not receive: a personal layer is nobody else's to set."""
        shapes = self._profile.parameters
        for name, array in received.items():
            shown = plain_line(name, LONGEST_LINE)
            if name not in shapes and name not in self._method.uploads:
                raise FedGTError(f"a message holds '{shown}', which is not exchanged")
            if name in shapes and list(array.shape) != shapes[name]:
                raise FedGTError(
                    f"a message's '{shown}' has shape {list(array.shape)}, expected {shapes[name]}"
                )

    def _check_data(self) -> None:
        """Refuse data that was put in the place of what the run began with."""
        if self._data and (now := self._data.digest_now()) != self._data.digest:
            check_same_data(self._run, self._data.digest, now)

    def _restore(self, round_number: int, last_round: int) -> None:
        """Load the state after this institution's last round before ``round_number``.

        Usually it is in memory. It is not in a new process, in one of several processes that take
        turns, or when a coordinator that resumed asks for a round again.
        """
        newest = self._store.newest_before(round_number, self._in_memory)
        self._check_not_lost(newest.round_number if newest else 0, last_round)
        if newest == self._in_memory:
            return
        self._method = self._new_method()
        saved = self._store.load(newest.round_number) if newest else {}
        if newest:
            self._method.load_state_dict(saved)
        self._feedback.load_state_dict(saved)
        self._in_memory = newest

    def _check_not_repeated(self, round_number: int) -> None:
        """Refuse to draw noise on gradients again: a run's promise is of one draw a round."""
        if not self._private_rounds:
            return
        newest = max(self._store.rounds(), default=0) if self._store.writes else 0
        if newest > round_number or self._releases.has_left(round_number):
            since = f", and round {newest} was trained since" if newest > round_number else ""
            raise FedGTError(
                f"round {round_number} is not trained again: with noise on gradients that would "
                f"pass label-epsilon{since}"
            )

    def _check_not_lost(self, newest: int, last_round: int) -> None:
        """Refuse to begin anew in a run that goes on, unless the institution has said so.

        The newest states may have been truncated by a power cut; the one before them is here.
        """
        if newest > last_round - KEPT or not last_round or not self._store.writes:
            return
        if take_rejoin(self._store.root, self._store.federation, self._run):
            logger.warning(
                "%s goes on in run %s without its state up to round %d",
                self.institution,
                self._run,
                last_round,
            )
            return
        found = f"ends with round {newest}" if newest else "is gone"
        raise FedGTError(
            f"the state of run {self._run} at {self.institution} {found}, but it took part up to "
            f"round {last_round}: restore it from a backup, or go on without it by "
            f"'fedgt rejoin KIT --run {self._run}'"
        )


def _measured_text(metrics: Mapping[str, float]) -> str:
    """Return accuracies in a line, with what they are worth."""
    names = {
        "val_accuracy": "validation",
        "test_accuracy": "test",
        "test_majority_share": "largest class",
        "test_balanced_accuracy": "balanced",
    }
    shown = [f"{text} {metrics[name]:.4f}" for name, text in names.items() if name in metrics]
    return ", ".join(shown) or "not measured"


def _method(
    graph: Graph, config: RunConfig, institution: str, sharing: MetricSharing
) -> ClientMethod:
    """Create the method, which says no more of validation nodes than is shared."""
    method = client_method(graph, config, institution)
    method.accuracy_step = sharing.told_step or 0.0
    return method


def _check_owner(node: NodeConfig, digest: str) -> None:
    """Refuse data that was imported for another institution, or has changed since."""
    if node.partition_id is not None:
        return  # a rehearsal, whose institutions are named as their folders
    if problem := read_provenance(Path(node.data_dir)).problem(node.name, digest):
        raise ChangedDataError(f"{problem}: name the right folder in node.toml, or import it again")


def _reply(sent: SentUpload) -> tuple[NamedArrays, int, dict[str, Scalar]]:
    return sent.arrays, sent.examples, dict(sent.metrics)


def _ledger(node: NodeConfig, config: RunConfig, store: StateStore, digest: str) -> Ledger:
    """Return the ledger of the institution's data."""
    if not store.writes:
        return Ledger(None)
    if node.data_dir:
        root = node.ledger_root(config.state_dir)
        ledger = Ledger(ledger_path(root, digest), node.name)
        if not node.is_simulated:
            _check_complete(ledger, root, node.name, _budget(node, config))
        return ledger
    # A simulated institution's share of a benchmark: public data, a ledger for each run.
    return Ledger(store.folder / RUN_LEDGER)


def _check_complete(ledger: Ledger, root: Path, institution: str, budget: float) -> None:
    """Refuse to go on with a budget where the ledger lacks what the outbound record lists."""
    lost = uploaded_contents(root, institution) - ledger.contents()
    if not lost:
        return
    problem = (
        f"the ledger of {institution} lacks {len(lost)} uploads that left: restore it from a "
        "backup; with another state-dir, what was spent so far is not counted"
    )
    if budget:
        raise FedGTError(problem)
    logger.warning("%s", problem)


def _releases(
    node: NodeConfig, config: RunConfig, store: StateStore, ledger: Ledger, digest: str
) -> Releases:
    """Return the way out of this run."""
    owner = RunOfInstitution(store.federation, store.run, node.name)
    folder = store.folder if store.writes else None
    return Releases(owner, config, ledger, folder, digest, _budget(node, config))


def _budget(node: NodeConfig, config: RunConfig) -> float:
    """Return the smaller of the institution's and the run's privacy budgets; 0: neither has one."""
    own = node.limits.privacy_budget if node.limits else 0.0
    return min(filter(None, (own, config.privacy_budget)), default=0.0)
