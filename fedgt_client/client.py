"""What a round does at an institution, top to bottom."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch
from flwr.app import UserConfig
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar

from fedgt_client.data.subgraph import open_institution
from fedgt_client.institution import institution_name, state_root
from fedgt_client.methods import ClientMethod, client_method
from fedgt_client.privacy import Ledger
from fedgt_client.state import PassingState, SavedRound, StateStore
from shared.config import RunConfig
from shared.version import installed_version
from shared.wire import Profile

logger = logging.getLogger(__name__)


class FedGTClient(NumPyClient):
    """One institution in one run: its subgraph, its model, its durable state.

    What Flower hands over as lists has names, which travel beside them in the configuration and
    the metrics as JSON.
    """

    def __init__(
        self,
        institution: str,
        profile: Callable[[ClientMethod], Profile],
        method: Callable[[], ClientMethod],
        store: StateStore,
    ) -> None:
        self.institution = institution
        self._new_method = method
        self._method = method()
        self._profile = profile(self._method)
        self._store = store
        self._ledger = Ledger(store.folder / "privacy.json")
        self._in_memory: SavedRound | None = None  # whose state it is

    @classmethod
    def open(cls, node_config: UserConfig, config: RunConfig, run_name: str) -> "FedGTClient":
        """Open the institution's data and prepare it, or find it prepared."""
        torch.set_num_threads(config.threads or torch.get_num_threads())
        institution = institution_name(node_config)
        graph = open_institution(node_config, config)
        root = state_root(node_config, config.state_dir)
        store = StateStore if node_config.get("keep-state", True) else PassingState
        return cls(
            institution,
            lambda method: Profile(
                version=installed_version(),
                features=list(graph.feature_names),
                classes=list(graph.class_names),
                parameters={
                    name: list(array.shape) for name, array in method.initial_arrays().items()
                },
            ),
            lambda: client_method(graph, config, institution),
            store(root, config.federation, run_name, institution),
        )

    def get_properties(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Who this is, and what all institutions must agree on."""
        return {"institution": self.institution, "profile": json.dumps(asdict(self._profile))}

    def get_parameters(self, config: dict[str, Scalar]) -> NDArrays:
        """The seeded starting point, in the order of the profile's parameters."""
        return list(self._new_method().initial_arrays().values())

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """A round: restore, take over, train, evaluate, save, answer."""
        started, round_number = time.monotonic(), int(config["round"])
        self._restore(round_number)
        self._store.keep_best(int(config["best-round"]))
        if config["finish"]:
            return [], 0, {"names": "[]", "warnings": "[]"}
        received = dict(zip(json.loads(str(config["names"])), parameters, strict=True))
        result = self._method.fit(received, round_number)
        self._in_memory = self._store.save(round_number, self._method.state_dict())
        for warning in result.warnings:
            logger.warning("%s: %s", self.institution, warning)
        metrics: dict[str, Scalar] = {
            **result.metrics,
            **(self._ledger.record(result.released) if result.released else {}),
            "seconds": time.monotonic() - started,
            "names": json.dumps(list(result.upload)),
            "warnings": json.dumps(result.warnings),
        }
        return [np.asarray(array) for array in result.upload.values()], 0, metrics

    def _restore(self, round_number: int) -> None:
        """Bring the state after this institution's last round before ``round_number`` to memory.

        Usually it is there. It is not in a new process, in one of several processes that take
        turns, or when a coordinator that resumed asks for a round again.
        """
        newest = self._store.newest_before(round_number)
        if newest == self._in_memory:
            return
        self._method = self._new_method()
        if newest:
            self._method.load_state_dict(self._store.load(newest.round_number))
        self._in_memory = newest
