"""Contract for trading tasks: a config, and a scene for each episode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from ktdeval.errors import ConfigError
from ktdeval.harness.agent import HarnessConfig, Observation
from ktdeval.harness.tools.tool_definition import Tool
from ktdeval.market.rules.calendar import parse_day, window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot, MarketView
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig, MaskKind
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.types import Account, TradingConfig
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import build, near_matches, option
from ktdeval.values.options.rules import FilledText

_WEEK = 7  # days in a calendar week


@dataclass(frozen=True)
class WindowDates:
    """Evaluation window in a task file."""

    first: str = option(help="first day, ISO, included")
    last: str = option(help="last day, ISO, included")
    regime: str = option(
        "", help="what the market did, in words; shown to people, never to a model"
    )


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig:
    """Config of a variant of a task without a market. Subclasses add the fields of a task family.
    All fields affect the hash and are shown on the card.
    """

    family: str = option(help="task family")
    version: str = option(help="version of the task; raised when its outcome may change")
    harness: HarnessConfig = option(HarnessConfig(), help="budgets of a step")
    data_card: dict[str, Any] = option(
        factory=dict, help="data that the task needs, and limits of the account"
    )
    sources: tuple[Any, ...] = option((), help="papers and other origins")

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate the config of a resolved variant. Raises ConfigError if a value is unknown,
        missing, ill-typed or impossible; the message names it.
        """
        built = build(cls, config, where)
        built.check(where)
        return built

    def check(self, where: str) -> None:
        """Raise ConfigError if values are incompatible. Subclasses add their own checks."""


@dataclass(frozen=True, kw_only=True)
class TaskConfig(QuestionsConfig):
    """Config of a variant of a task on a market; otherwise like `QuestionsConfig`."""

    windows: dict[str, WindowDates] = option(help="evaluation windows by name")
    default_windows: tuple[str, ...] = option(help="windows used if the user gives none")

    def check(self, where: str) -> None:
        """Raise ConfigError as `QuestionsConfig.check` does, and also if a window ends before it
        begins or a default window is not defined.
        """
        for name, window in self.windows.items():
            field = f"{where}: windows.{name}"
            if parse_day(window.first, f"{field}.first: ", ConfigError) > parse_day(
                window.last, f"{field}.last: ", ConfigError
            ):
                raise ConfigError(f"{field}: ends before it begins; swap the dates")

        if not self.default_windows:
            raise ConfigError(f"{where}: default_windows: name at least one window")

        for name in self.default_windows:
            if name not in self.windows:
                raise ConfigError(
                    f"{where}: default_windows: no window"
                    f" {name!r}{near_matches(name, self.windows)}"
                )


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(TaskConfig):
    """Config of a variant of a trading task with a masked market; otherwise like `TaskConfig`."""

    mask: MaskKind = option(
        help=(
            "what is hidden from the model: codes (stock_blind), dates (date_blind), both "
            "(blinded), nothing (bright)"
        )
    )
    metrics: tuple[str, ...] = option(help="metrics on the card, in order")
    rebase_prices: bool = option(
        False, help="rescale each asset's prices and share counts by a hidden constant"
    )
    round_digits: int | None = option(
        None,
        help="significant digits of the figures shown; null: as they are",
        minimum=1,
        maximum=6,
    )
    noise_pct: float = option(
        0.0,
        help="multiplicative noise on each asset's shown prices and volumes, in per cent",
        minimum=0.0,
        maximum=50.0,
    )

    prompt: Literal["full", "compact"] = option(
        "full",
        help=(
            "how tables of figures are written; compact: lines of comma-separated values to three"
            " digits, with only close and volume of bars"
        ),
    )
    left_out: tuple[str, ...] = option(
        (), help="parts that a compact prompt omits; filled in automatically, and shown on the card"
    )

    @property
    def is_compact(self) -> bool:
        """True if tables of figures are shown in compact form."""
        return self.prompt == "compact"

    @property
    def mask_config(self) -> MaskConfig:
        """Mask with its options."""
        return MaskConfig(self.mask, self.rebase_prices, self.round_digits, self.noise_pct)

    @property
    def coarse_words(self) -> dict[str, str]:
        """Words for a prompt that describe inexact figures: how they are `shown_as`, and how many
        digits of a weight count.
        """
        rounded = self.round_digits is not None
        noisy = self.noise_pct > 0.0
        digits = "one digit" if self.round_digits == 1 else f"{self.round_digits} digits"

        return {
            "shown_as": " and ".join(["rounded"] * rounded + ["not exact"] * noisy),
            "weight_digits": f"{digits}, the rest being cut off," if rounded else "all its digits",
        }

    def check(self, where: str) -> None:
        """Raise ConfigError as `TaskConfig.check` does, and also if figures are shown inexactly but
        fills would reveal the exact figures.
        """
        super().check(where)
        if not self.mask_config.is_coarse:
            return

        trading = getattr(self, "trading", None)
        if getattr(trading, "limit_orders", False):
            raise ConfigError(
                f"{where}: trading.limit_orders: fills within a limit would reveal the prices that"
                " round_digits and noise_pct hide; remove one of the two"
            )

        execution = getattr(trading, "execution", None)
        if execution is None or execution.is_free:
            return

        raise ConfigError(
            f"{where}: trading.execution {execution.name}: the price of a fill and how much of it"
            " fills would reveal what round_digits and noise_pct hide; remove one of the two"
        )

    def lens(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> Lens:
        """Return the mask of one episode. Raises DataError if the window is outside the
        snapshot.
        """
        return Lens(
            self.mask_config,
            spec.mask_seed,
            snapshot,
            window_rows(snapshot.days, spec.span.first, spec.span.last)[0] - 1,
        )

    def length_words(self, window: Window) -> str:
        """Return a sentence for the prompt about the length of an episode.

        If the mask hides dates, the sentence is the same for every window, including windows
        defined by the user, because the length would identify the window.
        """
        if not self.mask_config.hides_dates:
            return (
                f"The last day of the episode is {window.last}, or the last trading day before it."
            )

        days = [_days_between(dates.first, dates.last) for dates in self.windows.values()]
        most = math.ceil(max(days) / _WEEK)
        least = max(1, min(days) // _WEEK)
        weeks = f"{least} to {most} weeks"
        if least == most:
            weeks = f"{most} weeks"
        return f"Episodes of this task usually last {weeks}; you are not told when this one ends."


def _days_between(first: str, last: str) -> int:
    """Return the number of calendar days from the first to the last day, both included."""
    return int((parse_day(last) - parse_day(first)).astype(int)) + 1


def windows_of(config: TaskConfig) -> dict[str, Window]:
    """Return the windows in a config, keyed by name."""
    return {name: Window(name, dates.first, dates.last) for name, dates in config.windows.items()}


class Scene(Protocol):
    """Episode of a task: what the agent observes at each step. It must be deterministic: equal
    arguments give equal bytes.
    """

    lens: Lens

    def observe(
        self, step: int, view: MarketView, account: Account, last: StepRecord | None
    ) -> Observation:
        """Return the masked prompt for one step. `last` is the record of the previous step, or None
        at step 0.
        """

    def tool_context(self, step: int, view: MarketView, account: Account) -> Any:
        """Return the object that research tools receive as their first argument at this step."""


class TaskVariant(Protocol):
    """Members that trading and scoring tasks share. If a task has `traits`, they are a
    `ktdeval.task_api.TaskTraits`.
    """

    name: str
    version: FilledText
    #: names from the `ktdeval_tools` hook, in the order in which tools are offered; empty if
    #: samples bring their own tools
    tools: tuple[str, ...]
    #: for a scoring task, only `schema_retries` applies, and also `max_tool_calls` if its samples
    #: have an environment
    harness: HarnessConfig
    windows: Mapping[str, Window]  #: empty if the task needs no market
    default_windows: tuple[str, ...]

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the resolved config as JSON, including the data card, the sources and the hashes
        of prompts. The card shows the hash of this JSON.
        """


class Task(TaskVariant, Protocol):
    """Variant of a trading task."""

    mask: MaskKind
    mode: str
    trading: TradingConfig
    metrics: tuple[str, ...]

    def scene(self, spec: EpisodeSpec, snapshot: Any) -> Scene:
        """Open an episode on a MarketSnapshot."""


def describe_task(task: Task, tools: Sequence[Tool]) -> dict[str, JsonValue]:
    """Return everything in a task that can change an outcome. Tools are represented by the hashes
    of their texts.

    Every spec and card contains the hash of this description.
    """
    texts = {
        tool.name: content_hash({"description": tool.description, "parameters": tool.parameters})
        for tool in tools
    }
    return {**task.describe(), "tool_texts": texts}
