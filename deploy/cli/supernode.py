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

from deploy.app_user import prepare_app_user
from deploy.approval.approved_code import ApprovedCode
from deploy.flower.superexec import App
from deploy.flower.supernode import SupernodeSettings, parse_node_config, run_supernode
from deploy.node_file import read_node_file
from deploy.provision.runtime_tls import make_runtime_tls
from fedgt_client.node import NodeConfig
from shared.errors import FedGTError


def main() -> None:
    """Run ``flower-supernode`` with the same options, and ``--node-file`` beside them."""
    try:
        node_config, node_file = _take_options()
        run_supernode(lambda: _settings(node_config, node_file), make_runtime_tls)
    except FedGTError as error:
        print(f"fedgt-supernode: {error}", file=sys.stderr)
        _end(2)
    except Exception:
        traceback.print_exc()
    # A requested end raises SystemExit and does not come here.
    _end(1)


def _take_options() -> tuple[str, Path | None]:
    """Take what is not Flower's, or Flower cannot read, out of the command line.

    A node config that is a file is the node file as well.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--node-config", default="")
    parser.add_argument("--node-file", type=Path)
    found, sys.argv[1:] = parser.parse_known_args()
    is_file = found.node_config.endswith(".toml")
    return found.node_config, Path(found.node_config) if is_file else found.node_file


def _settings(node_config: str, node_file: Path | None) -> SupernodeSettings:
    in_file = read_node_file(node_file) if node_file else None
    if in_file and node_config.endswith(".toml"):
        node = in_file
    else:
        node = NodeConfig.parse(parse_node_config(node_config))
    superexec = ["--app", str(App.client)]
    if node_file and in_file:
        prepare_app_user(in_file, node_file.parent)
        superexec += ["--node-file", str(node_file)]
    approved = ApprovedCode(node.name, in_file.approved if in_file else ())
    return SupernodeSettings(node.to_flower(), approved.refusal, superexec)


def _end(code: int) -> None:
    sys.stderr.flush()
    os._exit(code)
