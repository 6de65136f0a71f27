"""Print results: one JSON document, or text for a person."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from puffin.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console

    from puffin.lookup import ColumnAnswer
    from puffin.lookup.table_rows import RowsChanged

_PIECE = 1 << 20  # bytes of a list that are printed at a time
_CUT_AT = {"string": 16, "binary": 32, "fixed": 32}
"""The most characters that the JSON of a bound has, by the types whose bounds are cut."""


def print_result(result: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result's JSON document, or else lines for a person."""
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(lines)


def print_json(document: Any) -> None:
    """Print the document on stdout, indented, in UTF-8 for any locale."""
    print_bytes(_indented(document) + b"\n")


class JsonList:
    """
    A document of one list, ``{key: [...]}``, as `print_json` prints it.

    Its items wait in a temporary file, so that memory does not grow with them. Nothing is printed before the end: a
    run that fails prints no part of a document, and a reader that goes away does not stop it. StorageError if there is
    no place for that file.
    """

    def __init__(self, key: str) -> None:
        import tempfile  # slow to import, and a dump has no list

        self._key = key
        self._has_items = False
        with _errors_of_temporary_files():
            self._waiting = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is printed, or gone with the list

    def add(self, item: Any) -> None:
        """Add an item; StorageError if it cannot be written."""
        start = b",\n    " if self._has_items else f"{{\n  {json.dumps(self._key)}: [\n    ".encode()
        self._has_items = True
        with _errors_of_temporary_files():
            self._waiting.write(start + _indented(item).replace(b"\n", b"\n    "))

    def print(self) -> None:
        """Print the document; StorageError if that fails."""
        if not self._has_items:
            print_json({self._key: []})
            return
        with _errors_of_temporary_files():
            self._waiting.seek(0)  # writes what is left in memory
        while piece := self._waiting.read(_PIECE):
            print_bytes(piece)
        print_bytes(b"\n  ]\n}\n")
        self._waiting.close()


def http_url(host: str, port: int) -> str:
    """The URL of a server at a name or address."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextlib.contextmanager
def _errors_of_temporary_files() -> Iterator[None]:
    """Raise StorageError for OSError."""
    try:
        yield
    except OSError as exc:
        raise StorageError(f"temporary file: {exc.strerror}") from exc


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for a person; escape characters that would steer the terminal or cannot be shown."""
    text = "".join(f"{printable(line)}\n" for line in lines)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print_bytes(text.encode(encoding, errors="backslashreplace"))


def printable(text: str) -> str:
    """The text with escapes for characters that would steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_bytes(content: bytes) -> None:
    """Write bytes to stdout; StorageError if that fails."""
    if sys.stdout is None:
        raise StorageError("standard output: it is closed")
    try:
        click.echo(content, nl=False)
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise StorageError(f"standard output: {exc.strerror}") from exc


def error_console() -> Console:
    """The terminal of stderr, where text is not markup unless a call asks for it."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def columns_table(columns: Iterable[ColumnAnswer], snapshot_id: int | None) -> list[str]:
    """Lines with NDV and bounds of each column; a remark says if the rows of another snapshot were counted."""
    columns = list(columns)
    summarized = any(answer.summary is not None for answer in columns)
    head = ("rows", "nulls", "min", "max") if summarized else ()
    rows = [("column", "type", "ndv", "95 % bounds", *head, "")]
    for answer in columns:
        distinct = answer.distinct
        ndv = "-" if distinct is None else f"{distinct.ndv:,}"
        bounds = "" if distinct is None else "exact" if distinct.exact else f"{distinct.lower:,} to {distinct.upper:,}"
        summary = _summary(answer) if summarized else ()
        name = printable(answer.column.name)
        rows.append((name, answer.column.type, ndv, bounds, *summary, _remark(answer, snapshot_id)))
    return aligned(rows, right=range(2, len(head) + 4))


def _indented(document: Any) -> bytes:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # A lone surrogate, as in a path that is not UTF-8, becomes a JSON escape.
    return text.encode(errors="backslashreplace")


def _summary(answer: ColumnAnswer) -> tuple[str, ...]:
    summary = answer.summary
    if summary is None:
        return ("",) * 4
    counts = ("-" if count is None else f"{count:,}" for count in (summary.row_count, summary.null_count))
    cut_at = _CUT_AT.get(answer.column.type.partition("[")[0])
    return (*counts, _bound(summary.min, ">= ", cut_at), _bound(summary.max, "<= ", cut_at))


def _bound(bound: Any, sign: str, cut_at: int | None) -> str:
    """A minimum or a maximum, after a sign if it may be cut, so that no value need be equal to it."""
    text = "-" if bound is None else printable(str(bound))
    return sign + text if cut_at is not None and bound is not None and len(bound) >= cut_at else text


def _remark(answer: ColumnAnswer, snapshot_id: int | None) -> str:
    if answer.distinct is None:
        return "no statistics" if answer.reason is None else printable(answer.reason)
    if answer.stats_snapshot_id == snapshot_id:
        return ""
    behind = answer.freshness.snapshots_behind
    return f"of snapshot {answer.stats_snapshot_id}" + ("" if behind is None else f", {behind:,} behind")


def changed_since(changed: RowsChanged) -> str:
    """How a person is told that statistics are behind."""
    came = "an unknown number of rows" if changed.added is None else counted(changed.added, "row")
    went = "an unknown number" if changed.removed is None else f"{changed.removed:,}"
    return f"since the statistics were made, {came} came and {went} went"


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Rows as lines with aligned columns, never wrapped; the columns with indexes ``right`` are flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def with_catalog(table: str, catalog: str | None) -> str:
    """The name of a table after that of its catalog, if it is in one; a catalog that cannot be listed has its own."""
    return table if catalog in (None, table) else f"{catalog}: {table}"


def at_snapshot(snapshot_id: int | None) -> str:
    return "no snapshot yet" if snapshot_id is None else f"snapshot {snapshot_id}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun, whose plural is with an s unless it is given: ``"1 file"``, ``"1,200 entries"``."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def human_bytes(size: int) -> str:
    """A size for a person: ``"1.5 MiB"``."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while round(value, 1) >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def exact_bytes(size: int) -> str:
    """A size for a person who may compute with it: ``"1,536 bytes (1.5 KiB)"``."""
    return counted(size, "byte") if size < 1024 else f"{size:,} bytes ({human_bytes(size)})"
