"""One job in a process of its own: ``python -m experiments.runner JOB RESULTS SCRATCH PID``.

The scheduler, process PID, starts it. Its scratch folder holds the run's journal, states and
checkpoints, which nobody needs once the record is written, and ``progress``, which the scheduler
reads.
"""

import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deploy.settings import resolve_settings
from experiments.code_version import code_version, library_versions
from experiments.embeddings import embeddings
from experiments.job import Job
from experiments.partition_measurements import preprocessing, statistics
from experiments.records import run_facts, without_test, write_record
from shared.errors import FedGTError

PROGRESS = "progress"

Facts = dict[str, Any]
OnRound = Callable[[int], None]


def encode(job: Job) -> str:
    """Return a job as an argument of the command line."""
    return json.dumps(asdict(job))


def decode(text: str) -> Job:
    """Return the job of an argument made by ``encode``."""
    fields = json.loads(text)
    return Job(**fields | {"extra": tuple((key, value) for key, value in fields["extra"])})


def train(job: Job, scratch: Path, on_round: OnRound) -> Facts:
    """Run a federation in this process."""
    from deploy.engines.in_process import check_data, run_in_process, with_output_paths
    from fedgt_server.events import RoundEvent
    from fedgt_server.journal import Journal

    out = scratch / "run"
    config = resolve_settings(with_output_paths(job.values(), out, job.clients), preset=job.preset)
    check_data(config, job.clients)
    # CPU time, unlike time, does not depend on what else the machine does.
    cpu, marks = [], [time.process_time()]

    def observe(event: RoundEvent) -> None:
        marks.append(time.process_time())
        cpu.append(marks[-1] - marks[-2])
        on_round(event.round)

    result = run_in_process(config, job.clients, observe)
    return run_facts(config, result, Journal(out / "journal.jsonl").rounds(), cpu)


KINDS: dict[str, Callable[[Job, Path, OnRound], Facts]] = {
    "run": train,
    "trial": lambda job, scratch, on_round: without_test(train(job, scratch, on_round)),
    "statistics": lambda job, _scratch, _on_round: statistics(job),
    "preprocessing": lambda job, scratch, _on_round: preprocessing(job, scratch),
    "tsne": embeddings,
}


def execute(job: Job, results: Path, scratch: Path, on_round: OnRound = lambda _: None) -> None:
    """Do a job and write its record."""
    if job.kind not in KINDS:
        raise FedGTError(f"kind is '{job.kind}', expected one of {', '.join(KINDS)}")
    started, code = time.monotonic(), code_version()
    facts = KINDS[job.kind](job, scratch, on_round)
    seconds = round(time.monotonic() - started, 1)
    made = {"seconds": seconds, "code": code, "libraries": library_versions()}
    write_record(results, job, facts | made)


def main() -> None:
    """Do the job that the arguments name; an error is the last line of standard error."""
    job, results, scratch = decode(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    logging.basicConfig(level=logging.ERROR, format="%(message)s")

    def is_alone() -> bool:
        return os.getppid() != int(sys.argv[4])

    def on_round(number: int) -> None:
        if is_alone():
            sys.exit("the scheduler is gone")
        (scratch / PROGRESS).write_text(str(number))

    try:
        execute(job, results, scratch, on_round)
    except FedGTError as error:
        sys.exit(str(error))
    finally:
        if is_alone():
            shutil.rmtree(scratch, ignore_errors=True)  # nobody else will


if __name__ == "__main__":
    main()
