"""Amounts of money in command-line options."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ktdeval.errors import UsageError

MAX_CASH = 10**15  #: in minor units, a ledger's integers hold 92,000 times as many


def capital_of(text: str, option: str = "--cash") -> int:
    """Return a capital: a whole number above 0, such as 1e6. Raises UsageError if the text is not
    such a number.
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
