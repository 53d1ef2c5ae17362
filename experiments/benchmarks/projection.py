"""What larger federations and larger graphs would cost, from measured constants."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from experiments.benchmarks.report import Row, as_text, number
from experiments.benchmarks.results import rows_of
from shared.errors import FedGTError

# Flower 1.39: a phase over TLS on one machine of two cores, three clients that compute nothing.
FLOWER_PHASE = 6.5  # seconds with next to no bytes
FLOWER_MB = (28.0 - 9.0) / (100.0 - 10.0)  # seconds for each further MB of arrays: 10 and 100 MB

# What is at hand: a large machine, an institution's night, a round's default deadline.
MEMORY_GB, NIGHT, ROUND = 64.0, 12 * 3600.0, 600.0


@dataclass(frozen=True)
class Term:
    """A part of the cost, with the limit that it meets."""

    title: str
    formula: str
    cost: float
    limit: float
    unit: str  # s or GB

    @property
    def load(self) -> float:
        """Return the cost as a multiple of the limit."""
        return self.cost / self.limit

    def row(self) -> list[str]:
        """Return title, formula, cost and the multiple of the limit."""
        cost = f"{as_text(self.cost)} {self.unit}"
        if self.unit == "s" and self.cost >= 3600:
            cost = f"{as_text(self.cost / 3600)} h"
        elif self.unit == "GB" and self.cost >= 1000:
            cost = f"{as_text(self.cost / 1000)} TB"
        return [self.title, self.formula, cost, as_text(float(self.load)) + "×"]


HEADINGS = ["term", "grows with", "cost", "of its limit"]


@dataclass(frozen=True)
class Constants:
    """Measured costs of a node, of an institution, of a pair of institutions."""

    ppr_s: float  # CPU seconds a node
    encoding_s: float
    prepared_bytes: float  # of the result, a node
    prepare_bytes: float  # growth while preparing, a node
    round_s: float  # CPU seconds a node of round 1
    peak_bytes: float  # of the institution's process, a node
    base_bytes: float  # of that process before it opens the graph
    up: float  # bytes an institution and round
    down: float
    parameters: float
    average_s: float  # CPU seconds of the coordinator: M² P
    compare_s: float  # M²
    keep_bytes: float  # M P
    pair_bytes: float  # M²

    def rows(self) -> list[list[str]]:
        """Return every constant with its unit."""
        return [
            ["PPR, a node", f"{as_text(1000 * self.ppr_s)} CPU ms"],
            ["Laplacian encoding, a node", f"{as_text(1000 * self.encoding_s)} CPU ms"],
            ["result of the preparation, a node", f"{as_text(self.prepared_bytes)} bytes"],
            ["memory while preparing, a node", f"{as_text(self.prepare_bytes)} bytes"],
            ["round 1 (training, evaluation), a node", f"{as_text(1000 * self.round_s)} CPU ms"],
            ["memory of the institution's process, a node", f"{as_text(self.peak_bytes)} bytes"],
            ["the same before it opens a graph", f"{as_text(self.base_bytes / 1e6)} MB"],
            ["an update, an institution and round", f"{as_text(self.up / 1e6)} MB"],
            ["an instruction, an institution and round", f"{as_text(self.down / 1e6)} MB"],
            ["parameters of the model", as_text(int(self.parameters))],
            [
                "averages, a pair of institutions and 1,000 parameters",
                f"{as_text(1e9 * self.average_s)} CPU µs",
            ],
            ["comparison, a pair of institutions", f"{as_text(1e6 * self.compare_s)} CPU µs"],
            [
                "the coordinator's memory, an institution and parameter",
                f"{as_text(self.keep_bytes)} bytes",
            ],
            [
                "the coordinator's memory, a pair of institutions",
                f"{as_text(self.pair_bytes)} bytes",
            ],
        ]

    def institutions(self, count: float) -> list[Term]:
        """Return the terms of a round with many institutions, the worst first."""
        pairs, total_mb = count**2, count * (self.up + self.down) / 1e6
        models = count * self.parameters * self.keep_bytes
        return _worst_first(
            Term(
                "averages, one core", "M² P", self.average_s * pairs * self.parameters, ROUND, "s"
            ),
            Term("comparison, one core", "M²", self.compare_s * pairs, ROUND, "s"),
            Term("memory for models and updates", "M P", models / 1e9, MEMORY_GB, "GB"),
            Term("memory for pairs", "M²", self.pair_bytes * pairs / 1e9, MEMORY_GB, "GB"),
            Term("bytes of a round over 1 Gbit/s", "M P", total_mb / 125, ROUND, "s"),
            Term(
                "bytes of a round through Flower",
                "M P",
                FLOWER_PHASE + FLOWER_MB * total_mb,
                ROUND,
                "s",
            ),
        )

    def nodes(self, count: float, features: int) -> list[Term]:
        """Return the terms of an institution with many nodes, the worst first."""
        peak = self.base_bytes + self.peak_bytes * count
        return _worst_first(
            Term("PPR, one core", "n", self.ppr_s * count, NIGHT, "s"),
            Term("Laplacian encoding, one core", "n", self.encoding_s * count, NIGHT, "s"),
            Term("memory while preparing", "n", self.prepare_bytes * count / 1e9, MEMORY_GB, "GB"),
            Term("pools and encoding on disk", "n", self.prepared_bytes * count / 1e9, 1000, "GB"),
            Term("features on disk", "n p", 4 * features * count / 1e9, 1000, "GB"),
            Term("a round, one core", "n", self.round_s * count, ROUND, "s"),
            Term("memory of training and evaluation", "n", peak / 1e9, MEMORY_GB, "GB"),
            Term("bytes of a round over 1 Gbit/s", "P", (self.up + self.down) / 125e6, ROUND, "s"),
        )


def measured_constants(folder: Path) -> Constants:
    """Return the constants from the committed results of four benchmarks."""
    prepare = [row for row in rows_of(folder, "prepare", "costs") if row["graph"] == "communities"]
    scale, wire = rows_of(folder, "scale", "sizes"), rows_of(folder, "wire", "messages")
    server = rows_of(folder, "server", "cases")
    if not prepare or not wire or len(scale) < 2 or len(server) < 2:
        raise FedGTError(
            f"{folder} lacks results for this page: prepare, scale with two sizes or more, wire, "
            "server with two cases or more"
        )
    largest = max(prepare, key=lambda row: number(row, "nodes"))
    small, large = sorted(scale, key=lambda row: number(row, "nodes"))[-2:]
    ours = next(row for row in wire if row["method"] == "FedGT")
    nodes = number(largest, "nodes")
    further = number(large, "nodes") - number(small, "nodes")
    average, compare = _fit(server, "cpu", 1.0, squared=True)
    keep, pair = _fit(server, "peak_mb", 1e6, squared=False)
    return Constants(
        ppr_s=number(largest, "ppr_cpu") / nodes,
        encoding_s=number(largest, "encoding_cpu") / nodes,
        prepared_bytes=number(largest, "output_bytes"),
        prepare_bytes=max(number(largest, "ppr_mb"), number(largest, "encoding_mb")) * 1e6 / nodes,
        round_s=number(large, "round_cpu") / number(large, "nodes"),
        peak_bytes=(number(large, "peak_mb") - number(small, "peak_mb")) * 1e6 / further,
        base_bytes=number(large, "start_mb") * 1e6,
        up=number(ours, "up"),
        down=number(ours, "down"),
        parameters=number(ours, "parameters"),
        average_s=average,
        compare_s=compare,
        keep_bytes=keep,
        pair_bytes=pair,
    )


def _fit(rows: Sequence[Row], key: str, unit: float, *, squared: bool) -> tuple[float, float]:
    """Return the coefficients, none negative, of M² P (or M P) and M² that best give the rows.

    Rows count alike whatever their size.
    """
    models = [number(row, "institutions") for row in rows]
    sizes = [number(row, "parameters") for row in rows]
    costs = np.array([unit * number(row, key) for row in rows])
    terms: NDArray[np.float64] = np.array(
        [[(m * m if squared else m) * p, m * m] for m, p in zip(models, sizes, strict=True)]
    )
    # Columns differ by orders of magnitude: scaled to one for the solver.
    relative = terms / costs[:, None]
    scale = relative.max(axis=0)
    found, _ = nnls(relative / scale, np.ones(len(rows)))
    first, second = found / scale
    return float(first), float(second)


def _worst_first(*terms: Term) -> list[Term]:
    return sorted(terms, key=lambda term: -term.load)
