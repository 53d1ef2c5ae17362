"""What an exported model may ask of the machine that reads it: another party may have written it.

Its checksums say that it is whole, not who made it.
"""

from collections.abc import Iterable

from fedgt_client.methods.base import Arrays
from fedgt_client.predict.calibration import Calibration
from fedgt_client.run_record import RunRecord
from shared.config import RunConfig
from shared.text import text_problem

_LONGEST = 200  # characters of a name
# More is of no use: samples of a node, dimensions of the positional encoding, threads.
_MOST = {"samples": 4096, "positional_dimensions": 4096, "threads": 1024}
_FINEST = 1e-8  # of ppr-tolerance: a node may cost its inverse in links
# What settings may ask for is in proportion to the weights that are there.
_FACTOR, _SPARE = 100, 10_000_000


def content_problem(record: RunRecord, saved: str, calibration: Calibration) -> str | None:
    """Describe what in names or calibration cannot be; None where all can."""
    names = {
        "institution": record.institution,
        "federation": record.federation,
        "run": record.run,
        "date of the run": record.started,
        "date": saved,
        "version": record.fedgt,
    }
    for what, text in names.items():
        if problem := text_problem(text, _LONGEST):
            return f"the {what} {problem}"
    classes = len(record.classes)
    if classes < 1 or len(record.train_counts) != classes:
        return f"training nodes are counted for {len(record.train_counts)} of {classes} classes"
    if len(calibration.offsets) not in (0, classes):
        return f"there are {len(calibration.offsets)} offsets for {classes} classes"
    threshold = calibration.threshold
    if threshold and (classes != 2 or threshold.positive not in record.classes):
        return "the threshold is of other classes"
    return None


def size_problem(config: RunConfig, arrays: Arrays) -> str | None:
    """Describe which setting asks for more than a model with these weights can use, or None."""
    for name, most in _MOST.items():
        if (found := getattr(config, name)) > most:
            return f"{name.replace('_', '-')} is {found}, expected at most {most}"
    if config.ppr_tolerance < _FINEST:
        return f"ppr-tolerance is {config.ppr_tolerance:g}, expected at least {_FINEST:g}"
    room = _SPARE + _FACTOR * sum(array.size for array in arrays.values())
    asked: Iterable[tuple[str, int]] = (
        ("hidden and layers", config.layers * config.hidden**2),
        ("global-nodes", config.global_nodes * config.hidden * (config.layers + 1)),
    )
    for what, size in asked:
        if size > room:
            return f"{what} are of a much larger model than its weights"
    return None
