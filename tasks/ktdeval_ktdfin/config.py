"""The config of a KTD-Fin task: what a variant in the task file may say, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ktdeval.api import ConfigError, HarnessConfig, TradingConfig, Window, build, near_matches, option

Mode = Literal["memory_only", "fixed_candidate", "open_research"]
Mask = Literal["bright", "stock_blind", "date_blind", "blinded"]


@dataclass(frozen=True)
class WindowDates:
    """An evaluation window as written in the task file."""

    first: str = option(help="first day, ISO, included")
    last: str = option(help="last day, ISO, included")
    regime: str = option("", help="what the market did, in words; shown to people, never to a model")


@dataclass(frozen=True)
class KtdfinConfig:
    """One variant. Everything here is part of the task's hash, and so of the card."""

    family: str = option(help="task family")
    version: str = option(help="version of the task; raised when its outcome may change")
    mask: Mask = option(
        help="what the model may not see: codes (stock_blind), dates (date_blind), both (blinded), nothing (bright)"
    )
    mode: Mode = option(help="what the model is shown: labels only, a candidate table, or six research tools")
    windows: dict[str, WindowDates] = option(help="evaluation windows by name")
    default_windows: tuple[str, ...] = option(help="windows used when the user names none")
    metrics: tuple[str, ...] = option(help="metrics on the card, in order")
    tools: tuple[str, ...] = option((), help="research tools by name, in the order offered; open_research only")
    rebase_prices: bool = option(False, help="rescale each asset's prices and share counts by a hidden constant")
    round_digits: int | None = option(
        None, help="significant digits of the figures that are shown; null: as they are", minimum=1, maximum=6
    )
    noise_pct: float = option(
        0.0, help="multiplicative noise on each stock's shown prices and volumes, in per cent", minimum=0.0, maximum=50.0
    )
    harness: HarnessConfig = option(HarnessConfig(), help="budgets of a step")
    trading: TradingConfig = option(TradingConfig(), help="costs, lots and limits")
    data_card: dict[str, Any] = option(factory=dict, help="what the task needs of market data, and its limits")
    sources: tuple[Any, ...] = option((), help="papers and other origins")


def load_config(config: Mapping[str, Any], where: str) -> KtdfinConfig:
    """Validate a resolved variant.

    Args:
        config: plain values, as the task file gives them.
        where: prefix of error messages.

    Raises:
        ConfigError: an unknown, missing, ill-typed or impossible value, named.
    """
    built = build(KtdfinConfig, config, where)
    for name, window in built.windows.items():
        if _day(window.first, f"{where}: windows.{name}.first") > _day(window.last, f"{where}: windows.{name}.last"):
            raise ConfigError(f"{where}: windows.{name}: ends before it begins; swap the dates")
    if bool(built.tools) != (built.mode == "open_research"):
        raise ConfigError(f"{where}: tools: mode {built.mode} has {'research tools; name some' if not built.tools else 'none'}")
    if not built.default_windows:
        raise ConfigError(f"{where}: default_windows: name at least one window")
    for name in built.default_windows:
        if name not in built.windows:
            raise ConfigError(f"{where}: default_windows: no window {name!r}{near_matches(name, built.windows)}")
    return built


def windows_of(config: KtdfinConfig) -> dict[str, Window]:
    """The windows as the runner wants them."""
    return {name: Window(name, dates.first, dates.last) for name, dates in config.windows.items()}


def _day(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a date; write it as 2024-01-02") from error
