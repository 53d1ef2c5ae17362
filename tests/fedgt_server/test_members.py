"""Who takes part."""

import logging
from dataclasses import replace

import pytest

from fedgt_server.exchange import exchange
from fedgt_server.members import Members
from shared.errors import FedGTError
from shared.wire import Arrays
from tests.fedgt_server.grid import INITIAL, PROFILE, Node, ScriptedGrid

pytestmark = pytest.mark.usefixtures("quick")

SHORT = replace(PROFILE, features=["age"])


def admit(members: Members, grid: ScriptedGrid, *, strict: bool = True) -> Arrays:
    queries = members.queries(members.unknown_nodes(grid), want_initial=True)
    return members.admit(grid, exchange(grid, queries, 1.0).answers, strict=strict)


def test_before_the_first_round_a_mismatch_ends_the_run() -> None:
    grid = ScriptedGrid(Node("alba"), Node("bree", profile=SHORT))
    with pytest.raises(
        FedGTError, match=r"bree has other feature columns than alba: .* without 'debt'"
    ):
        admit(Members(), grid)


def test_the_error_has_the_registered_name() -> None:
    grid = ScriptedGrid(Node("alba"), Node("bree", registered="Bank of Bree", profile=SHORT))
    with pytest.raises(FedGTError, match=r"^Bank of Bree has other feature columns"):
        admit(Members(), grid)


def test_later_a_mismatch_keeps_the_newcomer_out(caplog: pytest.LogCaptureFixture) -> None:
    grid, members = ScriptedGrid(Node("alba")), Members()
    admit(members, grid)
    grid.nodes[2] = Node("bree", profile=SHORT)
    with caplog.at_level(logging.WARNING):
        admit(members, grid, strict=False)
    assert "bree is not admitted" in caplog.text
    assert members.online(grid) == {1: "alba"}
    # It is not asked again every round.
    assert members.unknown_nodes(grid) == []


@pytest.mark.parametrize("strict", [True, False])
def test_an_introduction_that_cannot_be_read(strict: bool) -> None:
    grid, members = ScriptedGrid(Node("alba"), Node("bree", garbled={0})), Members()
    if strict:
        with pytest.raises(FedGTError, match="node 2 sent an introduction that cannot be read"):
            admit(members, grid)
    else:
        admit(members, grid, strict=False)
        assert members.online(grid) == {1: "alba"}


def test_one_is_asked_for_the_starting_point() -> None:
    grid = ScriptedGrid(Node("b"), Node("a"), Node("c"))
    initial = admit(Members(), grid)
    assert {name: array.tolist() for name, array in initial.items()} == {
        name: array.tolist() for name, array in INITIAL.items()
    }
    assert [node.asked_for_initial for node in grid.nodes.values()] == [1, 0, 0]


def test_online_is_in_the_order_of_names() -> None:
    grid, members = ScriptedGrid(Node("b"), Node("a"), Node("c")), Members()
    admit(members, grid)
    assert list(members.online(grid).items()) == [(2, "a"), (1, "b"), (3, "c")]
    grid.nodes[2].present = False
    assert list(members.online(grid).values()) == ["b", "c"]
    assert members.names() == {"a", "b", "c"}


def test_a_registered_name_counts_more_than_what_a_node_says() -> None:
    grid, members = ScriptedGrid(Node("bree", registered="alba"), Node("cork")), Members()
    admit(members, grid)
    assert members.name_of(1) == "alba"
    assert members.name_of(2) == "cork"
    assert members.name_of(3) is None


def test_a_node_cannot_take_the_place_of_another_that_is_here() -> None:
    grid, members = ScriptedGrid(Node("alba", registered="alba")), Members()
    admit(members, grid)
    grid.nodes[2] = Node("alba")
    admit(members, grid, strict=False)
    assert members.online(grid) == {1: "alba"}
    assert members.name_of(2) is None


def test_a_registered_node_takes_its_name_from_an_unregistered_one() -> None:
    grid, members = ScriptedGrid(Node("alba"), Node("bree")), Members()
    admit(members, grid)
    grid.nodes[3] = Node("x", registered="alba")
    admit(members, grid, strict=False)
    assert members.online(grid) == {3: "alba", 2: "bree"}


def test_an_institution_returns_from_a_new_node() -> None:
    grid, members = ScriptedGrid(Node("alba"), Node("bree")), Members()
    admit(members, grid)
    # It restarts: at first the old node still seems to be there.
    grid.nodes[3] = Node("alba")
    admit(members, grid, strict=False)
    assert members.online(grid) == {1: "alba", 2: "bree"}
    grid.nodes[1].present = False
    admit(members, grid, strict=False)
    assert members.online(grid) == {3: "alba", 2: "bree"}
    assert members.name_of(1) is None


def test_after_a_resume_the_agreed_profile_stays() -> None:
    members = Members(PROFILE)
    with pytest.raises(FedGTError, match="alba has other feature columns than the federation"):
        admit(members, ScriptedGrid(Node("alba", profile=SHORT)))


def test_another_version_is_refused_whoever_comes_first() -> None:
    old = replace(PROFILE, version="0.0.9")
    grid = ScriptedGrid(Node("alba", profile=old), Node("bree"))
    line = f"alba has FedGT 0.0.9 installed, the coordinator {PROFILE.version}: correct it there"
    with pytest.raises(FedGTError, match=line):
        admit(Members(), grid)


def test_after_a_resume_the_coordinator_may_be_newer() -> None:
    members, grid = Members(replace(PROFILE, version="0.0.9")), ScriptedGrid(Node("alba"))
    admit(members, grid)
    assert members.names() == {"alba"}
