"""Bundles of the installed app, as it is and changed by somebody."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.approval.content import MANIFEST, read_bundle
from deploy.engines.app_bundle import stage_flower_app
from deploy.flower.bundle import build_app_bundle

APP = "fedgt_client/app.py"
# Appended to the app, it tells whether the app was loaded.
LEAVES_A_TRACE = b"\nopen('ran', 'w').close()\n"


@cache
def installed_bundle() -> bytes:
    with TemporaryDirectory() as scratch:
        return build_app_bundle(stage_flower_app(Path(scratch) / "fedgt"))


def changed_bundle(
    files: Mapping[str, bytes] | None = None, *, app: bytes = b"", components: str = ""
) -> bytes:
    """Return the installed app with other or further files, made by Flower's own builder."""
    with TemporaryDirectory() as scratch:
        folder = stage_flower_app(Path(scratch) / "fedgt")
        with (folder / APP).open("ab") as stream:
            stream.write(app)
        for name, content in (files or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        if components:
            project = folder / "pyproject.toml"
            ours = 'clientapp = "fedgt_client.app:app"'
            assert ours in project.read_text()
            changed = project.read_text().replace(ours, f'clientapp = "{components}"')
            project.write_text(changed)
        return build_app_bundle(folder)


def repacked(
    bundle: bytes,
    *,
    append: list[tuple[str | zipfile.ZipInfo, bytes]] | None = None,
    replace: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """Return the entries of a bundle in another archive, with others after them."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(bundle)) as source,
        zipfile.ZipFile(target, "w", compression) as archive,
    ):
        for name in reversed(source.namelist()):
            archive.writestr(name, (replace or {}).get(name, source.read(name)))
        for entry, content in append or ():
            archive.writestr(entry, content)
    return target.getvalue()


def with_two_apps() -> bytes:
    """Return a bundle that holds the app twice: as it is, and then another, which is unpacked."""
    files = read_bundle(installed_bundle())
    app = files[APP] + LEAVES_A_TRACE
    lines = files[MANIFEST].decode().splitlines()
    lines = [line for line in lines if not line.startswith(f"{APP},")]
    lines.append(f"{APP},{hashlib.sha256(app).hexdigest()},{len(app) * 8}")
    manifest = "\n".join(lines).encode()
    return repacked(installed_bundle(), append=[(APP, app)], replace={MANIFEST: manifest})
