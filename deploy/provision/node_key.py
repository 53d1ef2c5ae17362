"""A key pair made where it is used: the institution keeps one half and sends the other."""

from pathlib import Path

from deploy.provision import pki
from deploy.provision.kit_files import write_file, write_secret


def make_node_key(folder: Path, comment: str) -> tuple[str, bool]:
    """Make ``node.key`` and ``node.pub``; the fingerprint, and whether the key is new.

    A key that is there is kept, and its public half written again where that is missing.
    """
    key_file = folder / "node.key"
    is_new = not key_file.exists()
    if is_new:
        write_secret(key_file, pki.node_key_bytes(pki.new_key()))
    public = pki.load_node_key(key_file).public_key()
    # One that was there belongs to another key, if this one is new.
    if is_new or not (folder / "node.pub").exists():
        write_file(folder / "node.pub", pki.public_line(public, comment))
    return pki.fingerprint(public), is_new
