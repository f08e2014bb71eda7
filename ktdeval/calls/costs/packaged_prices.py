"""Prices and contexts from the package `genai-prices`, which others maintain: dated, and with price
tiers. The data are part of the package; nothing here uses the network.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Any, Literal

from ktdeval.values.installation import import_problem
from ktdeval.values.options.config_options import option

PRICE_PACKAGE = "genai-prices"

_LOG = logging.getLogger(__name__)
_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
_HOURS = 24


@dataclass(frozen=True)
class Package:
    """Names that connect a price table with the price package."""

    providers: Mapping[str, str] = option(
        help="the package's name of each provider, by ktdeval's name"
    )
    looked_up: Mapping[str, str] = option(
        factory=dict,
        help="day on which a version of the package was compared with the vendors' pages",
    )
    dollars_at: Mapping[str, Mapping[str, str]] = option(
        factory=dict,
        help=(
            "for providers that bill another currency elsewhere: the package's name of each, by"
            " ktdeval's name and by the start of the address"
        ),
    )
    name: Literal["genai-prices"] = option("genai-prices", help="name of the package")

    def priced_as(self, provider: str, address: str) -> str | None:
        """Return the package's name for the provider whose prices apply at an address; None if the
        package has no such name, or if the provider bills in another currency at that address.
        """
        addresses = self.dollars_at.get(provider)
        if addresses is None:
            return self.providers.get(provider)

        for start, name in addresses.items():
            if _is_below(address, start):
                return name

        return None


def _is_below(address: str, start: str) -> bool:
    """Return whether an address equals `start` or is below it. The case of the host is ignored."""
    return f"{address.lower()}/".startswith(f"{start}/")


def installed_version() -> str | None:
    """Return the version of the installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(PRICE_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def packaged_price(
    package: Package, full_name: str, day: date, address: str
) -> dict[str, Any] | None:
    """Return the price fields for PROVIDER/NAME at an address on a day; None if the package has no
    price in US dollars, or is not installed (logged once).

    If rates change with the time of day, the highest rate is used, so that a cost is an upper
    bound.
    """
    provider, _, name = full_name.partition("/")
    named = package.priced_as(provider, address)
    if named is not None and _packaged_snapshot() is None:
        _warn_that_there_are_none()

    listed = _listed_model(named, name)
    if listed is None:
        return None

    rates = _dearest(listed.model, day)
    if rates is None:
        return None

    as_of = package.looked_up.get(listed.version, "")
    return {**rates, "as_of": as_of, "source": listed.source}


def packaged_context(package: Package, full_name: str) -> tuple[int, str] | None:
    """Return the context of PROVIDER/NAME in tokens, and the source of the figure; None if the
    package does not list it or is not installed.
    """
    provider, _, name = full_name.partition("/")
    listed = _listed_model(package.providers.get(provider), name)
    if listed is None or not listed.model.context_window:
        return None

    return listed.model.context_window, listed.source


def packaged_names(package: Package, provider: str) -> tuple[str, ...]:
    """Return the names of a provider's models in the package; empty if it does not list the
    provider, or is not installed.
    """
    named = package.providers.get(provider)
    snapshot = _packaged_snapshot()
    if named is None or snapshot is None:
        return ()

    for each in snapshot.providers:
        if each.id == named:
            return tuple(model.id for model in each.models)
    return ()


@dataclass(frozen=True, slots=True)
class _ListedModel:
    """A model listed in the package."""

    model: Any
    provider: str  #: the provider's name in the package
    version: str  #: version of the package

    @property
    def source(self) -> str:
        """The package, its version, and the model's name in the package."""
        return f"{PRICE_PACKAGE} {self.version}, {self.provider}/{self.model.id}"


def _listed_model(provider: str | None, name: str) -> _ListedModel | None:
    """Return a model from the package, given the provider's own name for it; None if it is not
    listed.
    """
    if provider is None:
        return None

    snapshot = _packaged_snapshot()
    version = installed_version()
    if snapshot is None or version is None:
        return None

    try:
        host, model = snapshot.find_provider_model(name, None, provider, None)
    except LookupError:
        return None

    return _ListedModel(model, host.id, version)


@cache
def _packaged_snapshot() -> Any:
    """Return the package's data; None if the package can't be imported."""
    try:
        return _import_snapshot()
    except ImportError:
        return None


def _import_snapshot() -> Any:
    """Return the package's data. Raises ImportError."""
    from genai_prices.data import providers  # noqa: PLC0415 - slow, and of an extra
    from genai_prices.data_snapshot import DataSnapshot  # noqa: PLC0415 - as above

    return DataSnapshot(providers=providers, from_auto_update=False)


@cache
def _warn_that_there_are_none() -> None:
    try:
        _import_snapshot()
    except ImportError as error:
        _LOG.warning(
            "no prices: %s; get it with `pip install %s`, or give --price or --price-table",
            import_problem(error, "genai_prices"),
            PRICE_PACKAGE,
        )


def _dearest(model: Any, day: date) -> dict[str, Any] | None:
    """Return a model's rates on a day, at the most expensive hour; None if the model is not billed
    by token.
    """
    found = None
    for hour in range(_HOURS):
        moment = datetime.combine(day, time(hour), UTC)
        rates = _rates(model.get_prices(moment))
        if rates is None:
            return None
        if found is None or rates["input"] + rates["output"] > found["input"] + found["output"]:
            found = rates

    return found


def _rates(prices: Any) -> dict[str, Any] | None:
    """Return rates in US dollars per million tokens, including tiers for long prompts if there are
    any.
    """
    whole = {name: getattr(prices, field) for name, field in _RATES.items()}
    if whole["input"] is None or whole["output"] is None:
        return None

    starts: set[int] = set()
    for value in whole.values():
        starts |= {tier.start for tier in getattr(value, "tiers", ())}

    rates: dict[str, Any] = _rates_at_tokens(whole, 0)
    if starts:
        rates["tiers"] = [
            {"above": start, **_rates_at_tokens(whole, start + 1)} for start in sorted(starts)
        ]
    return rates


def _rates_at_tokens(whole: Mapping[str, Any], tokens: int) -> dict[str, float | None]:
    """Return the rates for a call, given the number of tokens in its prompt."""
    rates: dict[str, float | None] = {}
    for name, value in whole.items():
        rate = getattr(value, "base", value)
        for tier in getattr(value, "tiers", ()):
            if tokens > tier.start:
                rate = tier.price

        rates[name] = None if rate is None else float(rate)

    return rates
