"""Config of a chat's turn: what was said and called before it, and what the user writes now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from ktdeval.harness import HarnessConfig
from ktdeval.tasks import QuestionsConfig
from ktdeval.values.addresses import Address
from ktdeval.values.fields import option
from ktdeval_qfinzero.suite.config import SuiteConfig

MOST_TURNS: Final = 50
MOST_INSTRUCTION_CHARS: Final = 8_000
CONVERSATION: Final = "conversation"
"""Field that makes a variant of a QFinZero task a chat."""


@dataclass(frozen=True)
class ChatCall:
    """Call that the model made in an earlier turn."""

    tool: str = option(help="dotted name of the tool")
    arguments: Any = option(help="its arguments as they were recorded")


@dataclass(frozen=True)
class ChatTurn:
    """Turn before this one. The answers of its calls are not kept: the calls are made again."""

    instruction: str = option(help="what the user wrote")
    answer: str = option(help="what the model answered; empty where it gave no answer")
    calls: tuple[ChatCall, ...] = option((), help="calls that it made, in order")


@dataclass(frozen=True)
class Conversation:
    """Chat up to this turn, and the data that it is about."""

    as_of: str = option(help="where the clock starts, such as 2025-01-06T21:00:00Z")
    instruction: str = option(help="what the user writes in this turn")
    content_id: str = option(help="id of the dataset, as `ktdeval data info` prints it")
    data: Address | None = option(
        None, help="folder of the dataset; null for the embedded synthetic market"
    )
    turns: tuple[ChatTurn, ...] = option((), help="turns before this one, oldest first")


@dataclass(frozen=True, kw_only=True)
class ChatConfig(QuestionsConfig):
    """One turn of a chat. Everything here but the dataset's folder is part of the task's hash."""

    conversation: Conversation = option(help="the chat so far, and what the user writes now")
    data_seed: int = option(0, help="seed of the embedded synthetic market", minimum=0)
    max_answer_chars: int = option(
        20_000, help="longest answer of a call that is passed on to the model", minimum=1_000
    )
    most_past_chars: int = option(
        4_000, help="longest answer of a call of an earlier turn that is shown again", minimum=100
    )
    harness: HarnessConfig = field(default_factory=lambda: HarnessConfig(max_tool_calls=24))

    @classmethod
    def load(cls, config: Mapping[str, Any], where: str) -> Self:
        """Validate a resolved variant, as of `QuestionsConfig.load`. Fields of the suite that the
        variant extends, such as its rules and seeds of items, are not those of a chat.
        """
        return super().load(without_suite_fields(config, cls), where)


def without_suite_fields(
    config: Mapping[str, Any], own_type: type[QuestionsConfig]
) -> dict[str, Any]:
    """Return a variant without the fields of the suite that are no fields of its own type."""
    own = {each.name for each in fields(own_type)}
    of_suite = {each.name for each in fields(SuiteConfig)} - own
    return {name: value for name, value in config.items() if name not in of_suite}
