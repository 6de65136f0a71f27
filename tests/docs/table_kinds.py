"""
The table of ``docs/table-kinds.md``, made of the tests: ``python -m tests.docs.table_kinds`` writes it.

A test that proves a kind of Iceberg table says so with ``@pytest.mark.table_kind("A snapshot without files")``. The
format versions are those of its cases, by a parameter of one of the names in `VERSIONED`, or those in the second
argument ("2 3"). A third argument is a word for the cell in place of a tick.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "table-kinds.md"
VERSIONED = ("version", "format_version", "unknown", "table", "seen_much")
VERSIONS = (1, 2, 3)
TICK = "✓"
HEAD = """# Kinds of Iceberg tables, and what proves each

Most kinds are analyzed, committed and looked up, and then read by Iceberg's Java library. An empty cell means that the
format version has no such thing, or that it makes no difference there; "upgraded" means a table that was upgraded to
this version. `python -m tests.docs.table_kinds` writes this page from the marks of the tests.

| kind | v1 | v2 | v3 | tests |
|---|---|---|---|---|
"""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print what the collected tests prove, in place of running them."""
    proofs = {(kind, version, word, test) for item in session.items for kind, version, word, test in proofs_of(item)}
    print(json.dumps(sorted(proofs)))  # noqa: T201 - for `page`


def proofs_of(item: pytest.Item) -> Iterable[tuple[str, int, str, str]]:
    """Kind, format version, word for the cell, and test, for each version that this case of a test proves."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    own = {params[name] for name in VERSIONED if params.get(name) in VERSIONS}
    for mark in item.iter_markers("table_kind"):
        kind, versions, word = (*mark.args, *("", TICK)[len(mark.args) - 1 :])
        named = {int(version) for version in versions.split()}
        for version in named & own if named and own else named | own:
            yield kind, version, word, item.originalname


def page() -> str:
    """The page as the tests that are there make it."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "mark.table_kind(" in path.read_text()]
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "tests.docs.table_kinds", *files]
    # Collecting needs no installed plugin; loading them would take longer than collecting.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(ran.stdout)
    proofs = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith("[[")))
    return HEAD + "".join(row(kind, proofs) for kind in sorted({kind for kind, *_ in proofs}))


def row(kind: str, proofs: list[tuple[str, int, str, str]]) -> str:
    """The row of one kind."""
    own = [(version, word, test) for name, version, word, test in proofs if name == kind]
    words = [{word for version, word, _ in own if version == column} for column in VERSIONS]
    cells = [TICK if TICK in found else "".join(found) for found in words]
    tests = ", ".join(sorted({f"`{test}`" for *_, test in own}))
    return f"| {kind} | {' | '.join(cells)} | {tests} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
