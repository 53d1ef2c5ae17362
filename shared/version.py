"""The version both sides must share."""

from importlib.metadata import PackageNotFoundError, version

VERSION = "0.1.0"


def installed_version() -> str:
    """The version of FedGT on this machine.

    Not of this very code: Flower sends the app's code along with a run, and so it is the same
    everywhere, whatever else of FedGT and of the packages it asks for is installed beside it.
    """
    try:
        return version("fedgt")
    except PackageNotFoundError:
        return VERSION
