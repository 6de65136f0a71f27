"""
The routes of the Iceberg REST face: check the request, ask the catalog in a thread, send its answer.

Nothing here changes a table, and no endpoint that would is advertised, so clients refuse to write before they send
anything.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Query, Request, Response

from puffin.errors import UsageError
from puffin.rest_catalog.caller import Caller
from puffin.rest_catalog.callers_catalog import CallersCatalog, ForwardedTable
from puffin.rest_catalog.catalog import ServedCatalog
from puffin.rest_catalog.errors import PlanNotFound
from puffin.rest_catalog.names import Names, TableName, levels_of
from puffin.rest_catalog.paging import Listed, Page
from puffin.rest_catalog.planned_scan import PlannedScan
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.rest_catalog.upstream_table import States
from puffin.server.encoded import IS_HEAD, encode, is_among
from puffin.server.iceberg import documents
from puffin.server.iceberg.errors import error_document, iceberg_problem
from puffin.server.iceberg.paths import ICEBERG_CONFIG, ICEBERG_V1
from puffin.server.iceberg.plans import Owner, Plans, plan_tasks
from puffin.server.service import Service
from puffin.server.tokens import has_token

_NAMESPACES = "namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES = f"{_NAMESPACE}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_PLANS = f"{_TABLE}/plan"
_PLAN = f"{_PLANS}/{{plan_id}}"
_TASKS = f"{_TABLE}/tasks"
_CREDENTIALS = f"{_TABLE}/credentials"
_SHOWN = 80
_PATIENCE = 0.4  # of the time for a request, until a client that polls for its plan is told to do so
# How the header x-client-version of two clients begins.
_JAVA = "Apache Iceberg"  # polls for plans
_PYTHON = "PyIceberg"  # refuses null in plans, and encodes the parent of namespaces twice

_PageToken: TypeAlias = Annotated[str | None, Query(alias="pageToken")]
_PageSize: TypeAlias = Annotated[int | None, Query(alias="pageSize")]
_Snapshots: TypeAlias = Literal["all", "refs"]

_Result = TypeVar("_Result")


class Face:
    """
    The handlers for one catalog, and for directories below roots; their docstrings are in the OpenAPI document.

    ``warehouse`` is the name by which clients ask for the catalog, if it is not the first of the server.
    """

    def __init__(self, service: Service, warehouse: str | None = None) -> None:
        settings = service.settings
        self._service = service
        self._warehouse = warehouse
        # A catalog behind this one lists its tables for each caller; only directories are ours to list then.
        has_catalog = settings.catalog is not None and service.upstream is None
        names = Names(service.lookup, settings.roots, has_catalog=has_catalog)
        self._served = ServedCatalog(service.lookup, names, service.access.check)
        self._has_roots = bool(settings.roots)
        self._token = settings.token
        self._states = States()
        self._patience = _PATIENCE * settings.limits.request_seconds
        self._plans = Plans()

    async def config(self, request: Request) -> Response:
        """Tell a client what is served, and that scans are planned here."""
        catalog = self._catalog_for(request)
        if isinstance(catalog, ServedCatalog):
            found = catalog.config()  # reads nothing, so no list that hangs delays it: every client asks this first
        else:
            found = await self._run(request, catalog.config, "config")
        if self._warehouse is not None:
            found["overrides"]["prefix"] = self._warehouse
        return _json({**found, "endpoints": [*ENDPOINTS, *found.get("endpoints", ())]})

    async def namespaces(
        self,
        request: Request,
        parent: str | None = None,
        page_token: _PageToken = None,
        page_size: _PageSize = None,
    ) -> Response:
        """List the namespaces at the top, or right below one."""
        if request.headers.get("x-client-version", "").startswith(_PYTHON):
            parent = unquote(parent or "")
        levels = levels_of(parent) if parent else ()
        catalog, page = self._catalog_for(request), Page(page_token, page_size)
        found = await self._run(request, lambda: catalog.namespaces(levels, page))
        return _list("namespaces", found, list)

    async def namespace(self, request: Request, namespace: str) -> Response:
        """Show a namespace and its properties."""
        catalog, levels = self._catalog_for(request), levels_of(namespace)
        properties = await self._run(request, lambda: catalog.namespace(levels))
        if IS_HEAD in request.scope:
            return Response(status_code=204)
        return _json({"namespace": list(levels), "properties": properties})

    async def tables(
        self,
        request: Request,
        namespace: str,
        page_token: _PageToken = None,
        page_size: _PageSize = None,
    ) -> Response:
        """List the tables of a namespace."""
        catalog, levels, page = self._catalog_for(request), levels_of(namespace), Page(page_token, page_size)
        found = await self._run(request, lambda: catalog.tables(levels, page))
        return _list("identifiers", found, lambda each: {"namespace": list(each.namespace), "name": each.name})

    async def table(self, request: Request, namespace: str, table: str, snapshots: _Snapshots = "all") -> Response:
        """Load a table: its metadata as it stands, and who plans its scans."""
        catalog, name = self._catalog_for(request), TableName.of(namespace, table)
        known = request.headers.get("if-none-match", "").encode()

        def load() -> tuple[int, str | None, bytes]:
            loaded = catalog.load(name, snapshots)
            if isinstance(loaded, ForwardedTable):
                has_it = loaded.is_unchanged
            else:
                has_it = is_among(loaded.etag.encode(), known)
            if has_it:
                return 304, loaded.etag, b""
            return (204, loaded.etag, b"") if IS_HEAD in request.scope else (200, loaded.etag, loaded.body())

        status, etag, body = await self._run(request, load, name)
        headers = {**({} if etag is None else {"etag": etag}), **({"content-type": "application/json"} if body else {})}
        return Response(body, status, headers)

    async def credentials(self, request: Request, namespace: str, table: str) -> Response:
        """Get fresh credentials for the files of a table, from the catalog behind this one."""
        catalog, name = self._catalog_for(request), TableName.of(namespace, table)
        return _encoded(await self._run(request, lambda: catalog.credentials(name), name))

    async def plan(self, request: Request, namespace: str, table: str) -> Response:
        """Plan a scan: the data files that can hold rows which pass a filter, with their delete files."""
        name, version = TableName.of(namespace, table), request.headers.get("x-client-version", "")
        asked = ScanRequest.of(await _body(request), of_pyiceberg=version.startswith(_PYTHON))
        catalog = self._catalog_for(request)
        making = asyncio.ensure_future(self._run(request, lambda: catalog.plan(name, asked), name))
        # Callers of a catalog behind this one may know tables that others may not even name.
        is_known = isinstance(catalog, ServedCatalog) or self._token is not None
        making.add_done_callback(functools.partial(self._count, is_known))
        owner = self._owner(request, name)
        if version.startswith(_JAVA):
            await asyncio.wait([making], timeout=self._patience)
            if not making.done():
                return _json({"status": "submitted", "plan-id": self._plans.keep(owner, making)})
        planned = await making
        if planned.parts == 1:
            return await self._completed(planned)
        return await self._completed(planned, self._plans.keep(owner, making))

    async def fetch_plan(self, request: Request, namespace: str, table: str, plan_id: str) -> Response:
        """Ask whether a plan is made, and have it."""
        making = self._plans.find(self._owner(request, TableName.of(namespace, table)), plan_id)
        await asyncio.wait([making], timeout=self._patience)
        if not making.done():
            return _json({"status": "submitted", "plan-id": plan_id})
        error = PlanNotFound("the plan was cancelled") if making.cancelled() else making.exception()
        if isinstance(error, Exception):
            return _json({"status": "failed", "error": error_document(iceberg_problem(error))})
        return await self._completed(making.result(), plan_id)

    async def cancel_plan(self, request: Request, namespace: str, table: str, plan_id: str) -> Response:
        """Forget a plan."""
        self._plans.drop(self._owner(request, TableName.of(namespace, table)), plan_id)
        return Response(status_code=204)

    async def tasks(self, request: Request, namespace: str, table: str) -> Response:
        """Fetch a part of a large plan."""
        body = await _body(request)
        plan_task = body.get("plan-task") if isinstance(body, Mapping) else None
        if not isinstance(plan_task, str):
            raise UsageError("plan-task: expected the name of a plan task")
        planned, number = self._plans.part(self._owner(request, TableName.of(namespace, table)), plan_task)
        return _encoded(b"{%b}" % await self._in_thread(lambda: planned.part(number)))

    def _count(self, is_known: bool, made: asyncio.Future[PlannedScan]) -> None:
        if not made.cancelled() and made.exception() is None:
            plan = made.result().plan
            table = plan.table if self._warehouse is None else f"{self._warehouse}:{plan.table}"
            self._service.plans.add(plan, table if is_known else None)
            self._service.asked(table)

    def _catalog_for(self, request: Request) -> ServedCatalog | CallersCatalog:
        """What a caller may ask: the catalog behind this one, for others than those with our own token."""
        service = self._service
        if service.upstream is None or self._is_of_roots(request):
            return self._served
        local = self._served if self._has_roots and self._token is None else None
        return CallersCatalog(service.lookup, service.upstream, self._states, self._caller(request), local)

    def _owner(self, request: Request, table: TableName) -> Owner:
        return Owner(self._caller(request).digest, table)

    def _queue(self, request: Request, table: TableName | str) -> str:
        """Whose calls share the threads of one table; a catalog behind this one may keep each of them waiting."""
        name = str(table) if self._warehouse is None else f"{self._warehouse} {table}"
        return name if self._service.upstream is None else f"{name} {self._caller(request).digest.hex()}"

    def _is_of_roots(self, request: Request) -> bool:
        return self._has_roots and self._token is not None and has_token(request.headers.raw, self._token)

    def _caller(self, request: Request) -> Caller:
        upstream = self._service.upstream
        forwarded = () if upstream is None else upstream.forwarded
        return Caller.of(request.headers, forwarded, request.query_params.get("referenced-by"))

    async def _completed(self, planned: PlannedScan, plan_id: str | None = None) -> Response:
        head = {"status": "completed", **({} if plan_id is None else {"plan-id": plan_id})}
        if plan_id is not None and planned.parts > 1:
            return _json({**head, "plan-tasks": plan_tasks(plan_id, planned)})
        part = await self._in_thread(lambda: planned.part(0))
        return _encoded(b"%b,%b}" % (json.dumps(head).encode()[:-1], part))

    async def _run(self, request: Request, call: Callable[[], _Result], table: TableName | str = "") -> _Result:
        return await self._service.access.run(self._queue(request, table), call)

    async def _in_thread(self, call: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(None, call)


# Each with the method, the path below the version and the prefix, the handler, and the model that describes its answer.
_ROUTES: tuple[tuple[str, str, Callable[..., Awaitable[Response]], Any], ...] = (
    ("GET", _NAMESPACES, Face.namespaces, documents.NamespacesDocument),
    ("GET", _NAMESPACE, Face.namespace, documents.NamespaceDocument),
    ("GET", _TABLES, Face.tables, documents.TablesOfNamespaceDocument),
    ("GET", _TABLE, Face.table, documents.LoadedTableDocument),
    ("GET", _CREDENTIALS, Face.credentials, documents.CredentialsDocument),
    ("POST", _PLANS, Face.plan, documents.PlanningDocument),
    ("GET", _PLAN, Face.fetch_plan, documents.PlanningDocument),
    ("DELETE", _PLAN, Face.cancel_plan, None),
    ("POST", _TASKS, Face.tasks, documents.ScanTasksDocument),
)
_HEADS = (_NAMESPACE, _TABLE)
_BODIES: dict[str, Any] = {_PLANS: documents.PlanTableScanRequest, _TASKS: documents.PlanTaskRequest}


def _endpoint(method: str, path: str) -> str:
    return f"{method} /v1/{{prefix}}/{path.replace('plan_id', 'plan-id')}"


ENDPOINTS = [
    *(_endpoint(method, path) for method, path, _, _ in _ROUTES if path != _CREDENTIALS),
    *(_endpoint("HEAD", path) for path in _HEADS),
]
"""What a client may ask, as ``/v1/config`` names it: nothing that would change a table."""


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of the face to an application."""
    first, catalog = Face(service), service.settings.catalog
    others = {name: Face(of, name) for name, of in service.warehouses.items()}

    async def config(request: Request, warehouse: str | None = None) -> Response:
        chosen = first
        if others and warehouse and warehouse != catalog:  # an empty one names none: DuckDB always sends it
            if warehouse not in others:
                names = ", ".join((str(catalog), *others))
                raise UsageError(f"warehouse: expected one of {names}, found {warehouse[:_SHOWN]!r}")
            chosen = others[warehouse]
        return await chosen.config(request)

    app.add_api_route(
        ICEBERG_CONFIG,
        config,
        description=Face.config.__doc__,
        response_model=documents.ConfigDocument,
        operation_id="iceberg-config",
    )
    for face, base in ((first, ICEBERG_V1), *((face, f"{ICEBERG_V1}{name}/") for name, face in others.items())):
        for method, path, handler, model in _ROUTES:
            body = _BODIES.get(path)
            app.add_api_route(
                f"{base}{path}",
                handler.__get__(face),
                methods=[method],
                operation_id=f"iceberg-{handler.__name__.replace('_', '-')}",
                response_model=model,
                responses={400: {"model": documents.IcebergErrorDocument}},
                status_code=200 if model is not None else 204,
                openapi_extra=None if body is None or method != "POST" else documents.body_of(body),
                include_in_schema=face is first,
            )


async def _body(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"expected a body in JSON: {type(exc).__name__}") from exc


def _list(key: str, listed: Listed[_Result], to_json: Callable[[_Result], Any]) -> Response:
    more = {} if listed.next_token is None else {"next-page-token": listed.next_token}
    return _json({key: [to_json(each) for each in listed.items], **more})


def _json(document: Any) -> Response:
    return _encoded(encode(document))


def _encoded(body: bytes) -> Response:
    return Response(body, media_type="application/json")
