"""Programs run as another user of this machine, who has no rights.

Where the tests do not run as root, that user is the same one, but knows no secret.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import flwr

IS_ROOT = os.geteuid() == 0
NOBODY = 65534  # by convention, the user who owns nothing
_ROOT = Path(__file__).parents[2]
_PACKAGES = str(Path(flwr.__file__).parents[1])
PYTHONPATH = os.pathsep.join((str(_ROOT), _PACKAGES))


@cache
def python_of_everyone() -> str | None:
    """Return a Python, with the code of this process, that every user can start."""
    for candidate in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            probe = start_as(NOBODY, candidate, "-c", "import deploy, flwr")
        except OSError:
            continue
        probe.communicate(timeout=60)
        if probe.returncode == 0:
            return candidate
    return None


def start_as(user: int, *command: str) -> "subprocess.Popen[str]":
    """Start a program as another user, in no group but that one's."""
    # Not by setpriv: it would keep root's capabilities.
    identity: dict[str, Any] = {"user": user, "group": user, "extra_groups": []}
    return subprocess.Popen(
        command,
        **identity if IS_ROOT else {},
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
