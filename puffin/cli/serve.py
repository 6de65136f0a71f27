"""``puffin serve``: the planner's lookup over HTTP."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import click

from puffin.cli.options import catalog_property, diagnostics, log_format

_MIB = 1024**2


@click.command(name="serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="NAME", help="The interface to listen at.")
@click.option("--port", default=8680, show_default=True, type=click.IntRange(0, 65535), help="0 for one that is free.")
@click.option(
    "--token-file", metavar="FILE", help="Demand the token in FILE, as Authorization: Bearer; of all but health checks."
)
@click.option(
    "--allow-root",
    "roots",
    multiple=True,
    metavar="URI",
    help="Serve the tables below this directory or URI prefix, by their paths; may be repeated.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Answer to this name too, as the header Host has it; at a loopback interface only its own names are "
    "answered. May be repeated.",
)
@click.option("--catalog", metavar="NAME", help="Serve the tables of this pyiceberg catalog, by their names.")
@catalog_property
@click.option(
    "--ttl",
    default=5.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long an answer counts before the table is asked whether anything was committed.",
)
@click.option(
    "--timeout",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long storage may take to answer one request.",
)
@click.option(
    "--max-body",
    default=_MIB,
    show_default=True,
    type=click.IntRange(1, 64 * _MIB),
    metavar="BYTES",
    help="Of a request.",
)
@click.option(
    "--max-requests",
    default=256,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Requests worked on at once; those answered from memory and idle connections do not count.",
)
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
    catalog: str | None,
    catalog_properties: dict[str, str],
    ttl: float,
    timeout: float,
    max_body: int,
    max_requests: int,
) -> None:
    """
    Answer planners over HTTP, and show people a page.

    Nothing is served but what --allow-root and --catalog name. SIGTERM or Ctrl+C finishes what runs.
    """
    from puffin.server.settings import Limits, Settings, read_token

    settings = Settings(
        roots=roots,
        catalog=catalog,
        catalog_properties=catalog_properties,
        token=None if token_file is None else read_token(token_file),
        ttl_seconds=ttl,
        hosts=hosts,
        limits=Limits(body=max_body, running=max_requests, request_seconds=timeout),
    )
    try:
        from puffin.server.process import serve
    except ImportError as exc:
        from puffin.errors import MissingDependencyError

        raise MissingDependencyError(exc.name or "fastapi", "server") from exc
    serve(settings, host, port, functools.partial(_announce, ctx.find_root().obj))


def _announce(settings: Mapping[str, Any], host: str, port: int) -> None:
    message = f"serving at http://{f'[{host}]' if ':' in host else host}:{port}"
    if settings.get("log-format") == "json":
        from puffin.cli.logs import announcement

        message = announcement(message)
    click.echo(message, err=True)
