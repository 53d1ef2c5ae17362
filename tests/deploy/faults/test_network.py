"""Institutions on hosts of their own, behind a slow link and behind one that is cut."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.federation import LocalFederation, Network
from deploy.processes import marked_processes
from tests.deploy.faults.hosts import Hosts, SlowLink, hosts_and_slow_link
from tests.deploy.faults.scene import (
    ENDLESS,
    PATIENCE,
    SMALL,
    A,
    B,
    C,
    banks,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    steps,
    wait_for_round,
)

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

_CUT = 60.0  # seconds
_DEADLINE = 25.0


@contextmanager
def on_hosts(place: Path) -> Iterator[tuple[LocalFederation, Hosts, SlowLink]]:
    """A coordinator with an institution on its own host, one on another, one far away."""
    with hosts_and_slow_link(delay=0.1, loss=0.01) as (hosts, link), marked_processes() as mark:
        hosts.add_behind("slow", link)
        hosts.add("cut")
        places = {"coordinator": "hub", A: "slow", B: "hub", C: "cut"}
        network = Network(
            address=hosts.address,
            listen="0.0.0.0",
            prefixes={name: hosts.command(host) for name, host in places.items()},
        )
        federation = LocalFederation(place, banks(A, B, C), mark, network=network)
        with logs_on_failure(federation):
            federation.start()
            yield federation, hosts, link


def test_a_slow_link_and_one_that_is_cut(tmp_path: Path) -> None:
    with on_hosts(tmp_path) as (federation, hosts, link):
        result = federation.run(
            SMALL | {"run-name": "slow", "rounds": 2, "min-institutions": 3}, patience=PATIENCE
        )
        assert sorted(result["per_client"]) == [A, B, C]
        assert result["rounds"] == 2
        assert link.carried > 100
        link.delay = link.loss = 0.0

        run = federation.start_run(
            SMALL
            | {
                "run-name": "cut",
                "rounds": ENDLESS,
                "min-institutions": 2,
                "start-institutions": 3,
                "round-deadline": _DEADLINE,
            }
        )
        out, states = federation.run_folder("cut"), state_folder(federation, C, "cut")
        first = wait_for_round(out, lambda facts: C in facts["institutions"], f"{C} takes part")
        hosts.cut("cut")
        until = time.monotonic() + _CUT
        before = steps(max(states.glob("round-*.safetensors")))
        # The round ends at its deadline, with the quorum.
        without = wait_for_round(
            out, lambda facts: C in facts["missing"], f"{C} is missing", after=first["round"]
        )
        assert sorted(without["institutions"]) == [A, B]
        time.sleep(max(0.0, until - time.monotonic()))
        hosts.mend("cut")
        back = wait_for_round(
            out, lambda facts: C in facts["institutions"], f"{C} is back", after=without["round"]
        )
        # No operator has started anything, and it has its state.
        assert federation.supernodes[C].poll() is None
        assert steps(states / f"round-{back['round']:06d}.safetensors") > before
        assert run.poll() is None
