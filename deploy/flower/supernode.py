"""Flower's supernode, which passes approved code on and asks its superexec for a secret."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any, Protocol

import grpc
from flwr.app import Error, Message, UserConfig
from flwr.common.config import parse_config_args
from flwr.common.constant import (
    ISOLATION_MODE_PROCESS,
    ISOLATION_MODE_SUBPROCESS,
    ErrorCode,
    Status,
)
from flwr.supercore import log
from flwr.supercore.address import resolve_bind_address
from flwr.supercore.constant import TaskType
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.utils import get_flwr_home

from deploy.flower.patching import module, replace
from deploy.flower.superexec import new_secret, start_superexec
from shared.errors import FedGTError

_RUN_CHECK = 15.0  # seconds

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
    listener: "Listener"


class Listener(Protocol):
    """What is told of the connection to the coordinator."""

    def connected(self) -> None:
        """Take note that the supernode was let in; called again and again."""

    def answered(self) -> None:
        """Take note that the coordinator has answered, as it does two or three times a minute."""

    def received(self, run: int, round_number: str) -> None:
        """Take note of a message."""

    def refused(self, reply: Message) -> None:
        """Take note of a refusal that is about to leave."""

    def over(self, run: int) -> None:
        """Take note that a run is over, of which there was a message."""


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
    channel = module("flwr.client.grpc_rere_client.connection")
    parse, start = program._parse_supernode_lifespan_config, program.start_client_internal
    superexec: Sequence[str] | None = None

    def configure() -> Any:
        nonlocal superexec
        config, ours = parse(), settings()
        config.node_config = ours.node_config
        pull = with_approval(connection, ours.refusal, ours.listener)
        replace(connection, _pull_and_store_message=with_listener(pull, ours.listener))
        replace(
            channel,
            HeartbeatSender=heard_by(ours.listener, channel.HeartbeatSender),
            _format_connection_error=connection_error,
        )
        if config.isolation == ISOLATION_MODE_SUBPROCESS:
            name = ours.node_config.get("institution") or config.port
            tls = make_tls(get_flwr_home() / f"runtime-{name}", config.host)
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
    logging.getLogger("flwr").addFilter(OneLineExit())
    program.flower_supernode()


class OneLineExit(logging.Filter):
    """Shortens Flower's last words, of several lines and an address to read on, to their reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten such a record, and keep it."""
        first, _, rest = str(record.msg).partition("\n")
        if first.startswith("Exit Code: ") and rest:
            record.msg = rest.partition("\n")[0]
        return True


def connection_error(error: Exception) -> str:
    """Say in one line why there is no connection to the coordinator."""
    reason = str(error)
    if isinstance(error, grpc.RpcError):
        details = error.details() or error.code().name
        refusal = FlowerError.from_json(details)
        reason = (refusal.public_details or refusal.message) if refusal else details
    return f"no connection to the coordinator: {' '.join(reason.split())}"


def _end_with(process: "subprocess.Popen[bytes]") -> None:
    """End this process after another: without a superexec, no message would be answered."""
    process.wait()
    log(ERROR, "the superexec ended with code %d", process.returncode)
    os._exit(1)


def heard_by(listener: Listener, sender: Any) -> Any:
    """Return Flower's class that sends heartbeats, also while a round is under way, and tells."""

    class HeardSender(sender):  # type: ignore[misc]
        def __init__(self, heartbeat_fn: Callable[[], bool]) -> None:
            def beat() -> bool:
                try:
                    is_answered = heartbeat_fn()
                except grpc.RpcError as error:
                    # The process ends by itself: this thread alone, and without a traceback.
                    log(ERROR, "the coordinator refuses this supernode: %s", _reason(error))
                    raise SystemExit from None
                if is_answered:
                    listener.answered()
                return is_answered

            super().__init__(beat)

    return HeardSender


def lost_connection(error: BaseException | None) -> str:
    """Return why the connection was lost, if that is behind an exception; empty otherwise."""
    while error is not None:
        if isinstance(error, grpc.RpcError):
            return _reason(error)
        error = error.__cause__ or error.__context__
    return ""


def _reason(error: grpc.RpcError) -> str:
    return " ".join(f"{error.code().name}: {error.details()}".split())


def with_listener(
    pull: Callable[..., int | None], listener: Listener, pause: float = _RUN_CHECK
) -> Callable[..., int | None]:
    """Return a function that receives a message and tells ``listener``.

    While there are no messages, it asks every ``pause`` seconds whether their runs are over:
    a run that failed or was stopped sends no last message.
    """
    runs: set[int] = set()
    asked = time.monotonic()

    def pull_and_tell(**arguments: Any) -> int | None:
        nonlocal asked
        listener.connected()
        run_id = pull(**arguments)
        if run_id is not None:
            runs.add(run_id)
        elif runs and time.monotonic() - asked >= pause:
            asked = time.monotonic()
            for run in sorted(runs):
                if _is_over(arguments["get_run"], run):
                    runs.discard(run)
                    listener.over(run)
        return run_id

    return pull_and_tell


def _is_over(get_run: Callable[[int], Any], run: int) -> bool:
    try:
        return bool(get_run(run).status.status == Status.FINISHED)
    except grpc.RpcError as error:
        # Flower's own SuperLink refuses to speak of it.
        found = FlowerError.from_json(error.details())
        return found is not None and found.code == ApiErrorCode.FLEET_RUN_STATUS_NOT_ALLOWED


def with_approval(
    connection: Any, refusal: Refusal, listener: Listener
) -> Callable[..., int | None]:
    """Return Flower's function that receives a message, with a look at the bundle of its run."""
    pull = connection._pull_and_store_message

    def pull_if_approved(**arguments: Any) -> int | None:
        received: list[Message] = []
        receive, get_run, get_fab = (arguments[name] for name in ("receive", "get_run", "get_fab"))

        def receive_and_remember() -> Any:
            found = receive()
            if found:
                received.append(found[0])
                listener.received(found[0].metadata.run_id, found[0].metadata.group_id)
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
            listener.refused(reply)
            connection._insert_message(reply, arguments["state"], arguments["object_store"])
            return int(received[0].metadata.run_id)

    return pull_if_approved
