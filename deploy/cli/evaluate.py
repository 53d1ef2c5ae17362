"""``fedgt evaluate``: metrics, calibration and threshold of the institution's own model."""

from typing import Annotated

import typer
from rich.markup import escape

from deploy.cli.model_options import Data, Institution, ModelFolder, Run, open_trained
from deploy.cli.output import Json, print_json, print_table, status_console
from deploy.cli.steps import show_steps
from fedgt_client.predict.assessment import Assessment, SplitAssessment, ThresholdRule, assess
from fedgt_client.predict.model import Model
from fedgt_client.predict.model_card import METRIC_NAMES, balance_warnings
from shared.errors import FedGTError


def evaluate(
    model: ModelFolder,
    recall: Annotated[
        float | None, typer.Option(help="Choose the threshold that finds this share of positives.")
    ] = None,
    cost_ratio: Annotated[
        float | None,
        typer.Option(help="Choose the threshold by cost: a missed positive in false alarms."),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The class to find; default: the rarer in training.")
    ] = None,
    data: Data = None,
    run: Run = "",
    institution: Institution = "",
    json: Json = False,
) -> None:
    """Measure and calibrate a model.

    Temperature and threshold are chosen on the validation nodes and kept
    beside the model, where 'predict' and 'export' find them. A threshold
    needs two classes. The metrics stay at the institution.
    """
    rule = threshold_rule(recall, cost_ratio, positive)
    with show_steps(quiet=json) as step:
        source, own = open_trained(model, data, run, institution, step)
        if source.exported:
            raise FedGTError(f"{model} is an exported model: evaluate the kit, and export it again")
        step("scoring")
        scores = source.model.scores(own)
        step("measuring")
        found = assess(source.model, own, scores, rule, with_intervals=True)
        found.write(source.folder)
    if json:
        print_json({"model": source.model.describe(), **found.model_dump(mode="json")})
    else:
        _show(source.model, found)


def threshold_rule(
    recall: float | None, cost_ratio: float | None, positive: str | None
) -> ThresholdRule | None:
    """Return the rule that the options ask for."""
    if recall is not None and cost_ratio is not None:
        raise FedGTError("--recall and --cost-ratio exclude each other")
    if recall is not None:
        return ThresholdRule("recall", recall, positive)
    if cost_ratio is not None:
        return ThresholdRule("cost-ratio", cost_ratio, positive)
    if positive is not None:
        raise FedGTError("--positive needs --recall or --cost-ratio")
    return None


def _show(model: Model, found: Assessment) -> None:
    rows = [
        [title, *(_value(part, name) for part in (found.val, found.test))]
        for name, title in METRIC_NAMES.items()
    ]
    for title, name in (("largest class", "majority_share"), ("nodes", "nodes")):
        rows.append([title, *(_value(part, name) for part in (found.val, found.test))])
    print_table(escape(model.describe()), ["", "validation", "test"], rows)
    if found.test:
        columns = ["class", "nodes", "precision", "recall", "F1", "average precision"]
        values = [
            [escape(one.name), str(one.nodes)]
            + [_number(x) for x in (one.precision, one.recall, one.f1, one.average_precision)]
            for one in found.test.metrics.classes
        ]
        print_table("\nTest nodes by class", columns, values)
        before = found.test.calibration_error_before
        print(
            f"temperature {found.calibration.temperature:.3g}: expected calibration error "
            f"on test {before:.3f} → {found.test.metrics.calibration_error:.3f}"
        )
    if threshold := found.calibration.threshold:
        print(f"threshold: {threshold.positive} where its probability ≥ {threshold.value:.4g}")
    for warning in balance_warnings(model, found):
        status_console.print(warning, markup=False, highlight=False, soft_wrap=True)


def _value(part: SplitAssessment | None, name: str) -> str:
    if part is None:
        return "–"
    text = _number(getattr(part.metrics, name))
    if name not in part.intervals:
        return text
    low, high = part.intervals[name]
    return f"{text} ({low:.3f}–{high:.3f})"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
