"""The schema of a policy file: YAML to a Policy, or every mistake with its line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from puffin.errors import FileNotFound, PolicyError
from puffin.policy import quantities
from puffin.policy.model import (
    IGNORED,
    NARROW,
    WIN,
    CatalogPlace,
    Cleaning,
    Due,
    Limits,
    Policy,
    Retry,
    Rule,
    SparkSize,
    SparkUse,
)
from puffin.policy.yaml_nodes import MOST_BYTES, Fields, Mistakes, WrongValue, every_key, line_of, parse, scalar

if TYPE_CHECKING:
    from yaml.nodes import Node

_WEB = ("http", "https")
_USUAL = Policy(file="")
_DUE = Due()


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
    rules = fields.items("rules", lambda node, at: _Rules(mistakes, places, file).rule(node, at), "a list of rules")
    policy = Policy(
        file=file,
        catalogs=catalogs,
        roots=roots,
        rules=tuple(rules) or (Rule(),),
        limits=_limits(mistakes, fields.node("limits"), "limits"),
        spark=_spark(mistakes, fields.node("spark"), "spark"),
        clean=_cleaning(mistakes, fields.node("clean"), "clean"),
        retry=_retry(mistakes, fields.node("retry"), "retry"),
        look_every=fields.take("look-every", scalar(quantities.seconds), _USUAL.look_every),
        state=fields.take("state", scalar(lambda text: _local(text, file)), None),
        questions=fields.take("questions", scalar(lambda text: _file_or_url(text, file)), None),
        **_events(mistakes, fields.node("events"), file),
    )
    fields.done()
    if type(root).__name__ == "MappingNode" and not (fields.node("catalogs") or fields.node("roots")):
        mistakes.add(line_of(root), "expected catalogs or roots, found neither")
    for name in {name for name in places if places.count(name) > 1}:
        mistakes.add(1, f"expected each catalog and root once, found {name!r} twice")
    mistakes.check()
    return policy


def _version(text: str) -> int:
    if text != "1":
        raise WrongValue("version 1 of the schema")
    return 1


def _catalog(mistakes: Mistakes, node: Node, where: str) -> CatalogPlace:
    if type(node).__name__ == "ScalarNode":
        return CatalogPlace(scalar(_name)(node))
    fields = Fields(mistakes, node, where, "a catalog's name, or a mapping with name")
    name = fields.take("name", scalar(_name), "")
    properties = fields.node("properties")
    place = CatalogPlace(
        name,
        {} if properties is None else every_key(mistakes, properties, f"{where}.properties"),
        fields.texts("namespaces", _name, "a list of patterns of namespaces") or ("*",),
    )
    fields.done()
    if not name and type(node).__name__ == "MappingNode" and fields.node("name") is None:
        mistakes.add(line_of(node), f"{where}: expected the key name, found none")
    return place


@dataclasses.dataclass(frozen=True, slots=True)
class _Rules:
    mistakes: Mistakes
    places: list[str]
    file: str

    def rule(self, node: Node, where: str) -> Rule:
        fields = Fields(self.mistakes, node, where, "a rule: a mapping with tables")
        rule = Rule(
            line=line_of(node),
            tables=fields.texts("tables", _name, "a list of patterns such as [shop.*]") or ("*",),
            places=fields.texts("in", self._place, "a list of catalogs and roots"),
            columns=fields.texts("columns", _name, "a list of columns or patterns"),
            partitions=fields.take("partitions", scalar(quantities.flag), False),
            joint=fields.texts("joint", quantities.joint, "a list of sets of columns such as [a+b]"),
            no_values=_no_values(fields),
            index_columns=fields.texts("index-columns", _name, "a list of columns or patterns"),
            index_fpp=fields.take("index-fpp", scalar(quantities.rate), None),
            keep_entries=fields.take("keep-entries", scalar(quantities.count), None),
            due=due_of(self.mistakes, fields.node("due"), f"{where}.due"),
            owners=fields.take("owners", scalar(_choice(WIN, NARROW, IGNORED)), WIN),
        )
        fields.done()
        return rule

    def _place(self, text: str) -> str:
        found = text if text in self.places else _root(_name(text), self.file)
        if found not in self.places:
            raise WrongValue(f"a catalog or root of this file ({', '.join(self.places) or 'which has none'})")
        return found


def _no_values(fields: Fields) -> tuple[str, ...]:
    """Patterns of columns: those of a list, or all for ``true``."""
    node, expected = fields.node("no-values"), "true, false, or a list of columns or patterns"
    if type(node).__name__ == "SequenceNode":
        return fields.texts("no-values", _name, expected)
    return fields.take("no-values", scalar(lambda text: quantities.every_or_none(text, expected)), ())


def due_of(mistakes: Mistakes, node: Node | None, where: str) -> Due:
    """When a table is due: ``never``, or a mapping of conditions, of which only those given hold."""
    if node is None:
        return Due()
    if type(node).__name__ == "ScalarNode":
        if node.value != "never":
            mistakes.wrong(node, where, "never, or a mapping of conditions such as rows-changed: 5%")
        return Due(never=True)
    fields = Fields(mistakes, node, where, "never, or a mapping of conditions such as rows-changed: 5%")
    due = Due(
        rows_changed=fields.take("rows-changed", scalar(quantities.share), None),
        snapshots=fields.take("snapshots", scalar(quantities.count), None),
        age=fields.take("age", scalar(quantities.seconds), None),
        index_files=fields.take("index-files", scalar(quantities.count), _DUE.index_files),
        at_most_every=fields.take("at-most-every", scalar(quantities.seconds), _DUE.at_most_every),
    )
    fields.done()
    return due


def _limits(mistakes: Mistakes, node: Node | None, where: str) -> Limits:
    fields = Fields(mistakes, node, where)
    limits = Limits(
        bytes_per_day=fields.take("bytes-per-day", scalar(quantities.size), None),
        tables_at_once=fields.take("tables-at-once", scalar(quantities.count), _USUAL.limits.tables_at_once),
        hours=fields.take("hours", scalar(quantities.hours), None),
        time_zone=fields.take("time-zone", scalar(quantities.time_zone), _USUAL.limits.time_zone),
        driver_bytes=fields.take("driver-bytes", scalar(quantities.size), _USUAL.limits.driver_bytes),
    )
    fields.done()
    return limits


def _spark(mistakes: Mistakes, node: Node | None, where: str) -> SparkUse:
    fields = Fields(mistakes, node, where)

    def one(item: Node, at: str) -> SparkSize:
        inner = Fields(mistakes, item, at)
        conf = inner.node("conf")
        size = SparkSize(
            from_bytes=inner.take("from", scalar(quantities.size), 0),
            master=inner.take("master", scalar(_name), None),
            remote=inner.take("remote", scalar(_connect_url), None),
            conf=() if conf is None else tuple(sorted(every_key(mistakes, conf, f"{at}.conf").items())),
        )
        inner.done()
        if size.master is not None and size.remote is not None:
            mistakes.wrong(item, at, "either master or remote")
        return size

    sizes = fields.items("sizes", one, "a list of sizes, each with from, master or remote, and conf") or [SparkSize()]
    idle = fields.take("idle", scalar(quantities.seconds), _USUAL.spark.idle)
    fields.done()
    return SparkUse(sizes=tuple(sorted(sizes, key=lambda each: each.from_bytes)), idle=idle)


def _cleaning(mistakes: Mistakes, node: Node | None, where: str) -> Cleaning | None:
    if node is None:
        return None
    fields = Fields(mistakes, node, where)
    every = fields.take("every", scalar(quantities.seconds), 0)
    older_than = fields.take("older-than", scalar(quantities.hours_or_more), Cleaning(0).older_than)
    fields.done()
    if fields.node("every") is None:
        mistakes.add(line_of(node), f"{where}: expected the key every, found none")
    return Cleaning(max(1, every), older_than)


def _retry(mistakes: Mistakes, node: Node | None, where: str) -> Retry:
    fields = Fields(mistakes, node, where)
    retry = Retry(
        fields.take("first", scalar(quantities.seconds), _USUAL.retry.first),
        fields.take("most", scalar(quantities.seconds), _USUAL.retry.most),
    )
    fields.done()
    return retry


def _events(mistakes: Mistakes, node: Node | None, file: str) -> dict[str, str | None]:
    fields = Fields(mistakes, node, "events")
    found = {
        "event_file": fields.take("file", scalar(lambda text: _local(text, file)), None),
        "event_webhook": fields.take("webhook", scalar(_url), None),
    }
    fields.done()
    return found


def _choice(*known: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in known:
            raise WrongValue(f"one of {', '.join(known)}")
        return text

    return check


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
    if not text or "://" in text:
        raise WrongValue("a local path")
    return os.path.join(os.path.dirname(file), text)  # noqa: PTH118, PTH120 - Path would drop a leading ./


def _root(text: str, file: str) -> str:
    if not text:
        raise WrongValue("a directory, as a path or URI")
    return text if ":" in text else _local(text, file).rstrip("/") or "/"


def _file_or_url(text: str, file: str) -> str:
    return _url(text) if "://" in text else _local(text, file)
