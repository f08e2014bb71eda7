"""Token prices: dated tables of list prices in US dollars per million tokens."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple, replace

from ktdeval.calls.costs.packaged_prices import Package, packaged_names, packaged_price
from ktdeval.errors import ConfigError
from ktdeval.harness.chat_messages import Usage
from ktdeval.market.rules.calendar import parse_day
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value, to_plain
from ktdeval.values.documents.yamlio import load_yaml
from ktdeval.values.options.config_options import build, near_matches, option, user_path

NonNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]

_MILLION = 1e6
RatesT = TypeVar("RatesT", "Price", "PriceTier")

_WILDCARDS = re.compile(r"\[[^\]]+\]|[*?]")


@dataclass(frozen=True)
class _Rates:
    input: float = option(help="of the prompt", minimum=0)
    output: float = option(help="of the reply, reasoning included", minimum=0)
    cache_read: float | None = option(
        None,
        help="US dollars per million tokens of the prompt that the provider reads from its cache;"
        " None: as `input`",
        minimum=0,
    )
    cache_write: float | None = option(
        None,
        help="US dollars per million tokens of the prompt that the provider writes to its cache;"
        " None: as `input`",
        minimum=0,
    )


class PriceTier(Value, frozen=True):
    """US dollars per million tokens of a call whose prompt exceeds a number of tokens."""

    above: Annotated[int, Meta(ge=1)]  #: number of tokens of the prompt
    input: NonNegative
    output: NonNegative
    cache_read: NonNegative | None  #: null: as input
    cache_write: NonNegative | None  #: null: as input


class PriceEntry(Value, frozen=True, eq=False):
    """US dollars per million tokens."""

    input: NonNegative
    output: NonNegative
    cache_read: NonNegative | None  #: null: as input
    cache_write: NonNegative | None  #: null: as input
    as_of: str  #: day of the price; empty if unknown
    source: str
    #: rates of calls with long prompts, the shortest first; absent if the rates do not depend on
    #: length
    tiers: tuple[PriceTier, ...] | UnsetType = UNSET
    #: true for the provider's batch interface, which costs less; absent for ordinary calls
    batch: Literal[True] | UnsetType = UNSET

    def __eq__(self, other: object) -> bool:
        """Return whether another price has the same fields; `Price` only adds defaults."""
        return isinstance(other, PriceEntry) and astuple(self) == astuple(other)

    def __hash__(self) -> int:
        return hash(astuple(self))

    def cost(self, usage: Usage) -> float:
        """Return the cost in US dollars of the tokens of one or more calls. No prompt may be long
        enough for another tier.
        """
        return _cost(self, usage)

    def call_cost(self, usage: Usage) -> float:
        """Return the cost in US dollars of the tokens of one call, at the tier for its prompt."""
        rates: PriceEntry | PriceTier = self
        for tier in self.tiers or ():
            if usage.input_tokens > tier.above:
                rates = tier

        return _cost(rates, usage)

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return an upper bound on the cost in US dollars of one call with these tokens, cached or
        not.
        """
        bounds = [_most(self, input_tokens, output_tokens)]
        for tier in self.tiers or ():
            if input_tokens > tier.above:
                bounds.append(_most(tier, input_tokens, output_tokens))

        return max(bounds)

    def to_json(self) -> dict[str, JsonValue]:
        """Return all fields that are set, by name."""
        return cast("dict[str, JsonValue]", to_plain(self))


def _cost(rates: PriceEntry | PriceTier, usage: Usage) -> float:
    read = rates.input if rates.cache_read is None else rates.cache_read
    write = rates.input if rates.cache_write is None else rates.cache_write
    fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    prompt = fresh * rates.input + usage.cache_read_tokens * read + usage.cache_write_tokens * write

    return (prompt + usage.output_tokens * rates.output) / _MILLION


def _most(rates: PriceEntry | PriceTier, input_tokens: int, output_tokens: int) -> float:
    dearest = max(rates.input, rates.cache_read or 0.0, rates.cache_write or 0.0)
    return (input_tokens * dearest + output_tokens * rates.output) / _MILLION


class Price(PriceEntry, frozen=True, eq=False, kw_only=False):
    """Price of a model's tokens in US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    #: day on which the price was looked up, `YYYY-MM-DD`; empty if unknown
    as_of: str = ""
    source: str = ""  #: where the price was found
    #: rates for calls with long prompts, shortest prompts first; absent if the rates do not depend
    #: on length
    tiers: tuple[PriceTier, ...] | UnsetType = UNSET
    batch: Literal[True] | UnsetType = UNSET

    def in_batch(self, *, halves_cache_reads: bool = True) -> Price:
        """Return the price at a batch interface that halves all rates, or all rates except the one
        for cache reads.
        """
        tiers: tuple[PriceTier, ...] | UnsetType = UNSET
        if self.tiers:
            tiers = tuple(_halve_rates(tier, halves_cache_reads) for tier in self.tiers)

        source = "by batch"
        if self.source:
            source = f"{self.source}, by batch"

        rates = _halve_rates(self, halves_cache_reads)
        return replace(rates, source=source, tiers=tiers, batch=True)


def _halve_rates(rates: RatesT, halves_cache_reads: bool) -> RatesT:
    """Return rates with each rate halved. The rate for cache reads is halved only if
    `halves_cache_reads`.
    """
    read = rates.cache_read
    if halves_cache_reads:
        read = _half(read)

    return replace(
        rates,
        input=rates.input / 2,
        output=rates.output / 2,
        cache_read=read,
        cache_write=_half(rates.cache_write),
    )


def _half(rate: float | None) -> float | None:
    if rate is None:
        return None
    return rate / 2


#: price of a model that declares itself free
FREE = Price(0.0, 0.0, source="a model of this machine, which bills nothing")


def is_free_price(price: PriceEntry | None) -> bool:
    """Return whether a price is the price of a local model, judging by its source."""
    return price is not None and price.source == FREE.source


def find_price(prices: Mapping[str, Price], full_name: str) -> Price | None:
    """Return the price for the most specific pattern that matches; None if no pattern matches.

    A name without wildcards is the most specific pattern, followed by the pattern with the most
    literal characters.
    """
    pattern = fitting_pattern(prices, full_name)
    if pattern is None:
        return None

    return prices[pattern]


def fitting_pattern(patterns: Iterable[str], full_name: str) -> str | None:
    """Return the most specific pattern that matches a model's full name; None if no pattern
    matches.
    """
    fitting = [pattern for pattern in patterns if fnmatch.fnmatchcase(full_name, pattern)]
    return max(fitting, key=_specificity, default=None)


def _specificity(pattern: str) -> tuple[bool, int, str]:
    """Return the sort key of a pattern, which includes the pattern to make the order unique."""
    literal = _WILDCARDS.sub("", pattern)
    return literal == pattern, len(literal), pattern


@dataclass(frozen=True)
class _TableTier(_Rates):
    above: int = option(1, help="number of prompt tokens above which these rates apply", minimum=1)


@dataclass(frozen=True)
class _TableEntry(_Rates):
    match: str | tuple[str, ...] = option((), help="pattern of PROVIDER/NAME, or a list of them")
    as_of: str | None = option(None, help="day of the look-up, if it differs from the table's")
    source: str | None = option(None, help="source of the price, if it differs from the table's")
    tiers: tuple[_TableTier, ...] = option(
        (), help="rates of calls with long prompts, the shortest first"
    )


@dataclass(frozen=True)
class _PriceTable:
    as_of: str = option(help="day of the look-up")
    source: str = option(help="source of the prices")
    models: tuple[_TableEntry, ...] = option(help="prices by model")
    currency: Literal["USD"] = option("USD", help="currency of all prices")
    package: Package | None = option(
        None, help="package whose prices take precedence over `models`"
    )


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Price table as read from a file."""

    rows: Mapping[str, Price]  #: prices, keyed by a pattern for PROVIDER/NAME
    package: Package | None = None  #: price package, consulted before `rows`

    def price_of(self, full_name: str, day: date, address: str = "") -> Price | None:
        """Return the price of PROVIDER/NAME on a day; None if no price is known. `address` is the
        base URL, which matters if a provider bills in several currencies.
        """
        if self.package is not None:
            price = packaged_price(self.package, full_name, day, address)
            if price is not None:
                tiers = tuple(PriceTier(**tier) for tier in price.pop("tiers", ()))
                return Price(**price, tiers=tiers or UNSET)

        return find_price(self.rows, full_name)


def read_price_table(path: Path | str) -> PriceTable:
    """Read a YAML price table, with the package that the table refers to.

    The table has `as_of`, `source`, `currency: USD` and `models`. Each entry in `models` has
    `match` (a pattern such as `openai/gpt-*`, or a list of patterns), `input`, `output` and, if
    they differ from the defaults, the other fields of `Price`. Raises ConfigError if a field is
    unknown, missing, wrong or repeated.
    """
    table = build(_PriceTable, load_yaml(user_path(path)), str(path))
    parse_day(table.as_of, f"{path}: as_of: ", ConfigError)
    if table.package is not None:
        for version, day in table.package.looked_up.items():
            parse_day(day, f"{path}: package: looked_up: {version}: ", ConfigError)

    return PriceTable(_prices_by_pattern(table, path), table.package)


def _prices_by_pattern(table: _PriceTable, path: Path | str) -> dict[str, Price]:
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


def _entry_price(entry: _TableEntry, table: _PriceTable) -> Price:
    """Return an entry's price, with the table's day and source unless the entry has its own."""
    return Price(
        input=entry.input,
        output=entry.output,
        cache_read=entry.cache_read,
        cache_write=entry.cache_write,
        as_of=table.as_of if entry.as_of is None else entry.as_of,
        source=table.source if entry.source is None else entry.source,
        tiers=tuple(PriceTier(**asdict(tier)) for tier in entry.tiers) or UNSET,
    )


def choose_price(
    full_name: str,
    fields: Mapping[str, Any],
    table_path: Path | str | None = None,
    default: Path | None = None,
    day: date | None = None,
    address: str = "",
) -> Price | None:
    """Return the price of PROVIDER/NAME on a day (default: today); None if no price is known.
    `address` is the base URL of the model, which matters if its provider bills in several
    currencies.

    The price comes from the first source that has one: the fields of `--price`, the user's table,
    then the plugin's table (`default`). Raises ConfigError if a price is incomplete or malformed.
    """
    if fields:
        rates = build(_Rates, fields, "--price")
        return Price(**asdict(rates), source="--price")

    path = default if table_path is None else table_path
    if path is None:
        return None

    return read_price_table(path).price_of(full_name, day or datetime.now(UTC).date(), address)


def unlisted_name(full_name: str, table_path: Path | str | None) -> str | None:
    """Return a warning if a price table lists the models of a provider and PROVIDER/NAME is not
    among them, with the nearest names; None otherwise.
    """
    if table_path is None:
        return None

    table = read_price_table(table_path)
    provider, _, name = full_name.partition("/")
    known = () if table.package is None else packaged_names(table.package, provider)
    if not known:  # asking for a price would say that the package is missing
        return None
    if table.price_of(full_name, datetime.now(UTC).date()) is not None:
        return None

    return (
        f"{full_name} is in no list of {provider}'s models, so that its first call may be"
        f" refused{near_matches(name, known)}"
    )


def _patterns(entry: _TableEntry, where: str) -> tuple[str, ...]:
    """Return the patterns of an entry. Raises ConfigError if a pattern is missing or
    malformed.
    """
    patterns = entry.match
    if isinstance(patterns, str):
        patterns = (patterns,)
    if not patterns:
        raise ConfigError(f"{where}: field 'match' is missing or empty; give match: PROVIDER/NAME")

    for pattern in patterns:
        if not re.fullmatch(r"[^/\s]+/\S+", pattern):
            raise ConfigError(f"{where}: match: expected PROVIDER/NAME, was {pattern!r}")

    return patterns
