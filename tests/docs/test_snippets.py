"""
Every command and every snippet of the README and the pages in ``docs/`` runs as it stands.

Each page is one script in a directory of its own, with ``examples/`` and the shop that ``examples/shop.py`` writes:

===========  ===================================================================================================
``sh``       runs; every command has to succeed
``console``  what follows ``$`` runs and prints the lines below it; ``…`` is any text, alone on a line any lines
``python``   runs, in a process of its own, as every command of ours
``json``     is parsed
===========  ===================================================================================================

`puffin serve` runs in the background at a free port, which takes the place of the default one in the blocks below it.
A block after ``<!-- not run: reason -->`` needs what a test cannot have. Its Python is compiled, and the command line
has to accept every command of it, with each option.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.statistics import StatisticsFile

from puffin.cli.diagnostics import Diagnostics
from puffin.cli.program import _puffin
from puffin.policy.document import parse_policy
from tests import forked_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
RUN = {"sh", "console", "python"}
LANGUAGES = {*RUN, "json", "text"}
UNCHECKED = {".", "python3"}  # the virtual environment
DEFAULT_PORT = "8680"
MINUTES = 5


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of the page that it begins on, and why it does not run."""

    language: str
    text: str
    line: int
    reason: str | None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("text")), found["reason"])
        for found in FENCE.finditer(text)
    ]


def commands_of(shell: str) -> list[str]:
    """The commands of a block, continued lines joined and comments gone."""
    lines = shell.replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := shlex.join(shlex.split(line, comments=True))) and line.strip()]


def blocks_not_run() -> list[object]:
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
        for page in PAGES
        for block in blocks_of(page)
        if block.reason
    ]


PAGES_THAT_RUN = [
    pytest.param(page, id=name, marks=pytest.mark.xdist_group(name))  # each takes long, so processes share them
    for page in PAGES
    if any(b.language in RUN and not b.reason for b in blocks_of(page))
    for name in [str(page.relative_to(ROOT))]
]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """That of a user who has installed the package, and no Java."""
    programs = tmp_path_factory.mktemp("bin")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with forked_commands.serve(programs):
        yield {**os.environ, "PATH": path, "JAVA_HOME": str(programs / "no Java")}


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """
    A directory for pages, and beside it the shop to copy there.

    The tables name their files absolutely, so the shop is written in the directory that it is used in.
    """
    home = tmp_path_factory.mktemp("pages")
    page, shop = home / "page", home / "shop"
    page.mkdir()
    subprocess.run([sys.executable, ROOT / "examples" / "shop.py", "shop"], check=True, cwd=page)
    (page / "shop").rename(shop)
    return page, shop


@pytest.fixture
def directory(pristine: tuple[Path, Path]) -> Path:
    """A page's own directory, with the shop as it was written."""
    page, shop = pristine
    shutil.rmtree(page)
    shutil.copytree(shop, page / "shop")
    for name in ("examples", "Makefile"):
        (page / name).symlink_to(ROOT / name)
    return page


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


class Script:
    """One page as a script for bash, which keeps what consoles print."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._lines = ["set -eu", 'server=""', "trap 'kill ${server:-} 2>/dev/null || true' EXIT"]
        self._expected: list[tuple[str, str, Path]] = []

    def add(self, block: Block) -> None:
        self._lines.append(f"echo '::: line {block.line}' >&2")
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                self._command(line)
        elif block.language == "python":
            self._lines += ["python - <<'PYTHON'", self._at_our_port(block.text.rstrip()), "PYTHON"]
        elif block.language == "console":
            for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block.text, re.M):
                said = self._directory / f".output-{len(self._expected)}"
                self._expected.append((command, output, said))
                self._command(f"{{ {command}; }} >{said} 2>&1")

    def _command(self, line: str) -> None:
        """A command; of a server, the start of it and a wait until it answers."""
        if line.startswith("puffin serve "):
            url = f"http://127.0.0.1:{self._port}/healthz"
            self._lines += [
                f"{line.partition(' #')[0]} --port {self._port} & server=$!",
                f"for i in $(seq 200); do curl -sf {url} >/dev/null && break; sleep 0.1; done",
            ]
        else:
            self._lines.append(self._at_our_port(line))

    def _at_our_port(self, text: str) -> str:
        return text.replace(f":{DEFAULT_PORT}", f":{self._port}")

    def run(self, environment: dict[str, str]) -> None:
        ran = subprocess.run(
            ["bash", "-c", "\n".join(self._lines)],
            check=False,
            cwd=self._directory,
            env=environment,
            text=True,
            capture_output=True,
            timeout=60 * MINUTES,
        )
        assert ran.returncode == 0, ran.stderr
        for command, output, said in self._expected:
            told = said.read_text()
            lines = [re.escape(line.rstrip()).replace("…", ".*") for line in output.splitlines()]
            pattern = "\n".join(r"(?:.*\n)*?.*" if line == ".*" else line for line in lines)
            trimmed = "\n".join(line.rstrip() for line in told.splitlines())
            assert re.fullmatch(pattern, trimmed), f"$ {command}\n{told}\ninstead of\n{output}"


def test_blocks_are_of_languages_that_are_checked() -> None:
    assert {block.language for page in PAGES for block in blocks_of(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES_THAT_RUN)
def test_snippets_of_a_page_run_unchanged(page: Path, environment: dict[str, str], directory: Path) -> None:
    to_run = [block for block in blocks_of(page) if block.reason is None]
    if any("examples/shop.py" in block.text for block in to_run):
        shutil.rmtree(directory / "shop")
    script = Script(directory)
    for block in to_run:
        script.add(block)
    script.run(environment)


def test_snippet_removes_the_statistics_of_every_snapshot(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg keeps only the last removal of an update."""
    shop = directory / "shop"
    orders = SqlCatalog("prod", uri=f"sqlite:///{shop}/catalog.db", warehouse=shop.as_uri()).load_table("sales.orders")
    with orders.update_statistics() as update:
        for snapshot in range(3):
            sizes = {"file-size-in-bytes": 32, "file-footer-size-in-bytes": 28}
            entry = {"snapshot-id": snapshot, "statistics-path": "a.stats", "blob-metadata": [], **sizes}
            update.set_statistics(StatisticsFile.model_validate(entry))
    (snippet,) = [b.text for b in blocks_of(ROOT / "docs" / "operations.md") if "remove_statistics" in b.text]
    monkeypatch.chdir(directory)
    exec(snippet, {})
    assert not orders.refresh().metadata.statistics


def test_json_is_json() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.language == "json":
                json.loads(block.text)


@pytest.mark.parametrize("block", blocks_not_run())
def test_a_block_that_needs_more_than_a_test_has_is_accepted(block: Block) -> None:
    """What is asked for exists: commands with their options, targets of make, extras, Python that compiles."""
    if block.language == "python":
        compile(block.text, "<page>", "exec")
    elif block.language == "sh":
        for command in commands_of(block.text):
            check(shlex.split(command))


def check(words: list[str]) -> None:
    """A command that does not run here is one that could."""
    program, *arguments = words
    if program == "spark-submit":
        program, arguments = "puffin", ["analyze", *arguments[1 + index_of_job(arguments) :]]
    if program == "puffin":
        parse(arguments)
    elif program == "echo":
        text, _, file = arguments
        parse_policy(text, file)
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.M), arguments[0]
        assert all((ROOT / path).exists() for path in re.findall(r"tests/\S+", " ".join(arguments)))
    elif program == "pip":
        extras = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.M)
        (asked,) = re.findall(r"\[([\w,-]+)\]", arguments[-1])
        assert set(asked.split(",")) <= set(extras)
    elif program == "python":
        assert (ROOT / arguments[0]).exists(), arguments[0]
    elif program == ".ci/run":
        assert (ROOT / program).exists()
    else:
        assert program in UNCHECKED, f"nothing here checks {program!r}"


def index_of_job(arguments: list[str]) -> int:
    return next(i for i, argument in enumerate(arguments) if argument.endswith("__main__.py"))


def parse(arguments: list[str]) -> None:
    """Have the command line parse a call, without making it."""
    name, *rest = arguments
    with click.Context(_puffin, obj=Diagnostics()) as context:
        command = _puffin.get_command(context, name)
        assert command is not None, f"puffin {name} is no command"
        command.make_context(name, rest, parent=context)
