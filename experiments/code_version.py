"""Which code made a record: the version, the commit, the libraries."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from shared.version import VERSION

_ROOT = Path(__file__).parents[1]
# What a run depends on; results and documents may change meanwhile.
_SOURCES = ("shared", "fedgt_client", "fedgt_server", "deploy", "experiments/*.py")
_LIBRARIES = ("flwr", "torch", "torch-geometric", "numpy", "scipy", "numba", "pymetis")


def code_version() -> dict[str, str | None]:
    """Return version and commit; ``+changes`` where files differ, None without a checkout.

    The commit is the last one that changed the code: records and documents that are committed
    between two runs of a table make no other version.
    """
    # Installed somewhere inside a checkout, this code is not that checkout's.
    ours = _git("rev-parse", "--show-toplevel") == str(_ROOT.resolve())
    commit = _git("log", "-1", "--format=%H", "--", *_SOURCES) if ours else None
    if commit is not None and _git("status", "--porcelain", "--", *_SOURCES):
        commit += "+changes"
    return {"version": VERSION, "commit": commit}


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that results depend on."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
