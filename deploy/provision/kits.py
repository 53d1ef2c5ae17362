"""Make kits from ``federation.toml``; a later call adds what is missing and keeps every key."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from deploy.flower.superexec import new_secret
from deploy.operator_secret import OPERATOR_SECRET, new_operator_secret
from deploy.policy_text import policy_text
from deploy.provision import pki
from deploy.provision.certificates import make_authority, make_server_certificate
from deploy.provision.federation_spec import FederationSpec, InstitutionSpec
from deploy.provision.kit_files import KitWriter, private_folder
from deploy.provision.registered_keys import COORDINATOR, RegisteredKeys
from deploy.provision.rendering import render, render_toml
from deploy.provision.wheel import lock_bytes, wheel_bytes, wheel_name
from fedgt_client.data.schema import Schema
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError

COMPOSE = "docker-compose.yml"
RUNTIME_SECRET = "runtime.secret"  # between containers; the scripts make one at every start

_KEY_NOTES = {
    "made": "It came with this folder: the person who passed it on must keep no copy.",
    "kept": "It came with this folder: the person who passed it on must keep no copy.",
    "own": "You made it yourself; put it here.",
    "awaited": "You make it yourself: run `fedgt provision key .` here, send `node.pub` to the "
    "coordinator, and compare the fingerprint by telephone.",
}


@dataclass(frozen=True)
class Kit:
    """The kit of one institution."""

    name: str
    folder: Path
    key: str  # made, kept, own, awaited
    fingerprint: str | None


@dataclass
class ProvisionResult:
    """What a call to ``provision`` did."""

    institutions: list[Kit] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    certificate_ends: str = ""


def provision(
    source: Path, out: Path, *, renew: bool = False, readmit: tuple[str, ...] = ()
) -> ProvisionResult:
    """Make the kits that ``source`` describes in ``out``.

    Everything that can be wrong with the input is found before anything is written.
    """
    maker = _KitMaker(FederationSpec.load(source), source.parent, out, readmit)
    maker.coordinator(renew=renew)
    for institution in maker.present:
        maker.institution(institution)
    maker.note_unlisted_keys()
    return maker.result


class _KitMaker:
    def __init__(
        self, federation: FederationSpec, source_folder: Path, out: Path, readmit: tuple[str, ...]
    ) -> None:
        self.federation = federation
        self.out = out
        self.result = ProvisionResult()
        self._writer = KitWriter(self.result.written, self.result.notes)
        self._keys = RegisteredKeys(out / COORDINATOR)
        self._schema = (
            _schema(source_folder / federation.schema_file) if federation.schema_file else None
        )
        self._readmitted = self._check_readmit(readmit)
        self.present = [one for one in federation.institutions if self._is_present(one.name)]
        self._sent = {
            one.name: pki.load_public_key(source_folder / one.public_key)
            for one in self.present
            if one.public_key
        }
        self._check_keys()

    # --- checks of the input --------------------------------------------------------------

    def _check_readmit(self, names: tuple[str, ...]) -> set[str]:
        known = {one.name for one in self.federation.institutions}
        for name in names:
            if name not in known:
                raise FedGTError(f"--readmit {name}: the federation has no such institution")
            if not self._keys.is_revoked(name):
                raise FedGTError(f"--readmit {name}: its key is not revoked")
        return set(names)

    def _is_present(self, name: str) -> bool:
        if not self._keys.is_revoked(name) or name in self._readmitted:
            return True
        self.result.notes.append(
            f"{name} is revoked and left out; with a new key it comes back by --readmit {name}"
        )
        return False

    def _check_keys(self) -> None:
        owners: dict[str, str] = {}
        for institution in self.present:
            name, sent = institution.name, self._sent.get(institution.name)
            known = self._keys.key(name)
            if sent and known and pki.fingerprint(sent) != pki.fingerprint(known):
                raise FedGTError(
                    f"{institution.public_key} is another key than the one {name} has already: "
                    f"revoke that first ('fedgt provision revoke {name}')"
                )
            if sent and self._keys.was_revoked(sent):
                raise FedGTError(
                    f"{institution.public_key} is revoked: ask {name} to make a new key"
                )
            key = sent or known
            if key and (owner := owners.setdefault(pki.fingerprint(key), name)) != name:
                raise FedGTError(f"{name} and {owner} have the same public key: each needs its own")

    # --- the coordinator ----------------------------------------------------------------------

    def coordinator(self, *, renew: bool) -> None:
        """Make the coordinator's kit: authority, server certificate, scripts."""
        folder, federation = self.out / COORDINATOR, self.federation
        private_folder(folder)
        authority = make_authority(federation, self.out, self._writer, renew=renew)
        ends = make_server_certificate(federation, self.out, authority, self._writer, renew=renew)
        self.result.certificate_ends = ends
        values = {
            "federation": federation.name,
            "address": str(federation.coordinator.fleet),
            "listen": str(federation.coordinator.listening),
            "control_port": str(federation.coordinator.control_port),
            "fleet_port": str(federation.coordinator.listening.port),
        }
        control = {key: values[key] for key in ("federation", "address", "listen")}
        control["control"] = f"127.0.0.1:{federation.coordinator.control_port}"
        settings = {
            "federation": federation.name,
            "run-name": "first",
            "results-dir": "runs",
            "rounds": 100,
            "min-institutions": min(2, len(federation.institutions)),
        }
        self._writer.write_key_once(folder / OPERATOR_SECRET, new_operator_secret)
        self._writer.write_key_once(folder / RUNTIME_SECRET, new_secret)
        for place in ("database", "runs"):  # mounted into containers
            private_folder(folder / place)
        for name in ("start-superlink.sh", "register.sh", "run.sh", "resume.sh", "flwr.sh"):
            self._writer.write(folder / name, render(name, values), executable=True)
        unit = f"fedgt-{federation.name}-coordinator"
        self._software(folder, "server", {"unit": unit, "start": "start-superlink.sh"})
        self._writer.write(folder / "environment.sh", render("environment.sh", {}))
        self._writer.write(folder / "control.toml", render_toml("control.toml", control))
        self._writer.write(folder / COMPOSE, render("coordinator.compose.yml", values))
        self._writer.write(folder / "README.md", render("coordinator.md", values))
        self._writer.write_once(folder / "run.toml", render_toml("run.toml", settings))

    def _software(self, folder: Path, side: str, service: dict[str, str]) -> None:
        """Write FedGT itself, what it needs with hashes, and how to run it as a service."""
        for old in folder.glob("fedgt-*.whl"):
            if old.name != wheel_name():
                old.unlink()
        self._writer.write(folder / wheel_name(), wheel_bytes())
        self._writer.write(folder / "requirements.lock", lock_bytes(side))
        self._writer.write(folder / "install.sh", render("install.sh", {}), executable=True)
        update = render("update.sh", {"kit": folder.name})
        self._writer.write(folder / "update.sh", update, executable=True)
        self._writer.write(folder / "service.sh", render("service.sh", service), executable=True)

    # --- an institution -----------------------------------------------------------------------

    def institution(self, institution: InstitutionSpec) -> None:
        """Make an institution's kit: key, scripts, instructions."""
        folder, name = self.out / institution.name, institution.name
        private_folder(folder)
        state, public = self._node_key(institution, folder)
        values = {
            "federation": self.federation.name,
            "institution": name,
            "address": str(self.federation.coordinator.fleet),
            "port": str(institution.port),
            "key_note": _KEY_NOTES[state],
        }
        mounted = {
            "project": name.lower().replace(".", "-"),
            "data_source": _mount(institution.data_dir),
            "state_source": _mount(institution.state_dir),
        }
        if not Path(institution.state_dir).is_absolute():
            private_folder(folder / institution.state_dir)
        node = NodeConfig(
            institution=name, data_dir=institution.data_dir, state_dir=institution.state_dir
        )
        kit = {
            "federation": self.federation.name,
            "institution": name,
            "coordinator": values["address"],
        }
        self._writer.write_key_once(folder / RUNTIME_SECRET, new_secret)
        self._writer.write(folder / "ca.crt", (self.out / COORDINATOR / "ca.crt").read_bytes())
        start = "start-supernode.sh"
        self._writer.write(folder / start, render(start, values), executable=True)
        unit = f"fedgt-{self.federation.name}-{name}"
        self._software(folder, "client", {"unit": unit, "start": start})
        self._writer.write(folder / "environment.sh", render("environment.sh", {}))
        self._writer.write(folder / "kit.toml", render_toml("kit.toml", kit))
        self._writer.write(folder / COMPOSE, render("institution.compose.yml", values | mounted))
        self._writer.write(folder / "README.md", render("institution.md", values))
        if self._schema is not None:
            self._writer.write(folder / "schema.json", self._schema)
        limits = {"federations": [self.federation.name], "coordinators": [values["address"]]}
        settings = render_toml("node.toml", node.to_flower())
        policy = f"\n{policy_text(limits)}".encode()
        self._writer.write_once(folder / "node.toml", settings + policy)
        mark = pki.fingerprint(public) if public else None
        self.result.institutions.append(Kit(name, folder, state, mark))

    def _node_key(
        self, institution: InstitutionSpec, folder: Path
    ) -> tuple[str, pki.PublicKey | None]:
        """Make the institution's key if needed; return its origin, and its public half if known.

        The coordinator's list decides: where it has a key, the private half may already be at the
        institution, and need not be here.
        """
        name, key_file = institution.name, folder / "node.key"
        is_own = institution.own_key or bool(institution.public_key)
        if known := self._keys.key(name):
            return "own" if is_own else "kept", known
        public = self._sent.get(name)
        if is_own and not public:
            return "awaited", None
        state = "own"
        if not public:
            state = "kept" if key_file.exists() else "made"
            if state == "made":
                self._writer.write_key(key_file, pki.node_key_bytes(pki.new_key()))
            public = pki.load_node_key(key_file).public_key()
            self._writer.write(folder / "node.pub", pki.public_line(public, name))
        # Last: from here on, the pair is known and not made again.
        self._writer.write(self._keys.file(name), pki.public_line(public, name))
        return state, public

    def note_unlisted_keys(self) -> None:
        """Note keys of institutions that the file does not list."""
        known = {one.name for one in self.federation.institutions}
        for name in sorted(self._keys.names() - known):
            self.result.notes.append(
                f"{name} has a key but is not in the file: "
                f"'fedgt provision revoke {name}' takes it out"
            )


def _schema(source: Path) -> bytes:
    Schema.load(source)
    return source.read_bytes()


def _mount(place: str) -> str:
    """Return a folder of an institution as a source in the compose file of its kit."""
    source = place if Path(place).is_absolute() else f"./{place}"
    # A JSON string is a YAML string as well; Compose takes '$' for a variable.
    return json.dumps(source, ensure_ascii=False).replace("$", "$$")
