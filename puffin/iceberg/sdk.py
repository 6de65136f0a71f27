"""
The catalogs of pyiceberg, and file systems with their credentials; row filters and scans have modules of their own.

Our own code uses neither pyiceberg's scan nor its commit. Its planner refuses tables with equality deletes, its reader
does not notice a truncated manifest, its models drop unknown fields, and it neither retries a statistics commit nor
supports one on format version 3. It does well what is used here: find a catalog by name, turn catalog properties into
a file system, and parse a row filter and project it onto partitions.
"""

from __future__ import annotations

import functools
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from puffin.errors import (
    MissingDependencyError,
    SetupError,
    StorageError,
    TableNotFound,
    UsageError,
)

if TYPE_CHECKING:
    import pyarrow.fs
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.hive import _HiveClient

try:
    import pyiceberg  # noqa: F401 - only to check that it is installed
except ImportError as exc:
    raise MissingDependencyError("pyiceberg", "iceberg") from exc

_CATALOG_CLASSES = ("RestCatalog", "SqlCatalog", "GlueCatalog", "HiveCatalog")
_OF_SQL_CATALOGS = frozenset(("echo", "init_catalog_tables", "pool_pre_ping", "py-catalog-impl", "schema_version"))
"""Properties that tell pyiceberg's class of SQL catalogs more than where the database is."""
_BY_URI = ("rest", "hive", "sql")  # kinds of catalogs that need a URI
METASTORE_ANSWER_SECONDS = 600.0
"""How long to wait for a Hive metastore's answer; the default of Hive's own clients."""

_SHOWN = 60  # characters of an answer

_IO_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "hf.", "py-io-impl")

logging.getLogger("pyiceberg").addHandler(logging.NullHandler())


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """
    The catalog with this name in pyiceberg's configuration (``.pyiceberg.yaml``, environment).

    Raises SetupError if it does not exist or its properties are invalid, StorageError if it does not answer now.
    """
    try:
        from pyiceberg.catalog import load_catalog

        found = _configured(name, properties)
        objection = _objection(name, found)
        if objection is None:
            if "py-catalog-impl" not in found and _kind(name, found) == "rest":
                from puffin.iceberg.bounded_rest import BoundedRestCatalog

                return BoundedRestCatalog(name, **found)
            catalog = load_catalog(name, **properties)
            if catalog_kind(catalog) == "HiveCatalog":
                bound_waits(cast("Any", catalog)._client)
            return catalog
    except Exception as exc:  # every catalog library has its own errors
        check_configuration()
        if _may_pass(exc):
            raise StorageError(f"catalog {name!r} failed, try again: {said_by_library(exc)}") from exc
        raise SetupError(f"catalog {name!r} cannot be used: {said_by_library(exc)}") from exc
    raise SetupError(objection)


_BUSY = (408, 429)  # the statuses of an answer that came too late, and of too many requests


def _may_pass(exc: Exception) -> bool:
    """Whether a catalog's server failed or was not reached when it was asked for its configuration."""
    from pyiceberg.exceptions import ServerError, ServiceUnavailableError

    answer = getattr(exc.__cause__, "response", None)
    if isinstance(exc, ServerError | ServiceUnavailableError) or getattr(answer, "status_code", None) in _BUSY:
        return True
    # Errors of connections are OSErrors; a malformed URI is a ValueError too.
    return isinstance(exc, OSError) and not isinstance(exc, ValueError | FileNotFoundError)


@functools.cache
def check_configuration() -> None:
    """
    Raise SetupError if pyiceberg's configuration cannot be read.

    pyiceberg reads it while its modules are imported, those for filters too. So an error from there may be one of the
    configuration, and says neither that nor where.
    """
    from pyiceberg.utils.config import Config

    try:
        Config()
    except Exception as exc:  # of the file, of YAML, or of environment variables that do not fit the file
        mark = getattr(exc, "problem_mark", None)
        line = "" if mark is None else f"line {mark.line + 1}: "
        raise SetupError(
            "pyiceberg's configuration (.pyiceberg.yaml, variables PYICEBERG_...) cannot be read: "
            f"{line}{getattr(exc, 'problem', None) or said_by_library(exc)}"
        ) from exc


def _objection(name: str, found: Mapping[str, Any]) -> str | None:
    """What a catalog lacks that needs a URI; None if it has one. pyiceberg points to options that only it has."""
    if found.get("uri") or "py-catalog-impl" in found or str(found.get("type", "rest")).lower() not in _BY_URI:
        return None
    what = f"catalog {name!r} is configured without a uri" if found else f"no catalog {name!r} is configured"
    return (
        f"{what}: pass --catalog-property uri=... (in Python catalog_properties), or configure it in .pyiceberg.yaml "
        "or the environment (PYICEBERG_CATALOG__NAME__URI)"
    )


def rest_properties(name: str, properties: Mapping[str, str]) -> dict[str, Any] | None:
    """
    The configured properties of a REST catalog, which is not opened; None for a catalog of another kind.

    None also for one whose requests are signed (SigV4), which nobody can send on for another caller. Raises SetupError
    if the configuration cannot be read.
    """
    try:
        found = _configured(name, properties)
        kind = _kind(name, found)
    except Exception as exc:
        raise SetupError(f"catalog {name!r} cannot be used: {said_by_library(exc)}") from exc
    is_signed = str(found.get("rest.sigv4-enabled", False)).lower() == "true"
    return dict(found) if kind == "rest" and "uri" in found and not is_signed else None


def sql_properties(name: str, properties: Mapping[str, str]) -> dict[str, Any] | None:
    """
    The configured properties of a SQL catalog, which is not opened; None for a catalog of another kind.

    None also for one whose kind is not said, or whose properties are more than a database needs, and if the
    configuration cannot be read: `open_catalog` says what is wrong with it.
    """
    try:
        found = _configured(name, properties)
    except Exception:  # noqa: BLE001 - every part of the configuration has its own errors
        return None
    is_plain = str(found.get("type")).lower() == "sql" and not _OF_SQL_CATALOGS.intersection(found)
    return found if is_plain and found.get("uri") else None


def database_properties(name: str, properties: Mapping[str, str]) -> dict[str, Any] | None:
    """
    The configured properties of a SQL catalog that pyiceberg would make tables in; None for a catalog of another kind.

    None also if the user has said whether to make them, and if the configuration cannot be read.
    """
    try:
        found = _configured(name, properties)
        is_ours_to_say = not {"init_catalog_tables", "py-catalog-impl"}.intersection(found)
        return found if is_ours_to_say and found.get("uri") and _kind(name, found) == "sql" else None
    except Exception:  # noqa: BLE001 - `open_catalog` says what is wrong
        return None


def _kind(name: str, found: Mapping[str, Any]) -> str:
    """The kind of a catalog with these properties, as pyiceberg infers it."""
    from pyiceberg.catalog import infer_catalog_type

    return str(found.get("type") or getattr(infer_catalog_type(name, dict(found)), "value", None)).lower()


def _configured(name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    from pyiceberg.utils.config import Config, merge_config

    return dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))


def catalog_kind(catalog: Catalog) -> str:
    """The name of the known pyiceberg class of the catalog, perhaps a base class; else of the catalog's own class."""
    # By name, since importing a class may need a library that other catalogs do without.
    names = [c.__name__ for c in type(catalog).__mro__]
    return next((name for name in names if name in _CATALOG_CLASSES), names[0])


def bound_waits(client: _HiveClient) -> _HiveClient:
    """The same Hive metastore client, with a timeout on its sockets."""
    make = client._init_thrift_transport

    def transport() -> Any:
        made = make()
        for part in vars(made).values():  # each transport class has another name for its socket
            if hasattr(part, "setTimeout"):
                part.setTimeout(METASTORE_ANSWER_SECONDS * 1000)
        return made

    client._init_thrift_transport = transport  # type: ignore[method-assign]
    client._transport = transport()
    return client


def list_namespaces(catalog: Catalog, heard: Callable[[], object] = lambda: None) -> list[str]:
    """The dotted names of the catalog's namespaces, also nested ones, sorted; ``heard`` is called after each answer."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    found: list[tuple[str, ...]] = []
    try:
        waiting = list(catalog.list_namespaces())
        while waiting:
            namespace = waiting.pop()
            if namespace not in found:
                found.append(namespace)
                heard()
                with suppress(NoSuchNamespaceError):  # dropped since it was listed
                    waiting += catalog.list_namespaces(namespace)
    except Exception as exc:
        raise StorageError(f"catalog {catalog.name!r} failed: {said_by_library(exc)}") from exc
    return sorted(".".join(namespace) for namespace in found)


def namespace_properties(catalog: Catalog, namespace: str) -> dict[str, str]:
    """The properties of a namespace; none if it does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return {str(key): str(value) for key, value in catalog.load_namespace_properties(namespace).items()}
    except NoSuchNamespaceError:
        return {}
    except Exception as exc:
        raise StorageError(f"namespace {namespace}: catalog {catalog.name!r} failed: {said_by_library(exc)}") from exc


def list_tables(catalog: Catalog, namespace: str) -> list[str]:
    """The dotted names of the tables in a namespace, sorted; UsageError if the namespace does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return sorted(".".join(identifier) for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError as exc:
        raise UsageError(f"catalog {catalog.name!r}: no namespace {namespace!r}") from exc
    except Exception as exc:
        raise StorageError(f"namespace {namespace}: catalog {catalog.name!r} failed: {said_by_library(exc)}") from exc


def no_such_table(name: str, catalog: str) -> TableNotFound:
    """The error about a table, named ``namespace.table``, that a catalog does not have, although it may list it."""
    dotted = "a table with a dot in its own name cannot be used; " if name.count(".") > 1 else ""
    hint = f"; {dotted}puffin status --catalog {catalog} shows those that it has"
    return TableNotFound(f"{name}: no such table in catalog {catalog!r}{hint}")


def has_all_snapshots(catalog: Catalog) -> bool:
    """Whether a REST catalog sends all snapshots of a table, rather than only those of branches and tags."""
    return str(catalog.properties.get("snapshot-loading-mode", "all")).lower() == "all"


def io_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The catalog properties that open files; the rest, such as a database's password, stays on the driver."""
    return {key: value for key, value in properties.items() if key.startswith(_IO_PREFIXES)}


def filesystem_for(properties: Mapping[str, str]) -> Callable[[str], pyarrow.fs.FileSystem]:
    """A function from a URI to its file system, made with these catalog properties."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO(dict(properties))

    def resolve(uri: str) -> pyarrow.fs.FileSystem:
        scheme, netloc, _ = io.parse_location(uri, dict(properties))
        return io.fs_by_scheme(scheme, netloc)

    return resolve


def no_object(answer: Any) -> str | None:
    """What is wrong with a catalog's answer over HTTP if its body is not a JSON object; None if it is one."""
    try:
        if isinstance(answer.json(), dict):
            return None
    except (ValueError, RecursionError):
        pass
    place, text = _place(answer), " ".join(answer.text.split())
    may_be_secret = text.startswith(("{", "[", '"')) or "token" in place
    found = f"{len(answer.content):,} bytes of another form" if may_be_secret else repr(text[:_SHOWN])
    return f"{place}: expected a JSON object, found {found if text else 'nothing'}"


def said_by_library(exc: BaseException) -> str:
    """
    Another library's error as its first non-empty line; its type if it has no text.

    If a catalog's answer was not what pyiceberg expects, of which pydantic only counts the errors, it says what came.
    """
    try:
        answer = _answer_behind(exc)
        wrong = None if answer is None else _unexpected(answer, exc)
    except Exception:  # noqa: BLE001 - the error itself matters more than what an answer would add
        wrong = None
    if wrong is not None:
        return wrong
    message = getattr(exc, "message", None) or exc  # Thrift's errors have this field, and print as code
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__


def _place(answer: Any) -> str:
    return f"{answer.request.method} {urlsplit(answer.url).path} answered {answer.status_code}"


def _unexpected(answer: Any, exc: BaseException) -> str | None:
    """What is unexpected about an answer, if that is why there was an error."""
    from pydantic import ValidationError

    if not (answer.ok or answer.content):
        return None  # an error has to say no more than its status
    wrong = no_object(answer)
    if wrong is None and answer.ok and isinstance(exc, ValidationError):
        error = exc.errors(include_input=False)[0]
        at = ".".join(map(str, error["loc"]))
        wrong = f"{_place(answer)}: expected another form of JSON: {at}: {error['msg']}"
    return wrong


def _answer_behind(exc: BaseException) -> Any | None:
    """
    The answer over HTTP that an error of pyiceberg is about; None without one.

    An error about a refusal carries it. One about the form of an answer does not, but it comes from a function that
    has the answer as ``response``. Any other error may come from such a function after an answer that it got before.
    """
    from pydantic import ValidationError

    found = [getattr(exc.__cause__, "response", None)]
    if isinstance(exc, ValidationError | json.JSONDecodeError):
        found += [frame.f_locals.get("response") for frame, _ in traceback.walk_tb(exc.__traceback__)]
    return next((each for each in reversed(found) if type(each).__module__ == "requests.models"), None)
