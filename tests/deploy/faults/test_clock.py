"""The clock of an institution's machine is wrong, at the start and in the middle of a run."""

import re
from pathlib import Path

import pytest

from deploy.engines.local_federation import START_SUPERNODE
from deploy.engines.processes import marked_processes
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    banks,
    logs_on_failure,
    processes_over_tls,
    wait_for_round,
    wait_until,
)
from tests.harness.federation import HarnessFederation, HarnessHost, Network
from tests.harness.skewed_clock import SkewedClock

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_HOUR, _MONTH = 3600, 30 * 86400
_SETTINGS: dict[str, Scalar] = SMALL | {
    "min-institutions": 1,
    "start-institutions": 2,
    "run-name": "one",
    "rounds": ENDLESS,
}
# Whoever is not let in reads this three times, and then the script ends.
_ENDS = f"the coordinator does not let {B} in"


def wait_for_line(host: HarnessHost, pattern: str) -> None:
    wait_until(
        lambda: re.search(pattern, host.log.read_text(errors="replace")),
        f"'{pattern}' in the log of {host.folder.name}",
    )


def test_a_wrong_clock_is_told_and_set_right(tmp_path: Path) -> None:
    clock = SkewedClock(tmp_path / "clock")
    with marked_processes() as mark:
        network = Network(prefixes={B: clock.prefix})
        federation = HarnessFederation(tmp_path / "banks", banks(A, B), mark, network=network)
        coordinator, bank = federation.coordinator, federation.institutions[B]
        with logs_on_failure(federation):
            federation.start_superlink()
            federation.register()
            federation.start_supernode(A)

            # So wrong that the certificate is of another time: the script says so and tries again.
            clock.set(-_MONTH)
            process = bank.start(START_SUPERNODE)
            wait_for_line(bank, "not yet valid → set this machine's clock")
            clock.set(0)
            run = federation.start_run(_SETTINGS)
            out = federation.run_folder("one")
            first = wait_for_round(out, lambda facts: B in facts["institutions"], f"{B} is in")
            assert process.poll() is None

            # It jumps in the middle of a run, which goes on without this institution.
            clock.set(_HOUR)
            off = r"36\d\d s ahead of"
            wait_for_line(
                bank, f"the clocks differ too much: this clock is {off} the coordinator's"
            )
            wait_for_line(coordinator, f"is refused: its clock is {off} this one")
            assert process.wait(TIMEOUT) == 1
            assert _ENDS in bank.log.read_text()
            without = wait_for_round(
                out, lambda facts: B not in facts["institutions"], "without", after=first["round"]
            )

            # Right again, it goes on where it was.
            clock.set(0)
            bank.start(START_SUPERNODE)
            wait_for_round(
                out, lambda facts: B in facts["institutions"], "back", after=without["round"]
            )
            assert run.poll() is None
            for host in (coordinator, *federation.institutions.values()):
                assert "Traceback" not in host.log.read_text(errors="replace")
    assert not mark.processes()
