"""`puffin.plan`: one plan for a table by name."""

from __future__ import annotations

from collections.abc import Mapping

from puffin.load import load_table
from puffin.planning.file_plan import FilePlan
from puffin.planning.plan import Planner
from puffin.tables.arguments import NameOrPath
from puffin.tables.base import SnapshotSelector


def plan(
    table: NameOrPath,
    where: str | None = None,
    *,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> FilePlan:
    """
    The data files of a snapshot that can hold rows that match the filter, from metadata, bounds and index.

    Args:
        table: As for `puffin.ndv`, as are the other arguments.
        where: A row filter in pyiceberg's grammar; None for all files.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        UsageError: The filter cannot be parsed, or its types do not match.
        CorruptMetadataError, UnsupportedTableError, StorageError: The metadata cannot be read.
        MissingDependencyError: There is a filter or a catalog, and pyiceberg is not installed.
    """
    selector = SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    return Planner(loaded.open(selector)).plan(where)
