"""Agreement between a figure in a reason and a number that was shown, in the units of both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from ktdeval_rationale.claims.quantities import Quantity
from ktdeval_rationale.claims.text_figures import TextFigure

_PERCENT_FIELDS = ("mom_12_1", "rev_on", "mom_id", "high_52w")
_SHOWN_DIGITS = 4  # minimum number of digits of a number without decimals
_NEAR_SHARE = 0.10
_FAR_SHARE = 0.25


class ClaimVerdict(StrEnum):
    """Verdict on a claim."""

    RIGHT = "right"
    UNPLACED = "unplaced"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class FigureReading:
    """Direction and certainty of a figure, from the words around it."""

    direction: int = 0  #: 1 if adjacent words express a rise, -1 for a fall, 0 for neither
    is_hedged: bool = False  #: whether the figure is approximate, as in `about 20`
    may_fall: bool = False  #: whether the clause contains words for a fall


def slack(number: float) -> float:
    """Return half a unit of the last digit shown in a number."""
    if number == 0:
        return 0.0

    text = repr(abs(number))
    if "e" not in text and not text.endswith(".0"):
        return 0.5 * 10.0 ** -len(text.partition(".")[2])
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(number))) - _SHOWN_DIGITS + 1)


def figure_verdict(
    figure: TextFigure, quantity: Quantity, field: str, number: float, reading: FigureReading
) -> ClaimVerdict:
    """Return whether a figure agrees with a field's number."""
    factors = _factors(figure, quantity, field)
    if not factors:
        return ClaimVerdict.UNPLACED

    verdicts: list[ClaimVerdict] = []
    for factor in factors:
        verdicts.append(_scaled_verdict(figure, quantity, number * factor, factor, reading))

    return most_lenient(verdicts)


def most_lenient(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict most favourable to a claim that can be read in several ways."""
    return min(verdicts, key=list(ClaimVerdict).index)


def in_figure_units(
    figure: TextFigure, quantity: Quantity, field: str, number: float
) -> list[float]:
    """Return a field's number in each unit that the figure might be in."""
    return [number * factor for factor in _factors(figure, quantity, field)]


def _factors(figure: TextFigure, quantity: Quantity, field: str) -> tuple[float, ...]:
    """Return the factors that convert a field's number to the units that the figure might be in;
    empty if figure and field measure different things.
    """
    is_percent_field = field.endswith("_pct") or field in _PERCENT_FIELDS or field.startswith("rv_")
    match quantity.unit:
        case "price" | "money" | "count":
            return () if figure.is_percent else (1.0,)
        case "share":
            return (100.0,) if figure.is_percent else (1.0, 100.0)
        case "ratio":
            return (100.0, 1.0) if figure.is_percent else (1.0,)
        case _:
            if is_percent_field:
                return (1.0,) if figure.is_percent else (1.0, 0.01)
            return (1.0, 100.0) if figure.is_percent else (1.0, 0.01, 100.0)


def _scaled_verdict(
    figure: TextFigure, quantity: Quantity, number: float, factor: float, reading: FigureReading
) -> ClaimVerdict:
    room = slack(number / factor) * factor
    figure, number, is_sign_open = _apply_sign(figure, quantity, number, reading)
    sizes = (number,) if not is_sign_open else (number, -number)

    if any(figure.matches(size, room) for size in sizes):
        return ClaimVerdict.RIGHT
    if not reading.is_hedged:
        return ClaimVerdict.WRONG
    return most_lenient(_judge_hedged(figure, size) for size in sizes)


def _apply_sign(
    figure: TextFigure, quantity: Quantity, number: float, reading: FigureReading
) -> tuple[TextFigure, float, bool]:
    """Return the figure and the number with signs aligned for comparison, and whether either sign
    is accepted.
    """
    if quantity.unit == "loss":
        return _absolute(figure), abs(number), False
    if quantity.unit == "fall":
        return _absolute(figure), -number, False
    if figure.is_signed or figure.high is not None:
        return figure, number, False
    if reading.direction:
        return figure, number * reading.direction, False
    return figure, number, reading.may_fall


def _absolute(figure: TextFigure) -> TextFigure:
    if figure.high is not None:
        return figure
    return replace(figure, value=abs(figure.value))


def _judge_hedged(figure: TextFigure, number: float) -> ClaimVerdict:
    """Judge an approximate figure, such as `about 20`. A number close to the figure makes it right,
    a number further away leaves it unplaced, and any other number makes it wrong.
    """
    off = abs(number - figure.value)
    if figure.high is not None:
        return ClaimVerdict.UNPLACED
    if off <= max(_NEAR_SHARE * abs(figure.value), 2 * figure.half_unit):
        return ClaimVerdict.RIGHT
    if off <= max(_FAR_SHARE * abs(figure.value), 6 * figure.half_unit):
        return ClaimVerdict.UNPLACED
    return ClaimVerdict.WRONG
