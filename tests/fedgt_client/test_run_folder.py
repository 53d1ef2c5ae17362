"""A run is more than its name: state, best model, data and what was lost of them."""

import shutil
from pathlib import Path

import pytest

from fedgt_client.client import FedGTClient
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.run_folder import allow_rejoin, claim_folder
from fedgt_client.run_record import RunRecord
from fedgt_client.state import StateStore
from shared.errors import FedGTError
from shared.files import write_json
from shared.wire import Arrays
from tests.fedgt_client.graphs import settings, two_groups, without_links

ONE, TWO = "11111111", "22222222"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine of its own, with the institution's data."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    two_groups().save(tmp_path / "data")
    return tmp_path


def opened(home: Path, token: str) -> FedGTClient:
    node = NodeConfig(
        institution="alba", data_dir=str(home / "data"), state_dir=str(home / "state")
    )
    return FedGTClient.open(node, settings(federation="banks"), "first", token)


def play(client: FedGTClient, number: int, sent: Arrays, *, best: int = 0, last: int = 0) -> None:
    client.fit(NamedArrays(sent), {"round": number, "best-round": best, "last-round": last})


def initial(client: FedGTClient) -> Arrays:
    return client.get_parameters({}).as_dict()


def store(home: Path, run: str = "first") -> StateStore:
    return StateStore(home / "state", "banks", run, "alba")


def test_another_run_of_the_same_name_has_its_own_state_and_best_model(home: Path) -> None:
    first = opened(home, ONE)
    start = initial(first)
    play(first, 1, start)
    play(first, 2, start, best=1)
    kept = store(home).best()
    assert kept is not None
    content = kept.path.read_bytes()

    second = opened(home, TWO)
    assert store(home).best() is None
    play(second, 1, {name: array + 1 for name, array in start.items()})
    play(second, 2, start, best=1)
    best, earlier = store(home).best(), store(home, f"first.{ONE}").best()
    assert best is not None
    assert earlier is not None
    assert earlier.path.read_bytes() == content != best.path.read_bytes()
    assert [RunRecord.read(store(home, run).folder).token for run in ("first", f"first.{ONE}")] == [
        TWO,
        ONE,
    ]
    # A message of the first run finds the first run's state.
    assert claim_folder(home / "state", "banks", "first", "alba", ONE).rounds() == [1, 2]


def test_the_state_of_an_earlier_version_is_that_of_a_run_without_token(home: Path) -> None:
    client = opened(home, "")
    play(client, 1, initial(client))
    assert claim_folder(home / "state", "banks", "first", "alba", "").rounds() == [1]
    assert claim_folder(home / "state", "banks", "first", "alba", ONE).rounds() == []
    assert store(home, "first.earlier").rounds() == [1]


def test_other_data_during_a_run(home: Path) -> None:
    client = opened(home, ONE)
    start = initial(client)
    play(client, 1, start)
    without_links(two_groups()).save(home / "data", force=True)
    digests = f"digest {two_groups().digest()[:12]} when it began, "
    # The process that has the old data in memory, and one that opens the new.
    with pytest.raises(FedGTError, match=digests):
        play(client, 2, start)
    with pytest.raises(FedGTError, match=f"has changed during run first .{digests}"):
        opened(home, ONE)
    opened(home, TWO)  # another run may begin with it
    two_groups().save(home / "data", force=True)
    play(client, 2, start)  # back, though in other files


@pytest.mark.parametrize(
    ("noted", "problem"),
    [
        ({"institution": "bree"}, "imported for 'bree', not for 'alba'"),
        ({"institution": "alba", "graph_digest": "0" * 64}, "not what was imported .*000000000000"),
    ],
)
def test_data_of_somebody_else(home: Path, noted: dict[str, str], problem: str) -> None:
    write_json(home / "data" / "summary.json", noted)
    with pytest.raises(FedGTError, match=problem):
        opened(home, ONE)


def test_state_that_was_lost(home: Path) -> None:
    client = opened(home, ONE)
    start = initial(client)
    for number in range(1, 6):
        play(client, number, start, last=number - 1)
    shutil.rmtree(home / "state")
    with pytest.raises(FedGTError, match=r"is gone, but it took part up to round 5: .*rejoin"):
        play(opened(home, ONE), 6, start, last=5)
    allow_rejoin(home / "state", "banks", "first")
    play(opened(home, ONE), 6, start, last=5)
    # Once: what is lost later is another loss.
    play(opened(home, ONE), 7, start, last=6)
    shutil.rmtree(home / "state")
    with pytest.raises(FedGTError, match="is gone"):
        play(opened(home, ONE), 8, start, last=7)


def test_an_old_backup_is_not_the_state(home: Path) -> None:
    client = opened(home, ONE)
    start = initial(client)
    play(client, 1, start)
    shutil.copytree(home / "state", home / "backup")
    for number in range(2, 7):
        play(client, number, start, last=number - 1)
    shutil.rmtree(home / "state")
    (home / "backup").rename(home / "state")
    with pytest.raises(FedGTError, match="ends with round 1, but it took part up to round 6"):
        play(opened(home, ONE), 7, start, last=6)


def test_the_last_state_may_be_truncated(home: Path) -> None:
    client = opened(home, ONE)
    start = initial(client)
    for number in (1, 2, 3):
        play(client, number, start, last=number - 1)
    (store(home).folder / "round-000003.safetensors").write_bytes(b"")
    play(opened(home, ONE), 4, start, last=3)
