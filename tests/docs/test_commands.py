"""Every command block of the documents runs, or says why it does not.

A comment before a block says how it is tested; ``<!-- test all: ... -->`` speaks for a page.

- ``<!-- test: run -->``: the commands run here, in a scratch folder that the blocks of a document
  share. ``run, with "A" as "B"`` replaces A by B first, to keep the test short.
- ``<!-- test: dry run -->``: only ``make`` targets, checked with ``make --dry-run``.
- ``<!-- test: covered by test_x -->``: another test runs the commands.
- ``<!-- test: needs other machines -->``
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.documents import DOCUMENTS, ROOT, SHELLS, Block, blocks

COMMANDS = [block for page in DOCUMENTS for block in blocks(page) if block.language in SHELLS]
_MANNER = re.compile(
    r"(?P<manner>run|dry run|needs other machines|covered by (?P<tests>test_\w+(, test_\w+)*))"
    r'(?P<replaced>(, with "[^"]+" as "[^"]+")*)'
)
_REPLACED = re.compile(r'with "([^"]+)" as "([^"]+)"')


def manner(block: Block) -> str:
    found = _MANNER.fullmatch(block.test)
    assert found, f"{block.name}: no comment says how this block is tested (found '{block.test}')"
    return found["manner"]


def chosen(how: str) -> list[object]:
    """Return the blocks that are tested in one way, as parameters."""
    return [pytest.param(b, id=b.name) for b in COMMANDS if b.test.startswith(how)]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_fence_names_its_language(page: Path) -> None:
    unnamed = [block.name for block in blocks(page) if not block.language]
    assert not unnamed, "commands in a fence without a language would not be tested"
    fences = sum(line.startswith("```") for line in page.read_text().splitlines())
    assert fences == 2 * len(blocks(page))


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.name)
def test_every_command_block_says_how_it_is_tested(block: Block) -> None:
    manner(block)


@pytest.mark.parametrize("block", chosen("covered by"))
def test_covering_tests_exist(block: Block) -> None:
    known = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    named = manner(block).removeprefix("covered by ").split(", ")
    assert set(named) <= known, f"{block.name} names tests that do not exist"


@pytest.mark.parametrize("block", chosen("dry run"))
def test_make_targets_exist(block: Block) -> None:
    for line in block.text.splitlines():
        command = line.partition("#")[0].split()
        assert command[0] == "make", f"{block.name}: '{line}' is not a make target"
        subprocess.run(["make", "--dry-run", *command[1:]], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Make a scratch folder for each document, with the tables that the documents name."""
    made = {}
    for page in DOCUMENTS:
        made[page] = tmp_path_factory.mktemp(page.stem)
        _write_tables(made[page])
    return made


def _write_tables(folder: Path) -> None:
    """Write accounts and transfers such as a reader would have."""
    rows = [f"a{i},{i * 1.5},{'DE' if i % 2 else 'FR'},{'high' if i % 3 else ''}" for i in range(9)]
    lines = ["account,balance,country,risk", *rows, "a9,3,DE,low"]
    (folder / "accounts.csv").write_text("\n".join(lines) + "\n")
    sources = [f"a{i}" for i in range(9)]
    targets = [f"a{i + 1}" for i in range(9)]
    transfers = pa.table({"from": sources, "to": targets})
    pq.write_table(transfers, folder / "transfers.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("block", chosen("run"))
def test_commands_run(
    block: Block, folders: dict[Path, Path], request: pytest.FixtureRequest, graph_cache: Path
) -> None:
    if "cora" in block.text:
        request.getfixturevalue("real_data")  # skips where the files are not present
    folder = folders[block.document]
    _write_files_before(block, folder)
    commands = block.text
    for old, new in _REPLACED.findall(block.test):
        assert old in commands, f"{block.name} does not contain '{old}'"
        commands = commands.replace(old, new)
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=os.environ | {"PATH": search, "HOME": str(folder), "FEDGT_CACHE": str(graph_cache)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{block.name}\n{commands}\n{done.stdout}\n{done.stderr}"


def _write_files_before(block: Block, folder: Path) -> None:
    """Save the files that the reader has saved on the way to this block."""
    for other in blocks(block.document):
        if other.file and other.line < block.line:
            (folder / other.file).write_text(other.text)


def test_links_between_documents_lead_somewhere() -> None:
    for page in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
