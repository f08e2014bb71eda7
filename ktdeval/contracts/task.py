"""Contract of a trading task: a config, and a scene for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.harness.agent import Observation
from ktdeval.harness.config import HarnessConfig
from ktdeval.harness.tools import Tool
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.market.snapshot import MarketView
from ktdeval.masking.lens import Lens
from ktdeval.trading.config import TradingConfig
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.types import Account


class Scene(Protocol):
    """One episode of a task: what is observed at each step. Pure: equal arguments give equal bytes."""

    lens: Lens

    def observe(self, step: int, view: MarketView, account: Account, last: StepRecord | None) -> Observation:
        """Return the masked prompt of one step. `last` is the previous step's record, None at step 0."""

    def tool_context(self, step: int, view: MarketView, account: Account) -> Any:
        """Return the object that research tools get as their first argument at this step."""


class Task(Protocol):
    """A trading task variant. `tools` are names that the `ktdeval_tools` hook gives, in the order offered."""

    name: str
    version: str
    mask: str
    mode: str
    tools: tuple[str, ...]
    harness: HarnessConfig
    trading: TradingConfig
    metrics: tuple[str, ...]
    windows: Mapping[str, Window]
    default_windows: tuple[str, ...]

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the resolved config as JSON, with data card and sources: `tasks show` prints it, its hash goes on the card.
        Prompts enter by their hashes.
        """

    def scene(self, spec: EpisodeSpec, snapshot: Any) -> Scene:
        """Open one episode on a MarketSnapshot."""


def describe_task(task: Task, tools: Sequence[Tool]) -> dict[str, JsonValue]:
    """Return all of a task that can change an outcome: its own description, and the texts of its tools by their hashes. `ktdeval
    tasks show` prints it; its hash goes into every spec and onto the card.
    """
    texts = {tool.name: content_hash({"description": tool.description, "parameters": tool.parameters}) for tool in tools}
    return {**task.describe(), "tool_texts": texts}
