"""pyiceberg's REST catalog, which would wait for an answer for ever, with a bound on that."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import Any

from pyiceberg.catalog.rest import AUTH, RestCatalog
from requests import PreparedRequest, Response, Session
from requests.auth import AuthBase

from puffin.work_off import fulfil

CONNECT_SECONDS, ANSWER_SECONDS = 60.0, 600.0
"""How long to wait for a connection, and for each part of an answer; a table's metadata may take long to make."""


class BoundedRestCatalog(RestCatalog):
    """The same catalog; a request that takes too long raises an OSError."""

    def _config_headers(self, session: Session) -> None:
        # The first that is done to a new session, before it asks for a token.
        session.send = _BoundedSend(session)  # type: ignore[method-assign]  # whatever adapter will send
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        if AUTH in self.properties:
            session.auth = _BoundedAuth(session.auth)
        return session


class _BoundedSend:
    def __init__(self, session: Session) -> None:
        self._session, self._send = session, session.send

    def __call__(self, request: PreparedRequest, **options: Any) -> Response:
        adapter: Any = self._session.get_adapter(request.url or "")  # that of signed requests tries again by itself
        bound = options.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS / (1 + adapter.max_retries.total))
        return self._send(request, **{**options, "timeout": bound})


class _BoundedAuth(AuthBase):
    """Asks for a token, which pyiceberg does outside of the session, in a thread that need not end."""

    def __init__(self, auth: Any) -> None:
        self._auth = auth

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        asked: Future[PreparedRequest] = Future()
        arguments = (asked, lambda: self._auth(request))
        threading.Thread(target=fulfil, args=arguments, name="puffin-token", daemon=True).start()
        if not wait((asked,), ANSWER_SECONDS).done:
            raise TimeoutError(f"no token came within {ANSWER_SECONDS:g} seconds")
        return asked.result()
