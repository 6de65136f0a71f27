"""
The routes of the HTTP interface: check the request, call the service, send the bytes.

FastAPI checks requests against `puffin.server.documents` and describes them in the OpenAPI document. Responses are
bytes from the service, described there but not checked again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from puffin.lookup import Question
from puffin.server import answers, documents, metrics, openapi, page
from puffin.server.encoded import Encoded, encode
from puffin.server.entrance import HEALTH, PLAN, READY, STATS, App, Entrance
from puffin.server.hosts import Hosts
from puffin.server.iceberg.paths import ICEBERG
from puffin.server.problems import Problem
from puffin.server.service import Asked, Service
from puffin.server.settings import Settings
from puffin.tables.base import SnapshotSelector

_REPEATED = STATS, "column"  # the only parameter that may be repeated
_MOST_ERRORS = 3  # in the detail of a problem
# The framework reads a body of another content type as a string.
_MESSAGES = {"model_attributes_type": "expected a JSON object, and Content-Type: application/json"}
_KINDS = {404: "not-found", 405: "method-not-allowed"}


def create_app(settings: Settings, hosts: Hosts | None = None) -> App:
    """The server as an ASGI application that answers to ``hosts``, by default any; UsageError for bad settings."""
    from puffin.version import version

    app = FastAPI(
        title="puffin",
        version=version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(_refuse_repeated)],
    )
    service, counted = Service(settings), metrics.Metrics(settings.more_metrics)
    _add_routes(app, _Handlers(service, counted))
    if settings.iceberg:
        from puffin.server.iceberg.routes import add_routes

        add_routes(app, service)
    methods = _methods(app)

    async def refuse(request: Request, error: Exception) -> Response:
        path = str(getattr(request.scope.get("route"), "path", request.scope["path"]))
        if not settings.iceberg and path.startswith(ICEBERG):
            raise Problem(404, "not-found", "no REST catalog is served here: start the server with --iceberg")
        raise _problem_of(error, methods.get(path, ())) from error

    for error in (RequestValidationError, HTTPException):
        app.add_exception_handler(error, refuse)
    # The OpenAPI document is made on the first request for it: it takes longer than the rest of the start.
    make, is_guarded = app.openapi, settings.token is not None
    app.openapi = functools.cache(lambda: openapi.complete(make(), is_guarded=is_guarded))  # type: ignore[method-assign]
    return Entrance(app, methods, hosts or Hosts(), service, counted)


class _Handlers:
    """The handlers of the routes; their docstrings are the descriptions in the OpenAPI document."""

    def __init__(self, service: Service, counted: metrics.Metrics) -> None:
        self._service = service
        self._metrics = counted

    async def stats(self, request: Request, query: Annotated[documents.StatsQuery, Query()]) -> Response:
        """Look up columns of a table, from its metadata alone."""
        kept = await self._service.stats(_asked(query, query.column or None))
        self._service.warm.remember(request.scope["query_string"], kept)
        status, headers, body = Encoded.of(kept).response_to(request.scope["headers"])
        response = Response(body, status)
        response.raw_headers = headers
        return response

    async def batch(self, request: Request, asked: documents.StatsRequest) -> Response:
        """Ask several questions at once; one that fails has its problem document in place of an answer."""
        questions = [_asked(each, each.columns) for each in asked.requests]
        return _json(await self._service.batch(questions, request.scope["path"]))

    async def estimate_join(self, asked: documents.JoinRequest) -> Response:
        """Estimate the values that two columns share and the rows of their equi-join, from their sketches."""
        return _json(await self._service.join(asked))

    async def estimate_filter(self, asked: documents.EstimateRequest) -> Response:
        """Estimate the rows that a filter leaves and the groups that a grouping makes, from statistics alone."""
        return _json(await self._service.estimate(asked))

    async def plan(self, asked: documents.PlanRequest) -> Response:
        """List the data files that can hold rows that match the filter, with the delete files that apply to them."""
        return _json(await self._service.plan(asked))

    async def plans(self) -> Response:
        """Count the plans that were made since the server started, and what they left out, table by table."""
        return _json(encode(self._service.plans.to_json()))

    async def tables(self, query: Annotated[documents.TablesQuery, Query()]) -> Response:
        """List the tables with statistics, and their age: of the catalog and below the allowed roots."""
        return _json(await self._service.lists.analyzed(query))

    async def status(self) -> Response:
        """Show how well statistics and index describe every table, worst first: the document of `puffin status`."""
        return _json(await self._service.lists.status())

    async def history(self, query: Annotated[documents.ColumnQuery, Query()]) -> Response:
        """Show the statistics of a column, snapshot by snapshot."""
        return _json(await self._service.history(query.table, query.column))

    async def distribution(self, query: Annotated[documents.ColumnQuery, Query()]) -> Response:
        """Show the most frequent values of a column, and its histogram."""
        return _json(await self._service.distribution(query.table, query.column))

    async def dump(self, query: Annotated[documents.TableQuery, Query()]) -> Response:
        """Show the statistics file that answers for a table: the document of `puffin dump --json`."""
        return _json(await self._service.dump(_asked(query, None)))

    async def health(self) -> Response:
        """Tell whether the process runs; needs no token."""
        return _json(encode({"status": "ok"}))

    async def ready(self) -> Response:
        """Tell whether the catalog answers and the roots exist; needs no token."""
        await self._service.check_ready()
        return _json(encode({"status": "ready"}))

    async def metrics(self) -> Response:
        """Counters and histograms for Prometheus."""
        text = self._metrics.render(self._service.metrics())
        return Response(text, headers={"content-type": metrics.MEDIA_TYPE})


def _add_routes(app: FastAPI, handlers: _Handlers) -> None:
    reads = (400, 403, 404, 408, 413, 422, 429, 500, 503, 504)
    routes: tuple[tuple[str, str, Callable[..., Awaitable[Response]], Any, Sequence[int]], ...] = (
        ("GET", STATS, handlers.stats, answers.TableDocument, (304, *reads)),
        ("POST", STATS, handlers.batch, answers.BatchDocument, reads),
        ("POST", "/v1/estimate/join", handlers.estimate_join, answers.JoinDocument, reads),
        ("POST", "/v1/estimate/filter", handlers.estimate_filter, answers.EstimateDocument, reads),
        ("POST", PLAN, handlers.plan, answers.PlanDocument, reads),
        ("GET", "/v1/plans", handlers.plans, answers.PlansDocument, reads),
        ("GET", "/v1/tables", handlers.tables, answers.TablesDocument, reads),
        ("GET", "/v1/status", handlers.status, answers.StatusDocument, reads),
        ("GET", "/v1/history", handlers.history, answers.HistoryDocument, reads),
        ("GET", "/v1/distribution", handlers.distribution, answers.DistributionDocument, reads),
        ("GET", "/v1/dump", handlers.dump, answers.DumpDocument, reads),
        ("GET", HEALTH, handlers.health, answers.HealthDocument, (408, 413, 500)),
        ("GET", READY, handlers.ready, answers.HealthDocument, (408, 413, 429, 500, 503, 504)),
        ("GET", "/metrics", handlers.metrics, None, (408, 413, 429, 500)),
    )
    for method, path, handler, model, statuses in routes:
        app.add_api_route(
            path,
            handler,
            methods=[method],
            operation_id=handler.__name__.replace("_", "-"),
            response_model=model,
            responses={status: openapi.response(status) for status in statuses},
        )
    for path in page.FILES:
        app.router.routes.append(Route(path, _page_file(path), methods=["GET"]))


def _page_file(path: str) -> Callable[[Request], Awaitable[Response]]:
    content, media_type = page.read_file(path)

    async def send(_: Request) -> Response:
        return Response(content, headers={**page.HEADERS, "content-type": media_type})

    return send


def _methods(app: FastAPI) -> dict[str, list[str]]:
    methods: dict[str, list[str]] = {}
    for route in app.routes:
        if isinstance(route, Route):
            methods.setdefault(route.path, []).extend(sorted(route.methods or ()))
    return methods


async def _refuse_repeated(request: Request) -> None:
    # The server would ignore one of two tables, and a proxy that checks only that one would let the other pass.
    named = (name for name, _ in request.query_params.multi_items() if (request.scope["path"], name) != _REPEATED)
    for name, count in Counter(named).most_common(1):
        if count > 1:
            raise Problem(422, "invalid", f"query.{name}: expected it once, found it {count} times")


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _asked(wanted: documents.TableQuery | documents.Question, columns: Sequence[str] | None) -> Asked:
    return Asked(Question(wanted.table, columns, SnapshotSelector(**documents.snapshot_of(wanted))), wanted.snapshot_id)


def _problem_of(error: Exception, allowed: Sequence[str]) -> Problem:
    """Turn what the framework refuses into a problem; ``allowed`` are the methods of the requested path."""
    if isinstance(error, HTTPException):
        headers = (("Allow", ", ".join(allowed)),) if error.status_code == 405 else ()
        return Problem(error.status_code, _KINDS.get(error.status_code, "bad-request"), str(error.detail), headers)
    if not isinstance(error, RequestValidationError):
        return Problem.of(error)
    errors = error.errors()
    if any(each["type"] == "json_invalid" for each in errors):
        return Problem(400, "bad-request", "the body is not JSON")
    told = (
        f"{'.'.join(map(str, each['loc']))}: {_MESSAGES.get(each['type'], each['msg'])}"
        for each in errors[:_MOST_ERRORS]
    )
    return Problem(422, "invalid", "; ".join(told))
