"""Institutions that go, come back, and come late, during one run."""

import tomllib
from pathlib import Path

import pytest
import tomli_w

from deploy.engines.ports import free_ports
from deploy.engines.processes import marked_processes
from deploy.provision.kits import provision
from fedgt_client.graph import Graph
from shared.config import Scalar
from tests.harness.fault_scenarios import (
    ENDLESS,
    SMALL,
    TIMEOUT,
    A,
    B,
    C,
    ample,
    banks,
    check_deadline,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    steps,
    wait_for_round,
)
from tests.harness.federation import HarnessFederation
from tests.harness.policies import ANYTHING

pytestmark: list[pytest.MarkDecorator] = processes_over_tls


def add_institution(federation: HarnessFederation, name: str, graph: Graph) -> None:
    """Add an institution as an operator does, while the coordinator runs."""
    spec = tomllib.loads(federation.spec_file.read_text())
    spec["institutions"].append({"name": name, "port": free_ports(1)[0]})
    federation.spec_file.write_text(tomli_w.dumps(spec))
    provision(federation.spec_file, federation.kits)
    federation.renew_coordinator()
    assert list(federation.register()["added"]) == [name]
    federation.institutions[name] = federation.add_host(name)
    federation.allow(name, ANYTHING)
    graph.save(federation.institutions[name].folder / "data")


def test_one_is_killed_another_joins_and_the_first_comes_back(tmp_path: Path) -> None:
    graphs = banks(A, B, C)
    newcomer = graphs.pop(C)
    with marked_processes() as mark:
        federation = HarnessFederation(tmp_path, graphs, mark)
        with logs_on_failure(federation):
            federation.start()
            both = SMALL | {"min-institutions": 2}
            federation.run(both | {"run-name": "short", "rounds": 1}, timeout=TIMEOUT)
            deadline = ample(federation.run_folder("short"))

            quorum: dict[str, Scalar] = {"min-institutions": 1, "start-institutions": 2}
            run = federation.start_run(
                SMALL | quorum | {"run-name": "long", "rounds": ENDLESS, "round-deadline": deadline}
            )
            out, states = federation.run_folder("long"), state_folder(federation, B, "long")
            first = wait_for_round(out, lambda facts: B in facts["institutions"], f"{B} takes part")
            federation.kill_supernode(B)
            before = steps(max(states.glob("round-*.safetensors")))

            # The round ends at its deadline, with the quorum.
            without = wait_for_round(
                out, lambda facts: B in facts["missing"], f"{B} is missing", after=first["round"]
            )
            assert list(without["institutions"]) == [A]
            check_deadline(without, deadline)

            add_institution(federation, C, newcomer)
            federation.start_supernode(C)
            federation.start_supernode(B)
            joined = wait_for_round(
                out,
                lambda facts: C in facts["institutions"],
                f"{C} takes part",
                after=without["round"],
            )
            assert joined["institutions"][C]["test_accuracy"] > 0
            back = wait_for_round(
                out,
                lambda facts: B in facts["institutions"],
                f"{B} is back",
                after=without["round"],
            )
            # With its state: its optimiser goes on counting.
            assert steps(states / f"round-{back['round']:06d}.safetensors") > before
            assert run.poll() is None
    assert not mark.processes()
