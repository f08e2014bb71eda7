"""Changes to one input of a prompt, as users spell them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from ktdeval.errors import UsageError

Operation = Literal["set", "add", "times", "reversed", "shuffled"]

ORDER = "order"  #: order of the candidates or of the universe
LABELS = "labels"  #: handles of assets and industries
TEXT = "text"  #: wording of the prompt: a text that another one replaces
EACH = "each"  #: represents one change to each input that is shown
DEALT: tuple[Operation, ...] = ("reversed", "shuffled")
"""Operations that permute the values shown among rows, so that each value stays one that the market
had.
"""

_FORM = (
    "FIELD=VALUE, such as MOM_12_1=reversed, news.sentiment=positive, close=+1 %, 'MOM_12_1 of"
    " asset_0042=1.5', order=shuffled, 'text of OLD=NEW', or each"
)
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_PER_CENT = re.compile(rf"({_NUMBER})\s*%")
_TIMES = re.compile(rf"\*\s*({_NUMBER})")
_ADD = re.compile(rf"\+\s*({_NUMBER})")
_MAX_WORDS = 200  # maximum number of characters in a text to set


@dataclass(frozen=True, slots=True)
class InputChange:
    """Change to one input. `field` is a candidate column, `SECTION.FIELD`, a whole section,
    `ORDER`, `LABELS` or `TEXT`.
    """

    text: str  #: name of the change in reports
    field: str
    operation: Operation
    #: handle of the only asset to change; empty: all assets. Of `TEXT`: the text to replace
    stock: str = ""
    number: float = 0.0  #: operand of `set`, `add` and `times`
    words: str = ""  #: text to set, instead of a number

    @property
    def is_placebo(self) -> bool:
        """True if the change affects nothing on which a decision should depend."""
        return self.field in (ORDER, LABELS)

    @property
    def is_dealt(self) -> bool:
        """True if the change redistributes the values shown among the rows."""
        return self.operation in DEALT


def parse_change(text: str) -> InputChange:
    """Parse a change as written by a user. Raises UsageError if the text is malformed."""
    left, is_split, value = text.strip().partition("=")
    left = left.strip()
    value = value.strip()
    if not is_split or not left or not value:
        raise UsageError(f"--change {text!r:.100}: expected {_FORM}")

    if left == "order of candidates":
        left = ORDER

    field, _, stock = left.removeprefix("factor ").partition(" of ")
    field = field.strip()
    stock = stock.strip()
    if field in ("label", LABELS):
        field = LABELS

    if field == TEXT:
        return _parse_rewording(stock, value, text)

    operation, number, words = _operation(value, text)
    name = f"{field} of {stock}" if stock else field
    change = InputChange(f"{name}={value}", field, operation, stock, number, words)
    if change.is_placebo and (stock or not change.is_dealt):
        raise UsageError(
            f"--change {text!r:.100}: {field} can only be reversed or shuffled, for all stocks"
            " together"
        )
    if stock and change.is_dealt:
        raise UsageError(
            f"--change {text!r:.100}: {value} permutes the values of all stocks; for {stock}"
            " only, give a value"
        )

    return change


def _parse_rewording(old: str, new: str, text: str) -> InputChange:
    if not old or max(len(old), len(new)) > _MAX_WORDS or not f"{old}{new}".isprintable():
        raise UsageError(
            f"--change {text!r:.100}: expected 'text of OLD=NEW', each of at most {_MAX_WORDS}"
            " printable characters"
        )
    return InputChange(f"{TEXT} of {old}={new}", TEXT, "set", old, 0.0, new)


def _operation(value: str, text: str) -> tuple[Operation, float, str]:
    """Parse a value into an operation, its operand and its text."""
    for dealt in DEALT:
        if value == dealt:
            return dealt, 0.0, ""

    if found := _PER_CENT.fullmatch(value):
        return "times", 1.0 + float(found[1]) / 100.0, ""
    if found := _TIMES.fullmatch(value):
        return "times", _finite(found[1], text), ""
    if found := _ADD.fullmatch(value):
        return "add", _finite(found[1], text), ""
    if re.fullmatch(_NUMBER, value):
        return "set", _finite(value, text), ""

    if len(value) > _MAX_WORDS or not value.isprintable():
        raise UsageError(
            f"--change {text!r:.100}: a text may have at most {_MAX_WORDS} printable characters"
        )
    return "set", 0.0, value


def _finite(number: str, text: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise UsageError(f"--change {text!r:.100}: {number} is not a finite number")
    return value
