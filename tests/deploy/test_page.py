"""The operator's page says what is: its blocks, commands, files, ports."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from deploy.provision.federation_spec import FederationSpec
from deploy.provision.kits import provision
from shared.config import RunConfig
from tests.harness.compose import load
from tests.harness.operator_page import PAGE, Block, blocks, command_names

_ROOT = PAGE.parents[1]
_HOSTS = ("coordinator", "bank-a", "bank-b")
_OWNER = {"FEDGT_UID": "1000", "FEDGT_GID": "1000"}
DOCKER = [block for block in blocks() if block.where[:1] == ("docker",)]


def test_every_block_is_of_a_kind_that_is_exercised() -> None:
    kinds = {block.where for block in blocks()}
    known = {(host, *rest) for host in _HOSTS for rest in [(), ("running",)]}
    known |= {("install",), ("coordinator", "resume"), ("coordinator", "federation.toml")}
    known |= {("docker", *rest) for rest in [(), ("kit",), ("coordinator",), ("bank-a",)]}
    assert kinds <= known
    assert len(blocks()) == PAGE.read_text().count("\n```") / 2


def lines(block: Block) -> list[list[str]]:
    joined = block.text.replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines()]


def test_installing() -> None:
    [install] = [block for block in blocks() if block.where == ("install",)]
    assert [line[0] for line in lines(install)] == ["make", "."]
    # What the command would do, on a machine that has nothing.
    plan = subprocess.run(
        ["make", "--dry-run", "setup", "VENV=/nonexistent/.venv"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install" in plan.stdout


def test_commands_of_fedgt_exist() -> None:
    # Written beside this page; exercised where it is there.
    coming = {"resume"}
    used = set(re.findall(r"^fedgt (\w+)", PAGE.read_text(), re.MULTILINE))
    assert used - command_names() <= coming
    assert {"provision", "doctor", "data"} <= used


def test_settings_that_the_page_names_exist() -> None:
    named = {"round-deadline", "min-institutions", "give-up-after"}
    assert named <= {field.alias for field in RunConfig.model_fields.values()}
    assert all(f"`{name}`" in PAGE.read_text() for name in named)


@pytest.mark.parametrize("block", DOCKER, ids=lambda block: " ".join(block.where))
def test_docker_commands_name_what_is_there(block: Block, tmp_path: Path) -> None:
    provision(_ROOT / "deploy" / "federation.toml", tmp_path / "kits")
    for command in lines(block):
        if command[:2] == ["docker", "build"]:
            options = dict(zip(command[2:-1:2], command[3:-1:2], strict=True))
            assert (_ROOT / options["-f"]).is_file()
            image, what = options["-t"], (_ROOT / "deploy" / "docker-compose.yml").read_text()
            assert f"image: {image}\n" in what
        elif command[:2] == ["docker", "compose"]:
            kit = block.where[1] if len(block.where) > 1 else ""
            rest = command[2:]
            source = tmp_path / "kits" / kit / "docker-compose.yml"
            if rest[0] == "-f":
                source, rest = _ROOT / rest[1], rest[2:]
            document = load(source, **_OWNER)
            if rest[0] == "--profile":
                services = document["services"].values()
                profiles = {one for facts in services for one in facts.get("profiles", ())}
                assert rest[1] in profiles
                rest = rest[2:]
            assert rest[0] in ("up", "run", "down", "logs")
            if rest[0] == "run":
                assert document["services"][rest[-1]]["profiles"] == ["tools"]
        else:
            assert command[0] in ("fedgt", "export", "printf"), command


def test_the_file_of_variables_is_what_compose_needs(tmp_path: Path) -> None:
    [kit] = [block for block in DOCKER if block.where == ("docker", "kit")]
    subprocess.run(["sh", "-c", kit.text], cwd=tmp_path, check=True)
    values = dict(line.split("=") for line in (tmp_path / ".env").read_text().splitlines())
    assert values.keys() == {"FEDGT_UID", "FEDGT_GID", "COMPOSE_PROFILES"}
    assert all(values[name].isdecimal() for name in ("FEDGT_UID", "FEDGT_GID"))
    assert values["COMPOSE_PROFILES"] == "cpu"


def test_the_federation_is_valid(tmp_path: Path) -> None:
    [description] = [block for block in blocks() if block.language == "toml"]
    (tmp_path / "federation.toml").write_text(description.text)
    federation = FederationSpec.load(tmp_path / "federation.toml")
    assert federation.coordinator.fleet.host == "coordinator.example.org"
    # The ports of the page's table.
    assert federation.coordinator.fleet.port == 9092
    assert federation.coordinator.control_port == 8000
    assert {one.port for one in federation.institutions} == {0}
    assert [one.name for one in federation.institutions] == list(_HOSTS[1:])
