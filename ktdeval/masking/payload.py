"""Typed payloads: every identity in them knows that it is one, so a mask never has to guess from text.

A payload is a tree of dicts (string keys), lists, tuples, plain scalars and the field types below. It is built from the true
market; only `Lens.render` turns it into what a model may see.

Numbers are rendered short, exact enough, and never to be mistaken for a code or a date. A run of six digits can be a security code,
one of eight a date, and `2024` a year. So numbers from 100,000 on and prices below 0.001 are written with an exponent, fractions
have at most five digits, and whole numbers in the range of years carry a `.0`. Then the leak guard can treat every standalone run
of six or eight digits and every bare year as what it looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from ktdeval.errors import PluginError
from ktdeval.jsonio import JsonValue, dumps_compact
from ktdeval.masking.draws import Part, round_significant
from ktdeval.masking.shortening import ROOM_FOR_MARK, cut_mark, cut_position

Payload = Any  # str | int | float | bool | None | field type | list[Payload] | tuple[Payload, ...] | dict[str, Payload]


def figure(value: Any, digits: int = 4) -> float | None:
    """Return a number for a payload, at few significant digits so that tables stay short; None where it is not defined."""
    number = float(value)
    return round_significant(number, digits) if math.isfinite(number) else None


def table(columns: Sequence[str], rows: Iterable[Sequence[Payload]]) -> Payload:
    """Return a table payload, in which column names are given once."""
    return {"columns": list(columns), "rows": [list(row) for row in rows]}


class Exact(NamedTuple):
    """Plain JSON of a service, shown to its last digit; only masks that hide nothing take it."""

    value: JsonValue

    def text(self) -> str:
        """Compact JSON, keys in the order given."""
        return dumps_compact(self.value)


class Figure(NamedTuple):
    """A number from market data that may tell whose it is (a return, a factor value), rounded under `round_digits`; an asset's
    carries noise under `noise_pct`. `AssetRef.figure`, `AssetRef.change_pct` and `DayRef.figure` make them.
    """

    value: float  #: the number
    asset: int | None = None  #: column of the asset that it describes; None for the market as a whole, which gets no noise
    day: int | None = None  #: row of the day that it describes; None where there is none, and then it gets no noise
    name: str = ""  #: which figure of this asset and day, so that each has a noise of its own
    since: int | None = None  #: for the change of a price in per cent: row of the day that it counts from


class AssetRef(NamedTuple):
    """An asset, by its column in the snapshot."""

    asset: int

    def figure(self, value: float, name: str, day: int) -> Figure:
        """A figure of this asset on a day, such as a turnover or a factor value; its noise is a share of it."""
        return Figure(value, self.asset, day, name)

    def change_pct(self, value: float, day: int, since: int) -> Figure:
        """Change of the price between two closes in per cent; its noise agrees with that of the two prices."""
        return Figure(value, self.asset, day, "change_pct", since)


class AssetName(NamedTuple):
    """Company name of an asset: shown where assets are visible, absent (null) where they are hidden."""

    asset: int


class DayRef(NamedTuple):
    """A trading day, by its row in the snapshot."""

    day: int

    def figure(self, value: float) -> Figure:
        """A figure of the market as a whole on this day, such as an index return."""
        return Figure(value, day=self.day)


class SectorRef(NamedTuple):
    """An industry, by name."""

    industry: str


class Price(NamedTuple):
    """Price of one asset, rescaled under `rebase_prices`, rounded under `round_digits`."""

    asset: int  #: column of the asset
    value: float  #: units of currency a share
    day: int | None = None  #: row of the bar that the price is of, or follows from; None for a price of no bar, which gets no noise
    part: Part = "close"  #: which of the bar's prices
    #: for a price that is a multiple of another one: it is taken of that one as shown, so that it tells no digit more of it
    times: float = 1.0


class TinyPrice(float):
    """A price below `TINY`, as some coins have; it is written at six significant digits."""


class Shares(NamedTuple):
    """A number of shares of one asset, rescaled inversely under `rebase_prices`. Shares held or ordered are rescaled by the
    level as known under the mask (`Lens.known_price`): whole lots of several sizes would else tell its further digits.
    """

    asset: int  #: column of the asset
    value: float  #: how many
    #: row of the bar whose volume it is, which has four digits or those of the mask, and gets noise; None for shares held or
    #: ordered, exact unless prices are rebased and rounded
    day: int | None = None


class Prose(NamedTuple):
    """A text with what a mask hides taken out of it (`TextMask`): plain pieces and field types, shown one after the other."""

    parts: tuple[str | AssetRef | DayRef | SectorRef, ...]

    @property
    def plain(self) -> str:
        """The text with a handle of the usual form for each field type."""
        return "".join(map(_plain, self.parts))

    def shorten(self, most: int) -> tuple[Prose, bool]:
        """Return the text, or its beginning within `most` characters with a mark, cut between words (`masking.shortening`); and
        whether it was cut.
        """
        text = self.plain
        if len(text) <= most:
            return self, False
        end = cut_position(text, most - ROOM_FOR_MARK)
        kept: list[str | AssetRef | DayRef | SectorRef] = []
        start = 0
        for part in self.parts:
            if start >= end:
                break
            kept.append(part[: end - start] if isinstance(part, str) else part)
            start += len(_plain(part))
        return Prose((*kept, cut_mark(text[:end]))), True


# Two digits of a day and of an asset's number read as a month, a day or a year where any could.
_PLAIN_HANDLES = {AssetRef: "asset_0012", DayRef: "day_+12", SectorRef: "sector_12"}


def _plain(part: str | AssetRef | DayRef | SectorRef) -> str:
    return part if isinstance(part, str) else _PLAIN_HANDLES[type(part)]


class DocumentRef(NamedTuple):
    """A document, by its row in the snapshot."""

    row: int


class OwnFigure(NamedTuple):
    """A figure of the account, such as cash, rounded where prices are rebased and rounded. Of a scene's account, which counts with
    prices as shown (`ktdeval.runner.seen`), it tells no more than these.
    """

    value: float


class IndexLevel(NamedTuple):
    """A level of an index, rebased to 100 at the episode's start where dates are hidden, rounded under `round_digits`."""

    code: str
    value: float


class RefusedTypeError(TypeError):
    """A value in a payload is of no payload type."""

    def __init__(self, value: Any) -> None:
        super().__init__(type(value).__name__)
        self.value = value


def path_of(target: Any, payload: Payload) -> str:
    """Return the path of a value, compared by identity: ` at orders[3].price`, of text keys and indices, which identify nothing."""
    stack: list[tuple[Any, str]] = [(payload, "")]
    while stack:
        value, path = stack.pop()
        if value is target:
            return f" at {path.lstrip('.')}" if path else ""
        if isinstance(value, Mapping):
            stack += [(item, f"{path}.{key}" if type(key) is str else f"{path}.…") for key, item in value.items()]
            stack += [(key, f"{path} (a key)") for key in value]
        elif type(value) in (list, tuple):
            stack += [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return ""


SIGNIFICANT_DIGITS = 6
DECIMALS = 5
TINY = 1e-3  #: Prices below have fewer than three digits within the decimals
FIRST_YEAR, LAST_YEAR = 1990, 2039

_EXPONENT_FROM = 10 ** (SIGNIFICANT_DIGITS - 1)
_PLAIN_BELOW = _EXPONENT_FROM - 0.05  # floats from here on are rounded up to the exponent form
_YEARS = frozenset(f"{sign}{year}" for year in range(FIRST_YEAR, LAST_YEAR + 1) for sign in ("", "-"))
_TEXT = frozenset({str})
_JSON_BASES: tuple[type[Any], ...] = (str, int, float, list, tuple)


def render_number(value: int | float) -> str:
    """One number as JSON text: integers whole, floats with 5 decimals and 6 significant digits, both with an exponent from 100,000
    on (`6.0312e5`), years as `2024.0`, negative zero as `0`, NaN and infinity as `null`.
    """
    if isinstance(value, int):
        text = _integer(value)
    elif not math.isfinite(value):
        return "null"
    else:
        text = _float(value)
    # The comparison spares nearly every number the look at its text.
    return f"{text}.0" if FIRST_YEAR - 1 < abs(value) < LAST_YEAR + 1 and text in _YEARS else text


def _integer(value: int) -> str:
    text = str(value)
    if -_EXPONENT_FROM < value < _EXPONENT_FROM:
        return text
    sign, digits = ("-", text[1:]) if value < 0 else ("", text)
    fraction = digits[1:].rstrip("0")
    return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}e{len(digits) - 1}"


def _float(value: float) -> str:
    if -1.0 < value < 1.0:
        text = f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    if -_PLAIN_BELOW < value < _PLAIN_BELOW:
        return f"{value:.{SIGNIFICANT_DIGITS}g}"
    return _scientific(value)


def _scientific(value: float) -> str:
    mantissa, _, exponent = f"{value:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def render_json(value: JsonValue) -> str:
    """Compact JSON, keys in the order given, numbers as in `render_number`. Raises PluginError on another type, by name."""
    kind = type(value)
    if kind is float or kind is int:
        return render_number(value)
    if kind is str:
        return encode_basestring(value)
    if kind is list or kind is tuple:
        if _TEXT.issuperset(map(type, value)):  # a universe comes with every step
            return dumps_compact(value)
        return f"[{','.join([render_json(item) for item in value])}]"
    if kind is dict:
        names = [encode_basestring(key) if type(key) is str else _key(key) for key in value]
        return f"{{{','.join([f'{name}:{render_json(item)}' for name, item in zip(names, value.values())])}}}"
    if value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    return _render_rare(value)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise PluginError(f"a payload has a key of type {type(key).__name__}; keys must be text")
    return encode_basestring(key)


def _render_rare(value: JsonValue) -> str:
    """Tiny prices, subclasses of the JSON types and other mappings; all else is refused."""
    if isinstance(value, TinyPrice):
        return _scientific(value)
    if isinstance(value, Mapping):
        return render_json(dict(value))
    for base in _JSON_BASES:
        if isinstance(value, base):
            return render_json(base(value))
    raise PluginError(f"a payload holds a {type(value).__name__}; use plain JSON values and the field types of a payload")
