"""What a command tells on stderr beside its result: ``--log-format``, ``--verbose``, ``--debug``, and failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import click

from puffin.cli.render import printable

_MOST_REASONS = 3  # in the line of a failure


@dataclasses.dataclass(slots=True)
class Diagnostics:
    """
    The options about stderr, kept as they are parsed, so that the failure of a later option is told in their format.

    Attributes:
        log_format: ``text`` for people, or ``json`` for programs.
        verbose: Whether all log records go to stderr.
        debug: Whether failures come with their tracebacks.
        table: The only table of the call, once it is known.
    """

    log_format: str = "text"
    verbose: bool = False
    debug: bool = False
    table: str | None = None

    @property
    def is_json(self) -> bool:
        """Whether stderr is for programs: a JSON object per line, and no progress bars."""
        return self.log_format == "json"

    @property
    def spark_may_print(self) -> bool:
        """Whether Spark may print to stderr, which it does in text."""
        return self.verbose and not self.is_json

    def print_message(self, message: str, *, table: str | None = None) -> None:
        """Print a line about what the command does; ``table`` is the one it is about."""
        if self.is_json:
            from puffin.cli.logs import json_line

            click.echo(json_line(message, table=table), err=True)
        else:
            click.echo(printable(message), err=True)

    def print_failure(self, message: str, exc: BaseException | None = None, *, table: str | None = None) -> None:
        """Print a failure as one line, after a traceback for ``--debug``; ``table`` is the one it is about."""
        message = " ".join(message.split())
        if self.is_json:
            from puffin.cli.logs import failure

            click.echo(failure(message, exc, table=table or self.table, debug=self.debug), err=True)
            return
        if self.debug and exc is not None:
            import traceback

            traceback.print_exception(exc)
        click.echo(f"puffin: {printable(message)}", err=True)


def diagnostics_of(ctx: click.Context) -> Diagnostics:
    """The diagnostics of the running command."""
    found: Diagnostics = ctx.find_root().obj
    return found


def fail_if_any(ctx: click.Context, failures: Sequence[str], total: int, *, see: str = "") -> None:
    """
    End the command with exit code 1 if some of its tables failed, after a line that says how many and why.

    Args:
        failures: What is wrong with each, in one line that begins with its name.
        see: What shows those that the line leaves out, if stdout does not.
    """
    if failures:
        diagnostics = diagnostics_of(ctx)
        why = "" if diagnostics.is_json else f": {first_of(failures, see=see)}"  # as JSON each has a line
        diagnostics.print_failure(f"{len(failures)} of {total} tables failed{why}")
        ctx.exit(1)


def first_of(failures: Sequence[str], *, see: str = "") -> str:
    """The first few failures, and how many more there are, in one line."""
    more = len(failures) - _MOST_REASONS
    return "; ".join([*failures[:_MOST_REASONS], *([f"and {more} more{see and f', see {see}'}"] if more > 0 else [])])
