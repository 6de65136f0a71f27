"""The documents of the REST face, as its OpenAPI document describes them; the catalog itself checks requests."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Document(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))


class ConfigDocument(_Document):
    """What is served."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


class NamespacesDocument(_Document):
    """Namespaces, each as its levels."""

    namespaces: list[list[str]]
    next_page_token: str | None = None


class NamespaceDocument(_Document):
    """A namespace."""

    namespace: list[str]
    properties: dict[str, str]


class TableIdentifierDocument(_Document):
    """The name of a table."""

    namespace: list[str]
    name: str


class TablesOfNamespaceDocument(_Document):
    """The tables of a namespace."""

    identifiers: list[TableIdentifierDocument]
    next_page_token: str | None = None


class LoadedTableDocument(_Document):
    """A table: its metadata, and who plans its scans."""

    metadata_location: str
    metadata: dict[str, Any]
    config: dict[str, str]


class CredentialsDocument(_Document):
    """Fresh credentials for the files of a table."""

    storage_credentials: list[dict[str, Any]]


class PlanTableScanRequest(_Document):
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


class PlanTaskRequest(_Document):
    """A part of a plan."""

    plan_task: str


class ScanTasksDocument(_Document):
    """Data files to read, and the delete files that apply to them."""

    delete_files: list[dict[str, Any]] = []
    file_scan_tasks: list[dict[str, Any]] = []
    plan_tasks: list[str] = []


class PlanningDocument(ScanTasksDocument):
    """A plan, or where it stands."""

    status: Literal["completed", "submitted", "failed"]
    plan_id: str | None = None
    error: dict[str, Any] | None = None


class ErrorModel(_Document):
    """What is wrong with a request."""

    message: str
    type: str = Field(description="The protocol's name of the error.")
    code: int = Field(description="The status.")


class IcebergErrorDocument(_Document):
    """What is wrong with a request, as the protocol has it."""

    error: ErrorModel


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The description of a request's body, for a route that reads it by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
