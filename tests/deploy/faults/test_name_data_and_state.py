"""A name that is used again, data that is exchanged, state that is lost: none without a word."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.engines.local_federation import RUN
from deploy.engines.processes import marked_processes
from deploy.engines.superlink_run import ExitCode
from fedgt_client.data.provenance import SUMMARY_FILE
from fedgt_client.graph import Graph
from fedgt_client.run_record import RunRecord
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    banks,
    events,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    wait_for_round,
)
from tests.harness.federation import HarnessFederation

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_BOTH: dict[str, Scalar] = SMALL | {"min-institutions": 2}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarnessFederation]:
    """Start a coordinator and two institutions."""
    with marked_processes() as mark:
        federation = HarnessFederation(tmp_path_factory.mktemp("banks"), banks(A, B), mark)
        federation.start()
        yield federation
    assert not mark.processes()


def token(run: Path) -> str:
    return str(events(run, "start")[0]["run_token"])


def best_models(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in state.glob("best-*.safetensors")}


def test_the_name_of_a_finished_run_is_used_again(federation: HarnessFederation) -> None:
    coordinator, out = federation.coordinator, federation.run_folder("first")
    settings = _BOTH | {"run-name": "first", "rounds": 2}
    with logs_on_failure(federation):
        federation.run(settings, timeout=TIMEOUT)
        first, states = token(out), state_folder(federation, A, "first")
        kept = best_models(states)
        assert kept
        # Its own log tells an institution its result, and where its model is.
        for name, host in federation.institutions.items():
            log = host.log.read_text()
            assert f"{name}: run first is over; best model of round" in log
            assert "largest class" in log
            assert str(state_folder(federation, name, "first").relative_to(host.folder)) in log

        again = federation.write_settings(settings | {"seed": 1, "rounds": 1})
        refused = coordinator.call(RUN, again)
        assert refused.returncode == 2
        assert "the run 'first' is finished" in refused.stderr
        assert "--replace" in refused.stderr
        assert token(out) == first
        assert best_models(states) == kept

        answer = coordinator.call(RUN, again, "--replace", timeout=TIMEOUT)
        assert answer.returncode == ExitCode.finished, answer.stdout + answer.stderr
    assert token(out) != first
    assert token(out.with_name(f"first.{first}")) == first
    for name in federation.institutions:
        # The best model of a run belongs to it, though the earlier one's may have been of a
        # later round.
        new = state_folder(federation, name, "first")
        assert RunRecord.read(new).token == token(out)
        assert list(best_models(new)) == ["best-000001.safetensors"]
    aside = state_folder(federation, A, f"first.{first}")
    assert RunRecord.read(aside).token == first
    assert best_models(aside) == kept


_OTHER_DATA = "data is not that of its import, or of the run's beginning"


def test_data_of_another_institution(federation: HarnessFederation) -> None:
    host = federation.institutions[B]
    data = host.folder / "data"
    note = data / SUMMARY_FILE
    note.write_text(json.dumps({"institution": A, "graph_digest": Graph.open(data).digest()}))
    try:
        with logs_on_failure(federation):
            found = host.doctor()["data"]
            assert found["state"] == "failed", found
            assert f"imported for '{A}', not for '{B}'" in found["finding"]
            impatient: dict[str, Scalar] = {"run-name": "swapped", "give-up-after": 5.0}
            answer = federation.coordinator.call(
                RUN, federation.write_settings(_BOTH | impatient), timeout=TIMEOUT
            )
            assert answer.returncode == ExitCode.gave_up, answer.stdout + answer.stderr
            assert _OTHER_DATA in answer.stderr
            assert f"imported for '{A}', not for '{B}'" in host.log.read_text()
            assert not events(federation.run_folder("swapped"), "round")
    finally:
        note.unlink()


def test_data_is_exchanged_and_state_deleted_during_a_run(federation: HarnessFederation) -> None:
    """Run last: the run goes on until the coordinator is ended."""
    host, out = federation.institutions[B], federation.run_folder("long")
    quorum: dict[str, Scalar] = {"min-institutions": 1, "start-institutions": 2}

    def wait(what: str, after: int, *, reason: str = "") -> dict[str, Any]:
        """Return a round with the institution, or without it for a reason."""
        return wait_for_round(
            out,
            lambda facts: (
                reason in facts["left_out"].get(B, "") if reason else B in facts["institutions"]
            ),
            what,
            after=after,
        )

    with logs_on_failure(federation):
        run = federation.start_run(SMALL | quorum | {"run-name": "long", "rounds": ENDLESS})
        first = wait(f"{B} takes part", 0)
        own, other = (banks(A, B)[name] for name in (B, A))
        data = host.folder / "data"
        other.save(data, force=True)
        refused = wait("other data is refused", first["round"], reason=_OTHER_DATA)
        # With a digest one could try out guesses of the data: both stay in the institution's log.
        for told in (own.digest()[:12], other.digest()[:12]):
            assert told not in refused["left_out"][B]
            assert told in host.log.read_text()
        assert str(host.folder) not in refused["left_out"][B]
        own.save(data, force=True)
        back = wait(f"{B} is back with its data", refused["round"])

        shutil.rmtree(state_folder(federation, B, "long"))
        lost = wait("lost state is refused", back["round"], reason="'fedgt rejoin KIT --run long'")
        assert "the state of run long" in lost["left_out"][B]
        assert str(host.folder) not in lost["left_out"][B]
        answer = host.call("fedgt", "rejoin", ".", "--run", "long")
        assert answer.returncode == 0, answer.stderr
        wait(f"{B} goes on without its state", lost["round"])
        assert run.poll() is None
    assert "without its state up to round" in host.log.read_text()
