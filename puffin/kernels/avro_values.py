"""
Where the values of Avro records stand: one loop, which Python runs as it is and numba compiles (`puffin.kernels.avro`).

Avro has no column and no offset: where a value begins only all before it tell. So a schema becomes a program, and the
loop runs it once for each record, without a step outside the bytes given. An instruction is three numbers, the
operation, a slot and an operand; a slot is a column of the result, ``NO_SLOT`` for what nobody wants::

    END                       the record ends here
    FIXED     slot  size      so many bytes
    NUMBER    slot  size      so many bytes, at most 8, a signed little-endian number
    MARK      slot            no bytes; says that there is a record
    JUMP            target    go there
    LONG      slot            a varint
    STRING    slot            a varint, and as many bytes
    UNION           branches  a varint; go on at the instruction so many behind this one
    ITEMS           end       a varint: how many items follow; none: go to the end; less: their size follows
    SIZED           items     a varint, and as many bytes; back to ITEMS. The first item's instructions are behind this
    NEXT            items     after an item: to the next one, or back to ITEMS

What the loop may not use is what numba and Python do not share: integers of more than 64 bits, functions, objects.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

NO_SLOT = -1
WIDTH = 3  # numbers in an instruction
END, FIXED, NUMBER, MARK, JUMP, LONG, STRING, UNION, ITEMS, SIZED, NEXT = range(11)

TOO_SHORT, TOO_LONG, NO_BRANCH, NO_COUNT, LEFT_OVER = -1, -2, -3, -4, -5
"""What is wrong, instead of a number of records."""

_LAST_SHIFT = 63
_ALL_BUT_SIGN = 0x7FFF_FFFF_FFFF_FFFF


def find_values(  # noqa: C901 - numba takes no calls of what Python can run too, so it is one loop
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
    Go on through the blocks of a file for a number of records.

    Args:
        data: The blocks, one behind the other.
        ends: Where each of them ends.
        records: How many records each of them has.
        state: Three numbers, kept up to date: the block, how many of its records are done, the next byte's place.
        items: As many numbers as arrays and maps can be inside each other, to work with.
        rows: How many records to read, no more than are left.
        words: For each slot as many numbers as rows, to be filled: a number, or where in the data a value begins.
        lengths: Likewise, all -1: how many bytes a value has. What is null stays -1.

    Returns:
        ``rows``, or what is wrong; the place in the state is where.
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
                elif value > end - at:  # an item takes a byte at least
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
