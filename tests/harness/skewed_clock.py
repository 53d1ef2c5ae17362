"""A clock that is wrong for some programs alone, by as much as a test says at any time."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

# Stands between programs and the C library; the offset is read from a file each time.
_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;

__attribute__((constructor)) static void find_offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) offset = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += (time_t)*offset;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


class SkewedClock:
    """``prefix`` before a command makes its clock, and that of all it starts, this one."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler for a clock that is wrong")
        folder.mkdir()
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        self._offset = folder / "offset"
        self._offset.write_bytes(struct.pack("d", 0.0))
        self.prefix = ("env", f"LD_PRELOAD={library}", f"CLOCK_OFFSET={self._offset}")

    def set(self, seconds: int) -> None:
        """Let it be ahead of this machine's by so much; negative: behind."""
        with self._offset.open("r+b") as stream:  # in place: programs have it mapped
            stream.write(struct.pack("d", float(seconds)))
