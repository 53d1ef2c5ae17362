"""Flower's supernode, which passes approved code on and asks its superexec for a secret."""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any

from flwr.app import Error, Message, UserConfig
from flwr.common.config import parse_config_args
from flwr.common.constant import ISOLATION_MODE_PROCESS, ISOLATION_MODE_SUBPROCESS, ErrorCode
from flwr.supercore import log
from flwr.supercore.address import resolve_bind_address
from flwr.supercore.constant import TaskType
from flwr.supercore.utils import get_flwr_home

from deploy.flower.patching import module, replace
from deploy.flower.superexec import new_secret, start_superexec
from shared.errors import FedGTError

Refusal = Callable[[bytes], str | None]  # why a bundle may not run


@dataclass(frozen=True)
class RuntimeTLS:
    """Files by which processes of this machine know the runtime API for the supernode's."""

    authority: str
    certificate: str
    key: str


@dataclass(frozen=True)
class SupernodeSettings:
    """What Flower does not know of."""

    node_config: UserConfig  # what the app is told of the institution
    refusal: Refusal
    superexec: Sequence[str]  # options


class _RefusedError(Exception):
    """The bundle of a run may not run here."""


def parse_node_config(text: str) -> UserConfig:
    """Read a node config that is not in a file."""
    return dict(parse_config_args([text]))


def run_supernode(
    settings: Callable[[], SupernodeSettings], make_tls: Callable[[Path, str], RuntimeTLS]
) -> None:
    """Run ``flower-supernode`` with the options of this process, once Flower has read them.

    Unless ``--isolation process`` says that a superexec is started elsewhere, this process starts
    one, and ``make_tls`` makes the certificate by which that one knows the runtime API.
    """
    program = module("flwr.supernode.cli.flower_supernode")
    connection = module("flwr.supernode.start_client_internal")
    parse, start = program._parse_supernode_lifespan_config, program.start_client_internal
    superexec: Sequence[str] | None = None

    def configure() -> Any:
        nonlocal superexec
        config, ours = parse(), settings()
        config.node_config = ours.node_config
        replace(connection, _pull_and_store_message=with_approval(connection, ours.refusal))
        if config.isolation == ISOLATION_MODE_SUBPROCESS:
            tls = make_tls(get_flwr_home() / f"runtime-{config.port}", config.host)
            superexec = ["--root-certificates", tls.authority, *ours.superexec]
            config.isolation = ISOLATION_MODE_PROCESS
            config.superexec_auth_secret = new_secret()
            config.runtime_ssl_certfile, config.runtime_ssl_keyfile = tls.certificate, tls.key
        elif config.superexec_auth_secret is None:
            raise FedGTError(
                "--isolation process needs --superexec-auth-secret-file: without a secret, "
                "whoever reaches the runtime API can take the institution's tasks"
            )
        return config

    def connect(**arguments: Any) -> None:
        if superexec is not None:
            # The runtime API listens by now: nobody else can take its place.
            address = resolve_bind_address(arguments["runtime_api_address"])
            process = start_superexec(address, arguments["superexec_auth_secret"], superexec)
            threading.Thread(target=_end_with, args=[process], daemon=True).start()
        start(**arguments)

    replace(program, _parse_supernode_lifespan_config=configure, start_client_internal=connect)
    program.flower_supernode()


def _end_with(process: "subprocess.Popen[bytes]") -> None:
    """End this process after another: without a superexec, no message would be answered."""
    process.wait()
    log(ERROR, "the superexec ended with code %d", process.returncode)
    os._exit(1)


def with_approval(connection: Any, refusal: Refusal) -> Callable[..., int | None]:
    """Return Flower's function that receives a message, with a look at the bundle of its run."""
    pull = connection._pull_and_store_message

    def pull_if_approved(**arguments: Any) -> int | None:
        received: list[Message] = []
        receive, get_run, get_fab = (arguments[name] for name in ("receive", "get_run", "get_fab"))

        def receive_and_remember() -> Any:
            found = receive()
            received.extend([found[0]] if found else [])
            return found

        def get_app_run(run_id: int) -> Any:
            run = get_run(run_id)
            if run.primary_task_type == TaskType.AGENT_APP:
                # Nobody here would take its tasks, and the supernode would wait for ever.
                raise _RefusedError("this institution runs no agent apps")
            return run

        def get_approved_fab(*names: Any) -> Any:
            fab = get_fab(*names)
            if reason := refusal(fab.content):
                raise _RefusedError(reason)
            return fab

        checked = {
            "receive": receive_and_remember,
            "get_run": get_app_run,
            "get_fab": get_approved_fab,
        }
        try:
            return pull(**arguments | checked)  # type: ignore[no-any-return]
        except _RefusedError as error:
            log(ERROR, "%s", error)
            reply = Message(Error(ErrorCode.INVALID_FAB, str(error)), reply_to=received[0])
            connection._insert_message(reply, arguments["state"], arguments["object_store"])
            return int(received[0].metadata.run_id)

    return pull_if_approved
