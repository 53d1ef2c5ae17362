"""``fedgt watch``: the page of a run while it goes on."""

import time
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import print_note
from deploy.page.live import ADDRESS, LiveRun, LiveServer
from shared.errors import FedGTError

_PORT = 8765
_WAIT = 0.5  # seconds between two looks for a run that has not begun


def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a comparison.")],
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, show_default=False, help="Default: 8765, or any if that is taken."
        ),
    ] = None,
    alone: Annotated[
        Path | None, typer.Option(help="A run of method 'local' on the same data, to compare.")
    ] = None,
) -> None:
    """Serve a run's page while rounds finish.

    Ctrl-C ends it, the run goes on. It only shows, and only to this machine. From another one:
    ssh -L 8765:127.0.0.1:8765 HOST, then open http://127.0.0.1:8765/ there.
    """
    live = LiveRun(run, alone)
    try:
        if not live.look():
            print_note(f"waiting for the run in {run} to begin; Ctrl-C ends this")
        while not live.look():
            time.sleep(_WAIT)
        server = _server(live, port)
        with server:
            print(f"page: {server.url}", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        live.close()


def _server(live: LiveRun, port: int | None) -> LiveServer:
    try:
        return LiveServer(live, _PORT if port is None else port)
    except OSError:
        if port is not None:
            raise FedGTError(f"port {port} of {ADDRESS} is taken: choose another") from None
        return LiveServer(live, 0)
