"""Independent random streams of one seed."""

from enum import IntEnum


class Stream(IntEnum):
    """What is drawn: without it the split would reuse the numbers that made the labels."""

    GENERATOR = 0
    SPLIT = 1
    PARTITION = 2
