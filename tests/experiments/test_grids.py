"""Grids: what is asked for, and what makes two jobs the same."""

import json

import pytest

from experiments.grids import EXPERIMENTS, experiment
from experiments.job import Job
from experiments.protocol import table_seeds
from experiments.runner import decode, encode
from experiments.variants import METHODS
from shared.errors import FedGTError


def test_unknown_experiment() -> None:
    with pytest.raises(FedGTError, match="there is no experiment 'mian'; there are: main-disjoint"):
        experiment("mian")


def test_no_two_jobs_share_a_record() -> None:
    jobs = {job for item in EXPERIMENTS.values() for job in item.jobs}
    assert len({job.name for job in jobs}) == len(jobs)


def test_every_experiment_has_each_job_once() -> None:
    for item in EXPERIMENTS.values():
        assert item.jobs
        assert len(set(item.jobs)) == len(item.jobs)


def test_a_run_of_two_experiments_is_one() -> None:
    main = set(experiment("main-disjoint").jobs)
    assert set(experiment("cost").jobs) <= main
    plain = Job.of("cora", "disjoint", 10, "fedgt", 31)
    assert plain in main
    assert plain in experiment("hyper").jobs
    assert plain in experiment("ldp").jobs


def test_a_setting_that_the_variant_has_anyway_is_none() -> None:
    plain = Job.of("cora", "disjoint", 10, "fedgt", 0)
    assert Job.of("cora", "disjoint", 10, "fedgt", 0, {"tau": 5.0, "layers": 1}) == plain
    changed = Job.of("cora", "disjoint", 10, "fedgt", 0, {"tau": 2.0, "layers": 1})
    assert changed.extra == (("tau", 2.0),)
    assert changed.name == "cora/disjoint-10/fedgt-tau=2.0-0"


def test_what_distinguishes_a_request() -> None:
    plain = Job.of("cora", "disjoint", 10, "fedgt", 0)
    others = [
        Job.of("citeseer", "disjoint", 10, "fedgt", 0),
        Job.of("cora", "louvain", 10, "fedgt", 0),
        Job.of("cora", "disjoint", 5, "fedgt", 0),
        Job.of("cora", "disjoint", 10, "local", 0),
        Job.of("cora", "disjoint", 10, "fedgt", 1),
        Job.of("cora", "disjoint", 10, "fedgt", 0, {"tau": 1.0}),
        Job("cora", "disjoint", 10, "fedgt", 0, rounds=50),
        Job("cora", "disjoint", 10, "fedgt", 0, kind="tsne"),
    ]
    requests = [json.dumps(job.request()) for job in (plain, *others)]
    assert len(set(requests)) == len(requests)


@pytest.mark.parametrize(
    ("name", "counts"), [("main-disjoint", (5, 10, 20)), ("main-overlap", (10, 30, 50))]
)
def test_main_tables_have_all_methods_on_all_datasets(name: str, counts: tuple[int, ...]) -> None:
    jobs = experiment(name).jobs
    for dataset in ("cora", "citeseer", "pubmed", "amazon-photo", "amazon-computers"):
        for count in counts:
            found = [job for job in jobs if job.dataset == dataset and job.clients == count]
            assert {(job.variant, job.seed) for job in found} == {
                (method, seed)
                for method in (*METHODS, "fedgt-paper")
                for seed in table_seeds(dataset)
            }
        whole = {job.variant for job in jobs if job.dataset == dataset and job.clients == 1}
        assert whole == {"fedgt-whole", "gcn-whole"}


def test_a_job_survives_the_command_line() -> None:
    for item in EXPERIMENTS.values():
        for job in item.jobs:
            assert decode(encode(job)) == job


def test_larger_jobs_cost_more() -> None:
    small = Job.of("cora", "disjoint", 5, "fedgt", 0)
    for other in (
        Job.of("pubmed", "disjoint", 5, "fedgt", 0),
        Job.of("cora", "overlap", 5, "fedgt", 0),
        Job.of("cora", "disjoint", 20, "fedgt", 0),
    ):
        assert other.cost > small.cost
    assert Job.of("cora", "disjoint", 5, "gcn", 0).cost < small.cost
