"""Config of a traded session: when it begins, what is traded, and with how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ktdeval.errors import ConfigError
from ktdeval.harness import HarnessConfig
from ktdeval.tasks import QuestionsConfig
from ktdeval.values.fields import option
from ktdeval_qfinzero.chat.config import without_suite_fields

SESSION: Final = "session"
"""Field that makes a variant of a QFinZero task a traded session."""
MOST_DAYS: Final = 1_000


@dataclass(frozen=True)
class TradedSession:
    """What is to be traded."""

    as_of: str = option(help="where the clock starts, such as 2025-01-06T21:00:00Z")
    stocks: tuple[str, ...] = option(help="symbols that may be traded")
    days: int = option(20, help="trading days", minimum=1, maximum=MOST_DAYS)
    cash: float = option(100_000.0, help="dollars paid in", minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class SessionConfig(QuestionsConfig):
    """One session. Everything here is part of the task's hash."""

    session: TradedSession = option(help="what is to be traded")
    data_seed: int = option(0, help="seed of the embedded synthetic market", minimum=0)
    max_answer_chars: int = option(
        100_000, help="longest answer of a call that is passed on to the model", minimum=1_000
    )
    harness: HarnessConfig = field(default_factory=lambda: HarnessConfig(max_tool_calls=200))

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate a resolved variant, as of `QuestionsConfig.load`. Fields of the suite that the
        variant extends, such as its rules and seeds of items, are not those of a session.
        """
        return super().load(without_suite_fields(config, cls), where)

    def check(self, where: str) -> None:
        """Raise ConfigError if no stock is named, or one twice."""
        super().check(where)
        stocks = self.session.stocks
        if not stocks or len(set(stocks)) < len(stocks):
            raise ConfigError(f"{where}: session.stocks: name at least one stock, each once")
