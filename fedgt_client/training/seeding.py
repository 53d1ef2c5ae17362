"""Random numbers that depend on seed, institution and round alone."""

import hashlib

import torch

from shared.config import RunConfig


def seed_round(config: RunConfig, institution: str, round_number: int) -> None:
    """Seed torch for a round, so that the round can be repeated in any process."""
    number = stable_hash(f"{config.seed}/{institution}/{round_number}")
    # Not torch.manual_seed, which records a stack trace for each device that is not available.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def stable_hash(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
