"""Tables for people."""

import pytest

from deploy.cli.output import print_table


def test_numbers_are_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    names = [f"method-{index}" for index in range(12)]
    print_table("Accuracy", ["institution", *names], [["bank-a", *["66.07"] * 12]])
    out = capsys.readouterr().out
    assert out.count("66.07") == 12
    assert all(name in out for name in names)
    assert "…" not in out
