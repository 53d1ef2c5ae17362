"""What the doctor sees without the network: each fault is red, with the remedy."""

import os
import re
import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.approval.approved_code import installed_hash
from deploy.doctor import local
from deploy.doctor.check import Check, State
from deploy.doctor.kit import InstitutionKit
from deploy.node_file import approve
from deploy.provision import pki
from deploy.provision.kits import provision
from fedgt_client.data.schema import NumericColumn, Schema
from shared.errors import FedGTError
from shared.files import write_json
from tests.fedgt_client.graphs import two_groups
from tests.harness.kits import write_banks

GRAPH = two_groups()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the complete kit of an institution."""
    source = write_banks(tmp_path)
    source.write_text('schema = "schema.json"\n' + source.read_text())
    columns = tuple(NumericColumn(name=name) for name in GRAPH.feature_names)
    Schema(columns=columns, labels=GRAPH.class_names).save(tmp_path / "schema.json")
    provision(source, tmp_path / "kits")
    GRAPH.save(tmp_path / "kits" / "bank-a" / "data")
    return tmp_path / "kits" / "bank-a"


CHECKS: list[Callable[[InstitutionKit], Check]] = [
    local.check_identity,
    local.check_policy,
    local.check_key,
    local.check_authority,
    local.check_data,
    local.check_room,
]


def findings(folder: Path) -> dict[str, Check]:
    kit = InstitutionKit.open(folder)
    return {check.name: check for check in (ask(kit) for ask in CHECKS)}


def other_features(folder: Path) -> None:
    renamed = replace(GRAPH, feature_names=("g0", *GRAPH.feature_names[1:]))
    renamed.save(folder / "data", force=True)


def fewer_classes(folder: Path) -> None:
    one = replace(GRAPH, class_names=("even",), labels=np.zeros_like(GRAPH.labels))
    one.save(folder / "data", force=True)


def untrainable(folder: Path) -> None:
    replace(GRAPH, train=np.zeros_like(GRAPH.train)).save(folder / "data", force=True)


def somebody_elses(folder: Path) -> None:
    write_json(folder / "data" / "summary.json", {"institution": "bank-b"})


def exchanged(folder: Path) -> None:
    noted = {"institution": "bank-a", "graph_digest": "0" * 64}
    write_json(folder / "data" / "summary.json", noted)


def old_authority(folder: Path) -> None:
    key = pki.new_key()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pki, "CA_DAYS", 0)
        (folder / "ca.crt").write_bytes(pki.new_authority(key, "x").public_bytes(Encoding.PEM))


def occupied(folder: Path) -> None:
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "state").write_text("")


def edit(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text().replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "name", "finding", "remedy"),
    [
        (edit("node.toml", '"bank-a"', '"bank-b"'), "name", "says institution", "bank-a"),
        (lambda kit: shutil.rmtree(kit / "data"), "data", "holds no graph", "data-dir"),
        (other_features, "data", "feature 0 is 'g0' in the data and 'f0'", "--schema"),
        (fewer_classes, "data", "class 1 is 'nothing' in the data and 'odd'", "--schema"),
        (untrainable, "data", "no node is in the training split", "labels"),
        (somebody_elses, "data", "imported for 'bank-b', not for 'bank-a'", "own folder"),
        (exchanged, "data", "not what was imported (digest 000000000000 then, ", "import it again"),
        (lambda kit: (kit / "schema.json").write_text("{"), "data", "not valid JSON", ""),
        (lambda kit: (kit / "node.key").unlink(), "key", "is missing", "provision key"),
        (lambda kit: (kit / "node.key").chmod(0o640), "key", "mode 0640", "chmod 600"),
        (lambda kit: (kit / "node.key").write_text("x"), "key", "not an unencrypted", ""),
        (lambda kit: (kit / "ca.crt").unlink(), "ca.crt", "missing", "copy it"),
        (lambda kit: (kit / "ca.crt").write_text("x"), "ca.crt", "not a certificate", "copy it"),
        (old_authority, "ca.crt", "ended on", "ask the coordinator"),
        (occupied, "disk", "cannot be written", "state-dir"),
    ],
)
def test_faults(
    folder: Path, spoil: Callable[[Path], object], name: str, finding: str, remedy: str
) -> None:
    spoil(folder)
    found = findings(folder)
    assert found[name].state is State.failed
    assert finding in found[name].finding
    assert remedy in found[name].remedy
    assert {check.state for key, check in found.items() if key != name} == {State.ok}


@pytest.mark.parametrize("name", ["kit.toml", "node.toml"])
def test_no_kit(folder: Path, name: str) -> None:
    (folder / name).write_text("=")
    with pytest.raises(FedGTError, match="is not valid TOML"):
        InstitutionKit.open(folder)
    (folder / name).unlink()
    with pytest.raises(FedGTError, match="is missing: name a kit"):
        InstitutionKit.open(folder)


def test_a_key_of_node_toml_that_does_not_exist(folder: Path) -> None:
    edit("node.toml", "data-dir", "data_dir")(folder)
    with pytest.raises(FedGTError, match=r"node\.toml: .*'data_dir': did you mean 'data-dir'"):
        InstitutionKit.open(folder)


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000))
    room = findings(folder)["disk"]
    assert (room.state, "make room" in room.remedy) == (State.failed, True)


@pytest.mark.parametrize(
    ("was", "finding"),
    [
        ('coordinators = ["127.0.0.1:9092"]', "coordinator = 127.0.0.1:9092, allowed: else"),
        ('federations = ["banks"]', "federations does not name banks"),
    ],
)
def test_a_policy_that_forbids_the_kit_itself(folder: Path, was: str, finding: str) -> None:
    node = folder / "node.toml"
    assert was in node.read_text()
    node.write_text(node.read_text().replace(was, f'{was.partition("[")[0]}["else"]'))
    found = findings(folder)["policy"]
    assert (found.state, finding in found.finding) == (State.failed, True), found


def test_programs_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert local.check_programs(local.INSTITUTION_PROGRAMS, tmp_path).state is State.failed
    # The scripts look into the kit's own environment first, and so does the doctor.
    own = tmp_path / ".venv" / "bin"
    own.mkdir(parents=True)
    for program in local.INSTITUTION_PROGRAMS:
        (own / program).touch()
    assert local.check_programs(local.INSTITUTION_PROGRAMS, tmp_path).state is State.ok


@pytest.mark.parametrize(("device", "state"), [("cpu", State.ok), ("cuda:99", State.failed)])
def test_the_device_that_node_toml_names(device: str, state: State) -> None:
    assert local.check_device(device).state is state


def test_all_is_well(folder: Path) -> None:
    assert {check.state for check in findings(folder).values()} == {State.ok}
    (folder / "schema.json").unlink()
    assert "no schema.json" in findings(folder)["data"].finding


def test_a_warning_before_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "days_left", lambda _: 10.0)
    assert findings(folder)["ca.crt"].state is State.warning


def test_the_code_that_may_run_is_shown(folder: Path) -> None:
    kit = InstitutionKit.open(folder)
    assert local.check_code(kit).finding == f"{installed_hash()} is installed, and no other"
    other = f"sha256:{'1' * 64}"
    approve(folder / "node.toml", other)
    approve(folder / "node.toml", installed_hash())
    shown = local.check_code(InstitutionKit.open(folder))
    assert shown.finding == f"{installed_hash()} is installed; also approved: {other}"


@pytest.mark.parametrize(
    ("uid", "app_user", "state", "finding"),
    [
        (0, "", State.warning, "the app would run as root"),
        (0, "daemon", State.ok, r"the app runs as daemon, who cannot read node\.key"),
        (0, "no-such", State.failed, "there is no such user"),
        (12345, "daemon", State.failed, "root alone can start the app as another user"),
        (12345, "", State.ok, r"the app runs as this user, and so could read node\.key"),
    ],
)
def test_who_runs_the_app(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    app_user: str,
    state: State,
    finding: str,
) -> None:
    node = folder / "node.toml"
    node.write_text(f'app-user = "{app_user}"\n' + node.read_text())
    kit = InstitutionKit.open(folder)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    check = local.check_user(kit)
    assert check.state == state
    assert re.search(finding, check.finding)
