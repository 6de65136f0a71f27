"""Decimals and the whole numbers they are stored as; no digit is lost, whatever decimal context the caller has set."""

from __future__ import annotations

import decimal

# Columns have 38 digits, Python's default context 28. A manifest may hold longer numbers, which are refused elsewhere.
_EXACT = decimal.Context(prec=100)


def to_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    """The decimal with this unscaled number."""
    return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)


def to_unscaled(value: decimal.Decimal, scale: int) -> int:
    """The unscaled number of a decimal; what is finer than the scale is cut off."""
    return int(value.scaleb(scale, _EXACT))
