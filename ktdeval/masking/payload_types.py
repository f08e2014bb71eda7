"""Typed payloads: each identity has a field type, so a mask never has to recognise it in text.

A payload is a tree of dicts (string keys), lists, tuples, plain scalars and the field types below.
It is built from the true market; only `Lens.render` converts it to the form that a model may see.

No number is written in a form that could be mistaken for a code or a date. Six digits can be a
security code, eight digits a date, and `2024` a year. Therefore, numbers from 100,000 on and prices
below 0.001 are written with an exponent, fractions have at most five digits, and whole numbers in
the range of years end with `.0`. The leak guard can then treat every standalone run of six or eight
digits as a code or a date, and every bare year as a year.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ktdeval.errors import PluginError
from ktdeval.masking.aliases_and_noise import Part, round_significant
from ktdeval.masking.text_truncation import cut_of
from ktdeval.values.documents.strict_json import JsonValue, dumps_compact

if TYPE_CHECKING:
    Payload: TypeAlias = (
        "bool | int | float | str | FieldValue | Sequence[Payload] | Mapping[Any, Payload] | None"
    )
    """Plain JSON with values of field types in it; handles may be keys, too."""
else:
    Payload = Any  # annotations that are evaluated at run time can't combine a string with `|`


def figure(value: Any, digits: int = 4) -> float | None:
    """Return a number for a payload, with few significant digits so that tables stay short. None if
    the number is not defined.
    """
    number = float(value)
    if not math.isfinite(number):
        return None
    return round_significant(number, digits)


def table(columns: Sequence[str], rows: Iterable[Sequence[Payload]]) -> dict[str, Payload]:
    """Return a table payload, in which column names are given only once."""
    return {"columns": list(columns), "rows": [list(row) for row in rows]}


def filled_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Payload]],
    optional: Container[str] | None = None,
) -> dict[str, Payload]:
    """Return a table payload without columns that are empty in every row. A table without rows
    keeps all columns. `optional`: columns that may be omitted (default: all).
    """
    listed = list(rows)
    if not listed:
        return table(columns, ())

    named = zip(columns, zip(*listed, strict=True), strict=True)
    filled: dict[str, Sequence[Payload]] = {}
    for name, cells in named:
        is_needed = optional is not None and name not in optional
        if is_needed or not all(map(_is_missing, cells)):
            filled[name] = cells

    return table(list(filled), zip(*filled.values(), strict=True))


def _is_missing(cell: Payload) -> bool:
    """Return whether a cell is shown as null under any mask."""
    if type(cell) is Shares:
        cell = cell.value
    return cell is None or (isinstance(cell, float) and cell != cell)


# tuples: they are table cells, of which a prompt has thousands


class Exact(NamedTuple):
    """A service's plain JSON, shown in full precision. Only masks that hide nothing accept it."""

    value: JsonValue

    def text(self) -> str:
        """Return compact JSON with keys in the given order."""
        return dumps_compact(self.value)


class MarketFigure(NamedTuple):
    """A number from market data that may reveal its asset or day, such as a return or a factor
    value. It is rounded under `round_digits`. If it describes an asset, it gets noise under
    `noise_pct`. Create it with `AssetRef.figure`, `AssetRef.change_pct` or `DayRef.figure`.
    """

    value: float  #: the number
    #: column of the asset that the number describes; None for the whole market, which gets no noise
    asset: int | None = None
    #: row of the day that the number describes; None for no day, in which case it gets no noise
    day: int | None = None
    #: name of the figure, so that different figures of an asset on a day have independent noise
    name: str = ""
    #: for a price change in per cent, row of the day from which it is measured
    since: int | None = None


class AssetRef(NamedTuple):
    """An asset, by its column in the snapshot.

    Example:
        bright.render({"stock_id": AssetRef(0)})  # {'stock_id': '609001.SH'}
    """

    asset: int

    def figure(self, value: float, name: str, day: int) -> MarketFigure:
        """Return a figure of this asset on a day, such as a turnover or a factor value. Its noise
        is proportional to the figure.
        """
        return MarketFigure(value, self.asset, day, name)

    def change_pct(self, value: float, day: int, since: int) -> MarketFigure:
        """Return the price change between two closes, in per cent. Its noise is consistent with the
        noise on the two prices.
        """
        return MarketFigure(value, self.asset, day, "change_pct", since)


class AssetName(NamedTuple):
    """Company name of an asset: shown if assets are visible, null if assets are hidden."""

    asset: int


class DayRef(NamedTuple):
    """A trading day, by its row in the snapshot.

    Example:
        bright.render({"day": DayRef(1)})  # {'day': '2024-01-03'}
    """

    day: int

    def figure(self, value: float) -> MarketFigure:
        """Return a figure of the whole market on this day, such as an index return."""
        return MarketFigure(value, day=self.day)


class SectorRef(NamedTuple):
    """An industry, by name."""

    industry: str


class Price(NamedTuple):
    """Price of one asset, rescaled under `rebase_prices` and rounded under `round_digits`.

    Example:
        bright.render({"close": Price(0, 10.5, day=1)})  # {'close': 10.5}
    """

    asset: int  #: column of the asset
    value: float  #: currency units per share
    #: row of the bar that has the price or from which it is derived; None if no bar is involved, in
    #: which case it gets no noise
    day: int | None = None
    part: Part = "close"  #: which of the bar's prices
    #: for a multiple of another price, the factor. It is applied to the other price as shown, so
    #: that the product reveals no further digits of this price.
    times: float = 1.0


class AccountSum(float):
    """An amount in an account, written in full under a mask: `900110.0`, not `9.0011e5`."""


class TinyNumber(float):
    """A price or a number of shares below `TINY`, as some crypto assets have. It is written with
    six significant digits, so that a holding is never shown as 0.
    """


def small_number(value: float) -> float:
    """Return a price or a number of shares in a type that is written with its significant digits,
    however small the number is.
    """
    if value and abs(value) < TINY:
        return TinyNumber(value)
    return value


class Shares(NamedTuple):
    """A number of shares of one asset, rescaled inversely under `rebase_prices`. Shares held or
    ordered are rescaled by the level that the mask reveals (`ShownFigures.known_price`). Otherwise,
    whole lots of several sizes would reveal further digits of the true level.

    Example:
        bright.render({"held": Shares(0, 200)})  # {'held': 200}
    """

    asset: int  #: column of the asset
    value: float  #: number of shares
    #: for a volume: row of its bar; a volume has four digits or those of the mask, and gets noise.
    #: None for shares held or ordered, which are exact unless prices are rebased and rounded
    day: int | None = None


class Prose(NamedTuple):
    """A text from which everything that a mask hides has been removed (`TextMask`). It consists of
    plain pieces and field types, to be shown in sequence.
    """

    parts: tuple[str | AssetRef | DayRef | SectorRef, ...]

    @property
    def plain(self) -> str:
        """Return the text with a handle of the usual form for each field type."""
        return "".join(map(_plain_part, self.parts))

    def shorten(self, most: int) -> tuple[Prose, bool]:
        """Return the text, shortened to `most` characters by the rules of `masking.shorten`, and
        whether it was shortened.
        """
        cut = cut_of(self.plain, most)
        if cut is None:
            return self, False

        begin: list[str | AssetRef | DayRef | SectorRef] = []
        end: list[str | AssetRef | DayRef | SectorRef] = []
        offset = 0
        for part in self.parts:
            length = len(_plain_part(part))
            next_offset = offset + length
            if isinstance(part, str):
                # a negative slice bound would count from the end
                begin.append(part[: max(0, cut.start - offset)])
                end.append(part[max(0, cut.end - offset) :])
            elif next_offset <= cut.start:
                begin.append(part)
            elif offset >= cut.end:
                end.append(part)

            offset = next_offset

        parts = (*begin, cut.mark, *end)
        return Prose(tuple(part for part in parts if part)), True


# For the leak guard, the number 12 is the worst case: it can be a month, a day and a short year.
_PLAIN_HANDLES = {AssetRef: "asset_0012", DayRef: "day_+12", SectorRef: "sector_12"}


def _plain_part(part: str | AssetRef | DayRef | SectorRef) -> str:
    if isinstance(part, str):
        return part
    return _PLAIN_HANDLES[type(part)]


class DocumentRef(NamedTuple):
    """A document, by its row in the snapshot."""

    row: int


class OwnFigure(NamedTuple):
    """An account figure, such as cash, which is rounded if prices are rebased and rounded. In a
    scene's account, it reveals no more than the prices as shown, since it is computed from these
    (`ktdeval.runner.episodes.shown_account`).
    """

    value: float


class IndexLevel(NamedTuple):
    """An index level, rebased to 100 at the episode's start if dates are hidden, and rounded under
    `round_digits`.
    """

    code: str
    value: float


FieldValue: TypeAlias = (
    AssetName
    | AssetRef
    | DayRef
    | DocumentRef
    | Exact
    | MarketFigure
    | IndexLevel
    | OwnFigure
    | Price
    | Prose
    | SectorRef
    | Shares
)
"""Values that a mask translates according to their field types."""


class RefusedTypeError(TypeError):
    """A value in a payload has a type that is not allowed in payloads."""

    def __init__(self, value: Any) -> None:
        super().__init__(type(value).__name__)
        self.value = value


def path_of(target: Any, payload: Payload) -> str:
    """Return the path to a value in a payload, such as ` at orders[3].price`; empty for the payload
    itself.

    The value is found by identity (`is`). The path contains only text keys and indices, since other
    keys are handles, which could reveal an identity.
    """
    stack: list[tuple[Any, str]] = [(payload, "")]
    while stack:
        value, path = stack.pop()
        if value is target:
            return f" at {path.lstrip('.')}" if path else ""

        if isinstance(value, Mapping):
            for key, item in value.items():
                name = key if type(key) is str else "…"
                stack.append((item, f"{path}.{name}"))

            stack += [(key, f"{path} (a key)") for key in value]
        elif type(value) in (list, tuple):
            stack += [(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return ""


SIGNIFICANT_DIGITS = 6
DECIMALS = 5
TINY = 1e-3  #: a price below this has fewer than three significant digits within `DECIMALS`
FIRST_YEAR = 1990
LAST_YEAR = 2039

_EXPONENT_FROM = 10 ** (SIGNIFICANT_DIGITS - 1)
# floats from this value on are rounded up to the exponent form
_PLAIN_BELOW = _EXPONENT_FROM - 0.05
_FRACTION = f".{DECIMALS}f"
_SIGNIFICANT = f".{SIGNIFICANT_DIGITS}g"
_POSITIVE_YEARS = [str(year) for year in range(FIRST_YEAR, LAST_YEAR + 1)]
_YEARS = frozenset([*_POSITIVE_YEARS, *(f"-{year}" for year in _POSITIVE_YEARS)])
_TEXT = frozenset({str})
_JSON_BASES: tuple[type[Any], ...] = (str, int, float, list, tuple)


def render_number(value: int | float) -> str:
    """Return a number as JSON text.

    Integers have no decimals; floats have at most 5 decimals and 6 significant digits. From 100,000
    on, both have an exponent (`6.0312e5`). Years become `2024.0`, negative zero becomes `0`, and
    NaN and infinity become `null`.
    """
    if isinstance(value, int):
        return render_integer(value)
    return render_float(value)


def render_integer(value: int) -> str:
    """Return `render_number` of an integer."""
    text = str(value)
    if -_EXPONENT_FROM < value < _EXPONENT_FROM:
        # The comparison is faster than the look-up of the text, which few numbers need.
        if FIRST_YEAR <= abs(value) <= LAST_YEAR:
            return f"{text}.0"
        return text

    sign = "-" if value < 0 else ""
    digits = text.removeprefix("-")
    exponent = len(digits) - 1
    fraction = digits[1:].rstrip("0")
    if not fraction:
        return f"{sign}{digits[0]}e{exponent}"

    return f"{sign}{digits[0]}.{fraction}e{exponent}"


def render_float(value: float) -> str:
    """Return `render_number` of a float."""
    if -1.0 < value < 1.0:
        text = format(value, _FRACTION).rstrip("0").rstrip(".")
        return "0" if text == "-0" else text

    if -_PLAIN_BELOW < value < _PLAIN_BELOW:
        text = format(value, _SIGNIFICANT)
        # The comparison is faster than the look-up of the text, which few numbers need.
        if FIRST_YEAR - 1 < abs(value) < LAST_YEAR + 1 and text in _YEARS:
            return f"{text}.0"
        return text

    if not math.isfinite(value):
        return "null"
    return _scientific(value)


def _scientific(value: float) -> str:
    mantissa, _, exponent = f"{value:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _in_full(value: float) -> str:
    """Return a number with 6 significant digits and no exponent. The `.0` of a large number
    distinguishes it from a code, and its trailing zeros distinguish it from a date.
    """
    if not math.isfinite(value) or -_PLAIN_BELOW < value < _PLAIN_BELOW:
        return render_number(float(value))
    return f"{float(f'{value:.{SIGNIFICANT_DIGITS}g}'):.1f}"


def render_json(value: JsonValue) -> str:
    """Return compact JSON with keys in the given order and numbers formatted by `render_number`.
    Raises PluginError if a value has any other type; the message names the type.
    """
    return _render_value(value)


def _render_value(value: Any) -> str:
    # Dispatch on the exact type is faster than `isinstance`. Plugins may pass any value; other
    # types are checked last.
    kind = type(value)
    if kind is float:
        return render_float(value)
    if kind is int:
        return render_integer(value)
    if kind is str:
        return encode_basestring(value)

    if kind is list or kind is tuple:
        # A shortcut for the list of all assets, which occurs in every step.
        if _TEXT.issuperset(map(type, value)):
            return dumps_compact(value)

        return f"[{','.join([_render_value(item) for item in value])}]"

    if kind is dict:
        fields = []
        for key, item in value.items():
            name = encode_basestring(key) if type(key) is str else _key(key)
            fields.append(f"{name}:{_render_value(item)}")

        return f"{{{','.join(fields)}}}"

    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"

    return _render_rare(value)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise PluginError(f"a payload has a key of type {type(key).__name__}; keys must be text")
    return encode_basestring(key)


def _render_rare(value: Any) -> str:
    """Render tiny prices, subclasses of JSON types, and other mappings. Refuse all other values."""
    if isinstance(value, TinyNumber):
        return _scientific(value)
    if isinstance(value, AccountSum):
        return _in_full(value)
    if isinstance(value, Mapping):
        return _render_value(dict(value))

    for base in _JSON_BASES:
        if isinstance(value, base):
            return _render_value(base(value))

    raise PluginError(
        f"a payload holds a {type(value).__name__}; use plain JSON values and the field types of a"
        " payload"
    )
