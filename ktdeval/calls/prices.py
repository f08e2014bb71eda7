"""Prices of tokens: dated tables of list prices in US dollars per million tokens."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, structs
from msgspec.structs import astuple

from ktdeval.errors import ConfigError
from ktdeval.harness.messages import Usage
from ktdeval.market.calendar import parse_day
from ktdeval.values.fields import build, option, user_path
from ktdeval.values.jsonio import JsonValue
from ktdeval.values.typed import Value
from ktdeval.values.yamlio import load_yaml

NonNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]

_MILLION = 1e6
_WILDCARDS = re.compile(r"\[[^\]]+\]|[*?]")


@dataclass(frozen=True)
class _Rates:
    input: float = option(help="of the prompt", minimum=0)
    output: float = option(help="of the reply, reasoning included", minimum=0)
    cache_read: float | None = option(
        None, help="of the prompt, read from the provider's cache; None: as `input`", minimum=0
    )
    cache_write: float | None = option(
        None, help="of the prompt, written to the provider's cache; None: as `input`", minimum=0
    )


class PriceEntry(Value, frozen=True, eq=False):
    """US dollars a million tokens."""

    input: NonNegative
    output: NonNegative
    cache_read: NonNegative | None  #: null: as input
    cache_write: NonNegative | None  #: null: as input
    as_of: str  #: day of the price; empty where it has none
    source: str
    #: true of the provider's batch interface, which costs less; absent of ordinary calls
    batch: Literal[True] | UnsetType = UNSET

    def __eq__(self, other: object) -> bool:
        """Whether the other price has the same fields; `Price` only adds defaults."""
        return isinstance(other, PriceEntry) and astuple(self) == astuple(other)

    def __hash__(self) -> int:
        return hash(astuple(self))

    def cost(self, usage: Usage) -> float:
        """Return the US dollars for the tokens of one or more calls."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        prompt = (
            fresh * self.input + usage.cache_read_tokens * read + usage.cache_write_tokens * write
        )

        return (prompt + usage.output_tokens * self.output) / _MILLION

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return an upper bound of the US dollars for these tokens, cached or not."""
        dearest = max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION

    def to_json(self) -> dict[str, JsonValue]:
        """Return all fields by name."""
        fields = structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not UNSET}


class Price(PriceEntry, frozen=True, eq=False, kw_only=False):
    """Price of a model's tokens in US dollars per million."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    #: day on which the price was looked up, `YYYY-MM-DD`; empty if unknown
    as_of: str = ""
    source: str = ""  #: where the price was found
    batch: Literal[True] | UnsetType = UNSET

    def in_batch(self, cache_read: float | None) -> Price:
        """Return the price of a batch interface that takes half of everything but, where
        `cache_read` is not None, reading the provider's cache.
        """
        return Price(
            input=self.input / 2,
            output=self.output / 2,
            cache_read=_half(self.cache_read) if cache_read is None else cache_read,
            cache_write=_half(self.cache_write),
            as_of=self.as_of,
            source=f"{self.source}, by batch" if self.source else "by batch",
            batch=True,
        )


def _half(rate: float | None) -> float | None:
    return None if rate is None else rate / 2


#: Price of a model that declares itself free
FREE = Price(0.0, 0.0, source="a model of this machine, which bills nothing")


def is_free_price(price: PriceEntry | None) -> bool:
    """Whether a price is that of a model of this machine, by what it says of its source."""
    return price is not None and price.source == FREE.source


def find_price(prices: Mapping[str, Price], full_name: str) -> Price | None:
    """Return the price of the most specific pattern that fits; None if none does.

    A name without wildcards is the most specific, then the pattern with most literal characters.
    """
    fitting = [pattern for pattern in prices if fnmatch.fnmatchcase(full_name, pattern)]
    if not fitting:
        return None

    return prices[max(fitting, key=_specificity)]


def _specificity(pattern: str) -> tuple[bool, int, str]:
    """Return the sort key of a pattern; the pattern itself makes the order unique."""
    literal = _WILDCARDS.sub("", pattern)
    return literal == pattern, len(literal), pattern


@dataclass(frozen=True)
class _Entry(_Rates):
    match: str | tuple[str, ...] = option((), help="pattern of PROVIDER/NAME, or a list of them")
    as_of: str | None = option(None, help="day of the look-up, where it differs from the table's")
    source: str | None = option(
        None, help="where it was found, where that differs from the table's"
    )


@dataclass(frozen=True)
class _Table:
    as_of: str = option(help="day of the look-up")
    source: str = option(help="where the prices were found")
    models: tuple[_Entry, ...] = option(help="prices by model")
    currency: Literal["USD"] = option("USD", help="of all prices")


def load_price_table(path: Path | str) -> dict[str, Price]:
    """Read a YAML table of prices; return them by pattern of PROVIDER/NAME.

    The table has `as_of`, `source`, `currency: USD` and `models`. Each entry of `models` has
    `match` (a pattern such as `openai/gpt-*`, or a list), `input`, `output` and, if they differ
    from the defaults, the other fields of `Price`. Raises ConfigError for a field that is unknown,
    missing, wrong or repeated.
    """
    table = build(_Table, load_yaml(user_path(path)), str(path))
    parse_day(table.as_of, f"{path}: as_of: ", ConfigError)
    prices: dict[str, Price] = {}
    owners: dict[str, int] = {}

    for index, entry in enumerate(table.models):
        where = f"{path}: models[{index}]"
        price = _entry_price(entry, table)
        parse_day(price.as_of, f"{where}: as_of: ", ConfigError)

        for pattern in _patterns(entry, where):
            if pattern in owners:
                raise ConfigError(
                    f"{where}: match {pattern!r} was already given in models[{owners[pattern]}];"
                    " keep one of the two"
                )

            owners[pattern] = index
            prices[pattern] = price

    return prices


def _entry_price(entry: _Entry, table: _Table) -> Price:
    """Return the price of an entry, with the table's day and source unless it has its own."""
    return Price(
        input=entry.input,
        output=entry.output,
        cache_read=entry.cache_read,
        cache_write=entry.cache_write,
        as_of=table.as_of if entry.as_of is None else entry.as_of,
        source=table.source if entry.source is None else entry.source,
    )


def choose_price(
    full_name: str,
    fields: Mapping[str, Any],
    table_path: Path | str | None = None,
    default: Path | None = None,
) -> Price | None:
    """Return the price of PROVIDER/NAME; None if none is known.

    The first source that applies counts: the fields of `--price`, the user's table, the plugin's
    table (`default`). Raises ConfigError if it is incomplete or malformed.
    """
    if fields:
        rates = build(_Rates, fields, "--price")
        return Price(**asdict(rates), source="--price")

    path = default if table_path is None else table_path
    if path is None:
        return None

    return find_price(load_price_table(path), full_name)


def _patterns(entry: _Entry, where: str) -> tuple[str, ...]:
    """Return the patterns of an entry. Raises ConfigError for none, or a malformed one."""
    patterns = entry.match
    if isinstance(patterns, str):
        patterns = (patterns,)
    if not patterns:
        raise ConfigError(f"{where}: field 'match' is missing or empty; say match: PROVIDER/NAME")

    for pattern in patterns:
        if not re.fullmatch(r"[^/\s]+/\S+", pattern):
            raise ConfigError(f"{where}: match: expected PROVIDER/NAME, was {pattern!r}")

    return patterns
