"""Flower's process for one message to an institution, which runs approved code alone.

Flower's own installs a bundle under the first digits of its hash, takes what it finds there for
the bundle, and then loads what the coordinator's name and version of the run lead to.
"""

from collections.abc import Callable
from logging import WARNING
from pathlib import Path
from typing import Any

import psutil
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode
from flwr.supercore import log
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.utils import get_flwr_home

from deploy.flower.patching import module, replace

# From the content of a bundle to the folder it is unpacked in; raises where it may not run.
Unpack = Callable[[bytes, Path], Path]
# Writes down a reply that the app did not make.
Record = Callable[[Message, Context], None]

# How Flower begins the reason of an error of its own: the text of an exception follows, with paths
# and values in it.
_FLOWERS_REASON = "<class "
_REASON = "this institution's app could not answer: its log says why"


def run_clientapp(unpack: Unpack, record: Record) -> None:
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

    replace(
        process,
        install_from_fab=install,
        push_message=with_plain_reasons(process.push_message, record),
    )
    # Flower takes a parent that is another user's for one that has ended.
    replace(module("flwr.supercore.app_utils"), _pid_exists=psutil.pid_exists)
    program.flwr_clientapp()


def with_plain_reasons(push: Callable[..., None], record: Record) -> Callable[..., None]:
    """Return Flower's function that sends a reply; its own errors lose their texts."""

    def push_plainly(client: Any, message: Message, context: Context) -> None:
        if message.has_error() and _is_flowers(message.error):
            message.error = Error(message.error.code, _REASON)
            record(message, context)
        try:
            push(client, message, context)
        except ObjectPushError as error:
            log(WARNING, "the answer was not taken, as of a run that was stopped: %s", error)

    return push_plainly


def _is_flowers(error: Error) -> bool:
    """Tell whether an error is of what was done before the app could answer."""
    reason = error.reason or ""
    return error.code == ErrorCode.LOAD_CLIENT_APP_EXCEPTION or reason.startswith(_FLOWERS_REASON)
