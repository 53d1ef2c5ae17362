"""Default folders for a user's files."""

import os
from pathlib import Path

from platformdirs import user_cache_path, user_state_path


def cache_dir() -> Path:
    """Return the folder for files that can be made again: ``$FEDGT_CACHE``, else the user's."""
    chosen = os.environ.get("FEDGT_CACHE")
    return Path(chosen) if chosen else user_cache_path("fedgt", appauthor=False)


def state_dir() -> Path:
    """Return the folder for files that must survive: ``$FEDGT_STATE``, else the user's."""
    chosen = os.environ.get("FEDGT_STATE")
    return Path(chosen) if chosen else user_state_path("fedgt", appauthor=False)
