"""The user that runs the app: who may be one, and what that one gets."""

import os
import pwd
import sys
from pathlib import Path

import pytest

from deploy import app_user
from deploy.app_user import find_app_user, prepare_app_user
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def test_nobody_is_asked_for() -> None:
    assert find_app_user("") is None


def test_users_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FedGTError, match="app-user is 'no-such': there is no such user"):
        find_app_user("no-such")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(FedGTError, match=r"app-user is root, who can read node\.key"):
        find_app_user("root")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(FedGTError, match="root alone can start the app as another user"):
        find_app_user("daemon")


def test_oneself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("daemon").pw_uid)
    assert find_app_user("daemon") is None


@root_only
def test_folders_are_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = tmp_path / "kit"
    monkeypatch.setenv("FEDGT_CACHE", str(kit / "cache"))
    monkeypatch.setattr(app_user, "_check_readable", lambda *_: None)
    (kit / "state" / "run").mkdir(parents=True)
    (kit / "outside").write_text("")
    (kit / "state" / "run" / "link").symlink_to(kit / "outside")
    (kit / "node.key").write_text("secret")
    (kit / "node.key").chmod(0o600)
    node = NodeConfig(institution="a", data_dir="data", state_dir="state", app_user="daemon")
    prepare_app_user(node, kit)
    user = pwd.getpwnam("daemon")
    for name in ("state", "state/run", "cache", "app"):
        assert (kit / name).stat().st_uid == user.pw_uid, name
    # A link is not followed: what it leads to need not be the app's.
    assert (kit / "outside").stat().st_uid == 0
    status = kit.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, user.pw_gid, 0o710)
    assert (kit / "node.key").stat().st_uid == 0
    # Once is enough: by now that user could put anything there.
    (kit / "state" / "planted").write_text("")
    prepare_app_user(node, kit)
    assert (kit / "state" / "planted").stat().st_uid == 0


@root_only
def test_data_that_the_user_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", f"/usr/bin/python3.{sys.version_info.minor}")
    if not Path(sys.executable).exists():
        pytest.skip("there is no Python that every user can start")
    (tmp_path / "data").mkdir(mode=0o700)
    node = NodeConfig(institution="a", data_dir="data", state_dir="state", app_user="daemon")
    with pytest.raises(FedGTError, match=r"app-user is 'daemon', who cannot read .*data"):
        prepare_app_user(node, tmp_path)
