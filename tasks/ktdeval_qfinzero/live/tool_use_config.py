"""Config of a question answered by tool calls: a chat turn, or a trading session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Self

from ktdeval.errors import ConfigError
from ktdeval.harness import HarnessConfig
from ktdeval.task_api import QuestionsConfig
from ktdeval.values import Address, option
from ktdeval_qfinzero.suite.config import SuiteConfig

MAX_TURNS: Final = 50
MAX_INSTRUCTION_CHARS: Final = 8_000
MAX_DAYS: Final = 1_000

_USUAL: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "conversation": {
            "max_answer_chars": 20_000,
            "most_past_chars": 4_000,
            "harness": {"max_tool_calls": 24},
        },
        "session": {"max_answer_chars": 100_000, "harness": {"max_tool_calls": 200}},
    }
)
"""Value of the field that selects the question type -> default values of the other fields."""


@dataclass(frozen=True)
class ChatCall:
    """A call that the model made in an earlier turn."""

    tool: str = option(help="dotted name of the tool")
    arguments: Any = option(help="its arguments as they were recorded")


@dataclass(frozen=True)
class ChatTurn:
    """An earlier turn. The answers to its calls are not stored; the calls are repeated."""

    instruction: str = option(help="text of the user")
    answer: str = option(help="answer of the model; empty if it gave none")
    calls: tuple[ChatCall, ...] = option((), help="calls that it made, in order")


@dataclass(frozen=True)
class ChatHistory:
    """The chat up to this turn, and the data that it is about."""

    as_of: str = option(help="start of the clock, such as 2025-01-06T21:00:00Z")
    instruction: str = option(help="text of the user in this turn")
    content_id: str = option(help="id of the dataset, as `ktdeval data info` prints it")
    data: Address | None = option(
        None, help="folder of the dataset; null for the embedded synthetic market"
    )
    turns: tuple[ChatTurn, ...] = option((), help="turns before this one, oldest first")


@dataclass(frozen=True)
class TradedSession:
    """Task of a trading session: start of the clock, stocks, days and cash."""

    as_of: str = option(help="start of the clock, such as 2025-01-06T21:00:00Z")
    stocks: tuple[str, ...] = option(help="symbols that may be traded")
    days: int = option(20, help="trading days", minimum=1, maximum=MAX_DAYS)
    cash: float = option(100_000.0, help="dollars paid in", minimum=1.0)


@dataclass(frozen=True, kw_only=True)
class LiveConfig(QuestionsConfig):
    """One question. Everything here except a dataset's folder is part of the task's hash. The
    fields of the other kind of question are None.
    """

    conversation: ChatHistory | None = option(
        None, help="for a chat: the turns so far, and the user's new text"
    )
    session: TradedSession | None = option(None, help="for a session: the stocks to trade")
    data_seed: int = option(0, help="seed of the embedded synthetic market", minimum=0)
    max_answer_chars: int = option(
        help="longest answer of a call that is passed on to the model", minimum=1_000
    )
    most_past_chars: int | None = option(
        None,
        help="longest answer of a call of an earlier turn that is shown again; of a chat",
        minimum=100,
    )
    harness: HarnessConfig = option(help="budgets of the question")

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate a resolved variant, as `QuestionsConfig.load` does. Fields of the suite that the
        variant extends, such as its rules and item seeds, do not belong to the question.
        """
        own = {each.name for each in fields(cls)}
        of_suite = {each.name for each in fields(SuiteConfig)} - own
        given = {name: value for name, value in config.items() if name not in of_suite}
        kind = next((kind for kind in _USUAL if kind in config), "")
        return super().load({**_USUAL.get(kind, {}), **given}, where)

    def check(self, where: str) -> None:
        """Raise ConfigError unless there is exactly one question and a session has stocks, each
        once.
        """
        super().check(where)
        if (self.conversation is None) == (self.session is None):
            raise ConfigError(f"{where}: conversation, session: give one of the two")
        if self.session is None:
            return

        stocks = self.session.stocks
        if not stocks or len(set(stocks)) < len(stocks):
            raise ConfigError(f"{where}: session.stocks: name at least one stock, each once")
        if self.most_past_chars is not None:
            raise ConfigError(f"{where}: most_past_chars: a session has no turns; leave it out")
