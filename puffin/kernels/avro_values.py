"""
Find the values of Avro records: one loop for Python, which numba compiles too (`puffin.kernels.avro`).

Avro has no columns or offsets: a value begins where the one before it ends. So a schema becomes a program, which the
loop runs once per record and never beyond the bytes given. An instruction has three numbers: an operation, a slot and
an operand. A slot is a column of the result, or ``NO_SLOT`` for an unwanted value::

    END                       end of the record
    FIXED     slot  size      that many bytes
    NUMBER    slot  size      that many bytes, at most 8: a signed little-endian number
    MARK      slot            no bytes; marks that the record exists
    JUMP            target    go to the target
    LONG      slot            a varint
    STRING    slot            a varint, and that many bytes
    UNION           branches  a varint; skip that many instructions
    ITEMS           end       a varint, the number of items: 0 goes to the end, and a size follows a negative one
    SIZED           items     a varint, and that many bytes; back to ITEMS. The first item's instructions follow this
    NEXT            items     after an item: go to the next one, or back to ITEMS

The loop uses only what numba and Python share: no integers beyond 64 bits, no functions, no objects.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

NO_SLOT = -1
WIDTH = 3  # numbers in an instruction
END, FIXED, NUMBER, MARK, JUMP, LONG, STRING, UNION, ITEMS, SIZED, NEXT = range(11)

TOO_SHORT, TOO_LONG, NO_BRANCH, NO_COUNT, LEFT_OVER = -1, -2, -3, -4, -5
"""Errors, returned in place of a number of records."""

_LAST_SHIFT = 63
_ALL_BUT_SIGN = 0x7FFF_FFFF_FFFF_FFFF


def find_values(  # noqa: C901 - one loop, because numba cannot call plain Python functions
    program: Sequence[int],
    data: Sequence[int],
    ends: Sequence[int],
    records: Sequence[int],
    state: MutableSequence[int],
    items: MutableSequence[int],
    rows: int,
    words: MutableSequence[int],
    lengths: MutableSequence[int],
) -> int:
    """
    Read the next records from the blocks of a file.

    Args:
        data: The blocks, joined.
        ends: The end of each block in the data.
        records: The number of records in each block.
        state: The block, its finished records and the next offset in the data; updated.
        items: Work space: one number per level of nested arrays and maps.
        rows: The number of records to read, at most those left.
        words: Filled with ``rows`` numbers per slot: a number, or the offset of a value in the data.
        lengths: Of the same shape, and all -1 at first: filled with the size in bytes, unless the value is null.

    Returns:
        ``rows``, or an error, whose offset is in the state.
    """
    block, done, at = state[0], state[1], state[2]
    depth = 0
    for row in range(rows):
        while done == records[block]:
            if at != ends[block]:
                state[2] = at
                return LEFT_OVER
            block += 1
            done = 0
        end = ends[block]
        place = 0
        while True:
            operation, slot, operand = program[place], program[place + 1], program[place + 2]
            place += WIDTH
            value = 0
            if operation >= LONG and operation != NEXT:
                shift = 0
                while True:
                    if at >= end:
                        state[2] = at
                        return TOO_SHORT
                    byte = int(data[at])
                    at += 1
                    if shift == _LAST_SHIFT and byte > 1:
                        state[2] = at
                        return TOO_LONG
                    value |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                value = ((value >> 1) & _ALL_BUT_SIGN) ^ -(value & 1)
            if operation == LONG:
                if slot >= 0:
                    words[slot * rows + row] = value
                    lengths[slot * rows + row] = 0
            elif operation == UNION:
                if value < 0 or value >= operand:
                    state[2] = at
                    return NO_BRANCH
                place += value * WIDTH
            elif operation == JUMP:
                place = operand
            elif operation in (STRING, FIXED, SIZED):
                size = operand if operation == FIXED else value
                if size < 0 or size > end - at:
                    state[2] = at
                    return TOO_SHORT
                if operation == SIZED:
                    place = operand
                elif slot >= 0:
                    words[slot * rows + row] = at
                    lengths[slot * rows + row] = size
                at += size
            elif operation == NUMBER:
                if operand > end - at:
                    state[2] = at
                    return TOO_SHORT
                if slot >= 0:
                    for i in range(operand - 1):
                        value |= int(data[at + i]) << (8 * i)
                    last = (int(data[at + operand - 1]) ^ 0x80) - 0x80
                    words[slot * rows + row] = value | (last << (8 * (operand - 1)))
                    lengths[slot * rows + row] = operand
                at += operand
            elif operation == END:
                break
            elif operation == MARK:
                lengths[slot * rows + row] = 0
            elif operation == ITEMS:
                if value == 0:
                    place = operand
                elif value > end - at:  # an item takes at least one byte
                    state[2] = at
                    return NO_COUNT
                elif value > 0:
                    items[depth] = value
                    depth += 1
                    place += WIDTH
            else:
                items[depth - 1] -= 1
                if items[depth - 1] > 0:
                    place = operand + WIDTH + WIDTH
                else:
                    depth -= 1
                    place = operand
        done += 1
    if rows > 0 and done == records[block] and at != ends[block]:
        state[2] = at
        return LEFT_OVER
    state[0], state[1], state[2] = block, done, at
    return rows
