"""Convert decimals to and from their unscaled numbers without losing digits, whatever the caller's decimal context."""

from __future__ import annotations

import decimal

# Columns have 38 digits, Python's default context 28. A manifest may hold longer numbers, rejected elsewhere.
_EXACT = decimal.Context(prec=100)


def to_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)


def decimal_text(value: decimal.Decimal) -> str:
    """The text in digits alone (appendix D); ``str`` gives small numbers an exponent."""
    return f"{value:f}"


def unscaled_bytes(unscaled: int) -> bytes:
    """The fewest bytes that hold a number with its sign (appendix D)."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def plain_width(precision: int) -> int:
    """The bytes of a decimal in Parquet's PLAIN encoding: 4, 8, or the fewest that hold all digits and the sign."""
    largest: int = 10**precision
    return 4 if precision <= 9 else 8 if precision <= 18 else (largest.bit_length() + 8) // 8


def to_unscaled(value: decimal.Decimal, scale: int) -> int:
    """The unscaled number; cuts off digits beyond the scale."""
    return int(value.scaleb(scale, _EXACT))
