"""The model card: what a model is, what it is worth, what it cost in privacy, where it ends."""

from pathlib import Path

from fedgt_client.metrics import ClassMetrics
from fedgt_client.predict.assessment import Assessment, SplitAssessment
from fedgt_client.predict.model import Model
from fedgt_client.privacy.accounting import DELTA, over_coordinates
from fedgt_client.privacy.ledger import read_entries, run_ledger
from fedgt_client.privacy.release import Unit
from fedgt_client.privacy.spent import Spent

# Metrics of all classes, by their names here and on the card.
METRIC_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "roc_auc": "ROC-AUC, mean of classes",
    "average_precision": "average precision, mean of classes",
    "log_loss": "log loss",
    "calibration_error": "expected calibration error",
}
# Shares of the training nodes from which on the card warns.
_RARE, _DOMINANT = 0.1, 0.7
_FEW = 30  # test nodes
_UNITS: dict[Unit, str] = {
    "coordinate": "one coordinate",
    "upload": "whole uploads",
    "label": "the label of one training node",
}
_LIMITS = (
    "For nodes like those of training: same columns, same schema, links of the same meaning. "
    "Other data needs a new evaluation.",
    "A node without links is scored by its features and the global nodes alone (`linked` is false "
    "in the predictions).",
    "Nodes of a graph are not independent: true uncertainty is larger than the intervals.",
    "The weights were trained on this institution's nodes and can disclose something of them. Give "
    "the folder to no one who may not see the data.",
)


def model_card(model: Model, assessment: Assessment, state_folder: Path) -> str:
    """Return the card of a model as Markdown; ``state_folder`` has the privacy ledger."""
    record = model.record
    sections = [
        f"# Node classifier of {record.institution}",
        "A model that predicts the class of a node from its features and its links, trained with "
        f"FedGT {record.fedgt} (method {record.config['method']}). It is personal: made for this "
        "institution's graph.",
        _run_table(model),
        "## Metrics",
        *_metrics(assessment),
        "## Classes",
        _class_balance(model, assessment),
        "## Calibration and threshold",
        _calibration(assessment),
        "## Privacy",
        _privacy(model, state_folder),
        "## Limits",
        "\n".join(f"- {line}" for line in _LIMITS),
    ]
    return "\n\n".join(sections) + "\n"


def _run_table(model: Model) -> str:
    record = model.record
    rows = {
        "institution": record.institution,
        "federation": record.federation,
        "run": f"{record.run}, started {record.started}",
        "best round": f"{model.round_number} of {record.config['rounds']}, saved {model.saved}",
        "chosen by": str(record.config.get("select-by", "accuracy")),
        "trained on": f"{record.nodes:,} nodes, {record.links:,} links, "
        f"{len(record.features):,} features",
        "data digest": record.graph_digest[:16],
        "schema digest": (record.schema_digest or "none")[:16],
    }
    lines = [f"| {name} | {escape(value)} |" for name, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _metrics(assessment: Assessment) -> list[str]:
    if assessment.test is None:
        return ["There are no test nodes: nothing was measured."]
    parts = {"validation": assessment.val, "test": assessment.test}
    lines = ["| | " + " | ".join(parts) + " |", "| --- |" + " --- |" * len(parts)]
    for name, title in METRIC_NAMES.items():
        cells = [_cell(part, name) for part in parts.values()]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    majority = [f"{part.metrics.majority_share:.3f}" if part else "–" for part in parts.values()]
    lines.append(f"| accuracy of always naming the largest class | {' | '.join(majority)} |")
    nodes = [f"{part.metrics.nodes:,}" if part else "0" for part in parts.values()]
    lines.append(f"| nodes | {' | '.join(nodes)} |")
    note = (
        "Measured at the institution, after calibration and with the threshold, if there is one. "
        "In brackets: 95 % bootstrap intervals over nodes. Figures over classes are plain means."
    )
    return ["\n".join(lines), note, per_class_table(assessment.test.metrics.classes)]


def _cell(part: SplitAssessment | None, name: str) -> str:
    value = None if part is None else getattr(part.metrics, name)
    if part is None or value is None:
        return "–"
    if name not in part.intervals:
        return f"{value:.3f}"
    low, high = part.intervals[name]
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def per_class_table(classes: tuple[ClassMetrics, ...]) -> str:
    """Return the metrics of each class as a Markdown table."""
    columns = ("nodes", "precision", "recall", "f1", "roc_auc", "average_precision")
    titles = ("test nodes", "precision", "recall", "F1", "ROC-AUC", "average precision")
    lines = [f"| class | {' | '.join(titles)} |", "| --- |" + " --- |" * len(titles)]
    for one in classes:
        values = [getattr(one, name) for name in columns]
        cells = [
            "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
            for value in values
        ]
        lines.append(f"| {escape(one.name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _class_balance(model: Model, assessment: Assessment) -> str:
    counts = model.record.train_counts
    total = max(sum(counts), 1)
    text = ", ".join(
        f"{escape(name)} {count:,} ({count / total:.1%})"
        for name, count in zip(model.class_names, counts, strict=True)
    )
    warnings = balance_warnings(model, assessment)
    return "\n\n".join([f"Training nodes: {text}.", *(f"**Warning:** {line}" for line in warnings)])


def balance_warnings(model: Model, assessment: Assessment) -> list[str]:
    """Return what a reader of the metrics should know of the classes."""
    counts = model.record.train_counts
    total = max(sum(counts), 1)
    found = []
    absent = [n for n, count in zip(model.class_names, counts, strict=True) if not count]
    if absent:
        found.append(f"no training node of class {', '.join(map(escape, absent))}.")
    rare = [
        name
        for name, count in zip(model.class_names, counts, strict=True)
        if 0 < count / total < _RARE
    ]
    if rare or max(counts) / total > _DOMINANT:
        which = f" ({', '.join(map(escape, rare))} below {_RARE:.0%})" if rare else ""
        found.append(
            f"the classes are unbalanced{which}: read balanced accuracy and average precision, "
            "not accuracy."
        )
    test = assessment.test
    if test and test.metrics.nodes < _FEW:
        found.append(f"only {test.metrics.nodes} test nodes: the figures say little.")
    if test and test.metrics.accuracy <= test.metrics.majority_share:
        found.append("accuracy is not above that of always naming the largest class.")
    return found


def _calibration(assessment: Assessment) -> str:
    chosen, lines = assessment.calibration, []
    lines.append(f"Temperature {chosen.temperature:.4g}, fitted on the validation nodes.")
    if chosen.offsets:
        lines.append(
            "Classes had balanced weights in training. Probabilities are without them; the "
            "predicted class, unless a threshold decides, is with them, and so not always the "
            "most probable one."
        )
    for name, part in (("validation", assessment.val), ("test", assessment.test)):
        if part:
            before, after = part.calibration_error_before, part.metrics.calibration_error
            lines.append(f"Expected calibration error on {name}: {before:.3f} → {after:.3f}.")
    if threshold := chosen.threshold:
        wanted = (
            f"recall of at least {threshold.wanted:g}"
            if threshold.rule == "recall"
            else f"a missed one costing {threshold.wanted:g} false alarms"
        )
        lines.append(
            f"'{escape(threshold.positive)}' is predicted where its probability is at least "
            f"{threshold.value:.4g}, chosen on the validation nodes for {wanted}."
        )
    else:
        lines.append("The class of the largest score is predicted.")
    return "\n".join(f"- {line}" for line in lines)


def _privacy(model: Model, state_folder: Path) -> str:
    record = model.record
    path = run_ledger(state_folder, record.data_digest)
    entries = list(read_entries(path)) if path else []
    spent = Spent()
    for entry in entries:
        spent.add(entry.release)
    here = sum(entry.run == record.run for entry in entries)
    if not any(spent.counts.values()):
        return "No noise was added to what this institution uploaded (ldp off, or no uploads)."
    lines = [
        f"{spent.uploads} uploads of this data in all runs, {here} of them in this run; "
        f"{spent.unprotected} with arrays that had no noise."
    ]
    for unit, what in _UNITS.items():
        if spent.counts[unit]:
            lines.append(
                f"ε of {what} over all uploads: {spent.epsilon(unit):.4g} (δ = {DELTA:g})."
            )
    if spent.values:
        lines.append(f"ε of all coordinates together: {over_coordinates(spent.values):.4g}.")
    if spent.seeded:
        lines.append(
            f"The noise of {spent.seeded} uploads was seeded and can be drawn again: "
            "**they were not private.**"
        )
    return "\n".join(f"- {line}" for line in lines)


def escape(text: str) -> str:
    """Return text that Markdown takes as it is, also within a table."""
    return "".join(f"\\{mark}" if mark in "\\|*_`[]<>#" else mark for mark in text)
