"""Convert decimals to and from their unscaled numbers without losing digits, whatever the caller's decimal context."""

from __future__ import annotations

import decimal

# Columns have 38 digits, Python's default context 28. A manifest may hold longer numbers, rejected elsewhere.
_EXACT = decimal.Context(prec=100)


def to_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)


def to_unscaled(value: decimal.Decimal, scale: int) -> int:
    """The unscaled number; cuts off digits beyond the scale."""
    return int(value.scaleb(scale, _EXACT))
