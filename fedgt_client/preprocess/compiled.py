"""Compiled loops over nodes, on all cores. Import it late: numba takes a second to load."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba

from fedgt_client.preprocess.progress import Progress

Function = TypeVar("Function", bound=Callable[..., object])

_CHUNK = 256  # nodes between two looks at the clock


def compiled(function: Function) -> Function:
    """Compile ``function`` at its first call, to run without Python's global lock.

    Nothing is kept on disk: numba's cache is pickle.
    """
    return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def for_all_nodes(
    kernel: Callable[..., object],
    count: int,
    workspace: Callable[[], tuple[Any, ...]],
    progress: Progress,
) -> None:
    """Call ``kernel(start, stop, *workspace())`` for chunks of 0..count − 1, on all cores.

    Each thread has a workspace of its own. Chunks must not depend on each other.
    """
    starts = list(range(0, count, _CHUNK))[::-1]

    def work() -> None:
        space = workspace()
        while starts:
            try:
                start = starts.pop()
            except IndexError:  # another thread took the last one
                return
            stop = min(start + _CHUNK, count)
            kernel(start, stop, *space)
            progress.advance(stop - start)

    threads = min(len(os.sched_getaffinity(0)), len(starts))
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        try:
            for running in [pool.submit(work) for _ in range(threads)]:
                running.result()
        finally:
            starts.clear()  # after an error or an interrupt the other threads end too
