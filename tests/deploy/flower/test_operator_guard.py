"""The control API's guard: who has no secret gets nowhere, by any way to write a path."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from deploy.flower.operator_guard import OperatorGuard

SECRET = b"5" * 64
RIGHT = ("Authorization", f"Bearer {SECRET.decode()}")


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def ask(path: str, *headers: tuple[str, str], method: str = "POST") -> httpx.Response:
    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(OperatorGuard(answers, SECRET))
        async with httpx.AsyncClient(transport=transport, base_url="https://here") as client:
            return await client.request(method, path, headers=list(headers))

    return asyncio.run(call())


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/start-run",
        "/v1/control/list-nodes",
        "/v1/control/get-login-details",
        "/v1%2Fcontrol/start-run",
        "/v1/control%2Fstart-run",
        "/v1/control/start-run?x=/v1/runtime/",
        "//v1/control/start-run",
        "/V1/CONTROL/start-run",
        "/v1/runtime",
        "/v1/responses",
        "/v1/anything-new",
        "/health/../v1/control/start-run",
        "/health/",
        "/docs",
        "/openapi.json",
        "/",
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer ")],
        [("Authorization", SECRET.decode())],
        [("Authorization", f"Basic {SECRET.decode()}")],
        [("Authorization", f"Bearer {SECRET.decode()[:-1]}")],
        [("Authorization", f"Bearer {SECRET.decode()}5")],
        [RIGHT, RIGHT],
        [("X-Authorization", RIGHT[1]), ("Host", "x/v1/runtime/?")],
    ],
)
def test_without_the_secret(path: str, headers: list[tuple[str, str]]) -> None:
    answer = ask(path, *headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert SECRET.decode() not in answer.text


def test_with_the_secret() -> None:
    assert ask("/v1/control/start-run", RIGHT).text == "done"
    assert ask("/v1/control/start-run", ("authorization", f"bearer {SECRET.decode()}")).text
    assert ask("/docs", RIGHT, method="GET").text == "done"


def test_routes_that_ask_for_themselves() -> None:
    assert ask("/v1/runtime/acquire-task").text == "done"
    assert ask("/health", method="GET").text == "done"


def test_a_websocket_is_not_passed_on() -> None:
    passed: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        passed.append(scope["type"])

    async def nothing() -> Message:
        return {}

    async def ignore(message: Message) -> None:
        pass

    async def call(kind: str) -> None:
        scope = {"type": kind, "path": "/v1/runtime/x", "headers": []}
        await OperatorGuard(app, SECRET)(scope, nothing, ignore)

    asyncio.run(call("websocket"))
    asyncio.run(call("lifespan"))
    assert passed == ["lifespan"]
