"""Random bits from a stream cipher: unpredictable, and quick enough for every value of a model."""

import hashlib
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class RandomBits:
    """The keystream of ChaCha20 (RFC 8439), from which integers are drawn.

    Parameters
    ----------
    key : 32 bytes; who knows them draws the same bits again
    """

    def __init__(self, key: bytes) -> None:
        cipher = Cipher(algorithms.ChaCha20(key, nonce=bytes(16)), mode=None)
        self._encryptor = cipher.encryptor()

    @classmethod
    def secret(cls) -> "RandomBits":
        """Return a stream under a key from the operating system, which is kept nowhere."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def seeded(cls, *numbers: int) -> "RandomBits":
        """Return a stream that is the same for the same numbers: for experiments, not private."""
        return cls(hashlib.sha256(repr(numbers).encode()).digest())

    def integers(self, bits: int, count: int) -> Words:
        """Return ``count`` integers, uniform on 0 … 2^bits − 1; bits from 0 to 64."""
        if not bits:
            return np.zeros(count, np.uint64)
        size = 4 if bits <= 32 else 8  # bytes
        drawn = self._encryptor.update(bytes(count * size))
        words = np.frombuffer(drawn, "<u4" if size == 4 else "<u8").astype(np.uint64)
        return words >> np.uint64(8 * size - bits)
