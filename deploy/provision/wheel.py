"""The installed FedGT as a wheel, and the lock file to install it with, for every kit.

Made from the installed files and not from sources, which need not be here; the same files make the
same bytes. An institution that installs it has the code that the coordinator has.
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from shared.errors import FedGTError
from shared.version import installed_version

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("deploy", "fedgt", "fedgt_client", "fedgt_server", "shared")
# Of a checkout, for those who build images; what the wheel needs of them is in deploy/app.
_LEFT_OUT = ("deploy/docker/", "deploy/docker-compose.yml", "deploy/federation.toml", "deploy/app/")
_IN_APP = {
    "pyproject.toml": "",
    "LICENSE": "",
    "requirements-client.lock": "deploy/docker",
    "requirements-server.lock": "deploy/docker",
}
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that zip knows
_TAG = "py3-none-any"
_WHEEL = f"Wheel-Version: 1.0\nGenerator: fedgt\nRoot-Is-Purelib: true\nTag: {_TAG}\n"


def wheel_name() -> str:
    """Return the wheel's file name."""
    return f"fedgt-{installed_version()}-{_TAG}.whl"


@cache
def wheel_bytes() -> bytes:
    """Return the wheel of the FedGT that is installed here."""
    info = f"fedgt-{installed_version()}.dist-info"
    files = dict(sorted(_files()))
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = _metadata(name)
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, content)
    return target.getvalue()


def lock_bytes(side: str) -> bytes:
    """Return the lock file of a kit: all that ``side`` (client, server) needs, with hashes."""
    digest = hashlib.sha256(wheel_bytes()).hexdigest()
    ours = f"./{wheel_name()} \\\n    --hash=sha256:{digest}\n"
    return _app_file(f"requirements-{side}.lock") + ours.encode()


def _files() -> Iterator[tuple[str, bytes]]:
    for package in _PACKAGES:
        for path in (_ROOT / package).rglob("*"):
            name = path.relative_to(_ROOT).as_posix()
            is_cached = "__pycache__" in path.parts or path.suffix == ".pyc"
            if path.is_file() and not is_cached and not name.startswith(_LEFT_OUT):
                yield name, path.read_bytes()
    for name in _IN_APP:
        yield f"deploy/app/{name}", _app_file(name)


def _app_file(name: str) -> bytes:
    installed = _ROOT / "deploy" / "app" / name
    source = installed if installed.exists() else _ROOT / _IN_APP[name] / name
    return source.read_bytes()


def _metadata(name: str) -> bytes:
    try:
        text = distribution("fedgt").read_text(name)
    except PackageNotFoundError:
        text = None
    if text is None:
        raise FedGTError("FedGT is not installed as a package: pip install it, then make the kits")
    return text.encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
