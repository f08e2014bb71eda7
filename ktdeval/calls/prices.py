"""Cost of tokens: dated tables of list prices in US dollars per million tokens."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.fields import build, option, user_path
from ktdeval.harness.messages import Usage
from ktdeval.jsonio import JsonValue
from ktdeval.market.calendar import parse_day
from ktdeval.yamlio import load_yaml

_MILLION = 1e6
_WILDCARDS = re.compile(r"\[[^\]]+\]|[*?]")


@dataclass(frozen=True)
class _Rates:
    input: float = option(help="of the prompt", minimum=0)
    output: float = option(help="of the reply, reasoning included", minimum=0)
    cache_read: float | None = option(None, help="of the prompt, read from the provider's cache; None: as `input`", minimum=0)
    cache_write: float | None = option(None, help="of the prompt, written to the provider's cache; None: as `input`", minimum=0)


@dataclass(frozen=True)
class Price(_Rates):
    """Price of a model's tokens in US dollars per million."""

    as_of: str = ""  #: the day on which the price was looked up, `YYYY-MM-DD`; empty where nobody said so
    source: str = ""  #: where it was found

    def cost(self, usage: Usage) -> float:
        """Return the US dollars for the tokens of one or more calls."""
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dollars = fresh * self.input + usage.cache_read_tokens * read + usage.cache_write_tokens * write
        return (dollars + usage.output_tokens * self.output) / _MILLION

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return the US dollars for that many tokens at the highest price that they can have."""
        dearest = max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION

    def to_json(self) -> dict[str, JsonValue]:
        """Return all fields by name."""
        return asdict(self)


FREE = Price(0.0, 0.0, source="a model of this machine, which bills nothing")  #: of a model that says that it is free


def find_price(prices: Mapping[str, Price], full_name: str) -> Price | None:
    """Return the price of the pattern that fits best: that with most literal characters, the name itself first; or None."""
    fitting = [pattern for pattern in prices if fnmatch.fnmatchcase(full_name, pattern)]
    return prices[max(fitting, key=_specificity)] if fitting else None


def _specificity(pattern: str) -> tuple[bool, int, str]:
    literal = _WILDCARDS.sub("", pattern)
    return literal == pattern, len(literal), pattern


@dataclass(frozen=True)
class _Entry(_Rates):
    match: str | tuple[str, ...] = option((), help="pattern of PROVIDER/NAME, or a list of them")
    as_of: str | None = option(None, help="day of the look-up, where it differs from the table's")
    source: str | None = option(None, help="where it was found, where that differs from the table's")


@dataclass(frozen=True)
class _Table:
    as_of: str = option(help="day of the look-up")
    source: str = option(help="where the prices were found")
    models: tuple[_Entry, ...] = option(help="prices by model")
    currency: Literal["USD"] = option("USD", help="of all prices")


def load_price_table(path: Path | str) -> dict[str, Price]:
    """Return the prices of a YAML table by pattern of PROVIDER/NAME: `as_of`, `source`, `currency: USD` and `models`, a list of
    `match` (a pattern such as `openai/gpt-*`, or a list), `input`, `output` and, where they differ, the rest. Raises ConfigError
    for a field that is unknown, missing, wrong or doubled.
    """
    table = build(_Table, load_yaml(user_path(path)), str(path))
    parse_day(table.as_of, f"{path}: as_of: ", ConfigError)
    prices: dict[str, Price] = {}
    owners: dict[str, int] = {}
    for index, entry in enumerate(table.models):
        where = f"{path}: models[{index}]"
        as_of = table.as_of if entry.as_of is None else entry.as_of
        parse_day(as_of, f"{where}: as_of: ", ConfigError)
        source = table.source if entry.source is None else entry.source
        price = Price(entry.input, entry.output, entry.cache_read, entry.cache_write, as_of, source)
        for pattern in _patterns(entry, where):
            if pattern in owners:
                raise ConfigError(f"{where}: match {pattern!r} was already given in models[{owners[pattern]}]; keep one of the two")
            owners[pattern], prices[pattern] = index, price
    return prices


def choose_price(
    full_name: str, fields: Mapping[str, Any], table_path: Path | str | None = None, default: Path | None = None
) -> Price | None:
    """Return the price of PROVIDER/NAME: what the user gave (the fields of `--price`), else that of the user's table, else of the
    plugin's table; None where none is known. Raises ConfigError for one that is incomplete or not usable.
    """
    if fields:
        return Price(**asdict(build(_Rates, fields, "--price")), source="--price")
    path = default if table_path is None else table_path
    return None if path is None else find_price(load_price_table(path), full_name)


def _patterns(entry: _Entry, where: str) -> tuple[str, ...]:
    patterns = (entry.match,) if isinstance(entry.match, str) else entry.match
    if not patterns:
        raise ConfigError(f"{where}: field 'match' is missing or empty; say match: PROVIDER/NAME")
    for pattern in patterns:
        if not re.fullmatch(r"[^/\s]+/\S+", pattern):
            raise ConfigError(f"{where}: match: expected PROVIDER/NAME, was {pattern!r}")
    return patterns
