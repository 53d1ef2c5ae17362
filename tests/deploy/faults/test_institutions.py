"""Institutions that go, come back, and come late, during one run."""

from pathlib import Path

import pytest

from deploy.federation import LocalFederation
from deploy.machine import free_ports
from deploy.processes import marked_processes
from deploy.provision.kits import provision
from shared.graph import Graph
from tests.deploy.faults.scene import (
    ENDLESS,
    SMALL,
    A,
    B,
    C,
    D,
    banks,
    logs_on_failure,
    processes_over_tls,
    state_folder,
    steps,
    wait_for_round,
)

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

# Longer than a round, shorter than Flower takes to notice that a supernode is gone.
_DEADLINE = 25.0


def add_institution(federation: LocalFederation, name: str, graph: Graph) -> None:
    """As an operator does it, while the coordinator runs."""
    with federation.description.open("a") as stream:
        stream.write(f'[[institutions]]\nname = "{name}"\nport = {free_ports(1)[0]}\n')
    provision(federation.description, federation.kits)
    federation.renew_coordinator()
    assert list(federation.register()["added"]) == [name]
    federation.institutions[name] = federation.machine(name)
    graph.save(federation.institutions[name].folder / "data")


def test_one_is_killed_another_joins_and_the_first_comes_back(tmp_path: Path) -> None:
    graphs = banks(A, B, C, D)
    with marked_processes() as mark:
        newcomer = graphs.pop(D)
        federation = LocalFederation(tmp_path, graphs, mark)
        with logs_on_failure(federation):
            federation.start()
            run, out = (
                federation.start_run(
                    SMALL
                    | {
                        "run-name": "long",
                        "rounds": ENDLESS,
                        "min-institutions": 2,
                        "start-institutions": 3,
                        "round-deadline": _DEADLINE,
                    }
                ),
                federation.run_folder("long"),
            )
            first = wait_for_round(out, lambda facts: C in facts["institutions"], f"{C} takes part")
            states = state_folder(federation, C, "long")
            federation.kill_supernode(C)
            before = steps(max(states.glob("round-*.safetensors")))

            # The round ends at its deadline, with the quorum.
            without = wait_for_round(
                out, lambda facts: C in facts["missing"], f"{C} is missing", after=first["round"]
            )
            assert sorted(without["institutions"]) == [A, B]
            assert without["seconds"] >= _DEADLINE

            add_institution(federation, D, newcomer)
            federation.start_supernode(D)
            federation.start_supernode(C)

            def reconnect() -> None:
                # Refused for as long as the coordinator takes it to be connected still.
                if federation.supernodes[C].poll() is not None:
                    federation.start_supernode(C)

            joined = wait_for_round(
                out,
                lambda facts: D in facts["institutions"],
                f"{D} takes part",
                after=without["round"],
                meanwhile=reconnect,
            )
            assert joined["institutions"][D]["test_accuracy"] > 0
            back = wait_for_round(
                out,
                lambda facts: C in facts["institutions"],
                f"{C} is back",
                after=without["round"],
                meanwhile=reconnect,
            )
            # With its state: its optimiser goes on counting.
            assert steps(states / f"round-{back['round']:06d}.safetensors") > before
            assert run.poll() is None
    assert not mark.processes()
