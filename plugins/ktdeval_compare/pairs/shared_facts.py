"""Facts that compared cards must share, and the refusal that names the first difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from ktdeval.cards import TradingCard, task_facts
from ktdeval.errors import CardError
from ktdeval.harness import without_transport
from ktdeval.values import encode_canonical


class CardOnFile(Protocol):
    """A card in a comparison, of any kind."""

    @property
    def path(self) -> Path:
        """File of the card, for messages."""

    @property
    def card(self) -> Any:
        """The card."""


def check_same(
    entrants: Sequence[CardOnFile], facets: Mapping[str, Callable[[Any], Any]], then: str
) -> None:
    """Check that the cards agree in all `facets`, which map a name to a function that reads the
    value from a card.

    Raises CardError otherwise. The message names the first difference and ends with `then`.
    """
    first = entrants[0]
    for other in entrants[1:]:
        for name, facet in facets.items():
            left = facet(first)
            right = facet(other)
            if encode_canonical(left) != encode_canonical(right):
                raise CardError(
                    f"{other.path} and {first.path} have different {name}: {_short_text(right)} and"
                    f" {_short_text(left)}; {then}"
                )


def _short_text(value: Any) -> str:
    text = value if isinstance(value, str) else encode_canonical(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


_FACETS: Mapping[str, Callable[[Any], Any]] = {
    "masks": attrgetter("card.task.mask"),
    "modes": attrgetter("card.task.mode"),
    "models": attrgetter("card.model"),
    "agents": attrgetter("card.agent"),
    "call parameters": lambda entrant: without_transport(entrant.card.call),
    "ways of sending calls": attrgetter("card.request_settings"),
    "task versions": attrgetter("card.task.version"),
    # Only ids are compared; names and sources are just labels.
    "snapshots": lambda entrant: entrant.card.snapshot and entrant.card.snapshot.id,
    "metric rules": attrgetter("card.rules"),
    "limits of steps": attrgetter("card.limit"),
    "kinds of markets": lambda entrant: _market_kind(entrant.card),
}
MARKET_FACETS = ("snapshots", "metric rules", "limits of steps")
"""Facts that must be equal in every comparison. Mask keys are not among them: each run has its own
key.
"""


def _market_kind(card: TradingCard) -> str:
    """Return the kind of market: `placebo`, `synthetic` or `real`."""
    if card.snapshot.is_placebo:
        return "placebo"
    return "synthetic" if card.snapshot.synthetic else "real"


def facets(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Return the facets with these names for `check_same`, which checks them in this order."""
    return {name: _FACETS[name] for name in names}


_TASK_FACETS = ("masks", "modes", "task versions", *MARKET_FACETS)


def check_same_task(entrants: Sequence[CardOnFile], then: str) -> None:
    """Check that the cards are of one task on one market, in all that can change a result.

    Raises CardError otherwise. The message names the first difference and ends with `then`.
    """
    check_same(entrants, facets(*_TASK_FACETS), then)
    check_same_config(entrants, then)


def check_same_config(
    entrants: Sequence[CardOnFile],
    then: str,
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] = task_facts,
) -> None:
    """Check that the cards' task configs agree in all fields that can change a result. `facts`
    returns these fields of a config.

    Raises CardError otherwise. The message names the first field that differs and ends with `then`.
    """
    names: set[str] = set()
    for entrant in entrants:
        names.update(facts(entrant.card.task.config))

    fields = {}
    for name in sorted(names):
        fields[f"task configs ({name})"] = _config_fact(name, facts)

    check_same(entrants, fields, then)


def _config_fact(
    name: str, facts: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Callable[[Any], Any]:
    return lambda entrant: facts(entrant.card.task.config).get(name)
