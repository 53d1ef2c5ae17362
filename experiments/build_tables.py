"""The paper's tables from our records.

Nothing is shown that is not in a record of the same request.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.accuracy_tables import accuracy_table, finished_table, hyper_table
from experiments.comparison_tables import paired_table, way_table
from experiments.grids import Experiment, experiment
from experiments.group_table import groups_table
from experiments.job import Job
from experiments.measurement_tables import (
    convergence_table,
    cost_table,
    heatmap_table,
    ldp_table,
    preprocessing_table,
    statistics_table,
)
from experiments.records import Records, changed_settings, finished
from experiments.result_table import Table
from shared.errors import FedGTError
from shared.registry import lookup


def load(item: Experiment, results: Path) -> dict[Job, dict[str, Any]]:
    """Return the finished jobs of an experiment with their records."""
    found = ((job, finished(results, job)) for job in item.jobs)
    return {job: record for job, record in found if record is not None}


_BUILDERS: Mapping[str, Callable[[Experiment, Records], Table]] = {
    **dict.fromkeys(
        (
            "main-disjoint",
            "main-overlap",
            "louvain",
            "unbalanced",
            "similarity",
            "ablation",
            "conflict",
            "masks",
            "sampling",
        ),
        accuracy_table,
    ),
    "hyper": hyper_table,
    "ldp": ldp_table,
    "cost": cost_table,
    "heatmap": heatmap_table,
    "convergence": convergence_table,
    "statistics": statistics_table,
    "preprocessing": preprocessing_table,
}


# Further tables of an experiment whose table is one of accuracies: NAME/FORM.
_FORMS: Mapping[str, Callable[[Experiment, Records], Table]] = {
    "finished": finished_table,
    "paired": paired_table,
    "way": way_table,
    "groups": groups_table,
}


def build_table(name: str, results: Path) -> Table:
    """Build the table of an experiment, as far as it has been run; or a further one, NAME/FORM."""
    name, _, form = name.partition("/")
    item = experiment(name)
    if name not in _BUILDERS:
        raise FedGTError(f"{name} has no table, only a figure: fedgt experiment figure {name}")
    build = _BUILDERS[name]
    if form:
        if build is not accuracy_table:
            raise FedGTError(f"{name} is not a table of accuracies: it has no '{form}'")
        build = lookup(_FORMS, "form", form)
    records = load(item, results)
    table = build(item, records)
    return replace(table, notes=(*table.notes, *_record_notes(item, records)))


def _record_notes(item: Experiment, records: Records) -> list[str]:
    """Return notes on the records themselves: unfinished runs, versions, changed settings."""
    notes = []
    if len(records) < len(item.jobs):
        notes.append(
            f"{len(records)} of {len(item.jobs)} runs are finished; cells without runs are empty."
        )
    commits = {record.get("code", {}).get("commit") for record in records.values()}
    if len(commits) > 1:
        notes.append(f"Made with {len(commits)} versions of the code; each record names its own.")
    changed = [keys for job in records if (keys := changed_settings(job, records[job]))]
    if changed:
        names = ", ".join(sorted(set().union(*changed)))
        notes.append(f"{len(changed)} runs were made with other settings than today's: {names}.")
    return notes
