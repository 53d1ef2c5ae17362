"""``fedgt watch``: a run that goes on, seen by plain HTTP and in a browser."""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.page.live import LiveRun, LiveServer
from fedgt_server.events import FailedEvent, StartEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from shared.config import RunConfig
from tests.fedgt_server.events import institution_round, round_event
from tests.harness.browser import needs_browser, new_tab

LATEST = 2.0  # seconds from a round's end to the page
_WATCH = "import sys; from deploy.cli import main; sys.argv[0] = 'fedgt'; main()"


class Run:
    """A run whose rounds end when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = Journal(folder / "journal.jsonl")

    def begin(self) -> None:
        self._journal.write(StartEvent(config=RunConfig.build({"rounds": 9}).to_flower()))

    def finish_round(self, number: int, institutions: int = 3) -> None:
        parts = {
            f"bank-{k:02d}": institution_round(val_accuracy=0.5, seconds=1.0)
            for k in range(institutions)
        }
        self._journal.write(round_event(number, parts))

    def give_up(self) -> None:
        self._journal.write(FailedEvent(status="gave-up", reason="too few"))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Return a run with one round, which is locked as a running one is."""
    made = Run(tmp_path / "runs" / "mine")
    with run_lock(made.folder):
        made.begin()
        made.finish_round(1)
        yield made


@contextmanager
def serving(run: Run) -> Iterator[LiveServer]:
    live = LiveRun(run.folder)
    assert live.look()
    with LiveServer(live, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    url: str, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    with connection_closing(connection):
        connection.request(method, path, headers={"Host": host} if host is not None else {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


@contextmanager
def connection_closing(connection: http.client.HTTPConnection) -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.:80 evil", "", "10.0.0.1:8765"]
)
@pytest.mark.parametrize("path", ["/", "/data.json", "/events"])
def test_another_name_is_refused(run: Run, host: str, path: str) -> None:
    with serving(run) as server:
        status, _, body = ask(server.url, path, host=host)
    assert status == 403
    assert b"bank-00" not in body


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1", "[::1]:8765"])
def test_a_tunnel_with_another_port_is_this_machine(run: Run, host: str) -> None:
    with serving(run) as server:
        assert ask(server.url, "/", host=host)[0] == 200


def test_it_can_do_nothing_but_show(run: Run) -> None:
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with serving(run) as server:
        assert server.server_address[0] == "127.0.0.1"
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert ask(server.url, "/", method)[0] == 501
        for path in ("/journal.jsonl", "/../mine/journal.jsonl", "/%2e%2e/", "/lock"):
            assert ask(server.url, path)[0] == 404
        _, headers, page = ask(server.url, "/")
    assert b' data-live="true"' in page
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in headers
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


def test_a_round_is_announced_and_there(run: Run) -> None:
    with serving(run) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        with connection_closing(connection):
            connection.request("GET", "/events")
            stream = connection.getresponse()
            assert stream.getheader("Content-Type") == "text/event-stream; charset=utf-8"
            assert stream.readline().startswith(b":")
            for number in (2, 3):
                started = time.monotonic()
                run.finish_round(number)
                while stream.readline() != b"event: changed\n":
                    pass
                view = json.loads(ask(server.url, "/data.json")[2])
                assert time.monotonic() - started < LATEST
                assert (view["played"], view["status"]) == (number, "running")
            run.give_up()
            while stream.readline() != b"event: changed\n":
                pass
            assert json.loads(ask(server.url, "/data.json")[2])["status"] == "gave-up"


def test_a_replaced_journal_is_no_end(run: Run) -> None:
    with serving(run) as server:
        (run.folder / "journal.jsonl").unlink()
        time.sleep(0.7)
        assert json.loads(ask(server.url, "/data.json")[2])["played"] == 1
        run.begin()
        deadline = time.monotonic() + LATEST
        while (
            json.loads(ask(server.url, "/data.json")[2])["played"] and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        assert json.loads(ask(server.url, "/data.json")[2])["played"] == 0


@contextmanager
def watching(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", _WATCH, "watch", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_command_waits_for_the_run_and_prints_its_address(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "mine")
    with watching(run.folder) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "waiting for the run" in process.stderr.readline()
        run.begin()
        url = process.stdout.readline().removeprefix("page: ").strip()
        assert url.startswith("http://127.0.0.1:")
        assert ask(url, "/")[0] == 200
        process.send_signal(2)
        assert process.wait(10) == 0


@pytest.mark.slow
def test_rounds_of_a_real_run_are_announced(tmp_path: Path) -> None:
    out = tmp_path / "real"
    settings = ("--rounds", "6", "--clients", "3", "--set", "hidden=16", "--set", "samples=4")
    arguments = ("run", "--engine", "inprocess", "--out", str(out), "--json", *settings)
    live, late, played = LiveRun(out), [], 0
    process = subprocess.Popen(
        [sys.executable, "-c", _WATCH, *arguments], stdout=subprocess.DEVNULL, text=True
    )
    try:
        while not live.look():
            assert process.poll() is None
            time.sleep(0.05)
        with LiveServer(live, 0):
            version = 0
            while live.view is None or live.view.status == "running":
                version = live.wait_beyond(version, 60)
                late.append(time.time() - (out / "journal.jsonl").stat().st_mtime)
            played = live.view.played
    finally:
        process.kill()
        process.wait()
    assert played == 6
    assert live.view.status == "finished"
    assert len(late) >= 2
    assert max(late[1:]) < LATEST


@pytest.mark.slow
@needs_browser
def test_a_round_appears_in_a_browser(run: Run, browser: Any) -> None:
    with serving(run) as server, new_tab(browser) as tab:
        tab.page.goto(server.url)
        tab.page.wait_for_selector("#live.live:has-text('live')")
        for number in (2, 3):
            run.finish_round(number)
            tab.page.wait_for_selector(f"#meta :text('round {number} of 9')", timeout=1000 * LATEST)
        run.give_up()
        tab.page.wait_for_selector("#status:text('gave up')", timeout=1000 * LATEST)
        own = [server.url, f"{server.url}data.json", f"{server.url}events"]
        assert {url for url in tab.requests if "favicon" not in url} == set(own)
        assert tab.problems == []


@pytest.mark.slow
@needs_browser
def test_a_reader_stays_where_they_are(run: Run, browser: Any) -> None:
    run.finish_round(2, institutions=40)
    table, more = '[aria-label="figures of every institution"]', "#institutions-body summary"
    with serving(run) as server, new_tab(browser) as tab:
        tab.page.goto(server.url)
        tab.page.wait_for_selector("#live.live:has-text('live')")
        tab.page.eval_on_selector(table, "(one) => { one.scrollTop = 300; }")
        tab.page.focus(more)
        run.finish_round(3, institutions=40)
        tab.page.wait_for_selector("#meta :text('round 3 of 9')", timeout=1000 * LATEST)
        assert tab.page.eval_on_selector(table, "(one) => one.scrollTop") == 300
        assert tab.page.evaluate(f"document.activeElement.matches('{more}')")
        assert tab.problems == []
