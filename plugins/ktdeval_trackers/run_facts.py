"""Facts about a run for trackers: the parameters in its specs, the figures on its cards, and sums
over its calls.

They contain no prompts and no mask key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ktdeval
from ktdeval.cards import Card, ScoringCard, TradingCard, load_card
from ktdeval.task_api import CallFinished, EpisodeSpec
from ktdeval.values import import_problem, install_command

CACHED = "cached"  #: outcome of a call whose reply came from the cache
#: maximum number of windows or tasks in a parameter; if there are more, only their number is given
_MAX_NAMES = 20
_ODD = re.compile(r"[^A-Za-z0-9_.\-/ ]")


def missing(error: ImportError, package: str, extra: str) -> ModuleNotFoundError:
    """Return the error for a tracker whose package is not installed, or can't be imported."""
    problem = import_problem(error, package)
    return ModuleNotFoundError(f"{problem}: {install_command(extra)}", name=extra)


def parameters(specs: Sequence[EpisodeSpec]) -> dict[str, str]:
    """Return the values that all episodes of a run share, and the lists of values that differ
    between them, as strings keyed by name.
    """
    first = specs[0]
    facts: dict[str, object] = {
        "ktdeval": ktdeval.__version__,
        "model": first.model,
        "agent": first.agent,
        "tasks": _list_names(spec.task for spec in specs),
        "windows": _list_names(spec.window_name or "" for spec in specs),
        "seeds": _list_names(str(spec.seed) for spec in specs),
        "mask": _list_names(spec.mask or "" for spec in specs),
        "mode": _list_names(spec.mode or "" for spec in specs),
        "snapshot": _list_names(spec.snapshot or "" for spec in specs),
        "limit": first.limit,
        "episodes": len(specs),
    }
    for part, values in (
        ("model_args", first.model_args),
        ("agent_args", first.agent_args),
        ("call", first.call),
    ):
        facts |= {f"{part}.{name}": value for name, value in values.items()}

    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def _list_names(names: Iterator[str]) -> str:
    """Return the distinct names in order. If there are too many, return their number."""
    distinct = list(dict.fromkeys(name for name in names if name))
    if len(distinct) > _MAX_NAMES:
        return f"{len(distinct)} of them"
    return ",".join(distinct)


def cards_of(paths: Sequence[str]) -> list[TradingCard | ScoringCard]:
    """Return the cards of a run."""
    cards: list[Card] = [load_card(path) for path in paths]
    return [card for card in cards if isinstance(card, (TradingCard, ScoringCard))]


def card_figures(card: TradingCard | ScoringCard) -> dict[str, float]:
    """Return the figures on a card, keyed by `TASK/METRIC`. Undefined figures are omitted, since no
    tracker accepts null; the card has the reasons.
    """
    lines = card.metrics if isinstance(card, TradingCard) else card.scores
    figures = {}
    for name, line in lines.items():
        figures[f"{card.task.name}/{name}"] = line.value

    return keep_finite(figures)


def episode_figures(card: TradingCard | ScoringCard) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the id and the defined metrics of each episode on the card of a trading task."""
    if isinstance(card, TradingCard):
        for episode in card.episodes:
            yield (
                episode.id,
                keep_finite({name: metric.value for name, metric in episode.metrics.items()}),
            )


def keep_finite(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Return the finite figures, under names that trackers accept."""
    return {
        _ODD.sub("_", name): float(value)
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    }


@dataclass
class CallSums:
    """Sums over the model calls of one episode."""

    calls: int = 0  #: number of attempts that were sent
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    is_priced: bool = True

    def add(self, event: CallFinished) -> None:
        """Add a call to the sums."""
        if event.outcome == CACHED:
            self.cached += 1
            return

        self.calls += 1
        if event.reply is None:
            self.failed += 1
            return

        self.input_tokens += event.reply.usage.input_tokens
        self.output_tokens += event.reply.usage.output_tokens
        self.is_priced &= event.cost_usd is not None
        self.cost_usd += event.cost_usd or 0.0

    def figures(self) -> dict[str, float]:
        """Return the sums, keyed by name. The cost is omitted if the price of a call is unknown."""
        if not self.calls and not self.cached:
            return {}

        sums = {
            "calls": self.calls,
            "calls_cached": self.cached,
            "calls_failed": self.failed,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        figures: dict[str, float] = {name: float(value) for name, value in sums.items()}
        if self.is_priced:
            figures["cost_usd"] = self.cost_usd

        return figures
