"""Options that several commands share, and their parsers."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from puffin.cli.diagnostics import diagnostics_of
from puffin.errors import UsageError

if TYPE_CHECKING:
    from puffin.policy.model import Policy
    from puffin.tables.snapshot import Table

_NUMBER = re.compile(r"[0-9]{1,18}")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Files = TypeVar("_Files", str, tuple[str, ...])


def diagnostics(command: _Command) -> _Command:
    """``--debug`` and ``--verbose``."""
    verbose = click.option("--verbose", is_flag=True, expose_value=False, callback=_set_verbose, help="Log to stderr.")
    debug = click.option("--debug", is_flag=True, expose_value=False, callback=_keep, help="Show tracebacks.")
    return debug(verbose(command))


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogChoice:
    """The catalog of a call, with properties that override its configuration; None if tables are paths and URIs."""

    name: str | None
    properties: Mapping[str, str]

    @property
    def arguments(self) -> dict[str, Any]:
        """The catalog, as arguments of functions that take names of tables."""
        return {"catalog": self.name, "catalog_properties": self.properties}

    def load(self, table: str) -> Table:
        from puffin.load import load_table

        return load_table(table, **self.arguments)


def of_catalog(command: _Command) -> _Command:
    """``--catalog`` and ``--catalog-property``, as one ``catalog``."""

    @catalog_property
    @click.option("--catalog", metavar="NAME", help="Tables are named namespace.table, in this pyiceberg catalog.")
    @functools.wraps(command)
    def with_catalog(*args: Any, catalog: str | None, catalog_properties: dict[str, str], **kwargs: Any) -> Any:
        check_catalog(catalog, catalog_properties)
        return command(*args, catalog=CatalogChoice(catalog, catalog_properties), **kwargs)

    return with_catalog  # type: ignore[return-value]  # wraps() loses the type of the command


def check_catalog(catalog: str | tuple[str, ...] | None, catalog_properties: dict[str, str]) -> None:
    """Raise UsageError if there are properties of no catalog."""
    if catalog_properties and not catalog:
        raise UsageError("--catalog-property needs --catalog")


def in_policy(command: _Command) -> _Command:
    """``--catalog`` and ``--catalog-property`` of a policy, as one ``narrowed``, which takes the policy."""

    @click.option("--catalog", metavar="NAME", help="Only tables of this catalog of the policy.")
    @catalog_property
    @functools.wraps(command)
    def with_narrowed(*args: Any, catalog: str | None, catalog_properties: dict[str, str], **kwargs: Any) -> Any:
        check_catalog(catalog, catalog_properties)

        def narrowed(policy: Policy) -> Policy:
            return policy if catalog is None else policy.within(catalog, catalog_properties)

        return command(*args, narrowed=narrowed, **kwargs)

    return with_narrowed  # type: ignore[return-value]  # wraps() loses the type of the command


def of_snapshot(command: _Command) -> _Command:
    """``--snapshot-id``, ``--ref`` and ``--as-of``, as one ``selector``."""

    @click.option(
        "--as-of",
        metavar="TIMESTAMP",
        callback=_timestamp_ms,
        help="The snapshot that was current then: ISO 8601 with a zone, e.g. 2024-01-02T03:04:05Z.",
    )
    @click.option("--ref", metavar="NAME", help="The snapshot of a branch or tag.")
    @click.option("--snapshot-id", type=int, metavar="N", help="The snapshot; the current one by default.")
    @functools.wraps(command)
    def with_selector(*args: Any, snapshot_id: int | None, ref: str | None, as_of: int | None, **kwargs: Any) -> Any:
        from puffin.tables.base import SnapshotSelector

        if sum(given is not None for given in (snapshot_id, ref, as_of)) > 1:
            raise click.UsageError("--snapshot-id, --ref and --as-of exclude each other")
        selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of)
        return command(*args, selector=selector, **kwargs)

    return with_selector  # type: ignore[return-value]  # wraps() loses the type of the command


def stored_files(_: click.Context, __: click.Parameter, files: _Files) -> _Files:
    """Return the file names as given; silence libraries if a file is remote."""
    from puffin.storage.uri import split

    if any(split(file) for file in ([files] if isinstance(files, str) else files)):
        silence_logs()
    return files


def silence_logs() -> None:
    """Keep log messages of libraries off stderr."""
    import logging

    logging.getLogger().addHandler(logging.NullHandler())


def is_number(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse ``nan``, which passes every check of a range."""
    if math.isnan(value):
        raise click.BadParameter("expected a number, found nan", param=parameter)
    return value


def column_names(_: click.Context, parameter: click.Parameter, values: Iterable[str]) -> tuple[str, ...] | None:
    """Parse names given one by one or separated by commas, with or without blanks; None if the option is not given."""
    values = tuple(values)
    names = tuple(name for value in values for part in value.split(",") if (name := part.strip()))
    if values and not names:  # such as an empty variable of a shell: it may not mean every column
        raise click.BadParameter(f"expected names of columns, found {','.join(values)!r}", param=parameter)
    return names or None


def key_values(_: click.Context, parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """Parse ``K=V`` pairs; the last one of a key counts."""
    pairs = [value.partition("=") for value in values]
    for key, equals, _value in pairs:
        if not key or not equals:
            raise click.BadParameter(f"expected K=V, found {key!r}", param=parameter)
    return {key: value for key, _, value in pairs}


def duration(_: click.Context, parameter: click.Parameter, text: str) -> datetime.timedelta:
    """Parse a whole number of seconds, minutes, hours or days."""
    from puffin.policy.quantities import seconds

    with _as_in_policy(parameter, text):
        return datetime.timedelta(seconds=seconds(text))


def byte_size(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse a number of bytes, or a size as in a policy file: ``256 MiB``."""
    if text is None or _NUMBER.fullmatch(text):
        return None if text is None else int(text)
    from puffin.policy.quantities import size

    with _as_in_policy(parameter, text, also="a number of bytes, or "):
        return size(text)


def _connect_url(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith("sc://"):
        raise click.BadParameter(f"expected sc://HOST:PORT, found {url.partition(';')[0]!r}", param=parameter)
    return url


@contextlib.contextmanager
def _as_in_policy(parameter: click.Parameter, text: str, also: str = "") -> Iterator[None]:
    """Report a text that a parser of policy files refuses, and what the option takes ``also``."""
    from puffin.policy.yaml_nodes import WrongValue

    try:
        yield
    except WrongValue as exc:
        raise click.BadParameter(f"expected {also}{exc}, found {text!r}", param=parameter) from exc


def _timestamp_ms(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.datetime.fromisoformat(_as_python_3_10_reads_it(text))
    except ValueError as exc:
        raise click.BadParameter(f"expected an ISO 8601 timestamp, found {text!r}", param=parameter) from exc
    if at.tzinfo is None:
        raise click.BadParameter(f"expected a timestamp with a zone, found {text!r}", param=parameter)
    return (at - _EPOCH) // datetime.timedelta(milliseconds=1)  # what came later in that millisecond was not current


def _as_python_3_10_reads_it(timestamp: str) -> str:
    """The same ISO 8601 timestamp, where it has them, with six digits of a second and minutes in its zone."""
    text = re.sub(r"[.,]([0-9]+)", lambda found: f".{found[1]:0<6.6}", timestamp.replace("Z", "+00:00"))
    return re.sub(r"(:[0-9.]+[+-][0-9]{2})([0-9]{2})?$", lambda found: f"{found[1]}:{found[2] or '00'}", text)


def _set_verbose(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from puffin.cli.logs import log_to_stderr

        diagnostics_of(ctx).verbose = True
        log_to_stderr(as_json=diagnostics_of(ctx).is_json)


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep the value of an option in the field of its name."""
    setattr(diagnostics_of(ctx), str(parameter.name), value)


as_json = click.option("--json", "json_output", is_flag=True, help="One JSON document on stdout.")
catalog_property = click.option(
    "--catalog-property",
    "catalog_properties",
    multiple=True,
    metavar="K=V",
    callback=key_values,
    help="A property of the catalog; may be repeated.",
)
of_home = click.option(
    "--home",
    metavar="URI",
    help="Directory for private state; by default the table property puffin-sidecar.home, or a hidden folder of the "
    "table.",
)
of_remote = click.option(
    "--remote",
    metavar="URL",
    callback=_connect_url,
    help="Spark Connect server instead of a master: sc://HOST:PORT.",
)
log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    is_eager=True,  # before --verbose, which needs it
    expose_value=False,
    callback=_keep,
    help="Format of stderr: text for people, or a JSON object per line, failures included.",
)


def by_name(command: _Command) -> _Command:
    """The options ``include`` and ``exclude``, patterns as `puffin.lookup.places.NamePatterns` takes them."""
    include = click.option(
        "--include",
        multiple=True,
        metavar="PATTERN",
        help="Only tables whose name matches: * stands for any characters, ? for one, [ab] for either. The name is "
        "what follows the namespace, or the last part of a path; case matters. May be repeated.",
    )
    exclude = click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Skip tables whose name matches, even if --include matches it too. May be repeated.",
    )
    return include(exclude(command))
