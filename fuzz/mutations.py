"""Bytes made wrong in the ways that files go wrong, and in those that whoever means harm would try first."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

# Lengths and counts at which arithmetic turns over, as little-endian and as big-endian numbers of one to eight bytes.
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
_MOST_AT_ONCE = 3


def mutations(inputs: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """So many mutations of the inputs, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(inputs))
        for _ in range(chance.randint(1, _MOST_AT_ONCE)):
            chance.choice(_MUTATIONS)(data, chance, inputs)
        yield bytes(data)


def _flip(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut_short(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    del data[chance.randint(0, len(data)) :]


def _leave_out(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    start = chance.randint(0, len(data))
    del data[start : start + chance.randint(1, 16)]


def _repeat(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    start = chance.randint(0, len(data))
    data[start:start] = data[start : start + chance.randint(1, 64)] * chance.randint(1, 8)


def _splice(data: bytearray, chance: random.Random, inputs: Sequence[bytes]) -> None:
    other = chance.choice(inputs)
    data[chance.randint(0, len(data)) :] = other[chance.randint(0, len(other)) :]


def _overwrite_number(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    size = chance.choice((1, 2, 4, 8))
    number = chance.choice(_NUMBERS) & ((1 << 8 * size) - 1)
    start = chance.randint(0, len(data))
    data[start : start + size] = number.to_bytes(size, chance.choice(("little", "big")))


_MUTATIONS: tuple[Callable[[bytearray, random.Random, Sequence[bytes]], None], ...] = (
    *(_flip, _cut_short, _leave_out, _repeat, _splice, _overwrite_number),
)
