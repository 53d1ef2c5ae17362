"""Compose files and Dockerfiles: valid, hardened, and with one port to the outside."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from deploy.flower import FLOWER_VERSION
from deploy.provision.federation_spec import FederationSpec
from deploy.provision.kits import provision
from tests.harness.compose import health_command, interpolate, load, mounts
from tests.harness.kits import write_banks

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"
_BIN = Path(sys.executable).parent
_NAMES = ("bank-a", "bank-b", "bank-c")
_OWNER = {"FEDGT_UID": "1000", "FEDGT_GID": "1000"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the file for one host, and those of kits."""
    place = tmp_path_factory.mktemp("kits")
    more = '[[institutions]]\nname = "Bank.C"\ndata-dir = "/it\'s $HOME: \\"here\\""\n'
    provision(write_banks(place, port=9443, more=more), place / "kits")
    names = ("coordinator", "bank-a", "Bank.C")
    kits = {name: place / "kits" / name / "docker-compose.yml" for name in names}
    return {"one-host": _DEPLOY / "docker-compose.yml", **kits}


@pytest.fixture(params=["one-host", "coordinator", "bank-a", "Bank.C"])
def source(request: pytest.FixtureRequest, files: dict[str, Path]) -> Path:
    return files[request.param]


@pytest.fixture
def document(source: Path) -> dict[str, Any]:
    return load(source, **_OWNER)


def test_variables() -> None:
    assert interpolate("${A}-${B:-b}-${C:-}-$$D", {"A": "a"}) == "a-b--$D"
    with pytest.raises(AssertionError, match="A is needed: say A"):
        interpolate("${A:?say A}", {})


@pytest.mark.slow
def test_the_schema_of_compose(source: Path, tmp_path: Path) -> None:
    command = [str(_BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(source.read_text().replace("healthcheck:", "helthcheck:"))
    assert subprocess.run([*command, str(wrong)], capture_output=True).returncode == 1
    checked = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_the_owner_must_be_said(source: Path) -> None:
    with pytest.raises(AssertionError, match="FEDGT_UID is needed"):
        load(source)


def test_every_container_is_confined(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        assert service["user"] == "1000:1000", name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["tmpfs"] == ["/tmp"], name
        assert not service.keys() & {"privileged", "network_mode", "pid", "cap_add", "devices"}


def test_every_server_is_watched_and_restarted(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        if service.get("profiles") == ["tools"]:
            assert service["restart"] == "no", name
            continue
        assert service["restart"] == "unless-stopped", name
        address = health_command(service)[-1]
        assert f"--health-server-address={address}" in service["command"], name
        assert address.startswith("127.0.0.1:"), name


def test_only_the_fleet_port_is_published(files: dict[str, Path]) -> None:
    published = {
        (name, service): facts["ports"]
        for name, source in files.items()
        for service, facts in load(source, **_OWNER)["services"].items()
        if "ports" in facts
    }
    assert published == {
        ("one-host", "superlink"): ["9092:9092"],
        ("coordinator", "superlink"): ["9443:9092"],
    }


@pytest.mark.parametrize("name", ["one-host", "coordinator"])
def test_the_control_api_is_inside(files: dict[str, Path], name: str) -> None:
    document = load(files[name], **_OWNER)
    services = document["services"]
    superlink = services["superlink"]
    assert document["networks"]["control"] == {"internal": True}
    # It binds the address that this name has, on this network alone.
    assert "--host=control" in superlink["command"]
    assert superlink["networks"]["control"] == {"aliases": ["control"]}
    inside = {other for other, facts in services.items() if "control" in facts["networks"]}
    assert inside == {"superlink", "serverapp", "register", "run", "resume"}
    for flag in ("--enable-supernode-auth", "--isolation=process", "--database=/database/state.db"):
        assert flag in superlink["command"]
    assert not any("--insecure" in services[one].get("command", ()) for one in inside)


def test_secrets_are_asked_for_and_seen_by_those_alone_who_need_them(
    document: dict[str, Any],
) -> None:
    for name, service in document["services"].items():
        secrets = {path for path in mounts(document, service) if path.startswith("/run/secrets/")}
        expected = set()
        if service.get("profiles") != ["tools"]:
            # A runtime API, and who takes tasks from it.
            assert "--superexec-auth-secret-file=/run/secrets/runtime" in service["command"], name
            expected.add("/run/secrets/runtime")
        if name == "superlink":
            assert "--operator-secret-file=/run/secrets/operator" in service["command"]
            expected |= {"/run/secrets/operator", "/run/secrets/server-key"}
        if name.endswith("supernode"):
            expected.add("/run/secrets/node-key")
        assert secrets == expected, name


def test_data_is_seen_by_its_superexec_alone(files: dict[str, Path]) -> None:
    document = load(files["one-host"], **_OWNER)
    for name, service in document["services"].items():
        seen = mounts(document, service)
        if "superexec" not in name:
            assert not seen.keys() & {"/data", "/state"}, name
            continue
        bank = name.removesuffix("-gpu").removesuffix("-superexec")
        assert seen == {
            "/data": (f"./kits/{bank}/data", True),
            "/state": (f"./kits/{bank}/state", False),
            "/node.toml": (f"./kits/{bank}/node.toml", True),
            "/run/secrets/runtime": (f"./kits/{bank}/runtime.secret", True),
        }
        # No way to the outside but through its supernode.
        assert service["networks"] == [bank]
        assert document["networks"][bank] == {"internal": True}


def test_data_of_a_kit_may_be_anywhere(files: dict[str, Path]) -> None:
    places = {
        name: mounts(document, document["services"]["superexec"])
        for name in ("bank-a", "Bank.C")
        for document in [load(files[name], **_OWNER)]
    }
    assert places["bank-a"]["/data"] == ("./data", True)
    assert places["bank-a"]["/state"] == ("./state", False)
    assert places["Bank.C"]["/data"] == ('/it\'s $HOME: "here"', True)


def test_a_graphics_card_where_there_is_one(document: dict[str, Any]) -> None:
    services = document["services"]
    superexecs = [name for name in services if name.endswith("superexec")]
    for name in superexecs:
        card = dict(services[f"{name}-gpu"])
        devices = card.pop("deploy")["resources"]["reservations"]["devices"]
        assert devices[0]["capabilities"] == ["gpu"]
        # One or the other: both would share the messages between them.
        assert (services[name]["profiles"], card.pop("profiles")) == (["cpu"], ["gpu"])
        assert card == {
            key: value for key, value in services[name].items() if key not in ("profiles", "build")
        } | ({"build": services[name]["build"]} if "build" in services[name] else {})


def test_images_are_of_the_flower_that_is_installed() -> None:
    tag = f"{FLOWER_VERSION}-py3.11-ubuntu24.04"
    version = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]
    for side in ("server", "client"):
        text = (_DEPLOY / "docker" / f"{side}.Dockerfile").read_text()
        assert f"ARG FLWR={tag}\nFROM flwr/superexec:${{FLWR}}\n" in text
        assert f"fedgt-{side}:{version} ." in text
        assert f"fedgt-{side}:{version}" in (_DEPLOY / "docker-compose.yml").read_text()


def test_dockerfiles_are_sound() -> None:
    sources = sorted((_DEPLOY / "docker").glob("*.Dockerfile"))
    assert len(sources) == 2
    checked = subprocess.run(
        [str(_BIN / "hadolint"), "--failure-threshold", "info", *map(str, sources)],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


_AT_THE_COORDINATOR = """
import sys
for name in ("torch", "torch_geometric", "pymetis", "pyarrow", "networkx"):
    sys.modules[name] = None
import deploy.cli.config, deploy.cli.coordinator, deploy.cli.doctor, deploy.cli.provision
import deploy.cli.superexec, deploy.cli.superlink, deploy.cli.supernode
import deploy.doctor.report, deploy.provision.kits
import deploy.provision.registration, fedgt_server.app
from importlib.metadata import packages_distributions
owners = packages_distributions()
roots = {name.partition(".")[0] for name, module in sys.modules.items() if module}
print(*{owner.lower().replace("_", "-") for root in roots for owner in owners.get(root, ())})
"""


@pytest.mark.slow
def test_the_coordinator_needs_what_is_listed_and_nothing_else() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _AT_THE_COORDINATOR], cwd=_ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    ours = {line.partition(">=")[0]: line for line in project["dependencies"] if ">=" in line}
    listed = server_requirements()
    assert listed == {name: ours[name] for name in listed}
    assert set(answer.stdout.split()) & ours.keys() == listed.keys()


def server_requirements() -> dict[str, str]:
    lines = (_DEPLOY / "docker" / "server-requirements.txt").read_text().splitlines()
    return {line.partition(">=")[0]: line for line in lines if not line.startswith("#")}


def client_requirements() -> dict[str, str]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return {line.partition(">=")[0]: line for line in project["dependencies"]}


@pytest.mark.parametrize(
    ("side", "requirements"), [("server", server_requirements), ("client", client_requirements)]
)
def test_the_lock_file_covers_every_requirement(
    side: str, requirements: Callable[[], dict[str, str]]
) -> None:
    text = (_DEPLOY / "docker" / f"requirements-{side}.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\$", text, re.MULTILINE))
    for name, line in requirements().items():
        assert SpecifierSet(line.removeprefix(name)).contains(locked[name]), line
    assert "hatchling" in locked  # builds FedGT in the image
    # Every package has hashes, and no index of a certain machine is named.
    packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(packages) == len(locked)
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in text
    dockerfile = (_DEPLOY / "docker" / f"{side}.Dockerfile").read_text()
    assert f"source=deploy/docker/requirements-{side}.lock" in dockerfile
    assert "--require-hashes" in dockerfile


def test_the_federation_of_the_file(tmp_path: Path) -> None:
    federation = FederationSpec.load(_DEPLOY / "federation.toml")
    assert tuple(one.name for one in federation.institutions) == _NAMES
    provision(_DEPLOY / "federation.toml", tmp_path / "kits")
    document = load(_DEPLOY / "docker-compose.yml", **_OWNER, FEDGT_KITS=str(tmp_path / "kits"))
    for name, service in document["services"].items():
        for source, _ in mounts(document, service).values():
            assert Path(source).exists() or Path(source).name == "data", name


def test_one_host_and_kits_run_the_same(files: dict[str, Path]) -> None:
    """Compare services that stand in both: they differ in nothing but paths and names."""
    one = yaml.safe_load(files["one-host"].read_text())["services"]
    coordinator = yaml.safe_load(files["coordinator"].read_text())["services"]
    for name, service in coordinator.items():
        for key in service.keys() - {"user", "ports", "volumes"}:
            assert service[key] == one[name][key], (name, key)
    bank = yaml.safe_load(files["bank-a"].read_text())["services"]
    for name, service in bank.items():
        twin = one[f"bank-a-{name}"]
        own = {"user", "networks", "volumes", "depends_on", "secrets", "configs"}
        for key in service.keys() - own:
            ours = str(service[key]).replace("127.0.0.1:9443", "superlink:9092")
            assert ours == str(twin[key]), (name, key)
        seen = []
        for source, service_name in (("bank-a", name), ("one-host", f"bank-a-{name}")):
            document = load(files[source], **_OWNER)
            seen.append(mounts(document, document["services"][service_name]).keys())
        assert seen[0] == seen[1], name
