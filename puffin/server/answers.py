"""The answers of the HTTP interface, as its OpenAPI document describes them; the library makes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from puffin.server.documents import Document


class ColumnDocument(Document):
    """What is known of a column; null where nothing is."""

    column: str
    field_id: int
    type: str = Field(description="As in appendix C of the Iceberg specification.")
    ndv: int | None = Field(description="The estimated number of distinct values.")
    lower: int | None = Field(description="Of the 95 % confidence interval.")
    upper: int | None
    exact: bool = Field(description="Whether it was counted and not estimated.")
    stats_snapshot_id: int | None = Field(description="The snapshot whose rows were counted.")
    source: Literal["snapshot", "ancestor", "missing"]
    row_count: int | None = None
    null_count: int | None = None
    nan_count: int | None = None
    min: Any = Field(None, description="In JSON single-value form; of long strings, a lower bound.")
    max: Any = Field(None, description="In JSON single-value form; of long strings, an upper bound.")
    avg_bytes: float | None = None
    snapshots_behind: int | None = None
    records_added: int | None = None
    records_deleted: int | None = None
    reason: str | None = Field(None, description="Why statistics that are there do not count.")


class TableDocument(Document):
    """The answers for one snapshot of a table."""

    table: str
    format: Literal["iceberg", "delta"]
    snapshot_id: int | None = Field(description="Null while the table has none.")
    columns: list[ColumnDocument]


class ProblemDocument(Document):
    """What is wrong with a request (RFC 9457)."""

    type: str = Field(description="`urn:puffin-sidecar:problem:` and the kind of problem; stable.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path of the request; in a batch, with the place of the question in it.")


class BatchDocument(Document):
    """An answer, or what is wrong, for each question, in their order."""

    results: list[TableDocument | ProblemDocument]


class SideDocument(Document):
    """One side of a join."""

    table: str
    column: str
    ndv: int
    row_count: int | None


class MethodDocument(Document):
    """How the rows of a predicate were found."""

    predicate: str
    method: str


class JoinDocument(Document):
    """What two columns have in common, and what an equi-join over them gives; null where that is not known."""

    left: SideDocument
    right: SideDocument
    overlap_ndv: int | None = Field(description="Null for a join on several columns.")
    overlap_lower: int | None = Field(description="Of the 95 % confidence interval.")
    overlap_upper: int | None
    containment_left: float | None
    containment_right: float | None
    jaccard: float | None
    join_rows: int | None
    join_lower: int | None = Field(description="Of the 95 % bounds.")
    join_upper: int | None
    selectivity: float | None = Field(None, description="The rows of the join, of all pairs of rows of both tables.")
    method: str | None = Field(None, description="What the rows were estimated from.")
    left_rows: int | None = Field(None, description="The rows of the side after its filter.")
    left_lower: int | None = Field(None, description="Of the 95 % bounds.")
    left_upper: int | None = None
    left_semi_rows: int | None = Field(None, description="The rows of the side that have a partner.")
    left_semi_lower: int | None = None
    left_semi_upper: int | None = None
    left_anti_rows: int | None = Field(None, description="The rows of the side that have none.")
    left_anti_lower: int | None = None
    left_anti_upper: int | None = None
    left_outer_rows: int | None = Field(None, description="The rows of the outer join that keeps all of the side.")
    left_outer_lower: int | None = None
    left_outer_upper: int | None = None
    right_rows: int | None = None
    right_lower: int | None = None
    right_upper: int | None = None
    right_semi_rows: int | None = None
    right_semi_lower: int | None = None
    right_semi_upper: int | None = None
    right_anti_rows: int | None = None
    right_anti_lower: int | None = None
    right_anti_upper: int | None = None
    right_outer_rows: int | None = None
    right_outer_lower: int | None = None
    right_outer_upper: int | None = None
    left_methods: list[MethodDocument] = Field([], description="Of the predicates of the filter of the side.")
    right_methods: list[MethodDocument] = Field([])
    left_snapshots_behind: int | None = Field(None, description="Of the oldest statistics that answered for the side.")
    left_records_added: int | None = None
    left_records_deleted: int | None = None
    right_snapshots_behind: int | None = None
    right_records_added: int | None = None
    right_records_deleted: int | None = None


class EstimateDocument(Document):
    """The rows that a filter leaves, and the groups that a grouping makes."""

    table: str
    format: Literal["iceberg", "delta"]
    snapshot_id: int | None
    where: str | None
    group_by: list[str] | None
    row_count: int = Field(description="The rows of the table.")
    rows: int
    lower: int = Field(description="Of the 95 % bounds.")
    upper: int
    selectivity: float
    groups: int | None = Field(description="Null without a grouping.")
    groups_lower: int | None
    groups_upper: int | None
    groups_method: str | None
    snapshots_behind: int | None = Field(
        None, description="Of the oldest statistics of the columns asked for; null without, or if unknown."
    )
    records_added: int | None = None
    records_deleted: int | None = None
    methods: list[MethodDocument]


class PrunedDocument(Document):
    """How many files were left out, each at the first step that excludes it."""

    partition: int
    bounds: int
    index: int


class PlannedIndexDocument(Document):
    """The part of an index in a plan."""

    columns: list[str] = Field(description="The columns of the filter that have an index.")
    files_covered: int = Field(description="Files that the index has for all of them.")


class DeleteFileDocument(Document):
    """A file that says which rows of a data file are deleted."""

    path: str
    content: Literal["POSITION_DELETES", "EQUALITY_DELETES"]


class PlannedFileDocument(Document):
    """A data file that can hold matching rows."""

    path: str
    format: str
    record_count: int
    file_size_in_bytes: int
    spec_id: int
    partition: dict[str, Any] = Field(
        description="Values by field, in JSON single-value form; NaN and infinite numbers are text."
    )
    delete_files: list[DeleteFileDocument]


class PlanDocument(Document):
    """The data files that can hold rows that match the filter."""

    table: str
    format: Literal["iceberg", "delta"]
    snapshot_id: int | None = Field(description="Null while the table has none.")
    where: str | None
    files_total: int
    files_matched: int
    bytes_total: int
    bytes_matched: int
    pruned: PrunedDocument
    index: PlannedIndexDocument
    warnings: list[str] = Field(description="Why the index was not used in full.")
    files: list[PlannedFileDocument]


class PlanCountDocument(Document):
    """The plans of a table since the server started, and the files that they left out."""

    table: str
    plans: int
    files_total: int = Field(description="Files of the snapshot, summed over the plans.")
    files_planned: int
    pruned: PrunedDocument
    bytes_not_read: int = Field(description="The size of the files that were left out.")


class PlansDocument(Document):
    """The tables that were planned, those with the most plans first; the last thousand tables are counted."""

    tables: list[PlanCountDocument]


class ListedTableDocument(Document):
    """A table that has statistics."""

    table: str
    format: Literal["iceberg", "delta"]
    snapshot_id: int
    statistics_snapshot_id: int = Field(description="The snapshot whose rows the newest statistics are of.")
    snapshots_behind: int | None = Field(description="How many snapshots have changed the rows since.")


class TablesDocument(Document):
    """A page of the list of tables, by name."""

    tables: list[ListedTableDocument]
    unreadable: list[str] = Field(description="Names of this page that cannot be read or listed, or not in time.")
    next: str | None = Field(description="What `after` has to be for the next page; null if this is the last.")
    truncated: bool = Field(False, description="Only there, and true, if there are more tables than a list considers.")


class TableStatusDocument(Document):
    """What the metadata of a table says of its statistics and its index; null where that is not known."""

    table: str
    format: Literal["iceberg", "delta"] | None
    snapshot_id: int | None
    stats_snapshot_id: int | None = Field(description="The snapshot whose rows the newest statistics are of.")
    snapshots_behind: int | None = Field(description="How many snapshots have changed the rows since.")
    rows_changed_share: float | None = Field(description="Rows in files that came or went since, of the table's rows.")
    columns_missing: list[str] = Field(description="The columns that could have statistics and have none.")
    indexed_columns: list[str]
    index_files_missing: int | None = Field(description="Files that lack a filter of an indexed column.")
    bytes_to_read: int | None = Field(description="About what the next `puffin analyze` would open.")
    health: int = Field(ge=0, le=100, description="100 if nothing is to do, 0 without statistics or with an error.")
    reason: str = Field(description="The largest cause of the lost health.")
    error: str | None = Field(description="Why the table cannot be read.")
    stats_timestamp: str | None = Field(description="When the snapshot was made whose rows the statistics are of.")
    state: str | None = Field(description="What the autopilot in the same process says: fresh, due, …; null without.")
    state_reason: str | None = Field(description="Why it says so.")


class StatusDocument(Document):
    """Every table, the lowest health first."""

    tables: list[TableStatusDocument]
    truncated: bool = Field(False, description="As in the list of tables, or if there was no time for all.")


class PointDocument(Document):
    """A column as of the rows of one snapshot."""

    snapshot_id: int
    timestamp: str | None = Field(description="When the snapshot was made, ISO 8601 with a zone.")
    operation: str | None
    ndv: int
    lower: int
    upper: int
    exact: bool
    row_count: int | None


class HistoryDocument(Document):
    """A column's statistics over the snapshots that have some of their own, the oldest first."""

    table: str
    column: str
    points: list[PointDocument]


class HeavyDocument(Document):
    """A frequent value."""

    value: Any = Field(description="In JSON single-value form.")
    cut: bool = Field(description="Whether it is only the beginning of the value.")
    rows: int
    lower: int
    upper: int


class BucketDocument(Document):
    """The rows of the values from ``first`` to ``last``, without ``last`` if the next bucket begins with it."""

    first: Any
    last: Any
    rows: int
    lower: int
    upper: int


class DistributionDocument(Document):
    """How the rows of a column are spread over its values."""

    table: str
    format: Literal["iceberg", "delta"]
    snapshot_id: int | None
    column: str
    type: str
    row_count: int = Field(description="The rows of the table.")
    complete: bool = Field(description="Whether statistics have every value, with its rows.")
    reason: str | None = Field(description="Why there is no histogram; null if there is one.")
    heavy: list[HeavyDocument] = Field(description="The values with the most rows, at most 10.")
    histogram: list[BucketDocument] = Field(description="At most 24 buckets, in the order of values.")


class DumpDocument(Document):
    """A statistics file: its sizes in bytes, its properties and its blobs, with what their sketches say."""

    path: str
    file_size: int
    footer_size: int
    footer_compressed: bool
    properties: dict[str, str]
    blobs: list[dict[str, Any]]


class HealthDocument(Document):
    """How the server is."""

    status: Literal["ok", "ready"]
