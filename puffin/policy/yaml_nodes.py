"""
YAML text to nodes that know their lines, and the reading of nodes by a schema that collects every mistake.

Scalars keep the text that stands in the file, so that ``no`` and ``22:00`` are what the schema says they are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from puffin.errors import PolicyError, did_you_mean

if TYPE_CHECKING:
    from yaml.nodes import Node

_T = TypeVar("_T")

MOST_BYTES = 1024 * 1024
_MOST_SHOWN = 60
_NULL = "tag:yaml.org,2002:null"
_WEB_URL = re.compile(r"((?:https?|sc)://)(?:[^/?#]*@)?([^/?#;]*)(.*)", re.DOTALL)
_KINDS = {"mapping": "a mapping", "sequence": "a list"}


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """What is wrong with a policy file, and on which line, from 1."""

    line: int
    message: str


class WrongValue(Exception):
    """A value is not what the schema expects; says what that is."""


class Mistakes:
    """The mistakes that a reading of a file has found."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Mistake] = []
        self.mappings: list[Fields] = []  # all that are read

    def add(self, line: int, message: str) -> None:
        self._found.append(Mistake(line, message))

    def wrong(self, node: Node, where: str, expected: object) -> None:
        """Note that a node is not what was expected."""
        self.add(line_of(node), f"{where}: expected {expected}, found {shown(node)}")

    def check(self) -> None:
        """Raise PolicyError if there is a mistake, such as a key that nobody has taken."""
        for fields in self.mappings:
            fields.note_unknown()
        if self._found:
            raise PolicyError(self._file, sorted((each.line, each.message) for each in set(self._found)))


def parse(text: str, file: str) -> Node | None:
    """The root node of a document, None if it is empty; PolicyError if it is not YAML."""
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise PolicyError(file, [(mark.line + 1 if mark else 1, f"expected YAML: {exc.problem}")]) from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise PolicyError(file, [(line, f"expected YAML: {exc.reason}")]) from exc
    except (yaml.YAMLError, RecursionError) as exc:
        raise PolicyError(file, [(1, f"expected YAML: {type(exc).__name__}")]) from exc


def line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def shown(node: Node) -> str:
    """What stands there, for a message; of a server's URL only the host, since the rest may have a token."""
    kind = _KINDS.get(node.id)
    if kind is not None:
        return kind if node.value else f"{kind} that is empty"
    if node.tag == _NULL:
        return "nothing"
    text = str(node.value)
    if (url := _WEB_URL.match(text)) is not None:
        text = f"{url[1]}{url[2]}{'…' if url[3] else ''}"
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def scalar(parse_text: Callable[[str], _T]) -> Callable[[Node], _T]:
    """A reader of a scalar from the parser of its text, which raises WrongValue; other nodes have the text ``""``."""

    def read(node: Node) -> _T:
        has_text = node.id == "scalar" and node.tag != _NULL and str(node.value).strip()
        return parse_text(str(node.value) if has_text else "")

    return read


class Fields:
    """The keys of a mapping, each taken once by the schema; `Mistakes.check` notes those that nobody takes."""

    def __init__(self, mistakes: Mistakes, node: Node | None, where: str, expected: str = "a mapping") -> None:
        self.line = 0 if node is None else line_of(node)
        self.is_mapping = node is not None and node.id == "mapping"
        self._mistakes = mistakes
        self._node = node
        self._where = where
        self._values: dict[str, tuple[Node, Node]] = {}
        self._known: list[str] = []
        mistakes.mappings.append(self)
        if node is None:
            return
        if not self.is_mapping:
            self.wrong(expected)
            return
        for key, value in node.value:
            name = str(key.value) if key.id == "scalar" else shown(key)
            if name in self._values:
                mistakes.add(line_of(key), f"{self.at(name)}: expected the key once, found it twice")
            self._values[name] = key, value

    def wrong(self, expected: str) -> None:
        """Note that the node is not what was expected."""
        self._mistakes.wrong(self._node, self._where or "the file", expected)

    def at(self, key: str) -> str:
        """The place of a key, for messages: ``rules[1].due``."""
        return f"{self._where}.{key}" if self._where else key

    def node(self, key: str) -> Node | None:
        """The node of a key; None if it is absent."""
        self._known.append(key)
        return self._values[key][1] if key in self._values else None

    def inner(self, key: str, expected: str = "a mapping") -> Fields:
        """The keys of the mapping at a key; none if it is absent."""
        return Fields(self._mistakes, self.node(key), self.at(key), expected)

    def take(self, key: str, read: Callable[[Node], _T], default: _T) -> _T:
        """What ``read`` makes of the value; the default if the key is absent, or the value is a mistake."""
        node = self.node(key)
        if node is None:
            return default
        try:
            return read(node)
        except WrongValue as exc:
            self._mistakes.wrong(node, self.at(key), exc)
            return default

    def need(self, key: str, read: Callable[[Node], _T], default: _T) -> _T:
        """As `take`, but a mapping without the key is a mistake."""
        if self.is_mapping and key not in self._values:
            self._mistakes.add(self.line, f"{self._where}: expected the key {key}, found none")
        return self.take(key, read, default)

    def items(self, key: str, read: Callable[[Node, str], _T], expected: str) -> list[_T]:
        """What ``read`` makes of each item of a list, with its place; ``expected`` says what the list should be."""
        node = self.node(key)
        if node is None:
            return []
        if node.id != "sequence" or not node.value:
            self._mistakes.wrong(node, self.at(key), expected)
            return []
        found = []
        for number, item in enumerate(node.value):
            where = f"{self.at(key)}[{number}]"
            try:
                found.append(read(item, where))
            except WrongValue as exc:
                self._mistakes.wrong(item, where, exc)
        return found

    def texts(self, key: str, parse_text: Callable[[str], _T], expected: str) -> tuple[_T, ...]:
        """A list of scalars."""
        return tuple(self.items(key, lambda node, _: scalar(parse_text)(node), expected))

    def mappings(self, key: str, read: Callable[[Fields], _T], expected: str, each: str = "a mapping") -> list[_T]:
        """What ``read`` makes of each mapping of a list; ``each`` says what an item should be."""
        return self.items(key, lambda node, at: read(Fields(self._mistakes, node, at, each)), expected)

    def texts_by_name(self, key: str) -> dict[str, str]:
        """A mapping of names to texts, as a catalog's properties are."""
        inner = self.inner(key, "a mapping of names to values")
        return {name: inner.take(name, scalar(_some_text), "") for name in inner._values}

    def note_unknown(self) -> None:
        """Note the keys that nobody has taken."""
        known = ", ".join(dict.fromkeys(self._known))
        for name, (key, _) in self._values.items():
            if name not in self._known:
                found = f"found an unknown key{did_you_mean(name, self._known)}"
                self._mistakes.add(line_of(key), f"{self.at(name)}: expected one of {known}, {found}")


def _some_text(text: str) -> str:
    if not text:
        raise WrongValue("a value")
    return text
