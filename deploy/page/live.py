"""A run's page on this machine's own address, which changes as rounds finish; it only shows."""

import re
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from deploy.page.html import content_policy, render
from fedgt_server.lock import is_locked
from fedgt_server.report.build import build_view
from fedgt_server.report.runs import FoundRun, find_run
from fedgt_server.report.view import RunView
from shared.errors import FedGTError

ADDRESS = "127.0.0.1"
_POLL = 0.3  # seconds between two looks at the journal
_KEEP_ALIVE = 15.0  # seconds until a comment shows a silent stream that its reader is gone
_STREAMS = 32  # at a time
# Names of this machine, with any port: 'ssh -L' may have another one at its end. A page elsewhere
# whose name is made to lead here (DNS rebinding) has its own name in this header.
_OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class LiveRun:
    """The newest view of a run that other processes write."""

    def __init__(self, folder: Path, alone: Path | None = None) -> None:
        self._folder, self._alone = folder, alone
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._seen: tuple[object, ...] = ()
        self.version = 0
        self.view: RunView | None = None

    def look(self) -> bool:
        """Read the run again if it has changed; return whether it has begun."""
        try:
            found = find_run(self._folder, self._alone)
            seen = _signature(found)
            if seen != self._seen:
                view = build_view(found)
                with self._changed:
                    self.view, self._seen, self.version = view, seen, self.version + 1
                    self._changed.notify_all()
        except (FedGTError, OSError):  # not there yet, or just being replaced: look again later
            pass
        return self.view is not None

    def follow(self) -> None:
        """Look again and again until it is closed."""
        while not self._closed.wait(_POLL):
            self.look()

    def wait_beyond(self, version: int, seconds: float) -> int:
        """Wait for a newer version; return the present one."""
        with self._changed:
            self._changed.wait_for(lambda: self.version > version or self.closed, seconds)
            return self.version

    @property
    def closed(self) -> bool:
        """Whether nobody follows the run any more."""
        return self._closed.is_set()

    def close(self) -> None:
        """Let all who wait go on."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()


def _signature(found: FoundRun) -> tuple[object, ...]:
    """Return what differs when the page would."""
    at = found.journal.path.stat()
    return at.st_ino, at.st_size, at.st_mtime_ns, is_locked(found.folder), tuple(found.others)


class LiveServer(ThreadingHTTPServer):
    """Serves one run's page to this machine."""

    daemon_threads = True

    def __init__(self, run: LiveRun, port: int) -> None:
        self.run = run
        self.streams = threading.BoundedSemaphore(_STREAMS)
        super().__init__((ADDRESS, port), _Handler)
        self._follower = threading.Thread(target=run.follow, daemon=True)
        self._follower.start()

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def server_close(self) -> None:
        """Stop following the run, and free the port."""
        self.run.close()
        self._follower.join()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of three addresses, and nothing else."""

    server: LiveServer
    server_version, sys_version = "fedgt", ""
    timeout = 60  # seconds that a reader may make us wait

    def do_GET(self) -> None:
        """Answer one request."""
        view = self.server.run.view
        if not _OWN_HOST.fullmatch(self.headers.get("Host", "")):
            self._send("ask for it by 127.0.0.1 or localhost\n", "text/plain", HTTPStatus.FORBIDDEN)
        elif self.path == "/events":
            self._stream()
        elif view and self.path == "/data.json":
            self._send(view.model_dump_json(), "application/json")
        elif view and self.path == "/":
            self._send(render(view, "run", live=True), "text/html")
        elif self.path == "/favicon.ico":  # browsers ask for it, and call a 404 an error
            self._send("", "image/x-icon", HTTPStatus.NO_CONTENT)
        else:
            self._send("there is only / here\n", "text/plain", HTTPStatus.NOT_FOUND)

    def _send(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = text.encode()
        self._start(kind, status, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _start(self, kind: str, status: HTTPStatus, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        policy = f"{content_policy('run', live=True)}; frame-ancestors 'none'"
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Security-Policy": policy,
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        """Send an event for every change until the reader or the server goes."""
        if not self.server.streams.acquire(blocking=False):
            self._send("too many pages are open\n", "text/plain", HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            run = self.server.run
            self._start("text/event-stream", HTTPStatus.OK)
            sent = run.version
            self.wfile.write(b": the page asks for data.json at every event\n\n")
            while not run.closed:
                present = run.wait_beyond(sent, _KEEP_ALIVE)
                news = (
                    f"event: changed\ndata: {present}\n\n" if present > sent else ": still here\n\n"
                )
                self.wfile.write(news.encode())
                sent = present
        except OSError:  # the reader is gone
            pass
        finally:
            self.server.streams.release()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal shows the address and stays as it is."""
