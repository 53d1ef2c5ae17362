"""The Flower App Bundle (FAB) of an app."""

from pathlib import Path


def build_app_bundle(folder: Path) -> bytes:
    """Return the Flower App Bundle (FAB) of the app in ``folder``."""
    from flwr.cli.build import build_fab_from_disk

    return build_fab_from_disk(folder)
