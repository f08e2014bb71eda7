"""What a trading task is to the runner: a config, and a scene for each episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ktdeval.harness.agent import Observation
from ktdeval.harness.config import HarnessConfig
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketView
from ktdeval.masking.lens import Lens
from ktdeval.runner.spec import EpisodeSpec, Window
from ktdeval.trading.config import TradingConfig
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.types import Account


class Scene(Protocol):
    """One episode of a task: what is observed at each step. Pure: equal arguments give equal bytes."""

    lens: Lens

    def observe(self, step: int, view: MarketView, account: Account, last: StepRecord | None) -> Observation:
        """The masked prompt of one step. `last` is the previous step's record, None at step 0."""
        ...

    def tool_context(self, step: int, view: MarketView, account: Account) -> Any:
        """The object that research tools get as their first argument at this step."""
        ...


class Task(Protocol):
    """A trading task variant."""

    name: str
    version: str
    mask: str
    mode: str
    harness: HarnessConfig
    trading: TradingConfig
    metrics: tuple[str, ...]
    windows: Mapping[str, Window]
    default_windows: tuple[str, ...]

    def describe(self) -> Mapping[str, JsonValue]:
        """The resolved config as JSON, with data card and sources: `ktdeval tasks show` prints it; its hash goes on the card.
        Prompts enter by their hashes.
        """
        ...

    def make_tools(self) -> tuple[Tool, ...]:
        """The research tools of this mode, in the order offered."""
        ...

    def scene(self, spec: EpisodeSpec, snapshot: Any) -> Scene:
        """Open one episode on a MarketSnapshot."""
        ...
