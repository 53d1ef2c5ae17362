"""What tests of the coordinator share."""

import pytest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often: scripted nodes answer at once."""
    monkeypatch.setattr("fedgt_server.exchange._POLL", 0.005)
    monkeypatch.setattr("fedgt_server.wait._POLL", 0.02)
