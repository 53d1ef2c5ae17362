"""The internals of Flower that the client and the server need, gathered in one module."""

from flwr.app import Error
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid


def is_app_error(error: Error) -> bool:
    """Return whether an institution's app failed, which it will do again until it is repaired."""
    return error.code in (
        ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
        ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
    )


def is_simulated(grid: Grid) -> bool:
    """Return whether ``grid`` belongs to Flower's simulation, which shares a process with it."""
    return isinstance(grid, InMemoryGrid)
