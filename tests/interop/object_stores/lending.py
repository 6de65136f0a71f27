"""A REST catalog of one table on S3, which lends those who load it what opens the files, for a time or for good."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableRequest

from tests.http_server import Answer, Asked, answering, json_answer

TABLE_ENDPOINTS = [f"{verb} /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}" for verb in ("GET", "POST")]
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
_TABLE = "db.t"


@dataclasses.dataclass
class Lending:
    """
    The catalog; a test may change what it does.

    Attributes:
        catalog: Where the table is.
        s3: The server that knows until when a token holds.
        keys: Properties that open the files.
        seconds: How long it lends them; None for good, without a token.
        endpoints: What it says it can do besides; None says nothing.
        is_down: Whether it answers errors to all but commits.
        asked: The paths that were asked for.
    """

    catalog: SqlCatalog
    s3: Any
    keys: Mapping[str, str]
    seconds: float | None = None
    endpoints: list[str] | None = None
    is_down: bool = False
    asked: list[str] = dataclasses.field(default_factory=list)
    properties: dict[str, str] = dataclasses.field(default_factory=dict)

    def lent(self) -> dict[str, str]:
        """What a caller gets now."""
        if self.seconds is None:
            return dict(self.keys)
        token, ends = f"token-{len(self.asked)}", time.time() + self.seconds
        self.s3.lent[token] = ends
        return {**self.keys, "s3.session-token": token, "s3.session-token-expires-at-ms": str(int(ends * 1000))}

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.is_down:
            return 503, {"error": {"message": "down", "type": "Down", "code": 503}}
        if path.startswith("/v1/config"):
            said = {} if self.endpoints is None else {"endpoints": self.endpoints}
            return 200, {"defaults": {}, "overrides": {}, **said}
        if path.endswith("/credentials"):
            return 200, {"storage-credentials": [{"prefix": "s3://", "config": self.lent()}]}
        return 200, {**self.table(), "config": self.lent()}

    def commit(self, body: bytes) -> dict[str, Any]:
        asked = TypeAdapter(CommitTableRequest).validate_json(body)
        self.catalog.commit_table(self.catalog.load_table(_TABLE), asked.requirements, asked.updates)
        return self.table()

    def table(self) -> dict[str, Any]:
        loaded = self.catalog.load_table(_TABLE)
        metadata = json.loads(loaded.metadata.model_dump_json())
        return {"metadata-location": loaded.metadata_location, "metadata": metadata}


@contextmanager
def lending(catalog: SqlCatalog, s3: Any, keys: Mapping[str, str]) -> Iterator[Lending]:
    """Serve the table ``db.t`` of a catalog."""
    made = Lending(catalog, s3, keys)

    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return json_answer(made.commit(asked.body))
        status, document = made.get(asked.path)
        return json_answer(document, status)

    with answering(answer) as url:
        made.properties = {"type": "rest", "uri": url}
        yield made
