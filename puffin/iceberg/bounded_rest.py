"""pyiceberg's REST catalog, which would wait for an answer for ever, with a bound on that."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

CONNECT_SECONDS, ANSWER_SECONDS = 60.0, 600.0
"""How long to wait for a connection, and for each part of an answer; a table's metadata may take long to make."""


class BoundedRestCatalog(RestCatalog):
    """The same catalog; a request that takes too long raises an OSError."""

    def _config_headers(self, session: Session) -> None:
        # The first that is done to a new session, before it asks for a token.
        for scheme in ("http://", "https://"):
            session.mount(scheme, _BoundedAdapter())
        super()._config_headers(session)


class _BoundedAdapter(HTTPAdapter):
    def send(self, request: PreparedRequest, **options: Any) -> Response:  # type: ignore[override]  # a session names all
        bound = options.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().send(request, **{**options, "timeout": bound})
