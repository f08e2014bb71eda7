"""Compare the definitions of a card's figures with those of the installed suite: a card must not
define the meaning or direction of a metric or score itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.cards import TradingCard
from ktdeval.registry import Plugins
from ktdeval_board.board_entries import Card, figures_of

_PARTS = ("better", "unit", "source", "headline")
_SHOWN = 80


def definition_problems(card: Card, plugins: Plugins) -> Iterator[str]:
    """Yield definitions in a card that differ from the suite's. Figures from plugins that are not
    installed are not compared; the card's task must be installed.
    """
    known = _installed_definitions(card, plugins)
    for name, figure in figures_of(card).items():
        if name not in known:
            continue

        for part in _PARTS:
            own = getattr(figure, part)
            installed = getattr(known[name], part)
            if own != installed:
                yield (
                    f"{name}.{part}: is {str(own)[:_SHOWN]!r}, but in this version of the suite "
                    f"{str(installed)[:_SHOWN]!r}; run `ktdeval score RUN` with this version"
                )


def _installed_definitions(card: Card, plugins: Plugins) -> Mapping[str, Any]:
    """Return the installed definitions of a card's figures, keyed by name."""
    if not isinstance(card, TradingCard):
        task: Any = plugins.make_task(card.task.name)
        scores: Mapping[str, Any] = task.scores
        return scores

    installed = set(card.metrics) & set(plugins.specs("metrics"))
    return {name: plugins.make_metric(name) for name in installed}
