"""Mutate input and feed it to parsers: ``python -m tests.fuzz.run --cases 100000``."""

import argparse
import logging
import sys
import time
import tracemalloc

import numpy as np

from shared.errors import FedGTError
from tests.fuzz.targets import TARGETS, Target

# What a parser may raise: an error that says what is wrong, or that of a file.
EXPECTED = (FedGTError, OSError)
_LARGE = 50_000_000  # bytes that parsing a small input may take
_PIECES = (
    b"\x00", b"\xff" * 8, b"\x00" * 8, b"[" * 2000, b'{"a":' * 500, b"-1", b"1e999", b"NaN",
    b"null", b"true", b"9" * 400, b'"\\ud800"', b'"', b"\n", b"=", b"\xef\xbb\xbf", b"[]",
    b"{}", b"1.5",
)  # fmt: skip


def mutated(sample: bytes, rng: np.random.Generator) -> bytes:
    """Return input with a few changes: bytes, pieces, parts that are cut, doubled or moved."""
    data = bytearray(sample)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        kind = int(rng.integers(0, 6))
        if kind == 0 and data:
            data[at % len(data)] = int(rng.integers(0, 256))
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            data[at:at] = _PIECES[int(rng.integers(0, len(_PIECES)))]
        elif kind == 3:
            del data[at : at + int(rng.integers(1, 20))]
        elif kind == 4:
            data[at:at] = data[at : at + int(rng.integers(1, 20))]
        else:
            piece = _PIECES[int(rng.integers(0, len(_PIECES)))]
            data[at : at + len(piece)] = piece
    return bytes(data)


def first_finding(target: Target, cases: int, seed: int = 0) -> str | None:
    """Try mutated input; describe the first that raises what a parser must not."""
    rng = np.random.default_rng(seed)
    for number in range(cases):
        data = mutated(target.sample, rng)
        try:
            target.parse(data)
        except EXPECTED:
            continue
        except Exception as error:  # the finding
            return f"case {number}: {type(error).__name__}: {error}; input {data[:200]!r}"
    return None


def main() -> int:
    """Fuzz every parser, print counts, and return 1 if one has a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="inputs for each parser")
    parser.add_argument("--only", default="", help="parsers whose name holds this")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed = False
    for name, target in TARGETS.items():
        if given.only not in name:
            continue
        started = time.process_time()
        tracemalloc.start()
        finding = first_finding(target, given.cases, given.seed)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if not finding and peak > _LARGE:
            finding = f"took {peak / 1e6:.0f} MB"
        failed |= finding is not None
        seconds = time.process_time() - started
        print(f"{name}: {given.cases} cases, {seconds:.0f} CPU s, {finding or 'clean'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
