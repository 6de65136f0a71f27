"""The arrows between rooms, as ARCHITECTURE.md draws them: walked through every import, lazy ones counted."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "puffin").rglob("*.py"), *(ROOT / "stats_jobs").rglob("*.py")])

# A room may import itself and the rooms listed; nothing else of ours.
ROOMS = {
    "errors": set(),
    "version": set(),
    "cached": set(),
    "lazy": set(),
    "no_pandas": set(),
    "work_off": set(),
    "kernels": set(),
    "format": {"cached", "errors", "lazy"},
    "storage": {"errors"},
    "values": {"errors", "kernels"},
    "policy": {"errors"},
    "sketches": {"errors", "kernels", "values"},
    "tables": {"cached", "errors", "format", "storage", "values", "version"},
    "files": {"cached", "errors", "format", "kernels", "sketches", "storage", "tables", "values"},
    "inspection": {"errors", "format", "sketches", "storage"},
    "statistics": {"cached", "errors", "format", "sketches", "storage", "tables", "values", "version"},
    "index": {
        *("errors", "format", "kernels", "sketches"),
        *("statistics", "storage", "tables", "values", "version"),
    },
    "iceberg": {"cached", "errors", "files", "format", "kernels", "storage", "tables", "values", "version", "work_off"},
    "delta": {"cached", "errors", "storage", "tables", "values", "version", "work_off"},
    "clean": {"index", "statistics", "storage", "tables"},
    "load": {"cached", "delta", "errors", "iceberg", "storage", "tables"},
    "estimates": {"cached", "sketches", "tables", "values"},
    "planning": {"cached", "errors", "iceberg", "index", "tables", "values"},
    "lookup": {
        *("cached", "errors", "estimates", "format", "iceberg", "index", "lazy", "load", "planning"),
        *("sketches", "statistics", "storage", "tables", "values", "work_off"),
    },
    "rest_catalog": {"errors", "iceberg", "lookup", "planning", "storage", "tables", "values", "version"},
    "server": {"errors", "inspection", "load", "lookup", "rest_catalog", "storage", "tables", "version"},
    "stats_jobs": {
        *("errors", "files", "format", "iceberg", "index", "kernels", "load", "no_pandas"),
        *("sketches", "statistics", "storage", "tables", "values", "version", "work_off"),
    },
    "autopilot": {"clean", "errors", "load", "lookup", "policy", "stats_jobs", "storage", "tables"},
    "cli": {
        *("autopilot", "no_pandas", "policy"),
        *("clean", "errors", "inspection", "load", "lookup", "planning", "statistics", "storage", "tables", "version"),
        *("server", "stats_jobs"),  # imported by few commands, see below
    },
}
# The two entry points of ``python -m`` and the front door, which names every room and loads none.
ABOVE = {"puffin", "puffin.__main__", "stats_jobs"}
# The functions with more than six parameters, and why they may.
LONG_SIGNATURES = {
    ("puffin.lookup.planner", "ndv"),  # keywords are the user's options
    ("puffin.lookup.planner", "plan"),
    ("puffin.lookup.cached_lookup", "__init__"),
    ("puffin.lookup.cached_lookup", "ndv"),
    ("stats_jobs.many", "analyze_many"),
    ("stats_jobs.many", "index_many"),
    ("puffin.lookup.estimates", "estimate"),
    ("puffin.kernels.heavy", "count_values"),  # compiled loops take arrays, not values
    ("puffin.kernels.avro_values", "find_values"),  # compiled code takes arrays, not values that hold them
}
# Each SDK has one file that imports it, or one for each part of it.
SDK_HOMES = {
    "pyiceberg": {
        "puffin.iceberg.sdk",
        "puffin.iceberg.bounded_rest",
        "puffin.iceberg.filters",
        "puffin.iceberg.filter_grammar",
        "puffin.iceberg.filter_literals",
        "puffin.iceberg.filter_projection",
        "puffin.iceberg.planned_scan",
    },
    "sqlalchemy": {"puffin.iceberg.catalogs.sql"},
    "hive_metastore": {"puffin.iceberg.catalogs.hive"},
    "thrift": {"puffin.iceberg.catalogs.hive"},
    "datasketches": {"puffin.sketches.estimate"},
    "numba": {"puffin.kernels.compiler"},
    "pyroaring": {"puffin.format.deletion_vector"},
    "pyspark": {
        *("stats_jobs.jvm", "stats_jobs.jvm_start", "stats_jobs.jvm_errors"),
        *("stats_jobs.connect", "stats_jobs.connect_client"),  # without a JVM in this process
    },
    "py4j": {"stats_jobs.jvm_errors"},
    "grpc": {"stats_jobs.connect_client"},
    "fsspec": {"puffin.storage.arrow"},
    "obstore": {"puffin.storage.new_objects"},
    "botocore": {"puffin.storage.new_objects", "puffin.iceberg.catalogs.glue"},  # credentials; errors of a client
    "yaml": {"puffin.policy.yaml_nodes"},
    "zstandard": {"puffin.format.compression", "puffin.files.parquet.page_codecs"},
    "lz4": {"puffin.format.compression", "puffin.files.block_codecs"},
    "deflate": {"puffin.files.parquet.page_codecs"},
    "fastapi": {"puffin.server.app", "puffin.server.iceberg.routes"},
    "starlette": {"puffin.server.app"},
    "uvicorn": {"puffin.server.process"},
    "requests": {"puffin.rest_catalog.http", "puffin.iceberg.bounded_rest"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path: Path, *, with_types: bool = True) -> frozenset[str]:
    """
    Every module a file imports, wherever in the file.

    Those for the type checker alone count ``with_types``, and if they are ours.
    """
    tree = ast.parse(path.read_text())
    for_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for_types |= {inner for statement in node.body for inner in ast.walk(statement)}
    names: set[str] = set()
    for node in ast.walk(tree):
        found: set[str] = set()
        if isinstance(node, ast.Import):
            found = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found = {name if is_module(name) else str(node.module) for name in inner}
        names |= {name for name in found if node not in for_types or (with_types and room_of(name))}
    return frozenset(names)


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def room_of(module: str) -> str | None:
    """The room of a module of ours; None if it is not ours."""
    package, *rest = module.split(".")
    if package == "stats_jobs":
        return package
    return (rest[0] if rest else package) if package == "puffin" else None


@functools.cache
def place_of(module: str) -> str:
    """The folder of a module. In a room that has folders, modules beside these are places of their own."""
    parts = module.split(".")
    folder = ROOT.joinpath(*parts[:2])
    has_folders = any((inner / "__init__.py").exists() for inner in folder.glob("*/"))
    return ".".join(parts[:3] if has_folders else parts[:2])


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_follow_the_arrows(path: Path) -> None:
    """A module imports only from the rooms below its own."""
    module = module_name(path)
    if module not in ABOVE:
        room = str(room_of(module))
        assert {room_of(name) for name in imports(path)} - {None, room} <= ROOMS[room]


def test_rooms_and_their_folders_have_no_circles() -> None:
    """The arrows between folders go one way, inside a room too."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        if (module := module_name(path)) not in ABOVE:
            targets = {place_of(name) for name in imports(path) if room_of(name)} - {place_of(module)}
            graph.setdefault(place_of(module), set()).update(targets)
    assert_no_circles(graph)


def test_no_room_is_larger_than_a_fifth() -> None:
    """A room that grows past that has become a warehouse."""
    lines: dict[str, int] = {}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "puffin"):
            room = str(room_of(module_name(path)))
            lines[room] = lines.get(room, 0) + len(path.read_text().splitlines())
    assert max(lines.values()) <= sum(lines.values()) / 5


def test_the_job_does_not_import_the_command_line() -> None:
    """``python -m stats_jobs`` runs the program ``puffin``, as a user does."""
    above = {module_name(p) for p in SOURCES if any(name.startswith("puffin.cli") for name in imports(p))}
    assert not any(name.startswith("stats_jobs") for name in above)


def test_only_the_commands_for_jobs_import_them_and_lazily() -> None:
    """Everything else of the package works without Spark."""
    importers = {module_name(p): p for p in SOURCES if any(name.startswith("stats_jobs") for name in imports(p))}
    importers = {name: path for name, path in importers.items() if name.startswith("puffin")}
    of_autopilot = {"puffin.autopilot.run_table", "puffin.autopilot.spark_sessions"}
    of_commands = {f"puffin.cli.{name}" for name in ("analyze", "index", "many_tables", "table_options")}
    assert importers.keys() == of_commands | of_autopilot
    for name in importers.keys() - of_autopilot:
        top_level = ast.parse(importers[name].read_text()).body
        assert not [n for n in top_level if isinstance(n, ast.ImportFrom) and str(n.module).startswith("stats_jobs")]


def test_commands_import_the_autopilot_lazily() -> None:
    """It imports the jobs."""
    commands = [path for path in SOURCES if module_name(path).startswith("puffin.cli")]
    importers = [p for p in commands if any(name.startswith("puffin.autopilot") for name in imports(p))]
    assert importers
    for path in importers:
        top_level = ast.parse(path.read_text()).body
        modules = [str(n.module) for n in top_level if isinstance(n, ast.ImportFrom)]
        assert not [name for name in modules if name.startswith("puffin.autopilot")]


def test_only_the_serve_command_imports_the_server_and_lazily() -> None:
    """Everything else of the package works without FastAPI and uvicorn."""
    outside = [path for path in SOURCES if not module_name(path).startswith("puffin.server")]
    importers = {module_name(p) for p in outside if any(name.startswith("puffin.server") for name in imports(p))}
    assert importers == {"puffin.cli.serve"}
    top_level = ast.parse((ROOT / "puffin/cli/serve.py").read_text()).body
    assert not [n for n in top_level if isinstance(n, ast.ImportFrom) and str(n.module).startswith("puffin.server")]


def test_values_are_cached_without_a_lock() -> None:
    """`puffin.cached` says why."""
    waiting = re.compile(r"functools\.cached_property|from functools import .*cached_property")
    assert [p.name for p in SOURCES if waiting.search(p.read_text())] == ["cached.py"]


def test_reader_and_writer_are_siblings() -> None:
    """Neither imports the other."""
    for one, other in (("reader", "writer"), ("writer", "reader")):
        assert f"puffin.format.{other}" not in imports(ROOT / f"puffin/format/{one}.py")


def test_modules_have_no_circles() -> None:
    """No module reaches itself through imports, lazy ones counted, but types of a value and its bytes may name both."""
    # An import of a package's module runs the package's __init__ too, which is not an arrow that anyone drew.
    assert_no_circles({module_name(p): {n for n in imports(p, with_types=False) if room_of(n)} for p in SOURCES})


def assert_no_circles(graph: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(place: str, trail: tuple[str, ...]) -> None:
        assert place not in trail, " -> ".join([*trail, place])
        if place not in done:
            for target in graph.get(place, ()):
                visit(target, (*trail, place))
            done.add(place)

    for place in graph:
        visit(place, ())


@pytest.mark.parametrize("sdk", SDK_HOMES)
def test_each_sdk_is_imported_where_it_is_listed(sdk: str) -> None:
    """A library that could be replaced is imported only in the files listed."""
    importers = {
        module_name(p) for p in SOURCES if any(name == sdk or name.startswith(f"{sdk}.") for name in imports(p))
    }
    assert importers == SDK_HOMES[sdk]


def test_files_have_one_idea_each() -> None:
    """It opens with it. No file is past 400 lines, and half of them are under 150."""
    assert [p for p in SOURCES if p.name != "__init__.py" and ast.get_docstring(ast.parse(p.read_text())) is None] == []
    lengths = sorted(len(path.read_text().splitlines()) for path in SOURCES)
    assert lengths[-1] <= 400
    assert lengths[len(lengths) // 2] < 150


def test_folders_of_tests_are_those_of_the_code() -> None:
    """Beside them are those that ARCHITECTURE.md names."""
    tests = ROOT / "tests"
    folders = {path.relative_to(tests).parts[0] for path in tests.rglob("*/*.py")}
    assert folders - ROOMS.keys() == {"benchmarks", "docs", "engines", "fuzz", "interop", "smoke"}


def parameters(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file with the number of its parameters, ``self`` and ``cls`` aside."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            yield node.name, len([name for name in names if name not in ("self", "cls")])


def test_functions_take_at_most_six_parameters() -> None:
    """Values that belong together travel as one."""
    long = {
        (module_name(path), name)
        for path in SOURCES
        if not path.is_relative_to(ROOT / "puffin/cli")
        for name, count in parameters(path)
        if count > 6
    }
    assert long == LONG_SIGNATURES


def test_the_library_never_prints() -> None:
    """Only the command line writes to the terminal."""
    for path in SOURCES:
        if not module_name(path).startswith("puffin.cli"):
            assert not re.search(r"^\s*print\(", path.read_text(), re.MULTILINE), path
