"""``puffin serve``: the planner's lookup over HTTP."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.diagnostics import Diagnostics, diagnostics_of
from puffin.cli.logs import errors_shown
from puffin.cli.options import as_json, catalog_property, check_catalog, diagnostics, is_number, log_format
from puffin.cli.render import http_url

if TYPE_CHECKING:
    from puffin.autopilot.events import Event
    from puffin.autopilot.pilot import Autopilot
    from puffin.policy.model import Policy

_MIB = 1024**2


@click.command(name="serve")
@click.option("--host", default="127.0.0.1", metavar="NAME", help="Interface to listen on.")
@click.option("--port", default=8680, type=click.IntRange(0, 65535), help="0 picks a free port.")
@click.option(
    "--token-file", metavar="FILE", help="Require the token in FILE (Authorization: Bearer), except for health checks."
)
@click.option(
    "--allow-root",
    "roots",
    multiple=True,
    metavar="URI",
    help="Serve tables below this directory or URI prefix, by path; may be repeated.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Also answer requests whose Host header has this name; by default a loopback interface answers only its own "
    "names. May be repeated.",
)
@click.option(
    "--iceberg", is_flag=True, help="Also serve the Iceberg tables as a REST catalog that plans scans, at /iceberg."
)
@click.option(
    "--catalog",
    "catalogs",
    multiple=True,
    metavar="NAME",
    help="Serve tables of this pyiceberg catalog, by name. May be repeated: tables of the others are named "
    "NAME:namespace.table, and a client of --iceberg chooses a catalog by warehouse=NAME.",
)
@catalog_property
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    help="Also run the autopilot with this policy, in this process; without --allow-root and --catalog, serve its "
    "roots and the whole of its catalogs.",
)
@click.option(
    "--ttl",
    default=5.0,
    type=click.FloatRange(min=0),
    callback=is_number,
    metavar="SECONDS",
    help="How long an answer is reused before the table is checked for commits.",
)
@click.option(
    "--timeout",
    default=10.0,
    type=click.FloatRange(min=0, min_open=True),
    callback=is_number,
    metavar="SECONDS",
    help="How long storage may take to answer one request.",
)
@click.option(
    "--max-body",
    default=_MIB,
    type=click.IntRange(1, 64 * _MIB),
    metavar="BYTES",
    help="Largest request body.",
)
@click.option(
    "--max-requests",
    default=256,
    type=click.IntRange(min=1),
    metavar="N",
    help="Most requests at once, not counting idle connections and answers from memory.",
)
@as_json
@log_format
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    *,
    host: str,
    port: int,
    token_file: str | None,
    roots: tuple[str, ...],
    hosts: tuple[str, ...],
    iceberg: bool,
    catalogs: tuple[str, ...],
    catalog_properties: dict[str, str],
    policy_file: str | None,
    ttl: float,
    timeout: float,
    max_body: int,
    max_requests: int,
    json_output: bool,
) -> None:
    """
    Answer planners over HTTP, and show people a page.

    Only tables of --allow-root and --catalog are served; without these, those of --policy. SIGTERM or Ctrl+C finishes
    running requests, then stops.
    """
    ctx.with_resource(_sigterm_ends())
    if not (roots or catalogs or policy_file is not None):
        raise click.UsageError("expected --allow-root, --catalog or --policy: nothing else is served")
    check_catalog(catalogs, catalog_properties)
    from puffin.server.settings import Limits, Settings, check_warehouses, read_token

    stderr, pilot = diagnostics_of(ctx), None
    served = dict.fromkeys(catalogs, catalog_properties)
    if policy_file is not None:
        pilot = _autopilot(policy_file, stderr)
        if not (roots or catalogs):
            roots, served = _covered(pilot.policy)
            catalogs = tuple(served)
    if len(catalogs) > 1:
        check_warehouses(catalogs)
    settings = Settings(
        roots=roots,
        catalog=next(iter(catalogs), None),
        catalog_properties=next(iter(served.values()), {}),
        warehouses={name: served[name] for name in catalogs[1:]},
        token=None if token_file is None else read_token(token_file),
        ttl_seconds=ttl,
        hosts=hosts,
        iceberg=iceberg,
        **({} if pilot is None else _autopilot_settings(pilot)),
        limits=Limits(body=max_body, running=max_requests, request_seconds=timeout),
    )
    try:
        from puffin.server.process import serve
    except ImportError as exc:
        from puffin.errors import MissingDependencyError

        raise MissingDependencyError(exc.name or "fastapi", "server") from exc
    announce = functools.partial(_announce, stderr, is_guarded=settings.token is not None, as_json=json_output)
    if pilot is None:
        serve(settings, host, port, announce)
        return
    from puffin.cli.autopilot import alongside_server

    with errors_shown("puffin.autopilot", stderr), alongside_server(pilot) as start:

        def begin(address: str, bound: int) -> None:
            announce(address, bound)
            start()

        serve(settings, host, port, begin)


@contextlib.contextmanager
def _sigterm_ends() -> Iterator[None]:
    """Have SIGTERM end the process with exit code 0; once it serves, the server handles it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _autopilot(file: str, stderr: Diagnostics) -> Autopilot:
    """The autopilot of a policy file; its runs are told on stderr, by the log if that is shown."""
    from puffin.autopilot.pilot import Autopilot
    from puffin.policy.document import read_policy

    listener = None if stderr.verbose else functools.partial(_tell, stderr)
    return Autopilot(read_policy(file), listener, verbose=stderr.spark_may_print)


def _tell(stderr: Diagnostics, event: Event) -> None:
    from puffin.cli.autopilot import run_line

    if event.outcome != "failed" or not stderr.is_json:  # as JSON, failures have their lines in the log
        stderr.print_message(run_line(event), table=event.table)


def _autopilot_settings(pilot: Autopilot) -> dict[str, Any]:
    """What server and autopilot tell each other, as settings of the server."""
    return {"more_metrics": pilot.counts.render, "verdicts": pilot.last, "asked": pilot.asked.add}


def _covered(policy: Policy) -> tuple[tuple[str, ...], dict[str, dict[str, str]]]:
    """The roots and the catalogs of a policy, these with their properties."""
    roots = tuple(root if ":" in root else str(Path(root).absolute()) for root in policy.roots)
    return roots, {catalog.name: dict(catalog.properties) for catalog in policy.catalogs}


def _announce(stderr: Diagnostics, host: str, port: int, *, is_guarded: bool, as_json: bool) -> None:
    from puffin.server.hosts import is_loopback

    url = http_url(host, port)
    if as_json:
        from puffin.cli.render import print_json

        print_json({"url": url, "host": host, "port": port})
    stderr.print_message(f"serving at {url}")
    if not is_guarded and not is_loopback(host):
        stderr.print_message("no --token-file: whoever reaches this address can read statistics")
