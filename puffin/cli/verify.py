"""``puffin verify``: check files against every rule of the format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.diagnostics import first_of
from puffin.cli.options import as_json, diagnostics, stored_files
from puffin.cli.render import print_json, print_lines
from puffin.errors import PuffinError, line_about
from puffin.storage.uri import local_name

if TYPE_CHECKING:
    from puffin.inspection import Verdict


@click.command(name="verify")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, callback=stored_files)
@as_json
@diagnostics
def command(*, files: tuple[str, ...], json_output: bool) -> None:
    """
    Check Puffin files: every structural rule, every blob decompressed and decoded.

    FILE is a local path, a URI, or - for standard input. One bad file or blob does not hide the others; the exit
    code is 1 if any is invalid or cannot be read.
    """
    from puffin.inspection import verify

    verdicts = []
    for file in files:
        verdict = _with_hint(verify(file))
        verdicts.append(verdict)
        if not json_output:
            print_lines(_lines(verdict))
    if json_output:
        print_json({"files": [verdict.to_json() for verdict in verdicts]})
    failures = [line_about(verdict.path, verdict.errors[0]) for verdict in verdicts if not verdict.valid]
    unread = sum(not verdict.was_read for verdict in verdicts)
    invalid = len(failures) - unread
    if invalid:
        count = f"{invalid} of {len(files)} files invalid{f', {unread} not read' if unread else ''}"
        raise PuffinError(f"{count}: {first_of(failures)}")
    if unread:
        raise PuffinError(f"{unread} of {len(files)} files not read: {first_of(failures)}")


def _with_hint(verdict: Verdict) -> Verdict:
    """The verdict, which says what to name instead of a directory of a table."""
    local = None if verdict.was_read else local_name(verdict.path)
    if local is None or not os.path.isdir(os.path.join(local, "metadata")):  # noqa: PTH112, PTH118 - Path imports long
        return verdict
    (error,) = verdict.errors
    return verdict._replace(errors=(f"{error}; of a table, name its statistics files, such as metadata/*.stats",))


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.path}: {'ok' if verdict.valid else 'INVALID' if verdict.was_read else 'NOT READ'}"
    for error in verdict.errors:
        yield f"  {error}"
