"""What a round does at an institution, top to bottom."""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar

from fedgt_client.data.own_folders import own_institution
from fedgt_client.data.subgraph import open_institution
from fedgt_client.error_feedback import ErrorFeedback
from fedgt_client.methods import ClientMethod, client_method
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.privacy import Ledger
from fedgt_client.run_record import RunRecord
from fedgt_client.state import InMemoryState, SavedRound, StateStore
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.version import installed_version
from shared.wire import NUM_EXAMPLES, Arrays, Profile

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
        config: RunConfig,
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
        self._ledger = Ledger(store.folder / "privacy.json")
        self._in_memory: SavedRound | None = None  # whose state it is

    @classmethod
    def open(cls, node: NodeConfig, config: RunConfig, run_name: str) -> "FedGTClient":
        """Open the institution's data and prepare it, unless that is already done."""
        torch.set_num_threads(config.threads or torch.get_num_threads())
        node = own_institution(node, config)
        graph = open_institution(node, config)
        kind = StateStore if node.keep_state else InMemoryState
        store = kind(node.state_root(config.state_dir), config.federation, run_name, node.name)
        if node.keep_state:
            RunRecord.of(node, config, run_name, graph).write(store.folder)
        return cls(
            node.name,
            lambda method: Profile(
                version=installed_version(),
                features=list(graph.feature_names),
                classes=list(graph.class_names),
                parameters={
                    name: list(array.shape) for name, array in method.initial_arrays().items()
                },
            ),
            lambda: client_method(graph, config, node.name),
            store,
            config,
        )

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
            whether the run is over and there is nothing to train.

        Returns
        -------
            The arrays to upload, rounded to what ``precision`` can express, the number of training
            nodes where the method weighs institutions by it (else 0), and the metrics, with
            ``warnings`` a line each.
        """
        started, round_number = time.monotonic(), int(config["round"])
        self._restore(round_number)
        self._store.keep_best(int(config.get("best-round", 0)))
        if config.get("finish", False):
            return NamedArrays({}), 0, {}
        result = self._method.fit(self._named(parameters), round_number)
        upload = self._feedback.apply(result.upload)
        state: Arrays = {}
        if self._store.writes:
            state = self._method.state_dict() | self._feedback.state_dict()
        self._in_memory = self._store.save(round_number, state)
        measured = {k: v for k, v in result.metrics.items() if math.isfinite(v)}
        self._store.log_metrics(round_number, measured)
        for warning in result.warnings:
            logger.warning("%s: %s", self.institution, warning)
        metrics: dict[str, Scalar] = {
            **result.metrics,
            **(self._ledger.record(result.released) if result.released else {}),
            "seconds": time.monotonic() - started,
        }
        if result.warnings:
            metrics["warnings"] = "\n".join(result.warnings)
        return NamedArrays(upload), int(result.metrics.get(NUM_EXAMPLES, 0)), metrics

    def _named(self, parameters: NDArrays) -> Arrays:
        """Return arrays by name."""
        if isinstance(parameters, NamedArrays):
            return parameters.as_dict()
        names = list(self._profile.parameters)
        if len(parameters) != len(names):
            raise FedGTError(
                f"fit got {len(parameters)} arrays, expected the {len(names)} of get_parameters"
            )
        return dict(zip(names, parameters, strict=True))

    def _restore(self, round_number: int) -> None:
        """Load the state after this institution's last round before ``round_number``.

        Usually it is in memory. It is not in a new process, in one of several processes that take
        turns, or when a coordinator that resumed asks for a round again.
        """
        newest = self._store.newest_before(round_number)
        if newest == self._in_memory:
            return
        self._method = self._new_method()
        saved = self._store.load(newest.round_number) if newest else {}
        if newest:
            self._method.load_state_dict(saved)
        self._feedback.load_state_dict(saved)
        self._in_memory = newest
