"""An ASGI middleware that lets the operator alone reach a SuperLink's control API."""

import hmac
import json
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

# These ask for secrets of their own: a superexec's, or a task's token.
_RUNTIME = "/v1/runtime/"
_HEALTH = "/health"
_SCHEME = b"bearer "


class OperatorGuard:
    """Refuses requests without the operator's secret to all but the runtime API's routes."""

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self._app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] == "lifespan" or self._may_pass(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http":
            await _refuse(send)
        # A websocket is refused by closing it, which not answering does; Flower has none.

    def _may_pass(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        # The decoded path, by which the request is routed too.
        path: str = scope["path"]
        if path == _HEALTH or path.startswith(_RUNTIME):
            return True
        return self._has_secret(scope["headers"])

    def _has_secret(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        values = [value for name, value in headers if name.lower() == b"authorization"]
        if len(values) != 1 or not values[0].lower().startswith(_SCHEME):
            return False
        return hmac.compare_digest(values[0][len(_SCHEME) :], self._secret)


async def _refuse(send: Send) -> None:
    body = json.dumps({"detail": "only the operator may do this: the kit's secret is missing"})
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
