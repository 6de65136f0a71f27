"""Integers of seven bits a byte, lowest first, as Avro, ORC, Snappy and Thrift write lengths and numbers."""

from __future__ import annotations

_MAX_SHIFT = 63


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned integer at an offset, and the offset after it; ValueError past 64 bits, IndexError past the end."""
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > _MAX_SHIFT:  # otherwise each further byte costs as much as all before it
            raise ValueError(f"an integer of more than 64 bits before offset {at}")
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > _MAX_SHIFT and value >> 64:
        raise ValueError(f"an integer of more than 64 bits before offset {at}")
    return value, at + 1


def zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def varint(value: int) -> bytes:
    """Encode an unsigned integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
