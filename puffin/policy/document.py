"""The schema of a policy file: YAML to a Policy, or every mistake with its line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from puffin.errors import FileNotFound, PolicyError
from puffin.policy import quantities
from puffin.policy.model import (
    IGNORED,
    NARROW,
    WIN,
    CatalogPlace,
    CleaningSchedule,
    Due,
    Limits,
    Policy,
    Retry,
    Rule,
    SparkSize,
    SparkUse,
)
from puffin.policy.yaml_nodes import MOST_BYTES, Fields, Mistakes, WrongValue, parse, scalar

if TYPE_CHECKING:
    from yaml.nodes import Node

_WEB = ("http", "https")
_USUAL = Policy(file="")


def read_policy(file: str) -> Policy:
    """The policy of a local file; FileNotFound if it cannot be read, PolicyError with all of its mistakes."""
    try:
        with Path(file).open("rb") as source:
            data = source.read(MOST_BYTES + 1)
    except OSError as exc:
        raise FileNotFound(f"{file}: expected a policy file: {exc.strerror}") from exc
    if len(data) > MOST_BYTES:
        raise PolicyError(file, [(1, f"expected at most {MOST_BYTES:,} bytes, found more")])
    try:
        return parse_policy(data.decode(), file)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise PolicyError(file, [(line, f"expected UTF-8, found byte 0x{data[exc.start]:02x}")]) from exc


def parse_policy(text: str, file: str) -> Policy:
    """The policy of a text; PolicyError with all of its mistakes."""
    root, mistakes = parse(text, file), Mistakes(file)
    if root is None:
        mistakes.add(1, "expected catalogs or roots, found an empty file")
        mistakes.check()
    fields = Fields(mistakes, root, "", "a mapping with catalogs or roots")
    fields.take("version", scalar(_version), 1)
    catalogs = tuple(fields.items("catalogs", lambda node, at: _catalog(mistakes, node, at), "a list of catalogs"))
    roots = fields.texts("roots", lambda text: _root(text, file), "a list of directories")
    places = [*(catalog.name for catalog in catalogs), *roots]
    rules = fields.mappings(
        "rules", lambda rule: _rule(rule, places, file), "a list of rules", "a rule: a mapping with tables"
    )
    events = fields.inner("events")
    policy = Policy(
        file=file,
        catalogs=catalogs,
        roots=roots,
        rules=tuple(rules) or (Rule(),),
        limits=_limits(fields.inner("limits")),
        spark=_spark(fields.inner("spark")),
        clean=None if fields.node("clean") is None else _cleaning(fields.inner("clean")),
        retry=_retry(fields.inner("retry")),
        look_every=fields.take("look-every", scalar(quantities.seconds_or_more), _USUAL.look_every),
        state=fields.take("state", scalar(lambda text: _local(text, file)), None),
        questions=fields.take("questions", scalar(lambda text: _file_or_url(text, file)), None),
        event_file=events.take("file", scalar(lambda text: _local(text, file)), None),
        event_webhook=events.take("webhook", scalar(_url), None),
    )
    if fields.is_mapping and not (fields.node("catalogs") or fields.node("roots")):
        mistakes.add(fields.line, "expected catalogs or roots, found neither")
    for name in {name for name in places if places.count(name) > 1}:
        mistakes.add(1, f"expected each catalog and root once, found {name!r} twice")
    mistakes.check()
    return policy


def _catalog(mistakes: Mistakes, node: Node, where: str) -> CatalogPlace:
    if node.id == "scalar":
        return CatalogPlace(scalar(_name)(node))
    fields = Fields(mistakes, node, where, "a catalog's name, or a mapping with name")
    return CatalogPlace(
        fields.need("name", scalar(_name), ""),
        fields.texts_by_name("properties"),
        fields.texts("namespaces", _name, "a list of patterns of namespaces") or ("*",),
    )


def _rule(fields: Fields, places: Sequence[str], file: str) -> Rule:
    return Rule(
        line=fields.line,
        tables=fields.texts("tables", _name, "a list of patterns such as [shop.*]") or ("*",),
        places=fields.texts("in", lambda text: _place(text, places, file), "a list of catalogs and roots"),
        columns=fields.texts("columns", _name, "a list of columns or patterns"),
        partitions=fields.take("partitions", scalar(quantities.flag), False),
        joint=fields.texts("joint", quantities.joint, "a list of sets of columns such as [a+b]"),
        no_values=_no_values(fields),
        index_columns=fields.texts("index-columns", _name, "a list of columns or patterns"),
        index_fpp=fields.take("index-fpp", scalar(quantities.rate), None),
        keep_entries=fields.take("keep-entries", scalar(quantities.count), None),
        due=_due(fields),
        owners=fields.take("owners", scalar(_owners), WIN),
    )


def _place(text: str, places: Sequence[str], file: str) -> str:
    found = text if text in places else _root(_name(text), file)
    if found not in places:
        raise WrongValue(f"a catalog or root of this file ({', '.join(places) or 'which has none'})")
    return found


def _no_values(rule: Fields) -> tuple[str, ...]:
    """Patterns of columns: those of a list, or all for ``true``."""
    node = rule.node("no-values")
    if node is not None and node.id == "scalar" and node.value in quantities.EVERY_OR_NONE:
        return quantities.EVERY_OR_NONE[node.value]
    return rule.texts("no-values", _name, "true, false, or a list of columns or patterns")


def _due(rule: Fields) -> Due:
    """When a table is due: ``never``, or a mapping of conditions, of which only those given hold."""
    node = rule.node("due")
    if node is None:
        return Due()
    if node.id == "scalar" and node.value == "never":
        return Due(never=True)
    fields = rule.inner("due", "never, or a mapping of conditions such as rows-changed: 5%")
    values = {key: fields.take(key, scalar(parse), None) for key, parse in quantities.DUE.items()}
    given: dict[str, Any] = {key.replace("-", "_"): value for key, value in values.items() if value is not None}
    return dataclasses.replace(Due(rows_changed=None, age=None), **given)


def _limits(fields: Fields) -> Limits:
    return Limits(
        bytes_per_day=fields.take("bytes-per-day", scalar(quantities.size), None),
        tables_at_once=fields.take("tables-at-once", scalar(quantities.count), _USUAL.limits.tables_at_once),
        hours=fields.take("hours", scalar(quantities.hours), None),
        time_zone=fields.take("time-zone", scalar(quantities.time_zone), _USUAL.limits.time_zone),
        driver_bytes=fields.take("driver-bytes", scalar(quantities.size), _USUAL.limits.driver_bytes),
    )


def _spark(fields: Fields) -> SparkUse:
    sizes = fields.mappings("sizes", _size, "a list of sizes, each with from, master or remote, and conf")
    return SparkUse(
        sizes=tuple(sorted(sizes, key=lambda each: each.from_bytes)) or _USUAL.spark.sizes,
        idle=fields.take("idle", scalar(quantities.seconds), _USUAL.spark.idle),
    )


def _size(fields: Fields) -> SparkSize:
    size = SparkSize(
        from_bytes=fields.take("from", scalar(quantities.size), 0),
        master=fields.take("master", scalar(_name), None),
        remote=fields.take("remote", scalar(_connect_url), None),
        conf=tuple(sorted(fields.texts_by_name("conf").items())),
    )
    if size.master is not None and size.remote is not None:
        fields.wrong("either master or remote")
    return size


def _cleaning(fields: Fields) -> CleaningSchedule:
    every = fields.need("every", scalar(quantities.seconds_or_more), 1)
    older_than = fields.take("older-than", scalar(quantities.hours_or_more), CleaningSchedule(0).older_than)
    return CleaningSchedule(every, older_than)


def _retry(fields: Fields) -> Retry:
    return Retry(
        fields.take("first", scalar(quantities.seconds), _USUAL.retry.first),
        fields.take("most", scalar(quantities.seconds), _USUAL.retry.most),
    )


def _version(text: str) -> int:
    if text != "1":
        raise WrongValue("version 1 of the schema")
    return 1


def _owners(text: str) -> str:
    if text not in (WIN, NARROW, IGNORED):
        raise WrongValue(f"one of {WIN}, {NARROW}, {IGNORED}")
    return text


def _connect_url(text: str) -> str:
    if not text.startswith("sc://"):
        raise WrongValue("the URL of a Spark Connect server, sc://HOST:PORT")
    return text


def _name(text: str) -> str:
    if not text.strip():
        raise WrongValue("a name or a pattern")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in _WEB and bool(parts.netloc)
    except ValueError:
        is_url = False
    if not is_url:
        raise WrongValue("a URL that begins with http:// or https://")
    return text


def _local(text: str, file: str) -> str:
    if not text or "://" in text or "\0" in text:
        raise WrongValue("a local path")
    path = os.path.join(os.path.dirname(file), text)  # noqa: PTH118, PTH120 - Path would drop a leading ./
    if ".." not in text.split("/"):
        return path
    without = os.path.normpath(path)  # which is another directory if what stands before the dots is a link
    return without if os.path.realpath(without) == os.path.realpath(path) else path


def _root(text: str, file: str) -> str:
    if not text:
        raise WrongValue("a directory, as a path or URI")
    return text if ":" in text else _local(text, file).rstrip("/") or "/"


def _file_or_url(text: str, file: str) -> str:
    return _url(text) if "://" in text else _local(text, file)
