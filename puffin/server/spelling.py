"""
Spells the header ``ETag`` with capitals, which uvicorn sends in lower case.

Iceberg's Java client looks for no other spelling, although names of headers have no case. Without the header it loads
the metadata of a table again each time that it needs the table.
"""

from __future__ import annotations

from puffin.server.entrance import App, Message, Receive, Scope, Send
from puffin.server.iceberg.paths import ICEBERG


class _AsSpelled(bytes):
    """The name of a header that uvicorn cannot put into lower case."""

    def lower(self) -> bytes:
        return self


_ETAG = _AsSpelled(b"ETag")


def spelling_etag(app: App) -> App:
    """The same application, for uvicorn alone: other servers and clients may need the names in lower case."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_spelled(message: Message) -> None:
            if message["type"] == "http.response.start":
                spelled = [(_ETAG if name == b"etag" else name, value) for name, value in message["headers"]]
                message = {**message, "headers": spelled}
            await send(message)

        await app(scope, receive, send_spelled if scope["path"].startswith(ICEBERG) else send)

    return call
