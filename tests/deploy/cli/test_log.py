"""What the kits' scripts print is passed on, and kept in private files that are rotated."""

import subprocess
import sys
import time
from pathlib import Path

_FEDGT = "from deploy.cli import main; main()"


def keep(file: Path, text: bytes) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", _FEDGT, "log", str(file)], input=text, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lines_are_kept_and_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "node.log"
    file.parent.mkdir()
    file.write_text("before\n")
    file.chmod(0o644)
    text = b"\x1b[92mINFO \x1b[0m: round 1\n\xff broken\n" + b"x" * 200_000 + b"\nno newline"
    assert keep(file, text) == text
    kept = file.read_text().splitlines()
    assert kept[0] == "before"
    assert kept[1].endswith(" INFO : round 1")
    assert kept[-1].endswith(" no newline")
    assert file.stat().st_mode & 0o777 == 0o600


def test_files_are_rotated(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    keep(file, b"".join(b"%08d%s\n" % (k, b"x" * 60_000) for k in range(360)))
    assert {path.name for path in tmp_path.iterdir()} == {"node.log", "node.log.1", "node.log.2"}
    assert all(path.stat().st_size <= 10 << 20 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_a_closed_terminal_does_not_end_it(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    process = subprocess.Popen(
        [sys.executable, "-c", _FEDGT, "log", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    process.stdout.close()
    process.stdin.write(b"one\n")
    process.stdin.flush()
    while not file.exists() or not file.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()  # with a service, everybody is asked to end
    process.stdin.write(b"two\n" * 50_000 + b"the last word\n")
    process.stdin.close()
    assert process.wait(60) == 0
    assert file.read_text().endswith(" the last word\n")
