"""Processes that tests kill."""

import subprocess
from typing import Any

import psutil

_TIMEOUT = 3.0  # seconds for killed processes to be gone


def kill_process_tree(process: "subprocess.Popen[Any]") -> None:
    """Kill a process and all that it started, directly or through others."""
    try:
        parent = psutil.Process(process.pid)
        parent.suspend()  # or it would start others while its children are counted
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(family[1:], timeout=_TIMEOUT)
