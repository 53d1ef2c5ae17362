"""Ledger entries for tests."""

from fedgt_client.privacy.ledger import Entry
from fedgt_client.privacy.release import Part, Release


def noised(epsilon: float = 4.0, coordinates: int = 144, *, private: bool = True) -> Release:
    """Return a release of global nodes with noise, beside weights without."""
    part = Part(
        arrays=("global_nodes",),
        coordinates=coordinates,
        unit="coordinate",
        mechanism="laplace",
        noise=1 / epsilon,
    )
    return Release(parts=(part, Part(arrays=("w",), coordinates=9)), private=private)


def entry(number: int = 1, *, run: str = "run", release: Release | None = None) -> Entry:
    return Entry(
        federation="default",
        run=run,
        institution="alba",
        round=number,
        content=f"{run}{number}",
        release=release or noised(),
    )
