"""Flower's process for one message to an institution, which runs approved code alone.

Flower's own installs a bundle under the first digits of its hash, takes what it finds there for
the bundle, and then loads what the coordinator's name and version of the run lead to.
"""

from collections.abc import Callable
from pathlib import Path

import psutil
from flwr.supercore.utils import get_flwr_home

from deploy.flower.patching import module, replace

# From the content of a bundle to the folder it is unpacked in; raises where it may not run.
Unpack = Callable[[bytes, Path], Path]


def run_clientapp(unpack: Unpack) -> None:
    """Run ``flwr-clientapp`` with the options of this process."""
    process = module("flwr.supernode.runtime.run_clientapp")
    loading = module("flwr.clientapp.utils")
    program = module("flwr.supernode.cli.flwr_clientapp")

    def install(bundle: bytes, **_: object) -> Path:
        folder = unpack(bundle, get_flwr_home() / "approved")
        # Nothing but what was just unpacked is loaded, whatever the run says.
        for user in (process, loading):
            replace(user, get_project_dir=lambda *_: folder)
        return folder

    replace(process, install_from_fab=install)
    # Flower takes a parent that is another user's for one that has ended.
    replace(module("flwr.supercore.app_utils"), _pid_exists=psutil.pid_exists)
    program.flwr_clientapp()
