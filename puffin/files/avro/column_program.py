"""Compile a schema to a program that finds wanted values of records (`puffin.kernels.avro_values`), and run it."""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.avro.avro_schema import NULL, Items, Primitive, Record, Type, Union, WantedIds
from puffin.files.avro.container import Block
from puffin.kernels import avro_values as ops
from puffin.kernels import kernels_ready

Longs: TypeAlias = npt.NDArray[np.int64]
WantedNames: TypeAlias = Mapping[str, Any]
"""Names of fields, each with its wanted fields, or empty if the whole field is wanted."""

_NUMBERS = {"boolean": 1, "float": 4, "double": 8}  # bytes
_WHAT_IS_WRONG = {
    ops.TOO_SHORT: "a value that reaches past the end of its block",
    ops.TOO_LONG: "an integer of more than 64 bits",
    ops.NO_BRANCH: "a branch that its union does not have",
    ops.NO_COUNT: "a count beyond the bytes that are left",
    ops.LEFT_OVER: "bytes behind the last record of a block",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A column of values."""

    slot: int
    arrow_type: pa.DataType


@dataclasses.dataclass(frozen=True, slots=True)
class Struct:
    """A column of records with its wanted columns; the slot tells which records are not null."""

    slot: int
    children: Mapping[str, Leaf | Struct]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """How to find the wanted columns; ``depth`` is how deep arrays and maps nest."""

    code: tuple[int, ...]
    columns: Mapping[str, Leaf | Struct]
    slots: int
    depth: int


@dataclasses.dataclass(frozen=True, slots=True)
class FoundValues:
    """What was found in ``data``, the concatenated blocks: words and lengths by slot."""

    data: bytes
    words: Longs
    lengths: Longs


def compile_schema(schema: Record, wanted: WantedNames) -> Program:
    """The program for a file's records; NotImplementedError if the values of a wanted type cannot be read."""
    compiler = _Compiler()
    columns = compiler.fields(schema, wanted)
    compiler.emit(ops.END)
    return Program(tuple(compiler.code), columns, compiler.slots, compiler.depth)


def compile_gaps(schema: Record, wanted: WantedIds) -> Program:
    """The program that finds where each run of unwanted fields ends; fields are wanted as for `read_records`."""
    compiler = _Compiler()
    compiler.gaps(schema, wanted)
    compiler.emit(ops.END)
    return Program(tuple(compiler.code), {}, compiler.slots, compiler.depth)


class Finder:
    """Finds the wanted values of the records of some blocks, compiled if kernels are ready."""

    def __init__(self, blocks: Sequence[Block], program: Program) -> None:
        self._data = blocks[0].content if len(blocks) == 1 else b"".join(block.content for block in blocks)
        self._slots = program.slots
        ends = np.cumsum([len(block.content) for block in blocks], dtype=np.int64)
        records = np.array([block.records for block in blocks], np.int64)
        code, state, items = np.array(program.code), np.zeros(3, np.int64), np.zeros(program.depth + 1, np.int64)
        self._state: Any = state
        self._find: Any
        self._inputs: tuple[Any, ...]
        if kernels_ready():
            from puffin.kernels.avro import find_values

            self._find = find_values
            self._inputs = code, np.frombuffer(self._data, np.uint8), ends, records, state, items
        else:
            # Python computes several times as fast with its own integers as with numpy's.
            self._find = ops.find_values
            self._state = state.tolist()
            self._inputs = program.code, self._data, ends.tolist(), records.tolist(), self._state, items.tolist()
        self._is_compiled = kernels_ready()

    def find(self, rows: int) -> FoundValues:
        """The values of the next records; ValueError if there are none such."""
        size = self._slots * rows
        words: Any = np.empty(size, np.int64) if self._is_compiled else array.array("q", bytes(8 * size))
        lengths: Any = np.full(size, -1) if self._is_compiled else array.array("q", b"\xff" * (8 * size))
        found = self._find(*self._inputs, rows, words, lengths)
        if found != rows:
            raise ValueError(f"{_WHAT_IS_WRONG[found]}, in decompressed blocks before byte {self._state[2]}")
        shape = self._slots, rows
        return FoundValues(
            self._data, np.asarray(words, np.int64).reshape(shape), np.asarray(lengths, np.int64).reshape(shape)
        )


class _Compiler:
    def __init__(self) -> None:
        self.code: list[int] = []
        self.slots = 0
        self.depth = 0
        self._inside = 0

    def emit(self, operation: int, slot: int = ops.NO_SLOT, operand: int = 0) -> int:
        self.code += operation, slot, operand
        return len(self.code) - ops.WIDTH

    def fields(self, record: Record, wanted: WantedNames) -> dict[str, Leaf | Struct]:
        names = [field.name for field in record.fields]
        if any(names.count(name) != 1 for name in wanted):
            raise ValueError(f"expected one field each of {', '.join(wanted)}, found {', '.join(names)}")
        columns = {}
        for field in record.fields:
            column = self._value(field.type, wanted.get(field.name))
            if column is not None:
                columns[field.name] = column
        return columns

    def gaps(self, record: Record, wanted: WantedIds) -> None:
        """Step over a record, with a slot for the offset after each run of unwanted fields."""
        is_in_run = False
        for field in record.fields:
            is_wanted = field.field_id in wanted
            if is_in_run and is_wanted:
                self.emit(ops.FIXED, self._new_slot())
            is_in_run = not is_wanted
            inside = wanted[field.field_id] if is_wanted and field.field_id is not None else None
            if isinstance(field.type, Record) and inside is not None:
                self.gaps(field.type, inside)
            else:
                self._value(field.type, None)
        if is_in_run:
            self.emit(ops.FIXED, self._new_slot())

    def _value(self, type_: Type, wanted: WantedNames | None) -> Leaf | Struct | None:
        """Step over a value, or keep it if it is wanted."""
        if isinstance(type_, Union):
            return self._union(type_, wanted)
        if isinstance(type_, Record):
            if wanted is None:
                self.fields(type_, {})
                return None
            slot = self._new_slot()
            self.emit(ops.MARK, slot)
            return Struct(slot, self.fields(type_, wanted))
        if isinstance(type_, Items):
            if wanted is not None:
                raise NotImplementedError("expected a column of single values, found a list or a map")
            self._items(type_)
            return None
        return self._primitive(type_, wanted)

    def _primitive(self, type_: Primitive, wanted: WantedNames | None) -> Leaf | None:
        slot = ops.NO_SLOT
        if wanted is not None:
            if type_.arrow_type is None or wanted:
                raise NotImplementedError(f"expected a column that can be read, found one of Avro type {type_.name}")
            slot = self._new_slot()
        if type_.name in _NUMBERS:
            self.emit(ops.NUMBER, slot, _NUMBERS[type_.name])
        elif type_.name == "fixed":
            self.emit(ops.FIXED, slot, type_.size)
        elif type_ != NULL:
            self.emit(ops.LONG if type_.name in ("int", "long") else ops.STRING, slot)
        return None if wanted is None else Leaf(slot, type_.arrow_type)

    def _union(self, union: Union, wanted: WantedNames | None) -> Leaf | Struct | None:
        if wanted is not None and union.value is None:
            raise NotImplementedError("expected a column of one type, found a union of several")
        self.emit(ops.UNION, operand=len(union.branches))
        starts = [self.emit(ops.JUMP) for _ in union.branches]
        ends, column = [], None
        for start, branch in zip(starts, union.branches, strict=True):
            self._land(start)
            found = self._value(branch, None if branch == NULL else wanted)
            column = column or found
            ends.append(self.emit(ops.JUMP))
        for end in ends:
            self._land(end)
        return column

    def _items(self, items: Items) -> None:
        self._inside += 1
        self.depth = max(self.depth, self._inside)
        begin = self.emit(ops.ITEMS)
        self.emit(ops.SIZED, operand=begin)
        if items.has_keys:
            self.emit(ops.STRING)
        self._value(items.item, None)
        self.emit(ops.NEXT, operand=begin)
        self._land(begin)
        self._inside -= 1

    def _land(self, jump: int) -> None:
        """Let an instruction jump to the current end."""
        self.code[jump + 2] = len(self.code)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1
