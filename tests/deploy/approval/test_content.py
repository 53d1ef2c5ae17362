"""What counts as the same code, and what is not read at all."""

import io
import re
import stat
import tomllib
import zipfile
from collections.abc import Callable

import pytest
import tomli_w

from deploy.approval import content
from deploy.approval.approved_code import ApprovedCode, installed_hash
from deploy.approval.content import MANIFEST, PROJECT, content_hash, read_bundle
from shared.errors import FedGTError
from tests.harness.bundles import APP, changed_bundle, installed_bundle, repacked, with_two_apps

Make = Callable[[], bytes]


def entry(name: str, *, mode: int = 0, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = compression
    return info


def with_entry(info: zipfile.ZipInfo | str) -> bytes:
    return repacked(installed_bundle(), append=[(info, b"content")])


def with_zero_byte() -> bytes:
    return with_entry("extra.pyX.md").replace(b"extra.pyX.md", b"extra.py\0.md")


def encrypted() -> bytes:
    """Set the bit of encryption in the last entry's headers."""
    bundle = bytearray(with_entry("extra.py"))
    for header, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        bundle[bundle.rindex(header) + place] |= 1
    return bytes(bundle)


def without_project() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(APP, b"")
    return target.getvalue()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: b"", "cannot be read"),
        (lambda: b"PK" * 100, "cannot be read"),
        (lambda: installed_bundle()[:-30], "cannot be read"),
        (lambda: bytes(11 << 20), "has 11534336 bytes: at most 10485760 are allowed"),
        (without_project, r"no pyproject\.toml"),
        (
            lambda: repacked(installed_bundle(), replace={PROJECT: b"tool = 1"}),
            "not that of a Flower app",
        ),
        (
            lambda: repacked(installed_bundle(), replace={PROJECT: b"\xff"}),
            "not that of a Flower app",
        ),
        (
            lambda: repacked(installed_bundle(), replace={PROJECT: b"a = " + b"[" * 9999}),
            "cannot|not that",
        ),
        (with_two_apps, r"'fedgt_client/app\.py' that stands there twice"),
        (lambda: with_entry("../outside.py"), "not a relative path of a file"),
        (lambda: with_entry("/outside.py"), "not a relative path of a file"),
        (lambda: with_entry("fedgt_client/../../outside.py"), "not a relative path of a file"),
        (lambda: with_entry("a//b.py"), "not a relative path of a file"),
        (lambda: with_entry("./b.py"), "not a relative path of a file"),
        (lambda: with_entry("folder/"), "not a relative path of a file"),
        (lambda: with_entry("a\\b.py"), "not a relative path of a file"),
        (lambda: with_entry("C:b.py"), "not a relative path of a file"),
        (lambda: with_entry("a\nb.py"), r"'a\\nb\.py' that is not a relative path"),
        (lambda: with_entry("a" * 300 + ".py"), "not a relative path of a file"),
        (with_zero_byte, r"'extra\.py\\x00\.md' that is not a relative path"),
        (lambda: with_entry(entry("link.py", mode=stat.S_IFLNK | 0o777)), "not a regular file"),
        (
            lambda: with_entry(entry("packed.py", compression=zipfile.ZIP_LZMA)),
            "Flower does not use",
        ),
        (encrypted, "encrypted"),
    ],
)
def test_a_bundle_that_cannot_be_trusted(make: Make, message: str) -> None:
    bundle = make()
    with pytest.raises(FedGTError, match=message) as caught:
        content_hash(read_bundle(bundle))
    assert "\n" not in str(caught.value)
    assert ApprovedCode("bank-a").refusal(bundle) == f"bank-a refuses the app: {caught.value}"


def test_a_bundle_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = repacked(
        installed_bundle(), append=[("zero.py", bytes(65 << 20))], compression=zipfile.ZIP_DEFLATED
    )
    assert len(bomb) < 1 << 20
    with pytest.raises(FedGTError, match="unpacks to too much"):
        read_bundle(bomb)
    monkeypatch.setattr(content, "_MAX_FILES", 10)
    with pytest.raises(FedGTError, match="unpacks to too much"):
        read_bundle(installed_bundle())


def test_a_size_that_is_not_true() -> None:
    """An entry that says it is small and is not, is not read beyond what it says."""
    bundle = bytearray(
        repacked(
            installed_bundle(), append=[("zero.py", bytes(1000))], compression=zipfile.ZIP_DEFLATED
        )
    )
    place = bundle.rindex(b"PK\1\2") + 24  # the uncompressed size in the last central header
    assert int.from_bytes(bundle[place : place + 4], "little") == 1000
    bundle[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(FedGTError, match="cannot be read"):
        read_bundle(bytes(bundle))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_archive_makes_no_difference(compression: int) -> None:
    bundle = repacked(installed_bundle(), compression=compression)
    assert bundle != installed_bundle()
    assert content_hash(read_bundle(bundle)) == installed_hash()
    assert ApprovedCode("bank-a").refusal(bundle) is None


def test_settings_are_the_coordinators() -> None:
    project = tomllib.loads(read_bundle(installed_bundle())[PROJECT].decode())
    project["tool"]["flwr"]["app"]["config"]["rounds"] = 7
    written = tomli_w.dumps(project, indent=8).encode()
    bundle = repacked(installed_bundle(), replace={PROJECT: written, MANIFEST: b""})
    assert content_hash(read_bundle(bundle)) == installed_hash()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: changed_bundle(app=b"\n"),
            r"its 'fedgt_client/app\.py' is not that of the installed",
        ),
        (
            lambda: changed_bundle({"fedgt_client/extra.py": b""}),
            r"it has 'fedgt_client/extra\.py', which is not part of the installed",
        ),
        (lambda: changed_bundle(components="json:loads"), r"its 'pyproject\.toml' is not that"),
        (lambda: with_entry(".info/extra.py"), r"it has '\.info/extra\.py'"),
        (lambda: with_entry("sitecustomize.py"), r"it has 'sitecustomize\.py'"),
    ],
)
def test_other_code_is_refused_and_can_be_approved(make: Make, reason: str) -> None:
    bundle = make()
    found = content_hash(read_bundle(bundle))
    refusal = ApprovedCode("bank-a").refusal(bundle) or ""
    assert refusal.startswith(f"bank-a refuses the app with code {found}, which it did not approve")
    assert re.search(reason, refusal), refusal
    assert ApprovedCode("bank-a", [found]).refusal(bundle) is None
    # The installed code stays approved.
    assert ApprovedCode("bank-a", [found]).refusal(installed_bundle()) is None


def test_a_missing_file_is_another_bundle() -> None:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(installed_bundle())) as source,
        zipfile.ZipFile(target, "w") as archive,
    ):
        for name in source.namelist():
            if name != "shared/wire.py":
                archive.writestr(name, source.read(name))
    refusal = ApprovedCode("bank-a").refusal(target.getvalue()) or ""
    assert "it lacks 'shared/wire.py' of the installed FedGT" in refusal


def test_where_a_path_ends_and_content_begins() -> None:
    """Two bundles whose paths and contents are the same when put together are not the same."""
    project = b"[tool]\n"
    one = {PROJECT: project, "a": b"bc"}
    other = {PROJECT: project, "ab": b"c"}
    assert content_hash(one) != content_hash(other)
