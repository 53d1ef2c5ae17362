"""Inputs that reach new branches: ``python -m tests.fuzz.guided --cases 100000``, with atheris.

A process for each parser, because libFuzzer ends the one that it runs in.
"""

import argparse
import importlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Megabytes that a process may take, and bytes of an input.
_MEMORY, _LONGEST = 2048, 4096
_DONE = re.compile(r"Done (\d+) (?:runs )?in|stat::number_of_executed_units: *(\d+)")


def fuzz_here(name: str, cases: int, folder: str) -> None:
    """Fuzz one parser, from its sample on; does not return."""
    atheris: Any = importlib.import_module("atheris")  # it has no types
    with atheris.instrument_imports(include=["shared", "fedgt_client", "fedgt_server", "deploy"]):
        from tests.fuzz.run import EXPECTED
        from tests.fuzz.targets import TARGETS
    logging.disable(logging.CRITICAL)
    target = TARGETS[name]
    (Path(folder) / "sample").write_bytes(target.sample)

    def parse(data: bytes) -> None:
        try:
            target.parse(data)
        except EXPECTED:
            return

    limits = [f"-rss_limit_mb={_MEMORY}", f"-max_len={_LONGEST}", "-timeout=60"]
    atheris.Setup(
        [sys.argv[0], folder, f"-runs={cases}", "-print_final_stats=1", "-seed=1", *limits], parse
    )
    atheris.Fuzz()


def main() -> int:
    """Fuzz every parser, print counts, and return 1 if one has a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="inputs for each parser")
    parser.add_argument("--only", default="", help="parsers whose name holds this")
    parser.add_argument("--here", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        fuzz_here(given.here[0], given.cases, given.here[1])
    from tests.fuzz.targets import TARGETS

    failed = False
    for name in (name for name in TARGETS if given.only in name):
        with tempfile.TemporaryDirectory(prefix="fedgt-fuzz-") as folder:
            inputs, files = Path(folder) / "inputs", Path(folder) / "files"
            inputs.mkdir()
            files.mkdir()
            own = [sys.executable, "-m", "tests.fuzz.guided", "--cases", str(given.cases)]
            answer = subprocess.run(
                [*own, "--here", name, str(inputs)],
                capture_output=True,
                text=True,
                errors="replace",
                env=os.environ | {"TMPDIR": str(files)},  # libFuzzer ends without cleaning up
            )
        ran = [count for found in _DONE.findall(answer.stderr) for count in found if count]
        failed |= answer.returncode != 0
        lines = (answer.stdout + answer.stderr).splitlines()
        finding = next((line for line in lines if "Uncaught Python exception" in line), "")
        after = lines[lines.index(finding) + 1 :][:2] if finding else lines[-2:]
        verdict = "clean" if not answer.returncode else f"{finding} {' '.join(after)}"
        print(f"{name}: {ran[-1] if ran else 0} cases, {verdict}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
