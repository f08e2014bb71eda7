"""Amounts of money in command-line options."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ktdeval.errors import UsageError

#: upper bound on capital; in minor units, a ledger's integers can hold 92,000 times as much
MAX_CASH = 10**15


def capital_of(text: str, option: str = "--cash") -> int:
    """Return a capital given as a whole number above 0, such as 1e6. Raises UsageError for any
    other text.
    """
    try:
        number = Decimal(text.strip().replace("_", ""))
    except InvalidOperation:
        number = Decimal("NaN")

    is_whole = number.is_finite() and number == number.to_integral_value()
    if not is_whole or not 0 < number <= MAX_CASH:
        raise UsageError(
            f"{option} {text!r}: expected a whole number of units of currency above 0, such as 1e6,"
            f" up to {MAX_CASH:.0e}"
        )

    return int(number)
