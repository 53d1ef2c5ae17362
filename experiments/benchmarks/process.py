"""Run a measured function in a process of its own, so that its peak of memory is its own."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from experiments.benchmarks.report import Row
from shared.errors import FedGTError

Arguments = ParamSpec("Arguments")

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class OwnProcess:
    """How a measuring process is started."""

    one_thread: bool = True
    cache: Path | None = None  # of prepared graphs; None: as the environment says

    def run(
        self,
        function: Callable[Arguments, Row],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Row:
        """Call a module's function, whose arguments and result are JSON values."""
        name = f"{function.__module__}:{function.__qualname__}"
        environment = dict(os.environ)
        if self.one_thread:
            environment |= dict.fromkeys(_THREADS, "1")
        if self.cache is not None:
            environment["FEDGT_CACHE"] = str(self.cache)
        done = subprocess.run(
            [sys.executable, "-m", __name__, name, json.dumps([args, kwargs])],
            env=environment,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            raise FedGTError(
                f"measuring {name.rpartition('.')[2]} {json.dumps([*args, kwargs])} ended with "
                f"exit code {done.returncode}{' (out of memory?)' if done.returncode == -9 else ''}"
            )
        row: Row = json.loads(done.stdout)
        return row


def _main() -> None:
    """Call the function that the first argument names with the arguments in the second."""
    module, _, function = sys.argv[1].partition(":")
    args, kwargs = json.loads(sys.argv[2])
    # Libraries may print: standard output is for the result alone.
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with result:
        json.dump(getattr(importlib.import_module(module), function)(*args, **kwargs), result)


if __name__ == "__main__":
    _main()
