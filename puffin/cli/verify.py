"""``puffin verify``: check files against every rule of the format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.diagnostics import first_of
from puffin.cli.options import as_json, diagnostics, stored_files
from puffin.cli.render import print_json, print_lines
from puffin.errors import PuffinError, line_about

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
        verdict = verify(file)
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


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.path}: {'ok' if verdict.valid else 'INVALID' if verdict.was_read else 'NOT READ'}"
    for error in verdict.errors:
        yield f"  {error}"
