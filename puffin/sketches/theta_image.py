"""
The byte image of a compact theta sketch: strict reading, and writing as Java does.

Everything is little-endian. The first eight bytes are always present; the preamble longs decide what follows::

    byte   0  preamble longs     1 empty or single item, 2 exact, 3 estimating
           1  serial version     3 (4 is the compressed form)
           2  family             3, compact
           3  lg nominal longs   0 in a compact sketch    (serial version 4: bits per delta)
           4  lg array longs     0 in a compact sketch    (serial version 4: bytes of the count)
           5  flags
           6  seed hash          2 bytes
           8  retained entries   4 bytes, from two preamble longs on
          12  p                  4 bytes, sampling probability; no reader uses it
          16  theta              8 bytes, with three preamble longs
      then    hashes             8 bytes each

Serial version 4 has theta at byte 8 if it is estimating (two preamble longs), then the count, then the differences
between neighbouring hashes, packed most significant bit first. We read it but never write it, because older Java cannot
read it. Versions 1 and 2 are older than Puffin.

Java and C++ disagree in three places, and we read both: Java leaves the seed hash of an empty sketch zero, flags a
single item as one, and writes 1.0 for p where C++ writes 0.0.

Inspecting a small sketch takes less time than importing numpy. So only these images import it: serial version 4,
unordered, very large, or broken ones.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import lt

from puffin.errors import UnsupportedError
from puffin.sketches.image_rules import SEED_HASH, ImageRules

MAX_THETA = (1 << 63) - 1

_RULES = ImageRules("theta sketch")
_expect = _RULES.expect
_SERIAL_VERSION = 3
_COMPRESSED_SERIAL_VERSION = 4
_FAMILY = 3
_MAX_RETAINED = 1 << 27  # twice the nominal entries of the largest sketch, lg_k 26

_PREAMBLE = struct.Struct("<BBBBBBH")
_FAMILY_OFFSET, _LG_NOMINAL_OFFSET, _LG_ARRAY_OFFSET, _FLAGS_OFFSET, _SEED_HASH_OFFSET = range(2, 7)
_COUNT_OFFSET, _P_OFFSET, _THETA_OFFSET = 8, 12, 16
_COUNT_AND_P = struct.Struct("<If")
_THETA = struct.Struct("<Q")

_BIG_ENDIAN = 0x01
_READ_ONLY = 0x02
_EMPTY = 0x04
_COMPACT = 0x08
_ORDERED = 0x10
_SINGLE_ITEM = 0x20
_KNOWN_FLAGS = _BIG_ENDIAN | _READ_ONLY | _EMPTY | _COMPACT | _ORDERED | _SINGLE_ITEM

_FEW_HASHES = 1 << 16  # comparing this many takes less time than importing numpy


@dataclass(frozen=True, slots=True, eq=False)
class SketchImage:
    """
    The content of the image of a compact theta sketch.

    Attributes:
        theta: Every hash is below it; 2^63 - 1 while the sketch is exact.
        hashes: Ascending, distinct, each above 0 and below theta; unsigned 64-bit words, read-only.
        seed_hash: As stored: 0x93CC, or 0 in an empty sketch from Java.
    """

    theta: int
    hashes: memoryview
    seed_hash: int = SEED_HASH
    serial_version: int = _SERIAL_VERSION

    @classmethod
    def parse(cls, image: bytes | bytearray | memoryview) -> SketchImage:
        """
        Read an image of serial version 3 or 4.

        CorruptSketchError if a field breaks its rule or the size is wrong; UnsupportedError if the image is big-endian
        or of another serial version.
        """
        view = memoryview(image).cast("B")
        _RULES.expect_at_least(view, _PREAMBLE.size)
        preamble_longs, serial_version, family, lg_nominal, lg_array, flags, seed_hash = _PREAMBLE.unpack_from(view)
        _expect(family == _FAMILY, _FAMILY_OFFSET, "family", _FAMILY, family)
        if serial_version not in (_SERIAL_VERSION, _COMPRESSED_SERIAL_VERSION):
            raise UnsupportedError(f"theta sketch: expected serial version 3 or 4, found {serial_version}")
        _check_flags(flags)
        is_seed_hash = seed_hash == SEED_HASH or (bool(flags & _EMPTY) and seed_hash == 0)
        _expect(is_seed_hash, _SEED_HASH_OFFSET, "seed hash", f"{SEED_HASH:#06x} (seed 9001)", f"{seed_hash:#06x}")
        if serial_version == _COMPRESSED_SERIAL_VERSION:
            theta, hashes = _parse_compressed(view, preamble_longs, lg_nominal, lg_array, flags)
        else:
            _expect(lg_nominal == 0, _LG_NOMINAL_OFFSET, "lg nominal longs", 0, lg_nominal)
            _expect(lg_array == 0, _LG_ARRAY_OFFSET, "lg array longs", 0, lg_array)
            theta, hashes = _parse_plain(view, preamble_longs, flags)
        return cls(theta, hashes, seed_hash, serial_version)

    def to_bytes(self) -> bytes:
        """The image in serial version 3, byte for byte as Java writes an ordered compact sketch."""
        count = len(self.hashes)
        is_estimating = self.theta < MAX_THETA
        flags = _READ_ONLY | _COMPACT | _ORDERED
        if count == 0 and not is_estimating:
            return _PREAMBLE.pack(1, _SERIAL_VERSION, _FAMILY, 0, 0, flags | _EMPTY, 0)
        entries = _words(memoryview(self.hashes).tobytes()).tobytes()
        if count == 1 and not is_estimating:
            return _PREAMBLE.pack(1, _SERIAL_VERSION, _FAMILY, 0, 0, flags | _SINGLE_ITEM, SEED_HASH) + entries
        preamble = _PREAMBLE.pack(3 if is_estimating else 2, _SERIAL_VERSION, _FAMILY, 0, 0, flags, SEED_HASH)
        theta = _THETA.pack(self.theta) if is_estimating else b""
        return preamble + _COUNT_AND_P.pack(count, 1.0) + theta + entries


def ascend(hashes: Sequence[int] | memoryview, theta: int) -> bool:
    """Whether each of 0, the hashes and theta is above the one before it."""
    bounded = [0, *hashes, theta]
    return all(map(lt, bounded, bounded[1:]))


# --- serial version 3 ---------------------------------------------------------------------------------------------


def _parse_plain(view: memoryview, preamble_longs: int, flags: int) -> tuple[int, memoryview]:
    _expect(1 <= preamble_longs <= 3, 0, "preamble longs", "1, 2 or 3", preamble_longs)
    is_empty, is_single = bool(flags & _EMPTY), bool(flags & _SINGLE_ITEM)
    _expect(preamble_longs == 1 or not (is_empty or is_single), 0, "preamble longs of this flag", 1, preamble_longs)
    first = preamble_longs * 8
    count, theta = (0 if is_empty else 1), MAX_THETA
    if preamble_longs > 1:
        _RULES.expect_at_least(view, first)
        count, p = _COUNT_AND_P.unpack_from(view, _COUNT_OFFSET)
        _expect(count <= _MAX_RETAINED, _COUNT_OFFSET, "retained entries", f"at most {_MAX_RETAINED}", count)
        _expect(0.0 <= p <= 1.0, _P_OFFSET, "p", "0.0 to 1.0", p)
    if preamble_longs == 3:
        theta = _parse_theta(view, _THETA_OFFSET)
    _RULES.expect_size(view, first + 8 * count)
    hashes = memoryview(_words(bytes(view[first:]))).toreadonly()
    return theta, _checked_hashes(hashes, theta, is_ordered=bool(flags & _ORDERED), offset=first, entry_bits=64)


def _words(entries: bytes) -> array[int]:
    """Convert little-endian words to words of this machine, or back."""
    words = array("Q", entries)
    if sys.byteorder == "big":
        words.byteswap()
    return words


# --- serial version 4 ---------------------------------------------------------------------------------------------


def _parse_compressed(
    view: memoryview, preamble_longs: int, delta_bits: int, count_bytes: int, flags: int
) -> tuple[int, memoryview]:
    _expect(preamble_longs in (1, 2), 0, "preamble longs", "1 or 2", preamble_longs)
    _expect(1 <= delta_bits <= 63, _LG_NOMINAL_OFFSET, "bits per delta", "1 to 63", delta_bits)
    _expect(1 <= count_bytes <= 4, _LG_ARRAY_OFFSET, "bytes of the count", "1 to 4", count_bytes)
    wanted = _READ_ONLY | _COMPACT | _ORDERED
    _expect(flags == wanted, _FLAGS_OFFSET, "flags of a compressed sketch", f"{wanted:#04x}", f"{flags:#04x}")
    count_offset = preamble_longs * 8
    first = count_offset + count_bytes
    _RULES.expect_at_least(view, first)
    theta = _parse_theta(view, _COUNT_OFFSET) if preamble_longs == 2 else MAX_THETA
    count = int.from_bytes(view[count_offset:first], "little")
    _expect(1 <= count <= _MAX_RETAINED, count_offset, "retained entries", f"1 to {_MAX_RETAINED}", count)
    _RULES.expect_size(view, first + (count * delta_bits + 7) // 8)
    padding = view[-1] & ((1 << (-count * delta_bits % 8)) - 1)
    _expect(padding == 0, len(view) - 1, "padding", "zero bits", f"{padding:#04x}")
    from puffin.sketches.image_arrays import running_sums

    hashes = running_sums(view[first:], count, delta_bits)
    return theta, _checked_hashes(hashes, theta, is_ordered=True, offset=first, entry_bits=delta_bits)


# --- rules --------------------------------------------------------------------------------------------------------


def _parse_theta(view: memoryview, offset: int) -> int:
    theta = int(_THETA.unpack_from(view, offset)[0])
    _expect(1 <= theta <= MAX_THETA, offset, "theta", f"1 to {MAX_THETA}", theta)
    return theta


def _checked_hashes(hashes: memoryview, theta: int, *, is_ordered: bool, offset: int, entry_bits: int) -> memoryview:
    """Sort the hashes if they are unordered, and check them; errors name the hash that breaks a rule."""
    # If numpy is imported already, it is always faster.
    is_quick = is_ordered and len(hashes) <= _FEW_HASHES and "numpy" not in sys.modules
    if is_quick and ascend(hashes, theta):
        return hashes
    from puffin.sketches import image_arrays

    if (entry := image_arrays.first_outside(hashes, theta)) is not None:
        where = offset + entry * entry_bits // 8
        _expect(False, where, "hash", f"above 0 and below theta {theta}", hashes[entry])
    in_order = hashes if is_ordered else image_arrays.ascending(hashes)
    if (entry := image_arrays.first_not_above_the_one_before(in_order)) is not None:
        where = offset + entry * entry_bits // 8 if is_ordered else offset
        rule = f"above the one before it, {in_order[entry - 1]}" if is_ordered else "no repetition"
        _expect(False, where, "hash", rule, in_order[entry])
    return in_order


def _check_flags(flags: int) -> None:
    _expect(flags & ~_KNOWN_FLAGS == 0, _FLAGS_OFFSET, "flags", "bits 6 and 7 clear", f"{flags:#04x}")
    if flags & _BIG_ENDIAN:
        raise UnsupportedError(f"theta sketch: big-endian image (flags {flags:#04x} at offset {_FLAGS_OFFSET})")
    _expect(flags & _COMPACT != 0, _FLAGS_OFFSET, "flags", "compact (bit 3)", f"{flags:#04x}")
    _expect(flags & _READ_ONLY != 0, _FLAGS_OFFSET, "flags", "read-only (bit 1)", f"{flags:#04x}")
    both = _EMPTY | _SINGLE_ITEM
    _expect(flags & both != both, _FLAGS_OFFSET, "flags", "empty or single item, not both", f"{flags:#04x}")
