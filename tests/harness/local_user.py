"""What a local user without any rights tries at Flower's ports; run as another user.

Every attempt prints what became of it: ``done``, or how it was refused.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from flwr.app import Error, Message
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullPendingTasksRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

from deploy.provision import pki


def attempt(act: Callable[[], object]) -> str:
    """Return ``done``, or the status or error that it ended with."""
    try:
        act()
    except httpx.HTTPStatusError as error:
        return str(error.response.status_code)
    except httpx.HTTPError as error:
        return type(error).__name__
    return "done"


def verified_by(authority: str) -> str | bool:
    """Return what TLS is checked with: a certificate that the user could read, or nothing."""
    return authority or False


def try_control(address: str, authority: str, bundle: Path, run: int) -> dict[str, str]:
    """Try what an operator may do at a coordinator's control API."""
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient(
        f"https://{address}", interceptors=[version], verify=verified_by(authority)
    )
    content = bundle.read_bytes()
    key = public_key_to_bytes(pki.new_key().public_key())
    return {
        "list nodes": attempt(lambda: client.ListNodes(ListNodesRequest())),
        "list runs": attempt(lambda: client.ListRuns(ListRunsRequest())),
        "log": attempt(lambda: next(client.StreamLogs(StreamLogsRequest(run_id=run)))),
        "register": attempt(
            lambda: client.RegisterNode(RegisterNodeRequest(public_key=key, name="mallory"))
        ),
        "unregister": attempt(lambda: client.UnregisterNode(UnregisterNodeRequest(node_id=1))),
        "start run": attempt(
            lambda: client.StartRun(StartRunRequest(fab=fab_to_proto(Fab("", content, {}))))
        ),
        "stop run": attempt(lambda: client.StopRun(StopRunRequest(run_id=run))),
    }


def try_runtime(url: str, kind: str, seconds: float) -> dict[str, str]:
    """Try for some time to take a task from a runtime API, and to answer it."""
    version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
    client = RuntimeHttpClient(url, interceptors=[version], verify=False)
    found = {"list tasks": attempt(lambda: client.PullPendingTasks(PullPendingTasksRequest()))}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and "done" not in found.get("take a task", ""):
        token = ""

        def acquire() -> None:
            nonlocal token
            token = client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind])).token

        found["take a task"] = attempt(acquire)
        if token:
            found["take a task"] = "done with a token"
            found |= _answer(url, token) if kind == TaskType.CLIENT_APP else {}
        elif found["take a task"] == "done":
            found["take a task"] = "nothing to take"
        time.sleep(0.05)
    found |= {"guess a token": _answer(url, "0" * 64)["read the message"]}
    return found


def _answer(url: str, token: str) -> dict[str, str]:
    client = RuntimeHttpClient(
        url,
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
            RuntimeTokenHttpInterceptor(token),
        ],
        verify=False,
    )

    def act() -> None:
        message, context, _, _ = pull_task_input(client)
        push_message(client, Message(Error(1, "forged"), reply_to=message), context)

    return {"read the message": attempt(act)}


def main() -> None:
    """Print the outcome of every attempt as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    control = commands.add_parser("control")
    control.add_argument("address")
    control.add_argument("bundle", type=Path)
    control.add_argument("--authority", default="")
    control.add_argument("--run", type=int, default=1)
    runtime = commands.add_parser("runtime")
    runtime.add_argument("url")
    runtime.add_argument("--kind", default=str(TaskType.CLIENT_APP))
    runtime.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    if options.command == "control":
        found = try_control(options.address, options.authority, options.bundle, options.run)
    else:
        found = try_runtime(options.url, options.kind, options.seconds)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
