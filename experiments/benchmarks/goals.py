"""The goals of speed and memory, and what was measured of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.report import EMPTY, Row, as_text, number
from experiments.benchmarks.results import load, rows_of

_LIMIT_MB = 4096 * 2**20 / 1e6  # memory-budget-mb in its default


@dataclass(frozen=True)
class Goal:
    """A number that a benchmark measures, and the bound it should keep."""

    title: str
    bench: str
    table: str
    bound: float
    measure: Callable[[Sequence[Row]], float | None]  # None: the rows do not show it
    unit: str = ""
    at_least: bool = False

    def row(self, folder: Path) -> list[str]:
        """Return title, goal, measured value, whether it is kept, and the command."""
        report = load(folder, self.bench)
        rows = rows_of(folder, self.bench, self.table)
        value = self.measure(rows) if rows else None
        sign = "≥" if self.at_least else "≤"
        shown, kept, command = EMPTY, EMPTY, f"`fedgt bench {self.bench}`"
        if value is not None and report is not None:
            shown = as_text(float(value)) + self.unit
            kept = "yes" if self._kept(value) else "**no**"
            command = f"`{report.command}`"
        return [self.title, f"{sign} {as_text(self.bound)}{self.unit}", shown, kept, command]

    def _kept(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


HEADINGS = ["what", "goal", "measured", "kept", "command"]


def _where(rows: Sequence[Row], **wanted: str | int) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def _smallest(key: str, **wanted: str) -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: min((number(row, key) for row in _where(rows, **wanted)), default=None)


def _largest(*keys: str, **wanted: str | int) -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: max(
        (number(row, key) for row in _where(rows, **wanted) for key in keys), default=None
    )


def _sum(*keys: str, **wanted: str | int) -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: max(
        (sum(number(row, key) for key in keys) for row in _where(rows, **wanted)), default=None
    )


def _growth(rows: Sequence[Row]) -> float | None:
    """Return the largest cost a node of large graphs with communities over the smallest."""
    large = [row for row in _where(rows, graph="communities") if number(row, "nodes") >= 10_000]
    costs = [number(row, "ppr_ms") for row in large]
    return max(costs) / min(costs) if len(costs) > 1 else None


def _peak_of_large(rows: Sequence[Row]) -> float | None:
    found = [row for row in rows if number(row, "nodes") >= 1_000_000]
    return max((number(row, "peak_mb") for row in found), default=None)


GOALS = (
    Goal(
        "prepare: quality, every graph",
        "prepare",
        "peers",
        0.98,
        _smallest("quality"),
        at_least=True,
    ),
    Goal(
        "prepare: nodes with quality ≥ 0.98, graphs with communities",
        "prepare",
        "peers",
        99.0,
        _smallest("good_nodes", graph="communities"),
        " %",
        at_least=True,
    ),
    Goal(
        "prepare: PPR, a node of graphs with communities",
        "prepare",
        "costs",
        0.25,
        _largest("ppr_ms", graph="communities"),
        " ms",
    ),
    Goal(
        "prepare: PPR, a node of dense social graphs",
        "prepare",
        "costs",
        0.6,
        _largest("ppr_ms", graph="social"),
        " ms",
    ),
    Goal(
        "prepare: cost a node, the largest size over the smallest (from 10,000 nodes)",
        "prepare",
        "costs",
        1.3,
        _growth,
        "×",
    ),
    Goal(
        "prepare: PPR and encoding of 169,000 nodes",
        "prepare",
        "costs",
        60.0,
        _sum("ppr_cpu", "encoding_cpu", graph="communities", nodes=169_000),
        " CPU s",
    ),
    Goal(
        "prepare: its memory",
        "prepare",
        "costs",
        2000.0,
        _largest("ppr_mb", "encoding_mb", graph="communities", nodes=169_000),
        " MB",
    ),
    Goal(
        "epoch: a whole round, of FedAvg-GraphSAGE's, Cora in 5",
        "epoch",
        "runs",
        1.26,
        _largest("of_fedavg", method="FedGT", data="cora/5"),
        "×",
    ),
    Goal(
        "wire: bytes up, of FedAvg-GraphSAGE's in float32",
        "wire",
        "messages",
        0.5,
        _largest("up_of_float32", method="FedGT"),
        "×",
    ),
    Goal(
        "wire: bytes down",
        "wire",
        "messages",
        0.6,
        _largest("down_of_float32", method="FedGT"),
        "×",
    ),
    Goal(
        "scale: 160,000 nodes to the end of round 1",
        "scale",
        "sizes",
        40.0,
        _largest("cpu", nodes=160_000),
        " CPU s",
    ),
    Goal(
        "scale: their peak of memory",
        "scale",
        "sizes",
        _LIMIT_MB,
        _largest("peak_mb", nodes=160_000),
        " MB",
    ),
    Goal("scale: that of 1,000,000 nodes", "scale", "sizes", _LIMIT_MB, _peak_of_large, " MB"),
    Goal(
        "round: 100 rounds of Cora in 10, one process",
        "round",
        "runs",
        20.0,
        _largest("cpu", run="FedGT", data="cora/10", rounds=100),
        " CPU s",
    ),
    Goal(
        "server: 1,000 institutions × 400,000 parameters, of the bare matrix product",
        "server",
        "cases",
        3.0,
        _largest("of_product", institutions=1000, parameters=400_000),
        "×",
    ),
    Goal(
        "server: its memory, of the updates",
        "server",
        "cases",
        2.5,
        _largest("of_updates", institutions=1000, parameters=400_000),
        "×",
    ),
    Goal(
        "social: six institutions, imported folders to the end of round 1",
        "social",
        "run",
        60.0,
        _largest("wall", institutions=6, nodes=34_500),
        " s",
    ),
)
