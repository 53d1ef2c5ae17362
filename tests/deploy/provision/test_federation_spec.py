"""``federation.toml``: wrong files are one line that names the key."""

from pathlib import Path

import pytest

from deploy.provision.federation_spec import Address, FederationSpec
from shared.errors import FedGTError

WHOLE = """
name = "banks"
[coordinator]
address = "fedgt.example.org:9092"
[[institutions]]
name = "bank-a"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "banks"', "", "name is missing"),
        ('name = "banks"', "name = 7", "name is 7: input should be a valid string"),
        ('name = "banks"', 'nam = "banks"', "name is missing"),
        ('name = "banks"', 'name = "banks"\nnam = 1', "no key 'nam'; there are: name, coordinator"),
        ('name = "banks"', 'name = "../x"', "name is '../x': use letters"),
        ('name = "banks"', 'name = "banks"\ncertificate-days = 0', "certificate-days is 0"),
        ('address = "fedgt.example.org:9092"', "", "coordinator.address is missing"),
        ("fedgt.example.org:9092", "", "address is empty"),
        ("fedgt.example.org:9092", "a b:9092", "coordinator.address: 'a b:9092' is not an address"),
        ("fedgt.example.org:9092", "a;rm -rf:9092", "is not an address"),
        ("fedgt.example.org:9092", "a:0", "no port between"),
        ("fedgt.example.org:9092", "a:99999", "no port between"),
        ("fedgt.example.org:9092", "a:x", "no port between"),
        ("fedgt.example.org:9092", "300.1.1.1:9092", "is not an address"),
        ("[[inst", 'also = ["a b"]\n[[inst', "coordinator.also: 'a b' is neither"),
        ("[[inst", "control-port = 70000\n[[inst", "coordinator.control-port is 70000"),
        ("[[inst", "ports = 1\n[[inst", "no key 'coordinator.ports'; there are: address"),
        ('[[institutions]]\nname = "bank-a"', "", "institutions is missing"),
        ("bank-a", "Bank A", "institutions.0.name is 'Bank A': use letters"),
        ("bank-a", "-a", "institutions.0.name is '-a'"),
        ("bank-a", "Coordinator", "institutions.0.name: 'Coordinator' is taken"),
        ('"bank-a"', '"bank-a"\ndata_folder = "x"', "no key 'institutions.0.data-folder'"),
        ('"bank-a"', '"bank-a"\n[[institutions]]\nname = "BANK-A"', "'BANK-A' is given twice"),
        ('"banks"', '"banks', "is not valid TOML"),
    ],
)
def test_wrong_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    source = tmp_path / "federation.toml"
    source.write_text(WHOLE.replace(old, new, 1))
    with pytest.raises(FedGTError) as raised:
        FederationSpec.load(source)
    assert message in str(raised.value)
    assert str(source) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="no such file"):
        FederationSpec.load(tmp_path / "federation.toml")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a.example", "a.example", 9092),
        ("a.example:1", "a.example", 1),
        ("10.0.0.5:443", "10.0.0.5", 443),
        ("[::1]:443", "::1", 443),
        ("::1", "::1", 9092),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert Address.parse(str(address)) == address


def test_it_listens_on_the_port_it_is_dialled_at(tmp_path: Path) -> None:
    (source := tmp_path / "federation.toml").write_text(WHOLE.replace("9092", "443"))
    assert str(FederationSpec.load(source).coordinator.listening) == "0.0.0.0:443"


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    (source := tmp_path / "federation.toml").write_text(readme.split("```toml")[1].split("```")[0])
    names = [institution.name for institution in FederationSpec.load(source).institutions]
    assert names == ["bank-a", "bank-b", "bank-c"]
