"""Control API of the coordinator's own SuperLink."""

import hashlib
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.app import UserConfig
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_from_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.constant import NodeStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import (
    ProtobufCall,
    ProtobufClientInterceptor,
    ProtobufRequestContext,
)

from deploy.operator_secret import OPERATOR_SECRET, read_operator_secret
from shared.errors import FedGTError

_UNREGISTERED = "unregistered"
_RAISED = "ServerApp failed with exception: "  # before the exception's text


@dataclass(frozen=True)
class RunState:
    """The state of a run in Flower's terms."""

    status: str
    sub_status: str
    details: str

    @property
    def reason(self) -> str:
        """Why the ServerApp ended, in one line."""
        return " ".join(self.details.removeprefix(_RAISED).split())

    @property
    def is_completed(self) -> bool:
        """Whether the ServerApp ran to its end without an exception."""
        return self.status == Status.FINISHED and self.sub_status == SubStatus.COMPLETED

    @property
    def is_stopped(self) -> bool:
        """Whether the operator has ended it."""
        return self.status == Status.FINISHED and self.sub_status == SubStatus.STOPPED


@dataclass(frozen=True)
class ListedRun:
    """A run that the SuperLink knows."""

    run_id: int
    name: str  # its run-name, or its number
    results_dir: str
    state: RunState
    started: str  # ISO 8601; empty: not yet

    @property
    def is_over(self) -> bool:
        """Whether it has ended, however."""
        return self.state.status == Status.FINISHED


@dataclass(frozen=True)
class RegisteredNode:
    """A supernode that the SuperLink knows by its public key."""

    node_id: int
    name: str
    is_online: bool = False
    since: str = ""  # when it connected last, ISO 8601
    seen: str = ""  # when it left last


class ControlClient:
    """The requests that FedGT sends to a SuperLink's control API."""

    def __init__(self, client: ControlHttpClient) -> None:
        self._client = client

    def start_run(self, bundle: bytes, run_config: UserConfig) -> int:
        """Start a run of an app bundle; return its id."""
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        response = self._client.StartRun(
            StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(run_config))
        )
        if not response.HasField("run_id"):
            raise FedGTError(f"the SuperLink did not start the run: {response.note or 'no reason'}")
        return int(response.run_id)

    def stream_log(self, run_id: int) -> Iterator[str]:
        """Yield the log of a run in parts until the run ends."""
        for part in self._client.StreamLogs(StreamLogsRequest(run_id=run_id)):
            yield part.log_output

    def run_state(self, run_id: int) -> RunState:
        """Return the state of a run."""
        found = self._client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status
        return RunState(found.status, found.sub_status, found.details)

    def runs(self) -> list[ListedRun]:
        """Return all runs, oldest first."""
        found = self._client.ListRuns(ListRunsRequest()).run_dict
        return sorted(
            (_listed(run_id, run) for run_id, run in found.items()),
            key=lambda run: (run.started or "9", run.run_id),
        )

    def stop_run(self, run_id: int) -> bool:
        """Stop a run; return whether there was anything to stop."""
        return bool(self._client.StopRun(StopRunRequest(run_id=run_id)).success)

    def registered_nodes(self) -> dict[bytes, RegisteredNode]:
        """Return all registered nodes by the bytes of their public key."""
        nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {
            node.public_key: RegisteredNode(
                node.node_id,
                node.name,
                node.status == NodeStatus.ONLINE,
                node.last_activated_at,
                node.last_deactivated_at,
            )
            for node in nodes
            if node.status != _UNREGISTERED
        }

    def register_node(self, public_key: bytes, name: str) -> None:
        """Let the holder of a key connect under ``name``."""
        self._client.RegisterNode(RegisterNodeRequest(public_key=public_key, name=name))

    def unregister_node(self, node_id: int) -> None:
        """Refuse a node's key from now on."""
        self._client.UnregisterNode(UnregisterNodeRequest(node_id=node_id))


def _listed(run_id: int, run: Any) -> ListedRun:
    config = user_config_from_proto(run.override_config)
    status = run.status
    return ListedRun(
        run_id,
        str(config.get("run-name") or run_id),
        str(config.get("results-dir") or "runs"),
        RunState(status.status, status.sub_status, status.details),
        run.running_at or run.starting_at or run.pending_at,
    )


class _OperatorInterceptor:
    """Sends the operator's secret with every request."""

    def __init__(self, secret: bytes) -> None:
        self._value = f"Bearer {secret.decode()}"

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Add the header."""
        context.request.headers["Authorization"] = self._value
        return call_next(context)


@contextmanager
def connect_control(kit: Path) -> Iterator[ControlClient]:
    """Yield a connection to the SuperLink of a coordinator's kit.

    Raises
    ------
    FedGTError
        When the SuperLink cannot be reached or refuses a request, also within the block.
    """
    try:
        facts = tomllib.loads((kit / "control.toml").read_text())
        # Containers reach the SuperLink under another name than the machine they are on.
        address = os.environ.get("FEDGT_CONTROL") or str(facts["control"])
        root = (kit / "ca.crt").read_bytes()
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        raise FedGTError(f"{kit} is not a coordinator's kit: name its folder") from None
    interceptors: list[ProtobufClientInterceptor] = [
        RuntimeVersionHttpInterceptor(component_name="flwr CLI"),
        _OperatorInterceptor(read_operator_secret(kit / OPERATOR_SECRET)),
    ]
    client = ControlHttpClient.from_server_address(address, False, root, interceptors)
    try:
        yield ControlClient(client)
    except httpx.HTTPStatusError as error:
        raise FedGTError(f"the SuperLink at {address} refuses: {_response_text(error)}") from None
    except httpx.ReadTimeout:
        raise FedGTError(
            f"the SuperLink at {address} is too busy to answer: try again, and see 'fedgt runs'"
        ) from None
    except httpx.TransportError as error:
        reason = f" ({error})" if str(error) else ""
        raise FedGTError(
            f"no SuperLink answers at {address}{reason}: run ./start-superlink.sh first"
        ) from None
    finally:
        client.close()


def _response_text(error: httpx.HTTPStatusError) -> str:
    try:
        text = error.response.text
    except httpx.ResponseNotRead:
        text = ""
    return " ".join(text.split()) or error.response.reason_phrase
