"""Settings that 0.1.0 did not have, with what they were worth in its runs.

A run goes on, and a model is used, with the settings it began with, whatever the defaults are now.
"""

from shared.config import Scalar

LATER_SETTINGS: dict[str, Scalar] = {
    "own-model": False,
    "common-model": "off",
    "compare-updates": False,
    "agreeing-only": False,
    "ldp-norm": "coordinate",
    "ldp-update-scale": "step",
    "label-privacy": "off",
    "label-epsilon": 4.0,
    "gradient-clip": 1.0,
    "private-layers": "head",
}
