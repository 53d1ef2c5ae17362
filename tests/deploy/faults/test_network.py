"""Institutions on hosts of their own, behind a slow link and behind one that is cut."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.engines.processes import marked_processes
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    ample,
    banks,
    check_deadline,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    steps,
    wait_for_round,
)
from tests.harness.federation import HarnessFederation, Network
from tests.harness.network_hosts import Hosts, SlowLink, hosts_and_slow_link

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_CUT = 60.0  # seconds


@contextmanager
def on_hosts(place: Path) -> Iterator[tuple[HarnessFederation, Hosts, SlowLink]]:
    """Start a coordinator, an institution behind a slow link, and one whose link will be cut."""
    with hosts_and_slow_link(delay=0.1, loss=0.01) as (hosts, link), marked_processes() as mark:
        hosts.add_behind("slow", link)
        hosts.add("cut")
        places = {"coordinator": "centre", A: "slow", B: "cut"}
        network = Network(
            dial_host=hosts.address,
            listen_host="0.0.0.0",
            prefixes={name: hosts.command(host) for name, host in places.items()},
        )
        federation = HarnessFederation(place, banks(A, B), mark, network=network)
        with logs_on_failure(federation):
            federation.start()
            yield federation, hosts, link


def test_a_slow_link_and_one_that_is_cut(tmp_path: Path) -> None:
    with on_hosts(tmp_path) as (federation, hosts, link):
        both = SMALL | {"min-institutions": 2}
        result = federation.run(both | {"run-name": "slow", "rounds": 2}, timeout=TIMEOUT)
        assert sorted(result.per_client) == [A, B]
        assert result.rounds == 2
        assert link.carried > 100
        link.delay = link.loss = 0.0

        deadline = ample(federation.run_folder("slow"))
        quorum: dict[str, Scalar] = {"min-institutions": 1, "start-institutions": 2}
        run = federation.start_run(
            SMALL | quorum | {"run-name": "cut", "rounds": ENDLESS, "round-deadline": deadline}
        )
        out, states = federation.run_folder("cut"), state_folder(federation, B, "cut")
        first = wait_for_round(out, lambda facts: B in facts["institutions"], f"{B} takes part")
        hosts.cut("cut")
        until = time.monotonic() + _CUT
        before = steps(max(states.glob("round-*.safetensors")))
        # The round ends at its deadline, with the quorum.
        without = wait_for_round(
            out, lambda facts: B in facts["missing"], f"{B} is missing", after=first["round"]
        )
        assert list(without["institutions"]) == [A]
        check_deadline(without, deadline)
        time.sleep(max(0.0, until - time.monotonic()))
        hosts.restore("cut")
        back = wait_for_round(
            out, lambda facts: B in facts["institutions"], f"{B} is back", after=without["round"]
        )
        # No operator has started anything, and it has its state.
        assert federation.supernodes[B].poll() is None
        assert steps(states / f"round-{back['round']:06d}.safetensors") > before
        assert run.poll() is None
