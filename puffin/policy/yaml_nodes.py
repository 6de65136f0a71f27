"""
YAML text to nodes that know their lines, and the reading of nodes by a schema that collects every mistake.

Scalars keep the text that stands in the file, so that ``no`` and ``22:00`` are what the schema says they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from puffin.errors import PolicyError

if TYPE_CHECKING:
    from yaml.nodes import Node

_T = TypeVar("_T")

MOST_BYTES = 1024 * 1024
_MOST_SHOWN = 60
_NULL = "tag:yaml.org,2002:null"
_KINDS = {"MappingNode": "a mapping", "SequenceNode": "a list"}


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

    def add(self, line: int, message: str) -> None:
        self._found.append(Mistake(line, message))

    def wrong(self, node: Node, where: str, expected: object) -> None:
        """Note that a node is not what was expected."""
        self.add(line_of(node), f"{where}: expected {expected}, found {shown(node)}")

    def check(self) -> None:
        """Raise PolicyError if there is a mistake."""
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
    """What stands there, for a message."""
    kind = _KINDS.get(type(node).__name__)
    if kind is not None:
        return kind if node.value else f"{kind} that is empty"
    if node.tag == _NULL:
        return "nothing"
    text = str(node.value)
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def text_of(node: Node) -> str:
    """The text of a scalar; WrongValue if there is none."""
    if type(node).__name__ != "ScalarNode" or node.tag == _NULL or not str(node.value).strip():
        raise WrongValue("a value")
    return str(node.value)


def scalar(parse_text: Callable[[str], _T]) -> Callable[[Node], _T]:
    """A reader of a scalar from the parser of its text, which raises WrongValue."""

    def read(node: Node) -> _T:
        try:
            text = text_of(node)
        except WrongValue:
            text = ""
        return parse_text(text)

    return read


class Fields:
    """The keys of a mapping, each taken once by the schema; those that nobody takes are mistakes."""

    def __init__(self, mistakes: Mistakes, node: Node | None, where: str, expected: str = "a mapping") -> None:
        self.mistakes = mistakes
        self._where = where
        self._values: dict[str, tuple[Node, Node]] = {}
        self._known: list[str] = []
        if node is None:
            return
        if type(node).__name__ != "MappingNode":
            mistakes.wrong(node, where or "the file", expected)
            return
        for key, value in node.value:
            name = str(key.value) if type(key).__name__ == "ScalarNode" else shown(key)
            if name in self._values:
                mistakes.add(line_of(key), f"{self.at(name)}: expected the key once, found it twice")
            self._values[name] = key, value

    def at(self, key: str) -> str:
        """The place of a key, for messages: ``rules[1].due``."""
        return f"{self._where}.{key}" if self._where else key

    def node(self, key: str) -> Node | None:
        """The node of a key; None if it is absent."""
        self._known.append(key)
        return self._values[key][1] if key in self._values else None

    def line(self, key: str) -> int:
        return line_of(self._values[key][0])

    def take(self, key: str, read: Callable[[Node], _T], default: _T) -> _T:
        """What ``read`` makes of the value; the default if the key is absent, or the value is a mistake."""
        node = self.node(key)
        if node is None:
            return default
        try:
            return read(node)
        except WrongValue as exc:
            self.mistakes.wrong(node, self.at(key), exc)
            return default

    def items(self, key: str, read: Callable[[Node, str], _T], expected: str) -> list[_T]:
        """What ``read`` makes of each item of a list, with its place; ``expected`` says what the list should be."""
        node = self.node(key)
        if node is None:
            return []
        if type(node).__name__ != "SequenceNode" or not node.value:
            self.mistakes.wrong(node, self.at(key), expected)
            return []
        found = []
        for number, item in enumerate(node.value):
            where = f"{self.at(key)}[{number}]"
            try:
                found.append(read(item, where))
            except WrongValue as exc:
                self.mistakes.wrong(item, where, exc)
        return found

    def texts(self, key: str, parse_text: Callable[[str], _T], expected: str) -> tuple[_T, ...]:
        """A list of scalars."""
        return tuple(self.items(key, lambda node, _: scalar(parse_text)(node), expected))

    def done(self) -> None:
        """Note the keys that nobody has taken."""
        known = ", ".join(dict.fromkeys(self._known))
        for name, (key, _) in self._values.items():
            if name not in self._known:
                self.mistakes.add(line_of(key), f"{self.at(name)}: expected one of {known}, found an unknown key")


def every_key(mistakes: Mistakes, node: Node, where: str) -> dict[str, str]:
    """A mapping of names to texts, as a catalog's properties are."""
    fields = Fields(mistakes, node, where, "a mapping of names to values")
    names: Iterable[str] = list(fields._values)
    found: dict[str, Any] = {name: fields.take(name, scalar(_some_text), None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _some_text(text: str) -> str:
    if not text:
        raise WrongValue("a value")
    return text
