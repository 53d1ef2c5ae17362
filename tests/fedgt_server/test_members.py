"""Who takes part."""

import logging
from dataclasses import replace

import pytest

from fedgt_server.exchange import exchange
from fedgt_server.introduction import gather
from fedgt_server.members import Members
from shared.config import Scalar
from shared.errors import FedGTError
from shared.profile import columns_digest
from tests.fedgt_server.grid import PROFILE, Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")

SHORT = replace(PROFILE, features=["age"])


def admit(members: Members, grid: ScriptedGrid) -> None:
    queries = members.queries(members.unknown_nodes(grid))
    members.admit(grid, exchange(grid, queries, 1.0).answers)


def start(grid: ScriptedGrid, members: Members | None = None, **changed: Scalar) -> Members:
    """Have all nodes introduced as before the first round."""
    members = members or Members()
    gather(grid, members, settings(**changed), want_initial=False)
    return members


# --- who cannot take part -------------------------------------------------------------------------


def test_without_it_there_are_too_few() -> None:
    grid = ScriptedGrid(Node("alba"), Node("bree", profile=SHORT))
    with pytest.raises(
        FedGTError, match=r"bree has other feature columns than alba: .* without 'debt'"
    ):
        start(grid)


def test_the_error_has_the_registered_name() -> None:
    grid = ScriptedGrid(Node("alba"), Node("bree", registered="Bank of Bree", profile=SHORT))
    with pytest.raises(FedGTError, match=r"Bank of Bree"):
        start(grid)


def test_one_of_many_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    grid = ScriptedGrid(Node("alba", profile=SHORT), Node("bree"), Node("cork"))
    with caplog.at_level(logging.WARNING):
        members = start(grid)
    assert members.names() == {"bree", "cork"}
    line = "alba is not admitted: it has other feature columns than bree"
    assert [found.startswith(line) for found in members.notices] == [True]
    assert line in caplog.text
    # It learns why, once.
    assert len(grid.nodes[1].notices) == 1
    assert "not admitted: this institution has other feature columns" in grid.nodes[1].notices[0]
    assert not grid.nodes[2].notices


def test_who_comes_first_does_not_decide() -> None:
    """The first node is alone for a while, and then outvoted."""
    grid = ScriptedGrid(Node("alba", profile=SHORT))
    members = Members()
    admit(members, grid)
    assert members.names() == {"alba"}
    grid.nodes |= {2: Node("bree"), 3: Node("cork")}
    assert start(grid, members).names() == {"bree", "cork"}


def test_as_many_have_another_profile() -> None:
    grid = ScriptedGrid(*(Node(n, profile=SHORT) for n in ("a", "b")), Node("c"), Node("d"))
    with pytest.raises(FedGTError, match=r"^c has other feature columns than a: 2 instead of 1"):
        start(grid)


def test_the_schema_counts_more_than_the_majority() -> None:
    columns = columns_digest(SHORT.features, SHORT.classes)
    grid = ScriptedGrid(Node("a"), Node("b"), *(Node(n, profile=SHORT) for n in ("c", "d")))
    members = start(grid, Members(columns=columns))
    assert members.names() == {"c", "d"}
    assert members.notices[0].startswith(
        "a is not admitted: it has other feature columns than the federation's schema.json"
    )


def test_nobody_has_the_columns_of_the_schema() -> None:
    with pytest.raises(FedGTError, match="a has other features or classes than the federation's"):
        start(ScriptedGrid(Node("a"), Node("b")), Members(columns="0" * 64))


def test_later_a_mismatch_keeps_the_newcomer_out(caplog: pytest.LogCaptureFixture) -> None:
    grid = ScriptedGrid(Node("alba"))
    members = start(grid, min_institutions=1)
    grid.nodes[2] = Node("bree", profile=SHORT)
    with caplog.at_level(logging.WARNING):
        admit(members, grid)
    assert "bree is not admitted" in caplog.text
    assert members.online(grid) == {1: "alba"}
    # It is not asked again every round, but when it comes back.
    assert members.unknown_nodes(grid) == []
    grid.nodes[2].present = False
    assert members.unknown_nodes(grid) == []
    grid.nodes[2] = Node("bree")
    admit(members, grid)
    assert members.online(grid) == {1: "alba", 2: "bree"}


@pytest.mark.parametrize("needed", [1, 2])
def test_an_introduction_that_cannot_be_read(needed: int) -> None:
    grid = ScriptedGrid(Node("alba"), Node("bree", garbled={0}))
    if needed == 2:
        with pytest.raises(FedGTError, match="node 2 sent an introduction that cannot be read"):
            start(grid)
    else:
        assert start(grid, min_institutions=1).online(grid) == {1: "alba"}


def test_another_version_is_refused_whoever_comes_first() -> None:
    old = replace(PROFILE, version="0.0.9")
    grid = ScriptedGrid(Node("alba", profile=old), Node("bree"))
    line = f"alba has FedGT 0.0.9 installed, the coordinator {PROFILE.version}: correct it there"
    with pytest.raises(FedGTError, match=line):
        start(grid)


def test_after_a_resume_the_agreed_profile_stays() -> None:
    with pytest.raises(FedGTError, match="alba has other feature columns than the federation"):
        start(ScriptedGrid(Node("alba", profile=SHORT)), Members(PROFILE), min_institutions=1)


def test_after_a_resume_the_coordinator_may_be_newer() -> None:
    members = Members(replace(PROFILE, version="0.0.9"))
    assert start(ScriptedGrid(Node("alba")), members, min_institutions=1).names() == {"alba"}


# --- who takes part -------------------------------------------------------------------------------


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
    admit(members, grid)
    assert members.online(grid) == {1: "alba"}
    assert members.name_of(2) is None


def test_a_registered_node_takes_its_name_from_an_unregistered_one() -> None:
    grid, members = ScriptedGrid(Node("alba"), Node("bree")), Members()
    admit(members, grid)
    grid.nodes[3] = Node("x", registered="alba")
    admit(members, grid)
    assert members.online(grid) == {3: "alba", 2: "bree"}


def test_an_institution_returns_from_a_new_node() -> None:
    grid, members = ScriptedGrid(Node("alba"), Node("bree")), Members()
    admit(members, grid)
    # It restarts: at first the old node still seems to be there.
    grid.nodes[3] = Node("alba")
    admit(members, grid)
    assert members.online(grid) == {1: "alba", 2: "bree"}
    grid.nodes[1].present = False
    admit(members, grid)
    assert members.online(grid) == {3: "alba", 2: "bree"}
    assert members.name_of(1) is None
