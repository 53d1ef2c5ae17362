"""Make the Flower app as a folder, for ``flwr run``."""

import shutil
from pathlib import Path

from shared.errors import FedGTError

_PACKAGES = ("fedgt_client", "fedgt_server", "shared")


def stage_flower_app(folder: Path) -> Path:
    """Make the Flower app in ``folder``, whose name Flower must accept.

    From the installed packages, not the checkout: that may have any name, or not be there.
    """
    if folder.exists():
        raise FedGTError(f"{folder} exists already: name a folder that does not")
    here = Path(__file__).parents[1]
    for package in _PACKAGES:
        shutil.copytree(
            here.parent / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    beside = here / "app" if (here / "app").is_dir() else here.parent  # wheel, or checkout
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(beside / name, folder / name)
    return folder
