"""Version of FedGT, which client and server must share."""

from importlib.metadata import PackageNotFoundError, version

VERSION = "0.1.0"


def installed_version() -> str:
    """Return the version of the FedGT package installed on this machine.

    It can differ from the version of this code: Flower sends the app's code with a run, so that
    code is the same everywhere, whichever FedGT and dependencies are installed.
    """
    try:
        return version("fedgt")
    except PackageNotFoundError:
        return VERSION
