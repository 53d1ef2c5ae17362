"""A superexec asks again where the runtime API is too busy, and ends where it is refused."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deploy.flower.patching import module
from deploy.flower.superexec import patient

_REQUEST = httpx.Request("POST", "https://here/v1/runtime/acquire-task")


def client_that_gets(*answers: int | Exception) -> Any:
    """Return a client of Flower's own class whose server gives these answers, one by one."""
    left: Iterator[int | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found, request=request)

    flower = module("flwr.supercore.superexec.run_superexec").RuntimeHttpClient
    client = patient(flower, pause=0.0)("https://here")
    client._client = httpx.Client(transport=httpx.MockTransport(answer))
    return client


def ask(client: Any) -> Any:
    loop = module("flwr.supercore.superexec.run_superexec")
    return client.AcquireTask(loop.AcquireTaskRequest())


def test_a_busy_server_is_asked_again() -> None:
    busy = httpx.ReadTimeout("too slow", request=_REQUEST)
    assert not ask(client_that_gets(500, busy, 503, 200)).HasField("task")


def test_a_refusal_ends_it() -> None:
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        ask(client_that_gets(401, 200))
