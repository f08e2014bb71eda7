"""The config of a probe task: what a variant in the task file may say, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ktdeval.api import ConfigError, HarnessConfig, Window, build, near_matches, option

Mask = Literal["bright", "stock_blind", "date_blind", "blinded"]

MODE = "deanon_probe"


@dataclass(frozen=True)
class WindowDates:
    """A window to draw days from, as written in the task file."""

    first: str = option(help="first day, ISO, included")
    last: str = option(help="last day, ISO, included")
    regime: str = option("", help="what the market did, in words; shown to people, never to a model")


@dataclass(frozen=True)
class DeanonConfig:
    """One variant. Everything here is part of the task's hash, and so of the card."""

    family: str = option(help="task family")
    version: str = option(help="version of the task; raised when its outcome may change")
    mask: Mask = option(help="the mask under attack; that of the subject")
    subject: str = option(help="the trading task whose scene and research tools the attacker sees the answers of")
    windows: dict[str, WindowDates] = option(help="windows by name")
    default_windows: tuple[str, ...] = option(help="windows used when the user names none")
    screen_factors: tuple[str, ...] = option(help="what the shown screen is ranked by")
    probes_per_window: int = option(40, help="probes drawn from each window", minimum=1, maximum=10_000)
    max_probes_per_stock: int = option(1, help="most probes of one window that ask about one stock", minimum=1)
    lookback: int = option(60, help="trading days of bars that a payload shows", minimum=1)
    harness: HarnessConfig = option(HarnessConfig(), help="budgets of a sample; of these, only schema_retries counts")
    data_card: dict[str, Any] = option(factory=dict, help="what the task needs of market data, and its limits")
    sources: tuple[Any, ...] = option((), help="papers and other origins")


def load_config(config: Mapping[str, Any], where: str) -> DeanonConfig:
    """Validate a resolved variant.

    Args:
        config: plain values, as the task file gives them.
        where: prefix of error messages.

    Raises:
        ConfigError: an unknown, missing, ill-typed or impossible value, named.
    """
    built = build(DeanonConfig, config, where)
    for name, window in built.windows.items():
        if _day(window.first, f"{where}: windows.{name}.first") > _day(window.last, f"{where}: windows.{name}.last"):
            raise ConfigError(f"{where}: windows.{name}: ends before it begins; swap the dates")
    if not built.default_windows:
        raise ConfigError(f"{where}: default_windows: name at least one window")
    for name in built.default_windows:
        if name not in built.windows:
            raise ConfigError(f"{where}: default_windows: no window {name!r}{near_matches(name, built.windows)}")
    if not built.screen_factors:
        raise ConfigError(f"{where}: screen_factors: name at least one factor")
    return built


def windows_of(config: DeanonConfig) -> dict[str, Window]:
    """The windows as the runner wants them."""
    return {name: Window(name, dates.first, dates.last) for name, dates in config.windows.items()}


def _day(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a date; write it as 2024-01-02") from error
