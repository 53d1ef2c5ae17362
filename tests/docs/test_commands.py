"""Every command block of the documents runs, or says why it does not.

A comment before a block says how it is tested; ``<!-- test all: ... -->`` speaks for a page.

- ``<!-- test: run -->``: the commands run here, in a scratch folder that the blocks of a document
  share. ``run, with "A" as "B"`` replaces A by B first, to keep the test short.
- ``<!-- test: dry run -->``: only ``make`` targets, checked with ``make --dry-run``.
- ``<!-- test: covered by test_x -->``: another test runs the commands. Its file takes them from the
  page, or names their programs.
- ``<!-- test: needs other machines -->``
"""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.documents import DOCUMENTS, ROOT, SHELLS, Block, blocks

COMMANDS = [block for page in DOCUMENTS for block in blocks(page) if block.language in SHELLS]
_MANNER = re.compile(
    r"(?P<manner>run|dry run|needs other machines|covered by (?P<tests>test_\w+(, test_\w+)*))"
    r'(?P<replaced>(, with "[^"]+" as "[^"]+")*)'
)
_BUILTINS = ("export", "cd", ".")


def manner(block: Block) -> str:
    found = _MANNER.fullmatch(block.test)
    assert found, f"{block.name}: no comment says how this block is tested (found '{block.test}')"
    return found["manner"]


def covering(block: Block) -> list[str]:
    """Return the names of the tests that run a block."""
    return manner(block).removeprefix("covered by ").split(", ")


@cache
def files_of_tests() -> dict[str, Path]:
    """Return the file of every test, by the test's name."""
    return {
        name: path
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }


def code_behind(file: Path) -> str:
    """Return the code of a test's file, and of what it imports from the tests."""
    code = file.read_text()
    modules = re.findall(r"^from (tests\.[\w.]+) import", code, re.MULTILINE)
    paths = [ROOT / (module.replace(".", "/") + ".py") for module in modules]
    return "\n".join([code, *(path.read_text() for path in paths if path.exists())])


def programs(commands: str) -> list[str]:
    """Return the program of each command; of ``make`` the words of its targets."""
    found = []
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"\w+=", words[0]):
            del words[0]
        if words[:1] == ["make"]:
            found += [part for word in words[1:] if "=" not in word for part in word.split("-")]
        elif words and words[0] not in _BUILTINS:
            found.append(Path(words[0]).name)
    return found


def is_named(program: str, code: str) -> bool:
    """Return whether code names a program; imports of a package of that name do not count."""
    lines = [line for line in code.splitlines() if not line.startswith(("import ", "from "))]
    return bool(re.search(rf"(?<![\w.]){re.escape(program)}(?![\w.-])", "\n".join(lines)))


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
    named = covering(block)
    assert set(named) <= files_of_tests().keys(), f"{block.name} names tests that do not exist"


@pytest.mark.parametrize("block", chosen("covered by"))
def test_covering_tests_know_the_commands(block: Block) -> None:
    code = "\n".join(code_behind(files_of_tests()[name]) for name in covering(block))
    if block.document.name in code:
        return
    unknown = [word for word in programs(block.text) if not is_named(word, code)]
    assert not unknown, f"{block.name}: {', '.join(covering(block))} does not run {unknown}"


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ("make demo", ["demo"]),
        ("make demo-deploy  # three banks", ["demo", "deploy"]),
        ("export A=1 B=2\nB=3 flwr run . \\\n    --stream\n", ["flwr"]),
        ("cd kits\n. .venv/bin/activate\nkits/run.sh\n", ["run.sh"]),
    ],
)
def test_programs_of_a_block(commands: str, expected: list[str]) -> None:
    assert programs(commands) == expected


def test_an_import_does_not_name_a_program() -> None:
    assert not is_named("flwr", "from flwr.cli.build import build\nimport flwr\n")
    assert not is_named("flwr", "flwr_home = 1")
    assert is_named("flwr", 'start("flwr", "run")')
    assert is_named("run.sh", 'call("kits/run.sh")')


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
    """Write accounts and transfers of three banks, such as readers would have."""
    for seed, bank in enumerate("abc"):
        rng = np.random.default_rng(seed)
        ids = [f"{bank}{i}" for i in range(40)]
        rows = [
            f"{account},{rng.lognormal(3):.2f},{rng.integers(2)},{rng.choice(['DE', 'FR'])},"
            f"{rng.choice(['high', 'low', 'low', ''])}"
            for account in ids
        ]
        lines = ["account,balance,active,country,risk", *rows]
        (folder / f"{bank}-accounts.csv").write_text("\n".join(lines) + "\n")
        amounts = rng.lognormal(3, 1, 90)
        ends = {"from": rng.choice(ids, 90), "to": rng.choice(ids, 90), "amount": amounts}
        pq.write_table(pa.table(ends), folder / f"{bank}-transfers.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("block", chosen("run"))
def test_commands_run(
    block: Block, folders: dict[Path, Path], request: pytest.FixtureRequest, graph_cache: Path
) -> None:
    if "cora" in block.text:
        request.getfixturevalue("real_data")  # skips where the files are not present
    folder = folders[block.document]
    _write_files_before(block, folder)
    commands = block.commands()
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
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180
