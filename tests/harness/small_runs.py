"""Small runs for tests of the engines."""

from pathlib import Path

from deploy.engines.in_process import with_output_paths
from deploy.settings import resolve_settings
from shared.config import RunConfig, Scalar
from shared.files import Array, open_tensors

CLIENTS = 3

# Noise from the operating system would make every run different.
_SMALL: dict[str, Scalar] = {
    "hidden": 16,
    "heads": 2,
    "samples": 4,
    "global-nodes": 4,
    "ldp-noise-seed": 0,
}


def small(out: Path, **values: Scalar) -> RunConfig:
    """Return a run of a few seconds with its results in ``out``; settings with underscores."""
    chosen = {name.replace("_", "-"): value for name, value in values.items()}
    return resolve_settings(with_output_paths(_SMALL | chosen, out, CLIENTS))


def saved_bytes(out: Path) -> dict[str, bytes]:
    """Return all arrays of coordinator and institutions, byte for byte."""
    # Institutions keep them in a folder that has the run's name.
    return {
        str(path.relative_to(out)).replace(f"/{out.name}/", "/run/"): path.read_bytes()
        for path in sorted(out.rglob("*.safetensors"))
    }


def checkpoint(out: Path, round_number: int) -> dict[str, Array]:
    """Return the coordinator's arrays after a round."""
    return open_tensors(out / "checkpoints" / f"round-{round_number:06d}.safetensors")
