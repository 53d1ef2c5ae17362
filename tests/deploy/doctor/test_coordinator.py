"""The coordinator's kit, looked at before institutions do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.doctor.check import State
from deploy.doctor.coordinator import examine
from deploy.provision import pki
from deploy.provision.kits import provision
from tests.deploy.kits import fedgt, write_banks


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    provision(write_banks(tmp_path), tmp_path / "kits")
    return tmp_path / "kits" / "coordinator"


def states(kit: Path) -> dict[str, State]:
    return {check.name: check.state for check in examine(kit)}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("no certificate")])
def test_missing_and_damaged(kit: Path, damage: object) -> None:
    assert callable(damage)
    damage(kit / "server.crt")
    assert states(kit) == {"ca.crt": State.ok, "server.crt": State.failed, "chain": State.failed}


def test_another_authority(kit: Path, tmp_path: Path) -> None:
    provision(write_banks(tmp_path), tmp_path / "others")
    (kit / "ca.crt").write_bytes((tmp_path / "others" / "coordinator" / "ca.crt").read_bytes())
    assert states(kit) == {"ca.crt": State.ok, "server.crt": State.ok, "chain": State.failed}


@pytest.mark.parametrize(("days", "state"), [(400, State.failed), (360, State.warning)])
def test_the_certificate_s_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    days: int,
    state: State,
) -> None:
    class Past(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Past":
            return cls.fromtimestamp(datetime.now(UTC).timestamp() - days * 86400, UTC)

    with monkeypatch.context() as then:
        then.setattr(pki, "datetime", Past)
        provision(write_banks(tmp_path), tmp_path / "kits")
    kit = tmp_path / "kits" / "coordinator"
    assert states(kit) == {"ca.crt": State.ok, "server.crt": state, "chain": State.ok}
    code, out, _ = fedgt(capsys, monkeypatch, "doctor", str(kit))
    assert code == (1 if state is State.failed else 0)
    assert "server.crt" in out
    assert "--renew" in out


def test_all_is_well(kit: Path) -> None:
    assert set(states(kit).values()) == {State.ok}
