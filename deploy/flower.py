"""The control API of the coordinator's own SuperLink."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from shared.errors import FedGTError


@contextmanager
def control(kit: Path) -> Iterator[ControlHttpClient]:
    """Yield a connection to the SuperLink of a coordinator's kit.

    Raises
    ------
    FedGTError
        When the SuperLink cannot be reached or refuses what was asked, also within the block.
    """
    try:
        facts = tomllib.loads((kit / "control.toml").read_text())
        # Containers reach the SuperLink under another name than the machine they are on.
        address = os.environ.get("FEDGT_CONTROL") or str(facts["control"])
        root = (kit / "ca.crt").read_bytes()
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        raise FedGTError(f"{kit} is no coordinator's kit: name its folder") from None
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient.from_server_address(address, False, root, [version])
    try:
        yield client
    except httpx.HTTPStatusError as error:
        raise FedGTError(f"the SuperLink at {address} refuses: {_reason(error)}") from None
    except httpx.TransportError as error:
        reason = f" ({error})" if str(error) else ""
        raise FedGTError(
            f"no SuperLink answers at {address}{reason}: run ./start-superlink.sh first"
        ) from None
    finally:
        client.close()


def _reason(error: httpx.HTTPStatusError) -> str:
    try:
        text = error.response.text
    except httpx.ResponseNotRead:
        text = ""
    return " ".join(text.split()) or error.response.reason_phrase
