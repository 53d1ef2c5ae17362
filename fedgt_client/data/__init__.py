"""Data of an institution: import of tables, benchmark datasets, partitions for simulation."""

from enum import IntEnum


class RandomStream(IntEnum):
    """Independent random streams of one seed.

    Without them the split would reuse the numbers that made the labels.
    """

    GENERATOR = 0
    SPLIT = 1
    PARTITION = 2
