"""Memory that was freed, but that the C library keeps for later."""

import ctypes
from collections.abc import Callable
from functools import cache


def release_freed_memory() -> None:
    """Give freed memory back to the system, where the C library can (glibc).

    Batches differ in size: what one leaves does not fit the next, and the process would grow.
    """
    if trim := _trim():
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no C library by that name, as on Windows
        return None
