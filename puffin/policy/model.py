"""The values of a policy file."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from puffin.errors import UsageError
from puffin.policy.quantities import Hours, shown_seconds, shown_share, zone_of

DAY = 86_400
MIB = 1024 * 1024
WIN, NARROW, IGNORED = "win", "narrow", "ignored"


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogPlace:
    """A catalog in pyiceberg's configuration, properties that override it, and patterns of its namespaces."""

    name: str
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespaces: tuple[str, ...] = ("*",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """
    When a table is due: as soon as one of the conditions holds, and never if ``never``.

    Attributes:
        rows_changed: The share of its rows in files that came or went since its statistics, from 0 to 1.
        snapshots: How many snapshots have changed its rows since.
        age: Seconds since the snapshot of its statistics, if anything is to be done.
        index_files: How many files its index lacks.
        at_most_every: Seconds from the snapshot of its statistics, or from the last run, to the next run.
    """

    never: bool = False
    rows_changed: float | None = 0.1
    snapshots: int | None = None
    age: int | None = 7 * DAY
    index_files: int | None = 1
    at_most_every: int = 15 * 60

    def to_json(self) -> dict[str, Any]:
        return {name.replace("_", "-"): value for name, value in dataclasses.asdict(self).items()}

    def __str__(self) -> str:
        if self.never:
            return "never"
        limits = [
            None if self.rows_changed is None else f"{shown_share(self.rows_changed)} of the rows in changed files",
            None if self.snapshots is None else f"{self.snapshots:,} snapshots behind",
            None if self.age is None else f"statistics {shown_seconds(self.age)} old",
            {None: None, 1: "the index lacks a file"}.get(
                self.index_files, f"the index lacks {self.index_files or 0:,} files"
            ),
        ]
        conditions = " or ".join(each for each in limits if each) or "there are no statistics"
        return f"{conditions}, at most every {shown_seconds(self.at_most_every)}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    What holds for the tables whose names match one of ``tables``.

    Attributes:
        line: Where the rule begins in its file; 0 for the one that holds without rules.
        places: Names of catalogs and roots that the rule is limited to; empty for all.
        columns, index_columns: Patterns of column names; no ``columns`` mean every column.
        no_values: Patterns of the columns whose values must not stand in statistics.
        joint: Sets of columns, ``a+b``.
        keep_entries: How many statistics entries of ours the table's metadata keeps; None for all.
        owners: What properties that owners set on a table do: ``"win"``, ``"narrow"`` or ``"ignored"``.
    """

    line: int = 0
    tables: tuple[str, ...] = ("*",)
    places: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    partitions: bool = False
    joint: tuple[str, ...] = ()
    no_values: tuple[str, ...] = ()
    index_columns: tuple[str, ...] = ()
    index_fpp: float | None = None
    keep_entries: int | None = None
    due: Due = dataclasses.field(default_factory=Due)
    owners: str = WIN

    def covers(self, place: str, table: str) -> bool:
        is_in = not self.places or place in self.places
        return is_in and any(fnmatchcase(table, pattern) for pattern in self.tables)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How much may be done.

    Attributes:
        bytes_per_day: From midnight to midnight in ``time_zone``; None for no limit.
        hours: When runs may start; None for always.
        driver_bytes: Tables with at most so much to read are read without Spark.
    """

    bytes_per_day: int | None = None
    tables_at_once: int = 4
    hours: Hours | None = None
    time_zone: str = "UTC"
    driver_bytes: int = 1024 * MIB

    def local(self, now: datetime.datetime) -> datetime.datetime:
        return now.astimezone(zone_of(self.time_zone))

    def day(self, now: datetime.datetime) -> str:
        """The day that bytes read now count for."""
        return self.local(now).date().isoformat()

    def may_start(self, now: datetime.datetime) -> bool:
        return self.hours is None or self.local(now) in self.hours


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkSize:
    """The session for tables with at least ``from_bytes`` to read: of a master, or of a Spark Connect server."""

    from_bytes: int = 0
    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkUse:
    """The sessions by size, smallest first, and after how many seconds without work a session ends."""

    sizes: tuple[SparkSize, ...] = (SparkSize(),)
    idle: int = 600

    def size_for(self, size: int) -> SparkSize:
        """The session for a table with this many bytes to read."""
        return next((each for each in reversed(self.sizes) if size >= each.from_bytes), self.sizes[0])


@dataclasses.dataclass(frozen=True, slots=True)
class CleaningSchedule:
    """How often a table is cleaned, and the age of the files that go, in seconds."""

    every: int
    older_than: int = 7 * DAY


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """Seconds that a failed table waits: twice as many after each failure, up to the most."""

    first: int = 300
    most: int = DAY

    def wait(self, failures: int) -> int:
        return min(self.most, self.first << min(failures - 1, 30))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """
    A policy file.

    Attributes:
        roots: Directories with tables. A relative path starts at the directory of the file.
        look_every: Seconds between looks at all tables.
        state: A local directory that keeps what was spent, run and failed; None for memory alone.
        event_file, event_webhook: Where an event for each run goes.
        questions: A file or URL with the answer of ``GET /v1/plans`` of a server, which says what planners ask for.
    """

    file: str
    catalogs: tuple[CatalogPlace, ...] = ()
    roots: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = (Rule(),)
    limits: Limits = dataclasses.field(default_factory=Limits)
    spark: SparkUse = dataclasses.field(default_factory=SparkUse)
    clean: CleaningSchedule | None = None
    retry: Retry = dataclasses.field(default_factory=Retry)
    look_every: int = 300
    state: str | None = None
    event_file: str | None = None
    event_webhook: str | None = None
    questions: str | None = None

    def rule_for(self, names: Iterable[tuple[str, str]]) -> Rule | None:
        """
        The first rule that covers a table by one of its names; None if there is none.

        A name is a place with the name of the table there. Below roots that lie within each other a table has several.
        """
        known = tuple(names)
        return next((rule for rule in self.rules if any(rule.covers(*name) for name in known)), None)

    def over_connect(self, remote: str) -> Policy:
        """The policy with one Spark Connect server for tables of every size."""
        return dataclasses.replace(self, spark=dataclasses.replace(self.spark, sizes=(SparkSize(remote=remote),)))

    def within(self, catalog: str, properties: Mapping[str, str]) -> Policy:
        """The policy for one of its catalogs alone, opened with these properties too; UsageError if it has no such."""
        found = next((each for each in self.catalogs if each.name == catalog), None)
        if found is None:
            known = ", ".join(each.name for each in self.catalogs) or "none"
            raise UsageError(f"{self.file}: expected a catalog of the policy ({known}), found {catalog!r}")
        only = dataclasses.replace(found, properties={**found.properties, **properties})
        return dataclasses.replace(self, catalogs=(only,), roots=())
