"""The config of a task: what a variant in the task file may say, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ktdeval.api import ConfigError, HarnessConfig, Window, build, near_matches, option
from ktdeval_qfinzero.scoring.types import Suite

Calls = Literal["native", "text"]
Execution = Literal["dry", "live"]
Rules = Literal["paper", "reference"]


@dataclass(frozen=True)
class WindowDates:
    """A window, as written in the task file."""

    first: str = option(help="first day, ISO, included")
    last: str = option(help="last day, ISO, included")


@dataclass(frozen=True)
class SuiteConfig:
    """One variant. Everything here is part of the task's hash, and so of the card."""

    family: str = option(help="task family")
    version: str = option(help="version of the task; raised when its outcome may change")
    suite: Suite = option(help="calling: one call or a few for an instruction; planning: a workflow of several steps")
    windows: dict[str, WindowDates] = option(help="windows by name; the runner asks for one, the questions do not depend on it")
    default_windows: tuple[str, ...] = option(help="windows used when the user names none")
    mask: Literal["bright"] = option("bright", help="nothing is hidden: nothing of the runner's market is shown")
    calls: Calls = option(
        "native", help="native: tools are offered and called; text: they are described, and calls are submitted as JSON"
    )
    execution: Execution = option("dry", help="dry: calls are recorded; live: they are made in a workspace, and answered")
    rules: Rules = option("paper", help="the rule set of the headline scores; the other one's stand in the details")
    data_seed: int = option(0, help="seed of the embedded synthetic market", minimum=0)
    items_seed: int = option(0, help="seed of the items", minimum=0)
    items: int | None = option(None, help="items asked, taken evenly over all of them; null for all", minimum=1)
    tasks_file: str | None = option(
        None, help="a file of tasks in the public format, asked in the place of our own items; dry only"
    )
    max_answer_chars: int = option(100_000, help="longest answer of a live call that is passed on to the model", minimum=1_000)
    harness: HarnessConfig = option(
        HarnessConfig(max_tool_calls=24), help="budgets of an item: max_tool_calls and schema_retries count"
    )
    data_card: dict[str, Any] = option(factory=dict, help="what the items are about, and the limits of that")
    sources: tuple[Any, ...] = option((), help="papers and other origins")

    @property
    def is_live(self) -> bool:
        """Whether calls are made."""
        return self.execution == "live"


def load_config(config: Mapping[str, Any], where: str) -> SuiteConfig:
    """Validate a resolved variant.

    Args:
        config: plain values, as the task file gives them.
        where: prefix of error messages.

    Raises:
        ConfigError: an unknown, missing, ill-typed or impossible value, named.
    """
    built = build(SuiteConfig, config, where)
    for name, window in built.windows.items():
        if _day(window.first, f"{where}: windows.{name}.first") > _day(window.last, f"{where}: windows.{name}.last"):
            raise ConfigError(f"{where}: windows.{name}: ends before it begins; swap the dates")
    if not built.default_windows:
        raise ConfigError(f"{where}: default_windows: name at least one window")
    for name in built.default_windows:
        if name not in built.windows:
            raise ConfigError(f"{where}: default_windows: no window {name!r}{near_matches(name, built.windows)}")
    if built.is_live and built.calls == "text":
        raise ConfigError(
            f"{where}: execution: calls that are submitted as text are not made; use calls: native, or execution: dry"
        )
    if built.is_live and built.tasks_file is not None:
        raise ConfigError(f"{where}: tasks_file: its tasks are about other data than ours and can't be made; use execution: dry")
    return built


def windows_of(config: SuiteConfig) -> dict[str, Window]:
    """The windows as the runner wants them."""
    return {name: Window(name, dates.first, dates.last) for name, dates in config.windows.items()}


def _day(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a date; write it as 2025-01-02") from error
