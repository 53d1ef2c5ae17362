"""A round takes as long as Flower does: nothing is imported or opened again for it."""

import json
import shutil
import signal
import statistics
from pathlib import Path

import pytest
import tomli_w

from deploy.engines.processes import marked_processes
from fedgt_client.data.partition import institution_graphs
from shared.config import Scalar
from tests.harness.fault_scenarios import processes_over_tls, wait_until
from tests.harness.running_federation import Running

pytestmark = [*processes_over_tls, pytest.mark.alone]

NAMES = ("bank-a", "bank-b", "bank-c")
ROUNDS = 10
ALLOWED = 1.25  # times the round of a client that does nothing

SETTINGS: dict[str, Scalar] = {
    "run-name": "cora",
    "rounds": ROUNDS + 100,
    "min-institutions": 3,
}

_PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "nothing"
version = "1.0.0"
description = "An app that does nothing"
license = { file = "LICENSE" }
dependencies = ["flwr>=1.39,<1.40"]

[tool.flwr.app]
publisher = "fedgt"
fab-format-version = 1
flwr-version-target = "1.39.0"
fab-include = ["nothing/**/*.py", "LICENSE"]

[tool.flwr.app.components]
serverapp = "nothing.server:app"
clientapp = "nothing.client:app"

[tool.flwr.app.config]
institutions = 3
rounds = 1
out = ""
"""

_CLIENT = """
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message: Message, context: Context) -> Message:
    arrays = message.content["arrays"].to_numpy_ndarrays()
    return Message(RecordDict({"arrays": ArrayRecord(arrays)}), reply_to=message)
"""

# The loop of fedgt_server.exchange.
_SERVER = """
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    config = context.run_config
    while len(nodes := list(grid.get_node_ids())) < config["institutions"]:
        time.sleep(0.25)
    seconds = []
    for _ in range(config["rounds"]):
        started, waiting = time.monotonic(), set()
        for node in nodes:
            content = RecordDict({"arrays": ArrayRecord([np.zeros(10, np.float32)])})
            waiting |= set(grid.push_messages([Message(content, node, "train")]))
        while waiting:
            replies = grid.pull_messages(list(waiting))
            waiting -= {reply.metadata.reply_to_message_id for reply in replies}
            if waiting:
                time.sleep(0.25)
        seconds.append(time.monotonic() - started)
    Path(config["out"]).write_text(json.dumps(seconds))
"""


def app_of_nothing(place: Path) -> Path:
    """Write an app whose clients do nothing."""
    package = place / "nothing" / "nothing"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("client", _CLIENT), ("server", _SERVER)):
        (package / f"{name}.py").write_text(text)
    (package.parent / "pyproject.toml").write_text(_PYPROJECT)
    shutil.copy(Path(__file__).parents[2] / "LICENSE", package.parent)
    return package.parent


def rounds_of_nothing(federation: Running, app: Path, place: Path) -> list[float]:
    """Return the seconds of each round of that app."""
    settings, out = place / "nothing.toml", place / "nothing.json"
    settings.write_text(tomli_w.dumps({"rounds": ROUNDS, "out": str(out)}))
    run = federation.coordinator.call(
        *("flwr.sh", "run", str(app), "fedgt", "--stream"),
        *("--run-config", str(settings)),
        timeout=300,
    )
    assert out.exists(), run.stdout + run.stderr
    seconds: list[float] = json.loads(out.read_text())
    return seconds


@pytest.mark.usefixtures("real_data")
def test_a_round_takes_as_long_as_flower_does(tmp_path: Path) -> None:
    parts = institution_graphs("cora", clients=3, setting="disjoint", seed=0)
    with marked_processes() as mark:
        app = app_of_nothing(tmp_path)
        federation = Running(tmp_path, mark, dict(zip(NAMES, parts, strict=True)), approved=app)
        nothing = statistics.median(rounds_of_nothing(federation, app, tmp_path))
        asked = {name: _messages(federation, name) for name in NAMES}

        federation.start_run(SETTINGS)
        federation.wait_for_round("cora", ROUNDS)
        rounds = federation.rounds("cora")[:ROUNDS]
        median = statistics.median(event["seconds"] for event in rounds)
        print(f"\nmedian round: nothing {nothing:.2f} s, FedGT on Cora {median:.2f} s")
        assert median <= ALLOWED * nothing
        # One message a round, and one before the first.
        for name in NAMES:
            sent = _messages(federation, name) - asked[name]
            assert sent <= len(federation.rounds("cora")) + 2

        federation.workers()["bank-b"].kill()
        seen = len(federation.rounds("cora"))
        federation.wait_for_round("cora", seen + 2)
        assert not any(event["missing"] for event in federation.rounds("cora"))
        assert set(federation.workers()) == set(NAMES)

        for supernode in federation.supernodes.values():
            supernode.send_signal(signal.SIGTERM)
        wait_until(lambda: not federation.workers(), "no worker is left")
    assert not mark.processes()


def _messages(federation: Running, name: str) -> int:
    """Count messages that an institution's supernode has started a process for."""
    log: str = federation.institutions[name].log.read_text()
    return log.count("Start `flwr-clientapp` process")
