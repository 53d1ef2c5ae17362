"""``fedgt data schema merge`` and schemas of wide tables, as a person meets them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.kits import fedgt

Run = Callable[..., tuple[int, str, str]]
SCHEMA = {
    "version": 2,
    "columns": [{"name": "x", "type": "numeric", "mean": 1, "std": 1, "rows": 10}],
    "labels": ["low"],
}
OTHER = SCHEMA | {"columns": [{"name": "x", "type": "categorical", "categories": ["a"]}]}


@pytest.fixture
def schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run ``fedgt data schema`` in a folder with two proposals."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "b.json").write_text(json.dumps(SCHEMA | {"labels": ["high"]}))
    (tmp_path / "other.json").write_text(json.dumps(OTHER))
    (tmp_path / "old.json").write_text(
        json.dumps(SCHEMA | {"version": 1, "columns": [{"name": "x", "type": "numeric"}]})
    )
    return lambda *arguments: fedgt(capsys, monkeypatch, "data", "schema", *arguments)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("a.json", "none.json"), ("none.json", "no such file")),
        (("a.json",), ("two schemas or more",)),
        (("a.json", "b.json", "./a.json"), ("named twice", "a.json")),
        (("a.json", "other.json"), ("'x' is numeric in a.json and categorical in other.json",)),
        (("a.json", "old.json"), ("old.json", "'x'", "make it again")),
        (("a.json", "b.json", "--out", "b.json", "--force"), ("b.json is read",)),
    ],
)
def test_what_cannot_be_merged_is_one_line(
    schema: Run, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    out = () if "--out" in arguments else ("--out", "new.json")
    code, text, errors = schema("merge", *arguments, *out)
    assert (code, text) == (2, "")
    assert errors.count("\n") == 1
    for part in parts:
        assert part in errors
    assert not Path("new.json").exists()


def test_merge_prints_for_people_and_for_programs(schema: Run) -> None:
    code, text, _ = schema("merge", "a.json", "b.json", "--out", "new.json")
    assert code == 0
    assert "Merged schema of 2 proposals" in text
    document = json.loads(Path("new.json").read_text())
    assert document["labels"] == ["high", "low"]
    assert document["columns"][0]["rows"] == 20
    assert "Merged from 2 proposals" in document["description"]
    code, text, errors = schema("merge", "a.json", "b.json", "--out", "new.json")
    assert (code, text) == (2, "")
    assert "exists already" in errors
    arguments = ("a.json", "b.json", "--out", "new.json", "--force", "--json")
    code, text, errors = schema("merge", *arguments)
    assert (code, errors) == (0, "")
    assert json.loads(text)["schema"] == document


def test_a_wide_table_is_told_in_few_lines(schema: Run) -> None:
    names = [f"game{i}" for i in range(400)] + [f"name{i}" for i in range(20)]
    header = ",".join(("id", *names, "views", "days", "country", "risk"))
    rows = [
        ",".join(
            (
                *(str(i), *(str(int(i == place)) for place in range(400))),
                *(f"Person {i} {place}" for place in range(20)),
                *(str(10 ** (i % 9)), str(i), "DE" if i % 2 else "FR", "low"),
            )
        )
        for i in range(60)
    ]
    Path("nodes.csv").write_text("\n".join((header, *rows)))
    arguments = ("--nodes", "nodes.csv", "--id", "id", "--label", "risk", "--out", "new.json")
    code, text, errors = schema(*arguments)
    assert code == 0
    assert len(text.splitlines()) < 20
    assert len(errors.splitlines()) < 10
    for part in ("403 columns", "... 397 more", "numeric, log", "share of ones"):
        assert part in text
    assert "and 12 more" in errors
    assert "fewer than 5 rows: game0, game1, game2, game3, game4 and 55 more" in errors
    assert len(Path("new.json").read_text().splitlines()) > 403


def test_the_old_form_and_its_name_are_the_same(schema: Run) -> None:
    Path("nodes.csv").write_text("id,x,risk\n1,2,low\n2,3,low\n")
    arguments = ("--nodes", "nodes.csv", "--id", "id", "--label", "risk", "--out")
    assert schema(*arguments, "one.json")[0] == schema("propose", *arguments, "two.json")[0] == 0
    assert Path("one.json").read_text() == Path("two.json").read_text()
    code, _, errors = schema("--nodes", "nodes.csv", "--id", "id", "--label", "risk")
    assert code == 2
    assert "--out" in errors
