"""A trained model and what it says of nodes.

Scores are computed by the code that evaluates during training, so that accuracies agree to the
last digit.
"""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import torch

from fedgt_client.data.own_data import OwnData
from fedgt_client.data.schema import Schema
from fedgt_client.graph import Graph
from fedgt_client.methods import ClientMethod, client_method
from fedgt_client.methods.base import Arrays
from fedgt_client.predict.calibration import Calibration
from fedgt_client.predict.table import prediction_batches, prediction_schema
from fedgt_client.run_record import RunRecord
from fedgt_client.state import OPTIMISER
from fedgt_client.training.memory import release_freed_memory
from shared.errors import FedGTError
from shared.files import Array


@dataclass(frozen=True)
class Model:
    """One institution's model of its best round."""

    record: RunRecord
    round_number: int
    saved: str  # ISO 8601
    arrays: Arrays
    calibration: Calibration = field(default_factory=Calibration)
    schema: Schema | None = None  # None: not trained on imported tables

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, in the order of the scores' columns."""
        return self.record.classes

    def digest(self) -> str:
        """Return the SHA-256 of the weights."""
        found = hashlib.sha256()
        for name, array in sorted(self.arrays.items()):
            found.update(f"{name}{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def describe(self) -> str:
        """Say which model this is, in one line."""
        record = self.record
        own = ", the best of its own validation" if record.chosen_by == "institution" else ""
        return (
            f"{record.institution}, method {record.config['method']}, run {record.run} "
            f"(started {record.started}), round {self.round_number}{own} of {self.saved}"
        )

    def with_calibration(self, calibration: Calibration) -> "Model":
        """Return the model with another calibration."""
        return replace(self, calibration=calibration)

    def with_schema(self, schema: Schema | None) -> "Model":
        """Return the model with the schema of its data."""
        return replace(self, schema=schema)

    def predict(self, data: Graph | OwnData) -> pa.Table:
        """Return a row for every node: id, predicted class, a probability for each class.

        Further columns: whether the node has a label, its split in training, whether it has a
        link, and whether it is new (attached after training).
        """
        own = OwnData.of(data) if isinstance(data, Graph) else data
        schema = prediction_schema(self.class_names, self.describe())
        batches = prediction_batches(schema, self.calibration, own, self.scores(own))
        return pa.Table.from_batches(batches, schema)

    def scores(self, data: Graph | OwnData) -> Array:
        """Return class scores before calibration (logits) of all nodes, shape (n, classes)."""
        graph = data if isinstance(data, Graph) else data.graph
        self.check_data(data)
        # What reading large tables has left would lie beside the model.
        pa.default_memory_pool().release_unused()
        release_freed_memory()
        found = self.method(graph).predict(np.arange(graph.num_nodes))
        if not np.isfinite(found).all():
            lost = int((~np.isfinite(found)).any(axis=1).sum())
            raise FedGTError(
                f"{lost:,} of {graph.num_nodes:,} nodes have no score: there are features that are "
                "not finite, or too large"
            )
        return found

    def method(self, graph: Graph) -> ClientMethod:
        """Return the method that trained, with the model's weights and another graph."""
        config = self.record.settings
        torch.set_num_threads(config.threads or torch.get_num_threads())
        method = client_method(graph, config, self.record.institution)
        self._check_arrays(method.state_dict())
        method.load_state_dict(self.arrays)
        return method

    def check_data(self, data: Graph | OwnData) -> None:
        """Raise FedGTError for data with other features, classes or scaling than in training."""
        graph = data if isinstance(data, Graph) else data.graph
        for what, found, expected in (
            ("features", graph.feature_names, self.record.features),
            ("classes", graph.class_names, self.record.classes),
        ):
            if found != expected:
                raise FedGTError(_difference(what, found, expected))
        schema = None if isinstance(data, Graph) else data.schema
        if schema and self.record.schema_digest not in (None, schema.digest()):
            raise FedGTError(
                "the data has another schema (scaling or encoding) than the model was trained "
                "with: import it with the model's schema"
            )

    def _check_arrays(self, expected: Arrays) -> None:
        """Raise FedGTError for weights of another model, or weights that are not finite."""
        shapes = {name: array.shape for name, array in expected.items()}
        found = {name: array.shape for name, array in self.arrays.items()}
        for name in sorted(shapes.keys() | found.keys()):
            if name.startswith(OPTIMISER):
                continue
            if shapes.get(name) != found.get(name):
                raise FedGTError(
                    f"the weights are of another model: {name} is {found.get(name, 'missing')}, "
                    f"expected {shapes.get(name, 'no such array')}"
                )
            if not np.isfinite(self.arrays[name]).all():
                raise FedGTError(f"the weights are damaged: {name} is not finite")


def _difference(what: str, found: tuple[str, ...], expected: tuple[str, ...]) -> str:
    """Say how the data's features or classes differ from the model's, in one line."""
    lacking = [name for name in expected if name not in found]
    more = [name for name in found if name not in expected]
    detail = (
        f"'{lacking[0]}' is missing"
        if lacking
        else f"'{more[0]}' is not among the model's"
        if more
        else "their order differs"
    )
    return f"the data has other {what} than the model was trained with: {detail}"
