"""Flower's superexec, which takes tasks from a runtime API and starts a process for each.

Flower's own gives a task's token to that process as an argument, which every user of the machine
can read: here it is in a file without a name.
"""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from logging import WARNING
from pathlib import Path
from typing import IO, Any

import httpx
from flwr.supercore import log
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor

from deploy.flower.patching import module, replace

_SECRET_BYTES = 32
_PAUSE = 3.0  # seconds


class App(StrEnum):
    """The half of the app that a superexec starts; it takes no other tasks."""

    client = "clientapp"
    server = "serverapp"


_TASKS = {App.client: TaskType.CLIENT_APP, App.server: TaskType.SERVER_APP}


@dataclass(frozen=True)
class ProcessUser:
    """The user that a process is started as; the superexec's own user has to be root."""

    uid: int
    gid: int
    home: str  # of Flower's files


@dataclass(frozen=True)
class AppProcess:
    """How the app's process is started."""

    app: App
    command: Sequence[str]
    user: ProcessUser | None = None


def new_secret() -> bytes:
    """Return a secret between a runtime API and its superexec."""
    return secrets.token_bytes(_SECRET_BYTES)


def start_superexec(
    address: str, secret: bytes, options: Sequence[str]
) -> "subprocess.Popen[bytes]":
    """Start a superexec that ends with this process, and give it the secret on a pipe."""
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            # -P: or Python would look into the working directory first.
            [
                *(sys.executable, "-P", "-m", "deploy.cli.superexec"),
                *("--runtime-api-address", address, "--parent-pid", str(os.getpid())),
                *("--superexec-auth-secret-file", f"/dev/fd/{reader}", *options),
            ],
            pass_fds=(reader,),
            start_new_session=True,
        )
        os.write(writer, secret)
    finally:
        os.close(reader)
        os.close(writer)
    return process


def run_superexec(process: AppProcess) -> None:
    """Run ``flower-superexec`` with the options of this process."""
    loop = module("flwr.supercore.superexec.run_superexec")
    program = module("flwr.supercore.cli.flower_superexec")
    replace(
        loop,
        get_executor=lambda *_, **__: _Executor(process),
        RuntimeHttpClient=patient(loop.RuntimeHttpClient),
    )
    program.flower_superexec()


def patient(client: Any, pause: float = _PAUSE) -> Any:
    """Return Flower's class of clients, which asks again where a runtime API is too busy.

    Flower's own ends for good by one answer 500, as of a database that was locked for a moment; and
    with it every process that it has started.
    """

    class PatientClient(client):  # type: ignore[misc]
        def AcquireTask(self, request: Any) -> Any:  # noqa: N802
            """Return the next task, or none."""
            while True:
                try:
                    return super().AcquireTask(request)
                except (httpx.HTTPStatusError, httpx.TimeoutException) as error:
                    if _is_refusal(error):
                        raise
                    log(WARNING, "no task can be asked for, again in %g s: %s", pause, _line(error))
                time.sleep(pause)

    return PatientClient


def _is_refusal(error: httpx.HTTPError) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error


def _line(error: httpx.HTTPError) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


class _Executor(SubprocessExecutor):
    def __init__(self, process: AppProcess) -> None:
        self._process = process

    def get_eligible_capacity(
        self,
        supported_task_types: set[TaskType],
        *,
        insecure: bool = False,
        root_certificates_path: str | None = None,
    ) -> tuple[set[TaskType], set[str]]:
        """Take tasks of one kind alone."""
        return {_TASKS[self._process.app]}, set()

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start the app's process."""
        if spec.task_type != _TASKS[self._process.app]:
            return LaunchResult.failed(f"a task of the kind {spec.task_type} is not for this app")
        output = subprocess.DEVNULL if spec.suppress_output else None
        with ExitStack() as files:
            passed = {"--token-file": files.enter_context(self._file(spec.token.encode()))}
            if spec.root_certificates_path is not None:
                content = Path(spec.root_certificates_path).read_bytes()
                passed["--root-certificates"] = files.enter_context(self._file(content))
            arguments = [
                part
                for option, file in passed.items()
                for part in (option, f"/dev/fd/{file.fileno()}")
            ]
            arguments += ["--insecure"] if spec.insecure else []
            subprocess.Popen(
                [
                    *(*self._process.command, "--runtime-api-address", spec.runtime_api_address),
                    *("--parent-pid", str(os.getpid()), *arguments),
                ],
                pass_fds=[file.fileno() for file in passed.values()],
                stdout=output,
                stderr=output,
                **self._identity(),
            )
        return LaunchResult.accepted()

    def _file(self, content: bytes) -> IO[bytes]:
        """Return a file without a name, which only the process can read that gets it."""
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.write(content)
        file.seek(0)
        if user := self._process.user:
            os.fchown(file.fileno(), user.uid, user.gid)
        return file

    def _identity(self) -> dict[str, Any]:
        """Return how the process becomes another user, if it does."""
        user = self._process.user
        if user is None:
            return {}
        environment = os.environ | {"HOME": user.home, "FLWR_HOME": user.home}
        return {"user": user.uid, "group": user.gid, "extra_groups": [], "env": environment}
