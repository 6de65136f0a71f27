"""
The ``puffin`` command: parse, call, render.

The module of a command is imported when the command is called, and imports only what it uses, so that ``puffin dump``
starts fast. Every error becomes one line and an exit code: 1 if the command failed, 2 for wrong usage.
"""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from puffin.cli.diagnostics import Diagnostics
from puffin.cli.options import silence_logs
from puffin.errors import PuffinError, UsageError, did_you_mean

_COMMANDS = (
    *("analyze", "autopilot", "clean", "dump", "estimate", "estimate-join", "index"),
    *("ndv", "plan", "policy", "serve", "status", "verify"),
)
_SHORT = {"dump", "ndv", "verify"}  # too short for garbage collection to pay
_ENDLESS = {"autopilot", "serve"}  # whose memory has to stay flat
_GARBAGE = 400_000  # new objects between collections; importing libraries makes many, and no garbage
_QUIET = {"dump", "verify"}  # import no library that logs, except for files that are not local


def run(args: Sequence[str] | None) -> int:
    """Run the command line and return its exit code; see `puffin.cli.main`."""
    diagnostics = Diagnostics()
    code = 1
    try:
        code = _puffin.main(args, prog_name="puffin", standalone_mode=False, obj=diagnostics) or 0
    except click.ClickException as exc:
        if diagnostics.is_json:
            diagnostics.print_failure(exc.format_message(), exc)
        else:
            exc.show()
        code = exc.exit_code
    except (click.Abort, KeyboardInterrupt) as exc:
        diagnostics.print_failure("interrupted", exc)
    except BrokenPipeError:
        sys.stderr.close()
    except PuffinError as exc:
        code = 2 if isinstance(exc, UsageError) else 1
        diagnostics.print_failure(str(exc), exc)
    except Exception as exc:  # noqa: BLE001 - a user never sees a bare traceback
        diagnostics.print_failure(f"internal error, please report it with the output of --debug: {exc!r}", exc)
    return code


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"puffin.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does; an error about an unknown one names the one that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            raise click.UsageError(f"{exc.message.rstrip('.')}{did_you_mean(args[0], _COMMANDS)}", ctx) from exc

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command as click does, which writes an empty line for the KeyboardInterrupt that it sees."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as exc:
            raise click.Abort from exc


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from puffin.version import version

        click.echo(f"puffin {version()}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--version", is_flag=True, callback=_version, expose_value=False, help="Show the version and exit.")
@click.pass_context
def _puffin(ctx: click.Context) -> None:
    """NDV statistics for Iceberg and Delta tables, in Puffin files that every engine reads."""
    warnings.simplefilter("ignore")
    if ctx.invoked_subcommand not in _SHORT:
        if ctx.invoked_subcommand not in _ENDLESS:
            gc.set_threshold(_GARBAGE)
        gc.enable()
    if ctx.invoked_subcommand not in _QUIET:
        silence_logs()
