"""Differential privacy of the labels that an institution trains with.

The unit is the label of one node: what leaves is about as likely whichever class the node has. It
is no promise about features or links, nor about the labels of validation and test nodes in metrics.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import UNLABELLED, Graph
from fedgt_client.privacy.accounting import gaussian_noise
from fedgt_client.privacy.random_bits import RandomBits
from fedgt_client.privacy.release import Mechanism, Part, Release
from shared.config import RunConfig
from shared.files import Array, atomic_file

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class LabelPromise:
    """What every upload of a run says about the label of one training node."""

    mechanism: Mechanism
    noise: float  # as of ``Part``
    draw: str = ""
    private: bool = True

    def of(self, release: Release, upload: Mapping[str, Array]) -> Release:
        """Return the release of an upload with this promise about all its arrays."""
        part = Part(
            arrays=tuple(sorted(upload)),
            coordinates=sum(array.size for array in upload.values()),
            unit="label",
            mechanism=self.mechanism,
            noise=self.noise,
            draw=self.draw,
        )
        private = release.private and self.private
        return release.with_part(part).model_copy(update={"private": private})


def private_labels(
    graph: Graph, config: RunConfig, folder: Path | None, most: float = 0.0
) -> tuple[Graph, LabelPromise | None]:
    """Return the graph to train with, and what is promised of its training labels.

    Parameters
    ----------
    folder : where labels that were exchanged at random are kept, so that later rounds and runs use
        the same, which costs nothing more; None: nowhere
    most : the largest ε that the institution allows; 0: any. Labels are drawn once with it, and
        those of any smaller ε are drawn from these, so that runs that ask for ever other ε do not
        get ever other draws of the true labels
    """
    private = config.ldp_noise_seed < 0
    if config.label_privacy == "dp-sgd":
        steps = config.rounds * config.local_epochs
        # A round has as many steps as epochs: precisions add up.
        noise = gaussian_noise(config.label_epsilon, steps) / math.sqrt(config.local_epochs)
        return graph, LabelPromise("gaussian", noise, private=private)
    if config.label_privacy == "off":
        return graph, None
    asked, seed = config.label_epsilon, config.ldp_noise_seed
    epsilon = max(most, asked)
    first = drawn = _kept_labels(graph, epsilon, seed, folder)
    if asked < epsilon and graph.num_classes > 1:
        more = _second_epsilon(epsilon, asked, graph.num_classes)
        drawn = _kept_labels(replace(graph, labels=first), more, seed, folder)
    labels = np.where(graph.train, drawn, graph.labels)
    draw = hashlib.sha256(first.tobytes()).hexdigest()
    return replace(graph, labels=labels), LabelPromise("pure", 1 / epsilon, draw, private)


def randomised_response(labels: Labels, classes: int, epsilon: float, random: RandomBits) -> Labels:
    """Keep each label with probability e^ε / (e^ε + K − 1), else draw one of the others.

    Warner (1965) for K classes: ε-differentially private in each label, and by post-processing so
    is all that is computed of the result, in however many rounds and runs. Unknown labels stay.

    Parameters
    ----------
    labels : shape (n,)
    classes : K
    """
    kept_share = 1.0 / (1.0 + (classes - 1) * math.exp(-epsilon))
    # Rounded down: never kept more often than ε allows.
    threshold = np.uint64(min(int(kept_share * 2**53), 2**53 - 1))
    kept = random.integers(53, len(labels)) < threshold
    others = _uniform(max(classes - 1, 1), len(labels), random)
    changed = others + (others >= labels)  # skips the label itself
    known = labels != UNLABELLED
    return np.asarray(np.where(known & ~kept & (classes > 1), changed, labels), np.int64)


def _second_epsilon(first: float, both: float, classes: int) -> float:
    """Return ε of a second exchange of labels, after one of ε ``first``, that makes it ``both``.

    A label is kept if both keep it or the second brings it back: a·b + (1−a)(1−b) / (K−1), which
    should be c = e^both / (e^both + K − 1).
    """
    others = classes - 1
    a, c = (1.0 / (1.0 + others * math.exp(-epsilon)) for epsilon in (first, both))
    b = (c - (1 - a) / others) / (a - (1 - a) / others)
    return math.log(b * others / (1 - b))


def _uniform(below: int, count: int, random: RandomBits) -> Labels:
    """Draw from 0 … below − 1; the remainder of 64 bits is uniform up to 2^-40."""
    return (random.integers(64, count) % np.uint64(below)).astype(np.int64)


def _kept_labels(graph: Graph, epsilon: float, seed: int, folder: Path | None) -> Labels:
    """Return the exchanged labels of all nodes: those of an earlier run, or new ones."""
    key = hashlib.sha256(repr((graph.num_classes, epsilon, seed)).encode())
    key.update(np.ascontiguousarray(graph.labels, np.int64).tobytes())
    path = folder / f"labels-{key.hexdigest()[:32]}.bin" if folder else None
    if path and path.exists():
        kept = np.frombuffer(path.read_bytes(), "<i8").astype(np.int64)
        if len(kept) == graph.num_nodes:
            return kept
    numbers = (seed, *key.digest())
    random = RandomBits.secret() if seed < 0 else RandomBits.seeded(*numbers)
    drawn = randomised_response(graph.labels, graph.num_classes, epsilon, random)
    if path:
        with atomic_file(path, mode=0o600, durable=True) as staging:
            staging.write_bytes(drawn.astype("<i8").tobytes())
    return drawn
