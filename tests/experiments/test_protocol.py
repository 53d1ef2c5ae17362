"""Equal terms: what the protocol promises holds of its data, and of every committed record."""

import re
import subprocess
from pathlib import Path

import pytest

from deploy.settings import resolve_settings
from experiments import choices as choices_module
from experiments.choices import CHOICES, read_choices
from experiments.grids import EXPERIMENTS
from experiments.job import Job
from experiments.protocol import (
    FAMILIES,
    TRIAL_SEEDS,
    TRIALS,
    TRIED_METHODS,
    family_of,
    rounds_of,
    table_seeds,
    trials,
)
from experiments.records import RESULTS, read_record, without_test, write_record
from experiments.trials import check_chosen, choose, trial_jobs, write_choices
from experiments.variants import METHODS, VARIANTS, variant
from shared.errors import FedGTError
from tests.experiments.jobs import made_run

ROOT = Path(__file__).parents[2]
PROTOCOL = ("docs/protocol.md", "experiments/protocol.py")
# Of runs before the protocol and of the trials while the default was developed.
USED = {*range(23), *range(100, 103), *range(900, 951)}

RECORDS = [(path, read_record(path) or {}) for path in sorted(RESULTS.glob("*/*/*.json"))]
GOVERNED = [
    (path, record)
    for path, record in RECORDS
    if record.get("request", {}).get("kind") in ("run", "trial")
]


def git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def test_unknown_family() -> None:
    with pytest.raises(FedGTError, match="family is 'coral', expected one of cora"):
        trial_jobs("coral")


def test_choices_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "choices.json").write_text('{"cora": [1]}')
    with pytest.raises(FedGTError, match="does not hold choices"):
        read_choices(tmp_path / "choices.json")
    assert read_choices(tmp_path / "nothing.json") == {}


def test_every_method_has_as_many_different_trials_which_can_be_configured() -> None:
    assert set(TRIED_METHODS) == set(METHODS)
    for method in TRIED_METHODS:
        tried = trials(method)
        assert len(tried) == TRIALS
        assert tried[0] == {}  # the authors' own
        found = [
            resolve_settings(variant(method).settings_of("cora", "disjoint", 0, settings))
            for settings in tried
        ]
        assert len({repr(config) for config in found}) == TRIALS
        assert trials(method) == tried  # drawn by a fixed seed


def test_no_seed_of_a_table_is_used_before_or_in_a_trial() -> None:
    tables = {seed for name in ("cora", "pubmed") for seed in table_seeds(name)}
    tried = {seed for seeds in TRIAL_SEEDS.values() for seed in seeds}
    assert not tables & (USED | tried)
    trained = [job for item in EXPERIMENTS.values() for job in item.jobs if job.kind == "run"]
    assert {job.seed for job in trained} == tables
    assert {job.seed for family in FAMILIES for job in trial_jobs(family)} == tried


def test_rounds_and_epochs_are_the_papers_for_every_row_alike() -> None:
    for item in EXPERIMENTS.values():
        for job in item.jobs:
            if job.kind != "run":
                continue
            amazon = job.dataset.startswith("amazon")
            assert job.rounds == rounds_of(job.dataset) == (200 if amazon else 100)
            assert job.values().get("local-epochs", 1) == (2 if amazon else 1)


def test_a_trial_does_not_depend_on_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = trial_jobs("cora")[0]
    before = job.request()
    chosen = {"cora": {job.variant: {"trial": 1, "settings": {"dropout": 0.1}}}}
    monkeypatch.setattr(choices_module, "read_choices", lambda: chosen)
    assert job.request() == before
    assert Job.of("cora", "disjoint", 10, job.variant, 31).values()["dropout"] == 0.1
    # Ablations of FedGT have its choice, the preset of the paper none.
    assert VARIANTS["fedgt-mean"].chosen_for == VARIANTS["fedgt-whole"].chosen_for == "fedgt"
    assert VARIANTS["fedgt-paper"].chosen_for == ""


def test_trials_and_tables_of_a_small_protocol(tmp_path: Path) -> None:
    """As 'fedgt experiment trials cora' chooses, and 'run' refuses before."""
    table = Job.of("cora", "disjoint", 10, "gcn", 31)
    if not CHOICES.exists():
        with pytest.raises(FedGTError, match="no trial of gcn is chosen for the family cora yet"):
            check_chosen([table])
    check_chosen([Job.of("cora", "disjoint", 10, "fedgt-paper", 31)])
    jobs = [job for job in trial_jobs("cora") if job.variant == "gcn"]
    for job in jobs[:-1]:
        best = job.trial in (3, 5)
        write_record(tmp_path, job, without_test(made_run(0.9 if best else 0.8)))
    assert choose(["cora"], tmp_path) == ({}, TRIALS * (len(METHODS) - 1) + 1)
    write_record(tmp_path, jobs[-1], without_test(made_run(0.7)))
    found, missing = choose(["cora"], tmp_path)
    assert missing == TRIALS * (len(METHODS) - 1)
    # Of equal trials the first.
    assert found["cora"]["gcn"]["trial"] == 3
    assert found["cora"]["gcn"]["settings"] == trials("gcn")[3]
    path = tmp_path / "choices.json"
    write_choices({"pubmed": {"gcn": {"trial": 0, "settings": {}}}}, path)
    write_choices(found, path)
    assert set(read_choices(path)) == {"cora", "pubmed"}


def test_the_page_and_the_data_agree() -> None:
    page = (ROOT / "docs/protocol.md").read_text()
    assert f"one of {TRIALS} settings" in page
    assert "31 to 35 for Cora and CiteSeer, 31 to 33 for the others" in page
    assert (table_seeds("cora"), table_seeds("amazon-photo")) == (
        (31, 32, 33, 34, 35),
        (31, 32, 33),
    )
    assert "951 and 952 for Cora and CiteSeer, 951 for PubMed and Amazon" in page
    assert (TRIAL_SEEDS["citeseer"], TRIAL_SEEDS["amazon"]) == ((951, 952), (951,))


# --- of the records -------------------------------------------------------------------------


def test_records_of_trials_are_equal_in_number_and_hold_no_test_accuracy() -> None:
    counts: dict[tuple[str, str], set[int]] = {}
    for path, record in GOVERNED:
        request = record["request"]
        if request["kind"] != "trial":
            continue
        assert "test" not in {*record, *record["rounds"]}, path
        assert all(len(values) == 1 for values in record["per_client"].values()), path
        family = str(family_of(request["dataset"]))
        assert request["seed"] in TRIAL_SEEDS[family], path
        found = re.search(r"trial-\w+-(\d+)-\d+\.json$", path.name)
        assert found, path
        counts.setdefault((family, request["variant"]), set()).add(int(found[1]))
    for family, methods in read_choices().items():
        for method, chosen in methods.items():
            assert counts.get((family, method)) == set(range(TRIALS))
            assert len(chosen["validation"]) == TRIALS
            assert chosen["settings"] == dict(trials(method)[chosen["trial"]])


def test_choices_are_those_of_the_records() -> None:
    found, _ = choose(FAMILIES, RESULTS)
    assert read_choices() == found


def test_tables_have_their_seeds_and_one_version_of_the_code() -> None:
    for item in EXPERIMENTS.values():
        asked = {f"{job.name}.json" for job in item.jobs if job.kind == "run"}
        made = [r for path, r in GOVERNED if str(path.relative_to(RESULTS)) in asked]
        commits = {record["code"]["commit"] for record in made}
        assert len(commits) <= 1, f"{item.name} is of several versions"
        assert not any("+changes" in str(commit) for commit in commits)


def test_the_protocol_is_older_than_its_records() -> None:
    protocol = git("log", "-1", "--format=%H", "--", *PROTOCOL)
    if not protocol or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("no history of the protocol here")
    for path, record in GOVERNED:
        commit = str(record["code"]["commit"]).removesuffix("+changes")
        older = git("merge-base", "--is-ancestor", protocol, commit)
        assert older is not None, f"{path.name} was made before the protocol"
