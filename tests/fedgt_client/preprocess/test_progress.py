"""Lines about a long preparation."""

import pytest

from fedgt_client.preprocess.progress import Progress


class Clock:
    """Replaces time.monotonic."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level("INFO")
    clock = Clock()
    monkeypatch.setattr("fedgt_client.preprocess.progress.time.monotonic", clock)
    return clock


def test_nothing_of_what_is_quick(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("PPR", 10)
    for _ in range(10):
        clock.now += 0.19
        progress.advance(1)
    assert not caplog.messages


def test_time_left_now_and_then(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("PPR", 100)
    for _ in range(100):
        clock.now += 0.5
        progress.advance(1)
    assert caplog.messages[0] == "preparing: PPR 4 %, 48 s left"
    assert caplog.messages[1] == "preparing: PPR 24 %, 38 s left"
    assert len(caplog.messages) == 5


def test_an_upper_bound_is_called_one(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("encoding", 10, at_most=True)
    clock.now += 5
    progress.advance(5)
    assert caplog.messages == ["preparing: encoding 50 %, at most 5 s left"]
