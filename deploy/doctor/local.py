"""What can be seen without the network: programs, key, data, room, device."""

import os
import shutil
import stat
from pathlib import Path

from deploy.app_user import find_app_user
from deploy.approval.approved_code import installed_hash
from deploy.doctor.check import Check, failed, ok, warning
from deploy.doctor.kit import InstitutionKit
from deploy.flower import FLOWER_VERSION
from deploy.provision.kit_files import PRIVATE_FILE
from deploy.provision.pki import WARN_DAYS, days_left, fingerprint, load_certificate, load_node_key
from fedgt_client.data.provenance import SHOWN, read_provenance
from fedgt_client.data.schema import Schema
from fedgt_client.graph import Graph
from shared.errors import FedGTError

_GIB = 1 << 30
# Prepared graphs and the states of three rounds take a small multiple of the graph.
_MULTIPLE = 3

INSTITUTION_PROGRAMS = ("fedgt-supernode",)


def check_programs(programs: tuple[str, ...], folder: Path = Path()) -> Check:
    """Check that the start script will find Flower: in the kit's own environment, or the PATH."""
    own = folder / ".venv" / "bin"
    missing = [one for one in programs if not (own / one).exists() and not shutil.which(one)]
    if missing:
        return failed(
            "programs",
            f"not on the PATH: {', '.join(missing)}",
            "activate the environment that fedgt is installed in",
        )
    return ok("programs", f"flwr {FLOWER_VERSION}")


def check_identity(kit: InstitutionKit) -> Check:
    """Check that the institution has the name that it is registered under."""
    said = kit.node.institution
    if said != kit.institution:
        return failed(
            "name",
            f"node.toml says institution = {said!r}, the kit is for {kit.institution!r}",
            f'write institution = "{kit.institution}" into node.toml',
        )
    return ok("name", kit.institution)


def check_policy(kit: InstitutionKit) -> Check:
    """Check that the institution's own policy lets it connect and take part."""
    limits = kit.node.limits
    if limits and (problem := limits.coordinator_problem(str(kit.coordinator))):
        remedy = f'where that is right, add "{kit.coordinator}" there in node.toml'
        return failed("policy", problem, remedy)
    if limits and limits.federations and kit.federation not in limits.federations:
        finding = f"federations does not name {kit.federation}, which this kit is of"
        remedy = f'where that is right, add "{kit.federation}" there in node.toml'
        return failed("policy", finding, remedy)
    return ok("policy", "it allows this federation and coordinator")


def check_code(kit: InstitutionKit) -> Check:
    """Show the code that may run here: the installed FedGT, and what node.toml lists."""
    approved = [found for found in kit.node.approved if found != installed_hash()]
    more = f"; also approved: {', '.join(approved)}" if approved else ", and no other"
    return ok("code", f"{installed_hash()} is installed{more}")


def check_user(kit: InstitutionKit) -> Check:
    """Check that the app, which runs the coordinator's settings, does not run as root."""
    name = "app user"
    try:
        user = find_app_user(kit.node.app_user)
    except FedGTError as error:
        return failed(name, str(error), "correct app-user in node.toml")
    if user:
        return ok(name, f"the app runs as {user.name}, who cannot read node.key")
    if os.geteuid() == 0:
        remedy = "name a user for it in node.toml (app-user), or do not start the kit as root"
        return warning(name, "the app would run as root", remedy)
    return ok(name, "the app runs as this user, and so could read node.key")


def check_key(kit: InstitutionKit) -> Check:
    """Check that the private key is there, readable by its owner alone, in Flower's format."""
    source = kit.folder / "node.key"
    try:
        mode = stat.S_IMODE(source.stat().st_mode)
    except FileNotFoundError:
        return failed(
            "key",
            "node.key is missing",
            "put it into the kit, or make one with 'fedgt provision key' and send node.pub",
        )
    if mode & ~PRIVATE_FILE:
        return failed("key", f"others may read node.key (mode {mode:04o})", f"chmod 600 {source}")
    try:
        return ok("key", fingerprint(load_node_key(source).public_key()))
    except FedGTError as error:
        return failed("key", str(error), "take the right file, or make a new key")


def check_authority(kit: InstitutionKit) -> Check:
    """Check the certificate that the coordinator's is verified with."""
    try:
        left = days_left(certificate := load_certificate(kit.folder / "ca.crt"))
    except FileNotFoundError:
        return failed("ca.crt", "it is missing", "copy it again from your kit")
    except FedGTError as error:
        return failed("ca.crt", str(error), "copy it again from your kit")
    end = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    if left < 0:
        return failed("ca.crt", f"it ended on {end}", "ask the coordinator for the new one")
    if left < WARN_DAYS:
        return warning("ca.crt", f"it ends on {end}", "ask the coordinator for the new one")
    return ok("ca.crt", f"until {end}")


def check_data(kit: InstitutionKit) -> Check:
    """Check that the data opens, can be trained on, and follows the agreed schema."""
    try:
        graph = Graph.open(kit.data_dir)
        schema_file = kit.folder / "schema.json"
        schema = Schema.load(schema_file) if schema_file.exists() else None
    except (FedGTError, OSError) as error:
        return failed("data", str(error), "name the right folder in node.toml (data-dir)")
    if schema and (problem := _schema_mismatch(graph, schema)):
        return failed("data", problem, "import it again with --schema schema.json of this kit")
    if not graph.train.any():
        return failed(
            "data", "no node is in the training split", "import it with labels to train on"
        )
    digest = graph.digest()
    if problem := read_provenance(kit.data_dir).problem(kit.institution, digest):
        remedy = "name this institution's own folder in node.toml (data-dir), or import it again"
        return failed("data", problem, remedy)
    agreed = "as schema.json says" if schema else "no schema.json to compare with"
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} links"
    return ok("data", f"{size}, {agreed}, digest {digest[:SHOWN]}")


def _schema_mismatch(graph: Graph, schema: Schema) -> str | None:
    for what, ours, agreed in (
        ("feature", graph.feature_names, schema.feature_names),
        ("class", graph.class_names, schema.labels),
    ):
        if ours != agreed:
            pairs = zip((*ours, "nothing"), (*agreed, "nothing"), strict=False)
            place, (here, there) = next(
                (index, pair) for index, pair in enumerate(pairs) if pair[0] != pair[1]
            )
            return f"{what} {place} is {here!r} in the data and {there!r} in schema.json"
    return None


def check_room(kit: InstitutionKit) -> Check:
    """Check that the state folder is writable and has room."""
    folder = kit.state_dir
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return failed(
            "disk", f"{existing} cannot be written", "name another state-dir in node.toml"
        )
    needed = _GIB + _MULTIPLE * _size(kit.data_dir)
    free = shutil.disk_usage(existing).free
    finding = f"{free / _GIB:.1f} GiB free for {folder}"
    if free < needed:
        return failed("disk", finding, f"make room: {needed / _GIB:.1f} GiB are needed")
    return ok("disk", finding)


def _size(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def check_device(wanted: str) -> Check:
    """Name the device that will train."""
    try:
        import torch

        from fedgt_client.training.device import choose_device
    except ImportError as error:
        return failed("device", f"torch cannot be imported ({error})", "install fedgt again")
    try:
        choose_device(wanted)
    except FedGTError as error:
        return failed("device", str(error), "set 'device' in node.toml")
    if wanted == "cpu":
        return ok("device", f"CPU, as node.toml says, torch {torch.__version__}")
    if torch.cuda.is_available():
        return ok("device", f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    return ok("device", f"CPU, {os.cpu_count()} cores, torch {torch.__version__}")
