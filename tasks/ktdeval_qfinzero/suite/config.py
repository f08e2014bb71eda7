"""Config of a task: the fields that a variant in the task file may have in addition to those of
every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from ktdeval.errors import ConfigError
from ktdeval.harness import HarnessConfig
from ktdeval.registry import ITEMS_KEY
from ktdeval.task_api import QuestionsConfig
from ktdeval.values import option
from ktdeval_qfinzero.scoring.types import Suite

Calls = Literal["native", "text"]
Execution = Literal["dry", "live"]
Rules = Literal["paper", "reference"]


@dataclass(frozen=True, kw_only=True)
class SuiteConfig(QuestionsConfig):
    """One variant. Everything here is part of the task's hash, and thus of the card."""

    suite: Suite = option(
        help="calling: one call or a few for an instruction; planning: a workflow of several steps"
    )
    calls: Calls = option(
        "native",
        help=(
            "native: tools are offered and called; text: they are described, and calls are"
            " submitted as JSON"
        ),
    )
    execution: Execution = option(
        "dry", help="dry: calls are recorded; live: they are made in a workspace, and answered"
    )
    rules: Rules = option(
        "paper", help="the rule set of the headline scores; the other one's stand in the details"
    )
    data_seed: int = option(0, help="seed of the embedded synthetic market", minimum=0)
    items_seed: int = option(0, help="seed of the items", minimum=0)
    items: int | None = option(
        None, help="items asked, taken evenly over all of them; null for all", minimum=1
    )
    tasks_file: str | None = option(
        None,
        help=(
            "tasks in the public format, asked instead of our own items: a file of JSON lines or"
            " Parquet, a folder, or hf:ORG/NAME; dry only; `--items` sets it"
        ),
    )
    wordings: str | None = option(
        None,
        help=(
            "file of `ktdeval paper qfinzero wordings`: only items with a wording in it are asked, in these"
            " words"
        ),
    )
    max_answer_chars: int = option(
        100_000, help="longest answer of a live call that is passed on to the model", minimum=1_000
    )
    harness: HarnessConfig = option(
        HarnessConfig(max_tool_calls=24),
        help="budgets of an item: max_tool_calls and schema_retries count",
    )

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate a resolved variant, as `QuestionsConfig.load` does. A source given by `--items`
        becomes its `tasks_file`.
        """
        plain = {name: value for name, value in config.items() if name != ITEMS_KEY}
        return super().load(
            {**plain, "tasks_file": config[ITEMS_KEY]} if ITEMS_KEY in config else plain, where
        )

    @property
    def is_live(self) -> bool:
        """True if calls are executed."""
        return self.execution == "live"

    def check(self, where: str) -> None:
        """Raise ConfigError if values contradict each other."""
        super().check(where)
        if self.is_live and self.calls == "text":
            raise ConfigError(
                f"{where}: execution: calls that are submitted as text are not made; use calls:"
                " native, or execution: dry"
            )
        if self.wordings is not None and self.tasks_file is not None:
            raise ConfigError(
                f"{where}: wordings: are of our own items, and tasks_file asks others; leave out one"
            )
        if self.is_live and self.tasks_file is not None:
            raise ConfigError(
                f"{where}: tasks_file: its tasks are about other data than ours and can't be made;"
                " use execution: dry"
            )
