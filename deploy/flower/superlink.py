"""Flower's SuperLink, whose control API asks for the operator's secret."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from logging import ERROR
from typing import Any

from flwr.common.constant import (
    FLWR_INTERNAL_GRPC_CONTROL_API,
    ISOLATION_MODE_PROCESS,
    ISOLATION_MODE_SUBPROCESS,
)
from flwr.supercore import log
from flwr.supercore.address import resolve_bind_address

from deploy.flower.fleet_guard import clock_guard, fleet_guard
from deploy.flower.operator_guard import OperatorGuard
from deploy.flower.patching import module, replace
from deploy.flower.superexec import App, new_secret, start_superexec
from shared.errors import FedGTError

# Milliseconds that a request waits for the database; after Flower's five seconds, it fails.
_PRAGMAS = {"busy_timeout": "60000"}
_AGAIN = 3.0  # seconds, more than a SuperLink that ends waits for its superexec


def run_superlink(operator_secret: Callable[[], bytes]) -> None:
    """Run ``flower-superlink`` with the options of this process, once Flower has read them."""
    program = module("flwr.superlink.cli.flower_superlink")
    service = module("flwr.superlink.main")
    parse, create, lifespan = (
        program._parse_superlink_lifespan_config,
        service.create_app,
        program.SuperLinkLifespan,
    )
    # Another way to the same control, which the guard does not see.
    os.environ.pop(FLWR_INTERNAL_GRPC_CONTROL_API, None)

    def configure() -> Any:
        config = parse()
        if config.certificates is None:
            raise FedGTError("--insecure: the operator's secret must not travel without TLS")
        if config.isolation == ISOLATION_MODE_SUBPROCESS:
            config.superexec_auth_secret = new_secret()
        elif config.superexec_auth_secret is None:
            raise FedGTError(
                "--isolation process needs --superexec-auth-secret-file: without a secret, "
                "whoever reaches the runtime API can run the coordinator's tasks"
            )
        return config

    def create_guarded(*arguments: Any) -> Any:
        app = create(*arguments)
        app.add_middleware(OperatorGuard, secret=operator_secret())  # outermost
        return app

    class Lifespan(lifespan):  # type: ignore[misc, valid-type]
        def _start_superexec_if_needed(self) -> None:
            config = self.config
            if config.isolation == ISOLATION_MODE_PROCESS:
                return
            host = f"[{config.host}]" if ":" in config.host else config.host
            start = partial(
                start_superexec,
                resolve_bind_address(f"{host}:{config.port}"),
                config.superexec_auth_secret,
                ["--root-certificates", config.ssl_ca_certfile, "--app", App.server],
            )
            self.superexec_process = start()
            threading.Thread(target=self._keep_superexec, args=[start], daemon=True).start()

        def _keep_superexec(self, start: Callable[[], "subprocess.Popen[bytes]"]) -> None:
            """Start the superexec again should it end: without one, no run would begin."""
            while (process := self.superexec_process) is not None:
                code = process.wait()
                time.sleep(_AGAIN)
                if self.superexec_process is process:  # it is not this SuperLink that ends
                    log(ERROR, "the superexec ended with code %d; it is started again", code)
                    self.superexec_process = start()

    replace(
        program,
        _parse_superlink_lifespan_config=configure,
        SuperLinkLifespan=Lifespan,
        FleetServicer=fleet_guard(program.FleetServicer),
        get_uvicorn_log_config=without_access_lines(program.get_uvicorn_log_config),
    )
    authentication = module("flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor")
    terminator = authentication._unary_unary_rpc_terminator
    replace(authentication, _unary_unary_rpc_terminator=clock_guard(terminator))
    replace(service, create_app=create_guarded)
    sql = module("flwr.supercore.sql_mixin")
    replace(sql, SQLITE_PRAGMAS=tuple((dict(sql.SQLITE_PRAGMAS) | _PRAGMAS).items()))
    program.flower_superlink()


class RefusedRequests(logging.Filter):
    """Keeps the access lines of requests that were refused or failed, and no others."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is kept."""
        status = record.args[4] if isinstance(record.args, tuple) and len(record.args) > 4 else 0
        return not isinstance(status, int) or status >= 400


def without_access_lines(config: Callable[[int], dict[str, Any]]) -> Callable[[int], Any]:
    """Return Flower's configuration of the log without a line for every request.

    Processes of a run ask every few seconds: tens of megabytes a day.
    """

    def quiet(level: int) -> dict[str, Any]:
        found = config(level)
        found["filters"]["refused"] = {"()": RefusedRequests}
        found["handlers"]["access"]["filters"].append("refused")
        return found

    return quiet
