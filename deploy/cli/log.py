"""``fedgt log``: keep what a script of a kit prints, in files that are rotated."""

import logging
import os
import re
import signal
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Annotated

import typer

_SIZE, _FILES = 10 << 20, 5  # bytes of a file, and how many earlier ones are kept
_LONGEST = 1 << 16  # bytes of a line; what is longer becomes several
_PRIVATE = 0o077
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # for terminals; in a file they hide what is looked for


def log(file: Annotated[Path, typer.Argument(help="The newest of the files.")]) -> None:
    """Pass on what comes in, and keep it in files.

    Of 10 MB, the last six. It ends when nothing more can come: whoever is
    asked to end says its last words first. Neither a full disk nor a closed
    terminal ends what it logs.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    os.umask(_PRIVATE)
    file.parent.mkdir(parents=True, exist_ok=True)
    logging.raiseExceptions = False  # of the handler: a full disk, for example
    handler = RotatingFileHandler(file, maxBytes=_SIZE, backupCount=_FILES, errors="replace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    with suppress(OSError):
        file.chmod(0o600)  # one that was there before
    while line := sys.stdin.buffer.readline(_LONGEST):
        with suppress(OSError):
            os.write(sys.stdout.fileno(), line)
        text = _COLOURS.sub("", line.decode(errors="replace").rstrip("\r\n"))
        handler.emit(logging.LogRecord("log", logging.INFO, "", 0, text, None, None))
