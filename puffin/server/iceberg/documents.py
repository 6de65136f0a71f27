"""The documents of the REST face, as its OpenAPI document describes them; the catalog itself checks requests."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from puffin.server.documents import Document


class ConfigDocument(Document):
    """What is served."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


class NamespacesDocument(Document):
    """Namespaces, each as its levels."""

    namespaces: list[list[str]]
    next_page_token: str | None = None


class NamespaceDocument(Document):
    """A namespace."""

    namespace: list[str]
    properties: dict[str, str]


class TableIdentifierDocument(Document):
    """The name of a table."""

    namespace: list[str]
    name: str


class TablesOfNamespaceDocument(Document):
    """The tables of a namespace."""

    identifiers: list[TableIdentifierDocument]
    next_page_token: str | None = None


class LoadedTableDocument(Document):
    """A table: its metadata, and who plans its scans."""

    metadata_location: str
    metadata: dict[str, Any]
    config: dict[str, str]


class CredentialsDocument(Document):
    """Fresh credentials for the files of a table."""

    storage_credentials: list[dict[str, Any]]


class PlanTableScanRequest(Document):
    """What a scan needs."""

    snapshot_id: int | None = Field(
        None, description="The current snapshot if absent.", ge=-(1 << 63), le=(1 << 63) - 1
    )
    select: list[str] | None = Field(None, description="Names of columns.")
    filter: Any = Field(True, description="Expression JSON; `true` or absent for all rows.")
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: list[str] | None = Field(None, description="Columns whose statistics the answer has to hold.")
    min_rows_requested: int | None = Field(None, description="Ignored.")


class PlanTaskRequest(Document):
    """A part of a plan."""

    plan_task: str


class ScanTasksDocument(Document):
    """Data files to read, and the delete files that apply to them."""

    delete_files: list[dict[str, Any]] = Field([])
    file_scan_tasks: list[dict[str, Any]] = Field([])
    plan_tasks: list[str] = Field([])


class PlanningDocument(ScanTasksDocument):
    """A plan, or where it stands."""

    status: Literal["completed", "submitted", "failed"]
    plan_id: str | None = None
    error: dict[str, Any] | None = None


class ErrorModel(Document):
    """What is wrong with a request."""

    message: str
    type: str = Field(description="The protocol's name of the error.")
    code: int = Field(description="The status.")


class IcebergErrorDocument(Document):
    """What is wrong with a request, as the protocol has it."""

    error: ErrorModel


def body_of(model: type[Document]) -> dict[str, Any]:
    """The description of a request's body, for a route that reads it by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
