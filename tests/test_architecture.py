"""The arrows between rooms, as ARCHITECTURE.md draws them: walked through every import, lazy ones counted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "puffin").rglob("*.py"), *(ROOT / "stats_jobs").rglob("*.py")])

# A room may import itself and the rooms listed; nothing else of ours.
ROOMS = {
    "puffin.errors": set(),
    "puffin.kernels": set(),
    "puffin.parquet": {"puffin.errors", "puffin.kernels"},
    "puffin.avro": {"puffin.errors", "puffin.kernels"},
    "puffin.orc": set(),
    "puffin.format": {"puffin.errors"},
    "puffin.storage": {"puffin.errors"},
    "puffin.theta": {"puffin.errors", "puffin.format", "puffin.kernels"},
    "puffin.deletion_vector": {"puffin.errors", "puffin.format"},
    "puffin.inspection": {"puffin.errors", "puffin.format", "puffin.storage", "puffin.theta", "puffin.deletion_vector"},
    "puffin.tables": {
        "puffin.errors",
        "puffin.format",
        "puffin.storage",
        "puffin.theta",
        "puffin.deletion_vector",
        "puffin.parquet",
        "puffin.avro",
        "puffin.orc",
    },
    "puffin.lookup": {"puffin.errors", "puffin.format", "puffin.storage", "puffin.theta", "puffin.tables"},
    "puffin.server": {
        "puffin",  # its version
        "puffin.errors",
        "puffin.storage",
        "puffin.inspection",
        "puffin.lookup",
    },
    "puffin.cli": {
        "puffin",
        "puffin.errors",
        "puffin.format",
        "puffin.storage",
        "puffin.theta",
        "puffin.deletion_vector",
        "puffin.inspection",
        "puffin.tables",
        "puffin.lookup",
        "puffin.server",  # serve alone, see below
        "stats_jobs",
    },
    "stats_jobs": {
        "puffin",
        "puffin.errors",
        "puffin.kernels",
        "puffin.format",
        "puffin.storage",
        "puffin.theta",
        "puffin.deletion_vector",
        "puffin.parquet",
        "puffin.tables",
        "puffin.lookup",
        "puffin.cli",  # __main__ alone, see below
    },
}
# Each SDK has one file that imports it, or one for each part of it.
SDK_HOMES = {
    "pyiceberg": {"puffin.tables.iceberg.sdk"},
    "sqlalchemy": {"puffin.tables.iceberg.sql"},
    "hive_metastore": {"puffin.tables.iceberg.hive"},
    "thrift": {"puffin.tables.iceberg.hive"},
    "datasketches": {"puffin.theta.estimate"},
    "numba": {"puffin.kernels.compiler"},
    "pyroaring": {"puffin.deletion_vector"},
    "pyspark": {"stats_jobs.session"},
    "py4j": {"stats_jobs.session"},
    "fsspec": {"puffin.storage.arrow"},
    "obstore": {"puffin.storage.new_objects"},
    "botocore": {"puffin.storage.new_objects", "puffin.tables.iceberg.glue"},  # credentials; errors of a client
    "zstandard": {"puffin.format.frames"},
    "lz4": {"puffin.format.frames"},
    "fastapi": {"puffin.server.app"},
    "starlette": {"puffin.server.app"},
    "uvicorn": {"puffin.server.process"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, type_checking: bool = False) -> Iterator[str]:
    """Every module a file imports, wherever in the file, apart from those for the type checker alone."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not type_checking:
            skipped |= {inner for statement in node.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (
                f"{node.module}.{alias.name}" if is_module(f"{node.module}.{alias.name}") else str(node.module)
                for alias in node.names
            )


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def room_of(module: str) -> str | None:
    if not module.startswith(("puffin", "stats_jobs")):
        return None
    return max((room for room in [*ROOMS, "puffin"] if f"{module}.".startswith(f"{room}.")), key=len)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_follow_the_arrows(path: Path) -> None:
    """A module imports only from the rooms below its own."""
    room = room_of(module_name(path))
    if room in ("puffin", None):
        return  # the front door names every room, and loads none of them
    targets = {room_of(name) for name in imports(path)} - {None, room}
    assert targets <= ROOMS[room]


def test_only_the_entry_point_of_spark_submit_reaches_back_to_the_command_line() -> None:
    """``python -m stats_jobs`` is ``puffin analyze``; no other module of the job knows the command line."""
    back = {module_name(p) for p in SOURCES if any(name.startswith("puffin.cli") for name in imports(p))}
    assert {name for name in back if name.startswith("stats_jobs")} == {"stats_jobs.__main__"}


def test_only_the_analyze_command_imports_the_job_and_lazily() -> None:
    """Everything else of the package works without Spark."""
    importers = {module_name(p) for p in SOURCES if any(name.startswith("stats_jobs") for name in imports(p))}
    assert {name for name in importers if name.startswith("puffin")} == {"puffin.cli.analyze"}
    top_level = ast.parse((ROOT / "puffin/cli/analyze.py").read_text()).body
    assert not [n for n in top_level if isinstance(n, ast.ImportFrom) and str(n.module).startswith("stats_jobs")]


def test_table_formats_do_not_know_each_other() -> None:
    """Nor does anybody know them but who finds tables, opens files with a catalog's credentials or parses a filter."""
    formats = ("puffin.tables.iceberg", "puffin.tables.delta")
    importers = {
        name: {module_name(p) for p in SOURCES if any(i.startswith(f"{name}.") for i in imports(p))} for name in formats
    }
    for name, inside in importers.items():
        outside = {module for module in inside if not module.startswith(f"{name}.")}
        assert outside <= {
            "puffin.tables.load",
            "puffin.tables.stores",
            "puffin.lookup.partition_filter",
            "stats_jobs.spark_table",  # found by Spark, in a catalog of its own
            "stats_jobs.spark_iceberg",
        }


def test_only_the_serve_command_imports_the_server_and_lazily() -> None:
    """Everything else of the package works without FastAPI and uvicorn."""
    outside = [path for path in SOURCES if not module_name(path).startswith("puffin.server")]
    importers = {module_name(p) for p in outside if any(name.startswith("puffin.server") for name in imports(p))}
    assert importers == {"puffin.cli.serve"}
    top_level = ast.parse((ROOT / "puffin/cli/serve.py").read_text()).body
    assert not [n for n in top_level if isinstance(n, ast.ImportFrom) and str(n.module).startswith("puffin.server")]


def test_reader_and_writer_are_siblings() -> None:
    """Neither imports the other."""
    for one, other in (("reader", "writer"), ("writer", "reader")):
        assert f"puffin.format.{other}" not in set(imports(ROOT / f"puffin/format/{one}.py"))


def test_no_circles() -> None:
    """No module reaches itself through imports, lazy ones counted."""
    graph = {module_name(p): {n for n in imports(p) if n.startswith(("puffin", "stats_jobs"))} for p in SOURCES}
    # An import of a package's module runs the package's __init__ too, which is not an arrow that anyone drew.
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for target in graph.get(module, ()):
                visit(target, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("sdk", SDK_HOMES)
def test_each_sdk_has_one_home(sdk: str) -> None:
    """A library that could be replaced is imported in one file."""
    importers = {
        module_name(p)
        for p in SOURCES
        if any(name == sdk or name.startswith(f"{sdk}.") for name in imports(p, type_checking=False))
    }
    assert importers == SDK_HOMES[sdk]


def test_files_have_one_idea_each() -> None:
    """No file is past 400 lines, and half of them are under 150."""
    lengths = sorted(len(path.read_text().splitlines()) for path in SOURCES)
    assert lengths[-1] <= 400
    assert lengths[len(lengths) // 2] < 150


def test_the_library_never_prints() -> None:
    """Only the command line writes to the terminal."""
    for path in SOURCES:
        if not module_name(path).startswith("puffin.cli"):
            assert not re.search(r"^\s*print\(", path.read_text(), re.MULTILINE), path
