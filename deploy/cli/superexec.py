"""``fedgt-superexec``: Flower's superexec, which starts approved code without a token in ``ps``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.app_user import find_app_user, flower_home
from deploy.approval.approved_code import ApprovedCode
from deploy.flower.superexec import App, AppProcess, ProcessUser, run_superexec
from deploy.node_file import read_node_file
from fedgt_server.parent import end_with_parent
from shared.errors import FedGTError


def main() -> None:
    """Run ``flower-superexec`` with the same options, and ours beside them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--app", type=App, required=True)
    parser.add_argument("--node-file", type=Path)
    options, sys.argv[1:] = parser.parse_known_args()
    _end_with_parent(sys.argv[1:])
    try:
        if options.app is App.server:
            run_superexec(AppProcess(App.server, ["flwr-serverapp"]))
        else:
            run_superexec(_client_process(options.node_file))
    except FedGTError as error:
        sys.exit(f"fedgt-superexec: {error}")


def _end_with_parent(arguments: Sequence[str]) -> None:
    """End with the supernode or SuperLink.

    Flower sends this process SIGINT for that, once; shells start what runs in the background with
    SIGINT ignored, and so it stayed for ever where its parent ended too early.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--parent-pid", type=int)
    parent = parser.parse_known_args(arguments)[0].parent_pid
    if parent is not None:
        end_with_parent(parent)


def _client_process(node_file: Path | None) -> AppProcess:
    node = read_node_file(node_file) if node_file else None
    approved = ApprovedCode(node.name if node else "", node.approved if node else ())
    # -P: or Python would look into the working directory first.
    command = [sys.executable, "-P", "-m", "deploy.cli.clientapp"]
    for found in approved.hashes:
        command += ["--approved", found]
    user = None
    if node and node_file and (found_user := find_app_user(node.app_user)):
        home = flower_home(node_file.parent)
        user = ProcessUser(found_user.uid, found_user.gid, str(home.absolute()))
    return AppProcess(App.client, command, user)


if __name__ == "__main__":
    main()
