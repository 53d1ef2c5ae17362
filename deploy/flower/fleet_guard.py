"""Fleet API of the coordinator's SuperLink, which says who is connected with a key.

Flower refuses a second supernode with the same key without saying why, and takes any public key in
a request for the sender's. It also logs an error for the question that ``fedgt doctor`` asks.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from logging import INFO, WARNING
from typing import Any

import grpc
from flwr.common.serde import run_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import GetRunRequest, GetRunResponse
from flwr.supercore import log
from flwr.supercore.constant import NodeStatus
from flwr.supercore.date import now
from flwr.supercore.error import ApiErrorCode, FlowerError

from deploy.flower.fleet import CONNECTED, NO_HEARTBEAT, clock_text
from deploy.flower.patching import module

_PUBLIC_KEY = "flwr-public-key-bin"
_TIMESTAMP = "flwr-timestamp"
_WRONG_CLOCK = "Invalid timestamp"  # Flower's answer, after it has checked the signature
_UNKNOWN = "an address that is not known yet"
_LONGEST_KEY = 200  # characters of a key that are logged; those of ours have 160


def fleet_guard(servicer: Any) -> Any:
    """Return Flower's class of the Fleet API, extended."""
    handler = module("flwr.server.superlink.fleet.message_handler.message_handler")
    in_federation = handler._validate_node_in_federation

    class FleetGuard(servicer):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._addresses: dict[int, str] = {}  # of the supernode that was let in last
            self._activation = threading.Lock()

        def ActivateNode(  # noqa: N802
            self, request: ActivateNodeRequest, context: Any
        ) -> ActivateNodeResponse:
            """Let a supernode in, or say why not."""
            if _sender_key(context) != request.public_key:
                raise _refusal("a supernode named a public key that is not its own", "")
            node = self._node(request.public_key)
            if node is None:
                raise _refusal(
                    f"a supernode at {_address(context)} has a key that is not known: "
                    f"{_key_text(request.public_key)}",
                    "",
                )
            with self._activation:
                connected = self._connected(node)
                if request.heartbeat_interval == NO_HEARTBEAT:
                    if connected:
                        context.set_trailing_metadata(((CONNECTED, connected),))
                    return ActivateNodeResponse(node_id=node.node_id)
                if connected:
                    self._refuse_second(node, connected, _address(context))
                response = super().ActivateNode(request, context)
                self._note_address(node, _address(context))
                return response  # type: ignore[no-any-return]

        def SendNodeHeartbeat(  # noqa: N802
            self, request: SendNodeHeartbeatRequest, context: Any
        ) -> SendNodeHeartbeatResponse:
            """Also learn where a supernode is that was let in before this process started."""
            response = super().SendNodeHeartbeat(request, context)
            self._addresses.setdefault(request.node.node_id, _address(context))
            return response  # type: ignore[no-any-return]

        def GetRun(self, request: GetRunRequest, context: Any) -> GetRunResponse:  # noqa: N802
            """Also return runs that are over: an institution ends its worker then."""
            try:
                run = in_federation(
                    self.state_factory.state(), request.node.node_id, request.run_id
                )
            except ValueError as error:
                raise FlowerError(ApiErrorCode.FLEET_GET_RUN_FAILED, str(error)) from error
            return GetRunResponse(run=run_to_proto(run))

        def _node(self, public_key: bytes) -> NodeInfo | None:
            state = self.state_factory.state()
            node_id = state.get_node_id_by_public_key(public_key)
            found = state.get_node_info(node_ids=[node_id]) if node_id is not None else []
            return found[0] if found else None

        def _connected(self, node: NodeInfo) -> str:
            """Return since when and from where a supernode is connected; empty: none is."""
            if node.status != NodeStatus.ONLINE:
                return ""
            since = node.last_activated_at.partition(".")[0].replace("T", " ")
            return f"since {since} UTC, from {self._addresses.get(node.node_id, _UNKNOWN)}"

        def _refuse_second(self, node: NodeInfo, connected: str, address: str) -> None:
            raise _refusal(
                f"{node.name}: a supernode at {address} is refused, because another with this "
                f"key is connected, {connected}; if that one is not {node.name}'s, it gets a new "
                f"key by 'fedgt provision revoke {node.name}' and '--readmit {node.name}'",
                f"another supernode with this key is connected, {connected}",
            )

        def _note_address(self, node: NodeInfo, address: str) -> None:
            before = self._addresses.get(node.node_id)
            self._addresses[node.node_id] = address
            if before and before != address:
                log(WARNING, "%s connects from %s, before from %s", node.name, address, before)
            else:
                log(INFO, "%s connects from %s", node.name, address)

    return FleetGuard


def clock_guard(
    terminator: Callable[..., grpc.RpcMethodHandler],
) -> Callable[..., grpc.RpcMethodHandler]:
    """Return Flower's function that ends a request, which says how far a clock is off."""

    def terminate(message: str, *arguments: Any) -> grpc.RpcMethodHandler:
        if message != _WRONG_CLOCK:
            return terminator(message, *arguments)

        def refuse(_: Any, context: Any) -> None:
            off = clock_text(_seconds_ahead(context))
            where = _address(context)
            log(WARNING, "a supernode at %s is refused: its clock is %s this one", where, off)
            details = f"{message}: this clock is {off} the coordinator's"
            context.abort(grpc.StatusCode.UNAUTHENTICATED, details)

        return grpc.unary_unary_rpc_method_handler(refuse)

    return terminate


def _refusal(for_the_log: str, for_the_supernode: str) -> FlowerError:
    return FlowerError(
        ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED, for_the_log, for_the_supernode or None
    )


def _seconds_ahead(context: Any) -> float:
    """Return by how much the sender's clock is ahead of this one; what it says was parsed once."""
    said = dict(context.invocation_metadata())[_TIMESTAMP]
    return (datetime.fromisoformat(said) - now()).total_seconds()


def _sender_key(context: Any) -> bytes:
    """Return the public key whose signature Flower has checked."""
    values = [value for name, value in context.invocation_metadata() if name == _PUBLIC_KEY]
    return bytes(values[0]) if len(values) == 1 else b""


def _key_text(public_key: bytes) -> str:
    """Return a public key in one line, without the first and last of PEM."""
    return "".join(public_key.decode("ascii", "replace").splitlines()[1:-1])[:_LONGEST_KEY]


def _address(context: Any) -> str:
    """Return the host that a request comes from."""
    kind, _, rest = str(context.peer()).partition(":")
    host = rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
    return host if kind in ("ipv4", "ipv6") and host else _UNKNOWN
