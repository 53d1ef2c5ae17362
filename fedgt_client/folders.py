"""Where files of a user live unless they say otherwise."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """What can be made again: ``$FEDGT_CACHE``, else the XDG cache folder."""
    return _place("FEDGT_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """What must survive a restart: ``$FEDGT_STATE``, else the XDG state folder."""
    return _place("FEDGT_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, xdg: str, fallback: str) -> Path:
    if chosen := os.environ.get(own):
        return Path(chosen)
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback) / "fedgt"
