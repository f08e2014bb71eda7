"""Config that every task has: what a variant in a task file may say, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Self

from ktdeval.contracts.spec import Window
from ktdeval.errors import ConfigError
from ktdeval.fields import build, near_matches, option
from ktdeval.harness.config import HarnessConfig

Mask = Literal["bright", "stock_blind", "date_blind", "blinded"]


@dataclass(frozen=True)
class WindowDates:
    """An evaluation window as written in a task file."""

    first: str = option(help="first day, ISO, included")
    last: str = option(help="last day, ISO, included")
    regime: str = option("", help="what the market did, in words; shown to people, never to a model")


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """One variant of a task; subclass it with the fields of a family. All of it is part of the task's hash, and so of the card."""

    family: str = option(help="task family")
    version: str = option(help="version of the task; raised when its outcome may change")
    windows: dict[str, WindowDates] = option(help="evaluation windows by name")
    default_windows: tuple[str, ...] = option(help="windows used when the user names none")
    harness: HarnessConfig = option(HarnessConfig(), help="budgets of a step")
    data_card: dict[str, Any] = option(factory=dict, help="what the task needs of market data, and its limits")
    sources: tuple[Any, ...] = option((), help="papers and other origins")

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate a resolved variant. Raises ConfigError: an unknown, missing, ill-typed or impossible value, named."""
        built = build(cls, config, where)
        built.check(where)
        return built

    def check(self, where: str) -> None:
        """Raise ConfigError if values do not go together; a subclass adds its own checks after these."""
        for name, window in self.windows.items():
            if _day(window.first, f"{where}: windows.{name}.first") > _day(window.last, f"{where}: windows.{name}.last"):
                raise ConfigError(f"{where}: windows.{name}: ends before it begins; swap the dates")
        if not self.default_windows:
            raise ConfigError(f"{where}: default_windows: name at least one window")
        for name in self.default_windows:
            if name not in self.windows:
                raise ConfigError(f"{where}: default_windows: no window {name!r}{near_matches(name, self.windows)}")


def windows_of(config: TaskConfig) -> dict[str, Window]:
    """Windows of a config as the runner wants them."""
    return {name: Window(name, dates.first, dates.last) for name, dates in config.windows.items()}


def _day(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a date; write it as 2024-01-02") from error
