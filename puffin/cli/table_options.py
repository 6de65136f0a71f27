"""Options of ``puffin analyze`` and ``puffin index``: which tables, and how to run the job on them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from puffin.cli.options import (
    CatalogChoice,
    as_json,
    by_name,
    byte_size,
    diagnostics,
    key_values,
    log_format,
    of_catalog,
    of_home,
    of_remote,
)

if TYPE_CHECKING:
    from puffin.tables.snapshot import Table
    from stats_jobs import SparkStarter

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of `of_tables`: which tables, and how to run the job on them."""

    tables: tuple[str, ...]
    catalog: CatalogChoice
    spark_tables: tuple[str, ...]
    namespace: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    only_stale: bool
    driver_bytes: int | None
    master: str | None
    remote: str | None
    conf: Mapping[str, str]
    summary: str | None
    json_output: bool

    @property
    def is_one(self) -> bool:
        """Whether the call names a single table."""
        is_a_choice = self.namespace is not None or self.include or self.exclude or self.only_stale
        return len(self.tables) + len(self.spark_tables) == 1 and not is_a_choice

    @property
    def limits(self) -> dict[str, Any]:
        """The limit on what is read without Spark, as an option of jobs, if one was given."""
        return {} if self.driver_bytes is None else {"driver_bytes": self.driver_bytes}

    def names(self) -> list[str]:
        """The names of the wanted tables; UsageError of click if the options contradict each other."""
        if self.remote is not None and (self.master is not None or self.spark_tables):
            raise click.UsageError("expected --remote without --master and --spark-table")
        if not (self.tables or self.spark_tables or self.namespace is not None):
            raise click.UsageError(
                "expected TABLE..., --spark-table or --namespace; puffin autopilot takes every table of a catalog"
            )
        return [name for name in self._found() if self.wants(name, dotted=self.catalog.name is not None)]

    def wants(self, table: str, *, dotted: bool) -> bool:
        """Whether the patterns take a table; ``dotted`` if it has the name of a catalog's table."""
        from puffin.lookup.places import NamePatterns

        return NamePatterns(self.include, self.exclude).take(table, dotted=dotted)

    def of_spark(self, spark: SparkStarter) -> list[Table]:
        """The wanted tables of Spark's catalogs."""
        if not self.spark_tables:
            return []
        from stats_jobs import SparkTable

        tables = [SparkTable(name, spark) for name in dict.fromkeys(self.spark_tables)]
        return [table for table in tables if self.wants(table.name, dotted=True)]

    def _found(self) -> Iterable[str]:
        if self.tables and self.namespace is not None:
            raise click.UsageError("expected either TABLE... or --namespace")
        if self.namespace is None:
            return dict.fromkeys(self.tables)  # without duplicates
        if self.catalog.name is None:
            raise click.UsageError("--namespace needs --catalog")
        from puffin.load import Tables

        return Tables(self.catalog.name, self.catalog.properties).of_namespace(self.namespace)


def of_tables(verb: str, stale: str) -> Callable[[_Command], _Command]:
    """
    The options that choose tables; the command gets them, and those of `how_to_run`, as ``chosen``.

    ``verb`` is what the job does to tables, ``stale`` what ``--only-stale`` looks at.
    """

    def decorated(command: _Command) -> _Command:
        fields = [field.name for field in dataclasses.fields(TableOptions)]

        @functools.wraps(command)
        def with_chosen(*args: Any, **given: Any) -> Any:
            chosen = TableOptions(**{name: given.pop(name) for name in fields})
            return command(*args, chosen=chosen, **given)

        wrapped: Any = with_chosen
        for option in reversed(_options(verb, stale)):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorated


def how_to_run(command: _Command) -> _Command:
    """The options of `TableOptions` about the run, which stand below a command's own."""
    wrapped: Any = command
    for option in reversed(
        (
            of_home,
            click.option(
                "--driver-bytes",
                callback=byte_size,
                metavar="SIZE",
                help="Read up to this many bytes of files without starting Spark, as a number or such as 1GiB, which "
                "is the default; 0 to use Spark always.",
            ),
            click.option("--master", metavar="URL", help="Spark master; by default every core of this machine."),
            of_remote,
            click.option(
                "--conf",
                multiple=True,
                callback=key_values,
                metavar="K=V",
                help="Spark configuration; may be repeated.",
            ),
            click.option("--dry-run", is_flag=True, help="Compute only; write nothing."),
            click.option("--summary", metavar="FILE", help="Append a JSON line for each table to this local file."),
            as_json,
            log_format,
            diagnostics,
        )
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _options(verb: str, stale: str) -> list[Callable[[Any], Any]]:
    return [
        click.argument("tables", nargs=-1, metavar="TABLE..."),
        of_catalog,
        click.option(
            "--spark-table",
            "spark_tables",
            multiple=True,
            metavar="CATALOG.NS.TABLE",
            help="An Iceberg table of a catalog that Spark is configured with, by --conf or spark-submit; may be "
            "repeated.",
        ),
        click.option(
            "--namespace",
            metavar="NS",
            help=f"{verb} every table of this catalog namespace, and not of those below it.",
        ),
        by_name,
        click.option("--only-stale", is_flag=True, help=f"Skip tables whose {stale} up to date."),
    ]
