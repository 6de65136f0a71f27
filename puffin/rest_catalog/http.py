"""Sends a caller's requests on, over HTTP, with nothing of this process's own in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests

from puffin.errors import StorageError

_SECONDS = (10, 60)  # for a connection, and between two bytes of an answer
_CONNECTIONS = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer; ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes = dataclasses.field(repr=False)

    def document(self) -> dict[str, Any]:
        """The JSON object in the body; ValueError if there is none."""
        try:
            found = json.loads(self.body)
        except RecursionError as exc:
            raise ValueError("too deep") from exc
        if not isinstance(found, dict):
            raise ValueError(f"expected a JSON object, found {type(found).__name__}")
        return found


class Http:
    """Connections that callers share; ``ca_bundle`` is a file of certificates, None for the usual ones."""

    def __init__(self, ca_bundle: str | None = None) -> None:
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "puffin-sidecar"
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))  # one caller's are not another's
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self._ca_bundle = ca_bundle

    def get(self, url: str, query: Iterable[tuple[str, str]], headers: Mapping[str, str]) -> Answer:
        """The answer to a request, whatever its status; StorageError without one."""
        try:
            response = self._session.get(
                url,
                params=list(query),
                headers=headers,
                timeout=_SECONDS,
                allow_redirects=False,  # with the caller's token, to who knows where
                auth=_as_it_is,
                verify=self._ca_bundle,
            )
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, found, response.content)
        except (requests.RequestException, ValueError) as exc:  # its text may quote a header
            raise StorageError(f"the catalog does not answer: {type(exc).__name__}") from None


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Without this, the credentials of a netrc file would replace the caller's."""
    return request
