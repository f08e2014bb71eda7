"""Fields of cards: one object for each, with all that a card does with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import CardSources, ScoringSources, TradingSources
from ktdeval.cards.fields.recorded_facts import (
    AnyFacts,
    DerivationBasis,
    Evaluation,
    ScoringFacts,
    TradingFacts,
)
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row

V = TypeVar("V")
S = TypeVar("S", bound=CardSources)
F = TypeVar("F", bound=Evaluation)


def _nothing(value: object, facts: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, eq=False)
class CardField(Generic[V, S, F]):
    """One field of a card: a value that is either gathered from a run's records, or derived from the
    card's own facts. Whatever it leaves out is nothing: no rows, no problems, no words.

    Example:
        SEEDS = SharedField("seeds", gather=gather_seeds, rows=seed_rows, words=WORDS)
    """

    KINDS: ClassVar[tuple[str, ...]] = ("trading", "scoring")
    """Kinds of cards that have it."""

    name: str  #: its name in the class of cards
    gather: Callable[[S], V] | None = None  #: its value, from the records of a run
    derive: Callable[[DerivationBasis[F]], V] | None = (
        None  #: its value, from the facts of the card
    )
    #: its rows on a printed card, from its value and the facts of the card
    rows: Callable[[V, F], Iterable[Row]] = _nothing
    #: which table these rows are in: that of what ran, or that of what happened
    table: Literal["run", "activity"] = "run"
    #: where its value contradicts itself or the facts; what comes earlier in `FIELDS` holds
    problems: Callable[[V, F], Iterable[Problem]] = _nothing
    #: words of it and of its parts, by dotted path in the file
    words: Mapping[str, FieldWords] = field(default_factory=dict)
    #: type of its value, where the class of cards does not declare the field
    type: Any = None


class SharedField(CardField[V, CardSources, AnyFacts]):
    """A field of trading and of scoring cards."""


class TradingField(CardField[V, TradingSources, TradingFacts]):
    """A field of trading cards."""

    KINDS = ("trading",)


class ScoringField(CardField[V, ScoringSources, ScoringFacts]):
    """A field of scoring cards."""

    KINDS = ("scoring",)
