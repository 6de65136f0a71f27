"""
The requests of the HTTP interface, as its OpenAPI document describes them.

They are checked: an unknown key is refused, since a misspelled one would change the question.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MOST_COLUMNS = 1000
MOST_COLUMNS_IN_QUERY = 64
MOST_QUESTIONS = 100
LONGEST_FILTER = 65_536
_TABLE = "A path or URI below an allowed root, or `namespace.table`, of another catalog as `CATALOG:namespace.table`."

Name = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]
AnyName = Annotated[str, Field(min_length=1, max_length=4096)]
ColumnName = Annotated[str, Field(min_length=1, max_length=512)]
FilterText = Annotated[str, Field(max_length=LONGEST_FILTER)]
RefName = Annotated[str, Field(min_length=1, max_length=512)]


class Document(BaseModel):
    """A document of the HTTP interface, or the parameters of a query; words of its keys have ``-`` between them."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))


class _Query(Document):
    model_config = ConfigDict(extra="forbid")


class _Body(_Query):
    model_config = ConfigDict(strict=True)


class TableQuery(_Query):
    """A table, at one of its snapshots: the current one, unless an id or a ref says otherwise."""

    table: Name = Field(description=_TABLE)
    snapshot_id: int | None = Field(
        None, description="A snapshot, by its id; with `ref`, it has to be the one of that."
    )
    ref: RefName | None = Field(None, description="A snapshot, by the branch or tag that names it.")


class StatsQuery(TableQuery):
    """The columns of a table, by default every one that can be hashed."""

    column: Annotated[list[ColumnName], Field(max_length=MOST_COLUMNS_IN_QUERY)] = Field(
        [], description="A name or dotted path in the current schema; may be repeated."
    )


class ColumnQuery(_Query):
    """A column of a table."""

    table: Name = Field(description=_TABLE)
    column: ColumnName = Field(description="Its name or dotted path in the current schema.")


class TablesQuery(_Query):
    """A page of the list of tables."""

    namespace: RefName | None = Field(None, description="Only this namespace; of another catalog `CATALOG:namespace`.")
    contains: Name | None = Field(None, description="Only tables with this text in their names, in either case.")
    after: AnyName | None = Field(None, description="Only tables whose names come after this one.")
    limit: int = Field(100, ge=1, le=1000, description="How many tables at most.")


class Question(_Body):
    """The columns of a table, by default every one that can be hashed, at one of its snapshots, as for a query."""

    table: Name
    columns: Annotated[list[ColumnName], Field(max_length=MOST_COLUMNS)] | None = None
    snapshot_id: int | None = None
    ref: RefName | None = None


class StatsRequest(_Body):
    """Several questions; an error of one does not touch the others."""

    requests: Annotated[list[Question], Field(max_length=MOST_QUESTIONS)]


class JoinSide(_Body):
    """A column of a table, or several with ``+`` between them, and the rows of it that are joined."""

    table: Name
    column: ColumnName
    where: FilterText | None = Field(None, description="A row filter in pyiceberg's grammar; without one, all rows.")


class JoinRequest(_Body):
    """The two columns of an equi-join."""

    left: JoinSide
    right: JoinSide


class EstimateRequest(_Body):
    """A filter and a grouping of a table, at one of its snapshots, as for a query."""

    table: Name
    where: FilterText | None = Field(None, description="A row filter in pyiceberg's grammar; without one, all rows.")
    group_by: Annotated[list[ColumnName], Field(max_length=MOST_COLUMNS)] | None = Field(
        None, description="Columns to group by; null is one group."
    )
    snapshot_id: int | None = None
    ref: RefName | None = None


class PlanRequest(_Body):
    """The rows that a scan of a table wants, at one of its snapshots, as for a query."""

    table: Name
    where: FilterText | None = Field(
        None, description="A row filter in pyiceberg's grammar; without one, all files are planned."
    )
    snapshot_id: int | None = None
    ref: RefName | None = None


def snapshot_of(asked: TableQuery | Question | EstimateRequest | PlanRequest) -> dict[str, Any]:
    """The snapshot of a request as keywords of `Lookup`: its ref, or its id without one; the service compares both."""
    return {"snapshot_id": asked.snapshot_id} if asked.ref is None else {"ref": asked.ref}
