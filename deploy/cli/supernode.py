"""``fedgt-supernode``: Flower's supernode, for code that the institution approved.

Its process ends when its connection does: after an unexpected answer (a database that was locked
for a moment), ``flower-supernode`` leaves the federation but its server thread keeps the process
alive. A process that ends is restarted by the start script.
"""

import argparse
import os
import sys
import traceback
from pathlib import Path

from deploy.app_user import find_app_user, prepare_app_user
from deploy.approval.approved_code import ApprovedCode
from deploy.doctor.check import State
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.local import check_identity
from deploy.engines.ports import free_ports
from deploy.flower.superexec import App
from deploy.flower.supernode import (
    SupernodeSettings,
    lost_connection,
    parse_node_config,
    run_supernode,
)
from deploy.node_file import read_node_file
from deploy.provision.runtime_tls import make_runtime_tls
from deploy.supernode_record import SupernodeNotes
from fedgt_client.node import NodeConfig
from fedgt_client.worker.process import ask_to_end
from shared.errors import FedGTError


def main() -> None:
    """Run ``flower-supernode`` with the same options, and ``--node-file`` beside them."""
    try:
        node_config, node_file = _take_options()
        run_supernode(lambda: _settings(node_config, node_file), make_runtime_tls)
    except FedGTError as error:
        print(f"fedgt-supernode: {error}", file=sys.stderr)
        _end(2)
    except SystemExit as end:
        # As after Ctrl-C. Flower has cleaned up; Python's own end may wait for ever for a channel
        # that is connecting again, whose thread is gone by then.
        _end(end.code if isinstance(end.code, int) else 1)
    except Exception as error:
        if reason := lost_connection(error):
            print(f"fedgt-supernode: the connection has ended: {reason}", file=sys.stderr)
        else:
            traceback.print_exc()
    _end(1)


def _take_options() -> tuple[str, Path | None]:
    """Take what is not Flower's, or Flower cannot read, out of the command line.

    A node config that is a file is the node file as well.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--node-config", default="")
    parser.add_argument("--node-file", type=Path)
    parser.add_argument("--port", type=int)
    found, sys.argv[1:] = parser.parse_known_args()
    if found.port is not None:
        sys.argv += ["--port", str(found.port or free_ports(1)[0])]
    is_file = found.node_config.endswith(".toml")
    return found.node_config, Path(found.node_config) if is_file else found.node_file


def _settings(node_config: str, node_file: Path | None) -> SupernodeSettings:
    in_file = read_node_file(node_file) if node_file else None
    if in_file and node_config.endswith(".toml"):
        node = in_file
    else:
        # Folders are elsewhere in a container; all else is as the institution wrote it.
        written = in_file.to_flower() if in_file else {}
        node = NodeConfig.parse(written | parse_node_config(node_config))
    if node.rehearsal:
        raise FedGTError("rehearsal is set: that is for institutions in one process")
    _check_coordinator(node)
    superexec = ["--app", str(App.client)]
    if node_file and in_file:
        _check_name(node_file.parent)
        prepare_app_user(in_file, node_file.parent)
        superexec += ["--node-file", str(node_file)]
    approved = ApprovedCode(node.name, in_file.approved if in_file else ())
    return SupernodeSettings(node.to_flower(), approved.refusal, superexec, _Listener(node))


class _Listener(SupernodeNotes):
    """Notes what the connection does, and ends the worker of a run that is over."""

    def __init__(self, node: NodeConfig) -> None:
        home = os.environ.get("FLWR_HOME")  # of the kit; without one, what Flower takes
        folder = Path(home) if home else Path.home() / ".flwr" / node.name
        super().__init__(folder, node.name)
        self._node = node

    def over(self, run: int) -> None:
        """End the institution's worker, if it is that run's."""
        user = find_app_user(self._node.app_user)
        if ask_to_end(self._node, run, user.uid if user else os.geteuid()):
            print(f"run {run} is over: its worker ends", file=sys.stderr, flush=True)


def _check_name(kit: Path) -> None:
    """Refuse a name that is not the kit's: the coordinator knows its key by that one."""
    if not (kit / "kit.toml").exists():
        return
    check = check_identity(InstitutionKit.open(kit))
    if check.state is State.failed:
        raise FedGTError(f"{check.finding}: {check.remedy}")


def _check_coordinator(node: NodeConfig) -> None:
    """Refuse to connect where the institution's policy names other coordinators."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--superlink", default="")
    found, _ = parser.parse_known_args()
    if node.limits and (problem := node.limits.coordinator_problem(found.superlink)):
        raise FedGTError(f"{node.name} does not connect: {problem}")


def _end(code: int) -> None:
    sys.stderr.flush()
    os._exit(code)
