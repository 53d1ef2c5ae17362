"""The samplers of local attention, by name.

The paper's strategies (section 4.1, appendix "Influence of Node Sampling Strategies") differ only
in the pool of candidates they prepare for every node; sampling from it is the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fedgt_client.graph import Graph
from fedgt_client.preprocess.top_k import Pool
from shared.config import RunConfig
from shared.registry import import_object, lookup

# Paths of PoolBuilder objects.
SAMPLERS: dict[str, str] = {
    "ppr": "fedgt_client.preprocess.ppr:POOL_BUILDER",
    "graphsage": "fedgt_client.preprocess.graphsage:POOL_BUILDER",
    "attribute": "fedgt_client.preprocess.attribute:POOL_BUILDER",
}


@dataclass(frozen=True)
class PoolBuilder:
    """How a sampler prepares a weighted pool of ``size`` candidates for every node."""

    build: Callable[[Graph, RunConfig, int], Pool]
    settings: tuple[str, ...] = ()  # fields of RunConfig that the pool depends on


def pool_builder(sampler: str) -> PoolBuilder:
    """Return the pool builder of a sampler; raise FedGTError if there is no such sampler."""
    builder: PoolBuilder = import_object(lookup(SAMPLERS, "sampler", sampler))
    return builder
