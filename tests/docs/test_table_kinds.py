"""The matrix of table kinds in ARCHITECTURE.md names existing tests for every kind."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MATRIX = (ROOT / "ARCHITECTURE.md").read_text().partition("## Kinds of Iceberg tables")[2].partition("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in MATRIX.splitlines() if line.startswith("| ")][1:]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^`]+)\])?`")


@cache
def cases_of(file: str) -> dict[str, set[str]]:
    """The texts of each test's module by test name, among which its cases are named."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {node.name: texts for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_is_a_matrix():
    assert len(ROWS) > 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_kind_names_existing_tests(row):
    named = NAMED.findall(row[-1])
    assert len(named) == row[-1].count("::") > 0
    assert {"✓", "upgraded"} & set(row[1:-1])
    for file, test, case in named:
        assert test in cases_of(file), f"{file} has no {test}"
        assert not case or case in cases_of(file)[test], f"{file} has no case {case!r}"
