from pathlib import Path

from deploy.provision import pki
from deploy.provision.node_key import make_node_key


def test_a_key_that_is_there_is_kept(tmp_path: Path) -> None:
    first, is_new = make_node_key(tmp_path, "bank-a")
    assert is_new
    (tmp_path / "node.pub").unlink()
    assert make_node_key(tmp_path, "bank-a") == (first, False)
    assert pki.fingerprint(pki.load_public_key(tmp_path / "node.pub")) == first


def test_the_public_half_of_an_earlier_key_is_replaced(tmp_path: Path) -> None:
    make_node_key(tmp_path, "bank-a")
    (tmp_path / "node.key").unlink()
    second, is_new = make_node_key(tmp_path, "bank-a")
    assert is_new
    assert pki.fingerprint(pki.load_public_key(tmp_path / "node.pub")) == second
