"""Kits: keys stay, files are whole, and Flower's own loaders read them."""

import argparse
import os
import shutil
import stat
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.cli.supernode.register import try_load_public_key
from flwr.supernode.cli.flower_supernode import _try_setup_client_authentication

from deploy.node_file import read_node_file
from deploy.provision import kit_files, pki
from deploy.provision.kit_files import write_file
from deploy.provision.kits import provision
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import RegisteredKeys, revoke
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from shared.errors import FedGTError
from tests.harness.kits import files_of, write_banks

OWN = '[[institutions]]\nname = "bank-c"\npublic-key = "{}"\n'
AWAITED = '[[institutions]]\nname = "bank-c"\nown-key = true\n'


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "kits"


def write_ed25519(place: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    (place / "ed.pub").write_bytes(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


@pytest.mark.parametrize(
    ("public_key", "message"),
    [
        ("missing.pub", "no such file"),
        ("federation.toml", "not a public key in OpenSSH format"),
        ("made/node.key", "holds a private key"),
        ("ed.pub", "not an ECDSA key"),
    ],
)
def test_wrong_public_keys_write_nothing(
    tmp_path: Path, out: Path, public_key: str, message: str
) -> None:
    make_node_key(tmp_path / "made", "bank-c")
    write_ed25519(tmp_path)
    with pytest.raises(FedGTError, match=message):
        provision(write_banks(tmp_path, more=OWN.format(public_key)), out)
    assert not out.exists()


def test_wrong_schema_writes_nothing(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    (tmp_path / "schema.json").write_text("{}")
    source.write_text('schema = "schema.json"\n' + source.read_text())
    with pytest.raises(FedGTError, match="schema version None"):
        provision(source, out)
    assert not out.exists()


def test_the_same_key_twice_is_refused(tmp_path: Path, out: Path) -> None:
    make_node_key(tmp_path / "made", "bank-c")
    own = OWN.format("made/node.pub")
    with pytest.raises(FedGTError, match="bank-d and bank-c have the same public key"):
        provision(write_banks(tmp_path, more=own + own.replace("bank-c", "bank-d")), out)


def test_another_key_needs_a_revocation(tmp_path: Path, out: Path) -> None:
    for place in ("old", "new"):
        make_node_key(tmp_path / place, "bank-c")
    provision(write_banks(tmp_path, more=OWN.format("old/node.pub")), out)
    source = write_banks(tmp_path, more=OWN.format("new/node.pub"))
    with pytest.raises(FedGTError, match="another key than the one bank-c has"):
        provision(source, out)


def test_a_lost_authority_is_not_replaced(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    provision(source, out)
    (out / "private" / "ca.key").rename(tmp_path / "ca.key")
    with pytest.raises(FedGTError, match=r"ca\.key is missing: restore it"):
        provision(source, out)
    (out / "private" / "ca.key").write_bytes(pki.tls_key_bytes(pki.new_key()))
    with pytest.raises(FedGTError, match="does not belong to"):
        provision(source, out)


def test_private_files_are_private(tmp_path: Path, out: Path) -> None:
    before = os.umask(0o002)
    try:
        provision(write_banks(tmp_path), out)
    finally:
        os.umask(before)
    private = set(out.rglob("*.key"))
    assert {path.name for path in private} == {"ca.key", "server.key", "node.key"}
    private |= (secrets := set(out.rglob("*.secret")))
    assert sorted(str(path.relative_to(out)) for path in secrets) == [
        "bank-a/runtime.secret",
        "bank-b/runtime.secret",
        "coordinator/operator.secret",
        "coordinator/runtime.secret",
    ]
    assert len({path.read_bytes() for path in secrets}) == len(secrets)
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o700}
    # The authority's key goes to no machine.
    assert [path.parent.name for path in out.rglob("ca.key")] == ["private"]


def test_flower_reads_the_keys(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    kit = out / "bank-a"
    arguments = argparse.Namespace(
        auth_supernode_private_key=str(kit / "node.key"), auth_supernode_public_key=None
    )
    pair = _try_setup_client_authentication(arguments)
    assert pair is not None
    assert pair[1].curve.name == "secp384r1"
    registered = try_load_public_key(out / "coordinator" / "keys" / "bank-a.pub")
    assert registered == pair[1].public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_the_node_config_reaches_the_app(tmp_path: Path, out: Path) -> None:
    more = "[[institutions]]\nname = \"c\"\ndata-dir = 'it''s \"here\"\\now'\n".replace("''", "’")
    provision(write_banks(tmp_path, more=more), out)
    node = read_node_file(out / "c" / "node.toml")
    assert (node.institution, node.data_dir, node.state_dir) == ("c", 'it’s "here"\\now', "state")
    assert node.policy is not None
    assert node.policy == Policy(federations=("banks",), coordinators=("127.0.0.1:9092",))
    # Flower passes single values to the app.
    assert NodeConfig.parse(node.to_flower()) == node


def test_values_with_quotes_survive_in_toml(tmp_path: Path, out: Path) -> None:
    place = "C:\\data \"new\" 'here'"
    spec = {
        "name": "banks",
        "coordinator": {"address": "127.0.0.1:9092"},
        "institutions": [{"name": "bank-a", "data-dir": place}],
    }
    source = tmp_path / "federation.toml"
    source.write_text(tomli_w.dumps(spec))
    provision(source, out)
    assert tomllib.loads((out / "bank-a" / "node.toml").read_text())["data-dir"] == place


def test_flower_is_configured_in_a_folder_with_quotes(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    moved = tmp_path / 'it\'s "here" \\ now'
    (out / "coordinator").rename(moved)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "flwr").write_text("#!/bin/sh\n")
    (programs / "flwr").chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    subprocess.run([str(moved / "flwr.sh")], env={"PATH": path}, check=True)
    config = tomllib.loads((moved / "flower" / "config.toml").read_text())
    assert config["superlink"]["fedgt"] == {
        "address": "127.0.0.1:8000",
        "root-certificates": str(moved / "ca.crt"),
    }


def test_addresses_are_quoted_in_scripts(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    source.write_text(source.read_text().replace("127.0.0.1:9092", "[::1]:9092"))
    provision(source, out)
    assert "--superlink '[::1]:9092'" in (out / "bank-a" / "start-supernode.sh").read_text()


def test_the_certificate_names_all_addresses(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    ca, server = (
        pki.load_certificate(out / "coordinator" / f"{name}.crt") for name in ("ca", "server")
    )
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "coordinator.example.org",
        "control",
        "localhost",
    }
    numbers = {str(number) for number in names.get_values_for_type(x509.IPAddress)}
    assert numbers == {"127.0.0.1", "::1"}
    assert pki.is_signed_by(server, ca)
    assert not pki.is_signed_by(ca, server)
    assert 363 < pki.days_left(server) < 366
    assert (out / "bank-a" / "ca.crt").read_bytes() == (out / "coordinator/ca.crt").read_bytes()


def test_scripts_and_settings_are_whole(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    scripts = list(out.rglob("*.sh"))
    assert len(scripts) == 9 + 2 * 5
    for path in [*scripts, *out.rglob("*.md"), *out.rglob("*.toml")]:
        assert "%{" not in path.read_text()
    for script in scripts:
        subprocess.run(["sh", "-n", str(script)], check=True)
        assert os.access(script, os.X_OK) == (script.name != "environment.sh")
    assert tomllib.loads((out / "coordinator" / "run.toml").read_text())["federation"] == "banks"


def test_again_changes_nothing(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    provision(source, out)
    before = files_of(out)
    again = provision(source, out)
    assert again.written == []
    assert files_of(out) == before


def test_an_institution_joins(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    before = files_of(out)
    made = provision(write_banks(tmp_path, more='[[institutions]]\nname = "bank-c"\n'), out)
    assert [kit.key for kit in made.institutions] == ["kept", "kept", "made"]
    after = files_of(out)
    assert {name: after[name] for name in before} == before


def test_a_kit_that_went_to_its_machine_is_not_made_again(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    provision(source, out)
    key = (out / "coordinator" / "keys" / "bank-a.pub").read_bytes()
    (out / "bank-a").rename(tmp_path / "gone")
    provision(source, out)
    assert (out / "coordinator" / "keys" / "bank-a.pub").read_bytes() == key
    assert not (out / "bank-a" / "node.key").exists()


@pytest.mark.parametrize("stop_at", range(1, 40, 3))
def test_an_interrupted_call_is_finished_by_the_next(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    source, calls = write_banks(tmp_path), iter(range(1, 1000))

    def write(*arguments: object, **options: object) -> bool:
        if next(calls) == stop_at:
            raise KeyboardInterrupt
        return write_file(*arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(kit_files, "write_file", write)
        try:
            provision(source, out)
        except KeyboardInterrupt:
            assert not list(out.rglob(".*"))
    keys = {path: path.read_bytes() for path in out.rglob("*.key")}
    provision(source, out)
    assert keys == {path: path.read_bytes() for path in keys}
    for name in ("bank-a", "bank-b"):
        public = pki.load_node_key(out / name / "node.key").public_key()
        assert RegisteredKeys(out / "coordinator").key(name) == public


def test_edited_settings_stay(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    provision(source, out)
    (out / "bank-a" / "node.toml").write_text("# mine\n")
    made = provision(source, out)
    assert (out / "bank-a" / "node.toml").read_text() == "# mine\n"
    assert "node.toml was edited" in made.notes[0]


def test_an_institution_makes_its_own_key(tmp_path: Path, out: Path) -> None:
    made = provision(write_banks(tmp_path, more=AWAITED), out)
    assert (made.institutions[2].key, made.institutions[2].fingerprint) == ("awaited", None)
    assert RegisteredKeys(out / "coordinator").names() == {"bank-a", "bank-b"}
    assert "fedgt provision key" in (out / "bank-c" / "README.md").read_text()

    mark, is_new = make_node_key(tmp_path / "there", "bank-c")
    assert is_new
    made = provision(write_banks(tmp_path, more=OWN.format("there/node.pub")), out)
    assert (made.institutions[2].key, made.institutions[2].fingerprint) == ("own", mark)
    assert not (out / "bank-c" / "node.key").exists()
    assert RegisteredKeys(out / "coordinator").names() == {"bank-a", "bank-b", "bank-c"}


def test_a_node_key_is_kept(tmp_path: Path) -> None:
    first, _ = make_node_key(tmp_path, "bank-c")
    key = (tmp_path / "node.key").read_bytes()
    (tmp_path / "node.pub").unlink()
    assert make_node_key(tmp_path, "bank-c") == (first, False)
    assert (tmp_path / "node.key").read_bytes() == key
    assert pki.fingerprint(pki.load_public_key(tmp_path / "node.pub")) == first


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_fingerprints_are_openssh_s(tmp_path: Path) -> None:
    mark, _ = make_node_key(tmp_path, "bank-c")
    command = ["ssh-keygen", "-lf", str(tmp_path / "node.pub")]
    assert mark in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_revoked_and_back(tmp_path: Path, out: Path) -> None:
    source, keys = write_banks(tmp_path), RegisteredKeys(out / "coordinator")
    with pytest.raises(FedGTError, match="holds no kits"):
        revoke("bank-b", out)
    provision(source, out)
    with pytest.raises(FedGTError, match="bank-x has no key here; there are: bank-a, bank-b"):
        revoke("bank-x", out)
    with pytest.raises(FedGTError, match="--readmit bank-b: its key is not revoked"):
        provision(source, out, readmit=("bank-b",))
    old = keys.required("bank-b")
    mark, aside = revoke("bank-b", out)
    assert mark == pki.fingerprint(old)
    assert aside is not None
    assert (aside / "node.key").exists()
    assert keys.names() == {"bank-a"}

    made = provision(source, out)
    assert [kit.name for kit in made.institutions] == ["bank-a"]
    assert "bank-b is revoked" in made.notes[0]

    made = provision(source, out, readmit=("bank-b",))
    assert [kit.key for kit in made.institutions] == ["kept", "made"]
    assert keys.required("bank-b") != old
    assert keys.was_revoked(old)
    assert provision(source, out).notes == []


def test_a_revoked_key_does_not_come_back(tmp_path: Path, out: Path) -> None:
    make_node_key(tmp_path / "there", "bank-c")
    source = write_banks(tmp_path, more=OWN.format("there/node.pub"))
    provision(source, out)
    shutil.copy(out / "coordinator" / "keys" / "bank-c.pub", tmp_path)
    revoke("bank-c", out)
    with pytest.raises(FedGTError, match="is revoked: ask bank-c to make a new key"):
        provision(source, out, readmit=("bank-c",))
    # An old copy laid over the folder changes nothing.
    shutil.copy(tmp_path / "bank-c.pub", out / "coordinator" / "keys")
    assert RegisteredKeys(out / "coordinator").names() == {"bank-a", "bank-b"}


def test_keys_that_nobody_names_are_noted(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path, more='[[institutions]]\nname = "bank-c"\n'), out)
    assert (
        "bank-c has a key but is not in the file" in provision(write_banks(tmp_path), out).notes[0]
    )


def test_another_address_makes_another_certificate(tmp_path: Path, out: Path) -> None:
    source = write_banks(tmp_path)
    provision(source, out)
    key = (out / "coordinator" / "server.key").read_bytes()
    source.write_text(source.read_text().replace("127.0.0.1", "10.1.2.3"))
    provision(source, out)
    server = pki.load_certificate(out / "coordinator" / "server.crt")
    inside = ("localhost", "127.0.0.1", "::1", "control")
    assert pki.covers(server, ("10.1.2.3", "coordinator.example.org", *inside))
    assert (out / "coordinator" / "server.key").read_bytes() == key


def test_certificates_are_renewed(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Past(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Past":
            return cls.fromtimestamp(datetime.now(UTC).timestamp() - 3500 * 86400, UTC)

    source = write_banks(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pki, "datetime", Past)
        provision(source, out)
    old = pki.load_certificate(out / "coordinator" / "server.crt")
    assert "add --renew" in provision(source, out).notes[0]
    assert pki.load_certificate(out / "coordinator" / "server.crt") == old

    made = provision(source, out, renew=True)
    assert made.notes == ["ca.crt is new: every institution needs it"]
    ca, server = (
        pki.load_certificate(out / "coordinator" / f"{name}.crt") for name in ("ca", "server")
    )
    assert pki.days_left(server) > 363
    assert pki.is_signed_by(server, ca)
    assert pki.is_signed_by(old, ca)
    assert server.not_valid_after_utc <= ca.not_valid_after_utc
    assert server.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=30)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_units_are_valid(tmp_path: Path, out: Path) -> None:
    provision(write_banks(tmp_path), out)
    units = []
    (tmp_path / "100% ours").mkdir()
    moved = (out / "bank-b").rename(tmp_path / "100% ours" / "bank-b")
    for kit in (out / "coordinator", out / "bank-a", moved):
        unit = tmp_path / f"fedgt-banks-{kit.name}.service"
        unit.write_bytes(subprocess.run([kit / "service.sh"], capture_output=True).stdout)
        # A per cent sign begins one of systemd's own names.
        assert f"WorkingDirectory={str(kit).replace('%', '%%')}\n" in unit.read_text()
        units.append(unit)
    checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
