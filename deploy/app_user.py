"""The user that runs the app at an institution, so that it cannot read ``node.key``."""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fedgt_client.folders import cache_dir
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError

_CAN_READ = "import os, sys; sys.exit(not os.access(sys.argv[1], os.R_OK | os.X_OK))"


@dataclass(frozen=True)
class AppUser:
    """A user of this machine, other than root."""

    name: str
    uid: int
    gid: int


def find_app_user(name: str) -> AppUser | None:
    """Return the user called ``name``; None without a name, or if this process is that user's."""
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise FedGTError(f"app-user is {name!r}: there is no such user on this machine") from None
    if entry.pw_uid == os.geteuid() != 0:
        return None
    if os.geteuid() != 0:
        raise FedGTError(
            f"app-user is {name!r}: root alone can start the app as another user; "
            "start the kit as root, or leave app-user out"
        )
    if entry.pw_uid == 0:
        raise FedGTError("app-user is root, who can read node.key: name another user")
    return AppUser(name, entry.pw_uid, entry.pw_gid)


def flower_home(kit: Path) -> Path:
    """Return the folder of Flower's files of the app's user."""
    return kit / "app"


def prepare_app_user(node: NodeConfig, kit: Path) -> None:
    """Let the app's user, if there is one, into the folders that the app needs."""
    user = find_app_user(node.app_user)
    if user is None:
        return
    os.chown(kit, -1, user.gid)
    kit.chmod(0o710)
    for folder in (flower_home(kit), kit / node.state_root("state"), cache_dir()):
        _hand_over(user, folder)
    _check_readable(user, kit / node.data_dir)


def _hand_over(user: AppUser, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.lstat().st_uid == user.uid:
        # Its content is that user's to change by now, and so nothing for root to walk through.
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


def _check_readable(user: AppUser, folder: Path) -> None:
    """Raise an error where ``user`` cannot read a folder, or not even start Python."""
    try:
        answer = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CAN_READ, str(folder.absolute())],
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
        ).returncode
    except PermissionError:
        raise FedGTError(
            f"app-user is {user.name!r}, who cannot start {sys.executable}: install FedGT where "
            "that user can reach it"
        ) from None
    if answer:
        raise FedGTError(
            f"app-user is {user.name!r}, who cannot read {folder}: give that user the right to "
            "enter the folders above it, and to read it"
        )
