"""What is measured on a partition without training: links lost, and time to prepare a subgraph."""

import time
from pathlib import Path
from typing import Any

from deploy.settings import resolve_settings
from experiments.job import Job
from experiments.records import rounded
from fedgt_client.data.partition import institution_graphs, partition_dataset
from fedgt_client.data.stats import partition_stats


def statistics(job: Job) -> dict[str, Any]:
    """Measure missing links and heterogeneity, and what every client holds."""
    graph, members = partition_dataset(
        job.dataset, clients=job.clients, setting=job.setting, seed=job.seed
    )
    found = partition_stats(graph, members)
    return {
        "missing_links": found.missing_links,
        "heterogeneity": rounded(found.heterogeneity),
        "nodes": [client.nodes for client in found.clients],
        "edges": [client.edges for client in found.clients],
        "labels": [list(client.labels) for client in found.clients],
    }


def preprocessing(job: Job, scratch: Path) -> dict[str, Any]:
    """Measure the seconds of PPR and positional encoding for each client; nothing is cached."""
    from fedgt_client.preprocess.cache import prepare

    config = resolve_settings({"seed": job.seed})
    parts = institution_graphs(job.dataset, clients=job.clients, setting=job.setting, seed=job.seed)
    # What a first call loads or compiles is no cost of the subgraph.
    prepare(parts[0], config, scratch / "first")
    seconds, cpu = [], []
    for index, part in enumerate(parts):
        started, started_cpu = time.perf_counter(), time.process_time()
        prepare(part, config, scratch / str(index))
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
    return {
        "nodes": [part.num_nodes for part in parts],
        "prepare_seconds": [rounded(value) for value in seconds],
        "prepare_cpu_seconds": [rounded(value) for value in cpu],
    }
