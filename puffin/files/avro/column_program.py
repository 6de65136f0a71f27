"""From a schema to the program that finds the values wanted of its records (`puffin.kernels.avro_values`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from puffin.files.avro.avro_schema import NULL, Items, Primitive, Record, Type, Union
from puffin.kernels.avro_values import (
    END,
    FIXED,
    ITEMS,
    JUMP,
    LONG,
    MARK,
    NEXT,
    NO_SLOT,
    NUMBER,
    SIZED,
    STRING,
    UNION,
    WIDTH,
)

Wanted: TypeAlias = Mapping[str, Any]
"""Names of fields, each with those wanted inside it; none where the field itself is."""

_NUMBERS = {"boolean": 1, "float": 4, "double": 8}  # bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A column of values."""

    slot: int
    arrow_type: pa.DataType


@dataclasses.dataclass(frozen=True, slots=True)
class Struct:
    """A column of records, those of its columns that are wanted; the slot has which of them are not null."""

    slot: int
    children: Mapping[str, Leaf | Struct]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """
    How to find the columns wanted.

    Attributes:
        slots: How many there are.
        depth: How many arrays and maps are inside each other at most.
    """

    code: tuple[int, ...]
    columns: Mapping[str, Leaf | Struct]
    slots: int
    depth: int


def compile_schema(schema: Record, wanted: Wanted) -> Program:
    """
    The program for a file's records.

    Raises:
        NotImplementedError: Something wanted is of a type whose values cannot be read.
    """
    compiler = _Compiler()
    columns = compiler.fields(schema, wanted)
    compiler.emit(END)
    return Program(tuple(compiler.code), columns, compiler.slots, compiler.depth)


class _Compiler:
    def __init__(self) -> None:
        self.code: list[int] = []
        self.slots = 0
        self.depth = 0
        self._inside = 0

    def emit(self, operation: int, slot: int = NO_SLOT, operand: int = 0) -> int:
        """Put down an instruction; returns its place."""
        self.code += operation, slot, operand
        return len(self.code) - WIDTH

    def fields(self, record: Record, wanted: Wanted) -> dict[str, Leaf | Struct]:
        names = [field.name for field in record.fields]
        if any(names.count(name) != 1 for name in wanted):
            raise ValueError(f"expected one field each of {', '.join(wanted)}, found {', '.join(names)}")
        columns = {}
        for field in record.fields:
            column = self._value(field.type, wanted.get(field.name))
            if column is not None:
                columns[field.name] = column
        return columns

    def _value(self, type_: Type, wanted: Wanted | None) -> Leaf | Struct | None:
        """Pass over a value; if it is wanted, keep it."""
        if isinstance(type_, Union):
            return self._union(type_, wanted)
        if isinstance(type_, Record):
            if wanted is None:
                self.fields(type_, {})
                return None
            slot = self._new_slot()
            self.emit(MARK, slot)
            return Struct(slot, self.fields(type_, wanted))
        if isinstance(type_, Items):
            if wanted is not None:
                raise NotImplementedError("expected a column of single values, found a list or a map")
            self._items(type_)
            return None
        return self._primitive(type_, wanted)

    def _primitive(self, type_: Primitive, wanted: Wanted | None) -> Leaf | None:
        slot = NO_SLOT
        if wanted is not None:
            if type_.arrow_type is None or wanted:
                raise NotImplementedError(f"expected a column that can be read, found one of Avro type {type_.name}")
            slot = self._new_slot()
        if type_.name in _NUMBERS:
            self.emit(NUMBER, slot, _NUMBERS[type_.name])
        elif type_.name == "fixed":
            self.emit(FIXED, slot, type_.size)
        elif type_ != NULL:
            self.emit(LONG if type_.name in ("int", "long") else STRING, slot)
        return None if wanted is None else Leaf(slot, type_.arrow_type)

    def _union(self, union: Union, wanted: Wanted | None) -> Leaf | Struct | None:
        if wanted is not None and union.value is None:
            raise NotImplementedError("expected a column of one type, found a union of several")
        self.emit(UNION, operand=len(union.branches))
        starts = [self.emit(JUMP) for _ in union.branches]
        ends, column = [], None
        for start, branch in zip(starts, union.branches, strict=True):
            self._land(start)
            found = self._value(branch, None if branch == NULL else wanted)
            column = column or found
            ends.append(self.emit(JUMP))
        for end in ends:
            self._land(end)
        return column

    def _items(self, items: Items) -> None:
        self._inside += 1
        self.depth = max(self.depth, self._inside)
        begin = self.emit(ITEMS)
        self.emit(SIZED, operand=begin)
        if items.has_keys:
            self.emit(STRING)
        self._value(items.item, None)
        self.emit(NEXT, operand=begin)
        self._land(begin)
        self._inside -= 1

    def _land(self, jump: int) -> None:
        """Have an instruction go on behind what is there now."""
        self.code[jump + 2] = len(self.code)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1
