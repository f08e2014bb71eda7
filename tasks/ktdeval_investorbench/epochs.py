"""Epochs of models: finished episodes of cards by task, window and model, the input of InvestorBench's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from ktdeval.cards import TradingCard, TradingEpisode, card_files, load_card, with_args
from ktdeval.errors import CardError, UsageError
from ktdeval.stats import RuleSet
from ktdeval.typed import encode_canonical

FIGURES = ("ib_cumulative_return", "ib_sharpe", "ib_volatility", "ib_max_drawdown")
Median = Literal["trajectory", "figures"]


@dataclass(frozen=True)
class Epoch:
    """A finished episode and its card."""

    path: Path
    card: TradingCard
    episode: TradingEpisode


@dataclass(frozen=True)
class Epochs:
    """All epochs of a model with its agent and parameters on one task and window, by seed."""

    task: str
    window: str
    kind: str  #: model, agent and parameters, as canonical JSON
    members: tuple[Epoch, ...]
    label: str = ""  #: in tables

    def shown(self, rule: Median) -> tuple[Epoch, ...]:
        """Return the epochs that figures rest on: all, or for `trajectory` the one with the median Sharpe ratio: the lower of two
        in the middle, and of equal ones that of the lowest seed. If no epoch has one, cumulative returns are ranked instead.
        """
        for name in ("ib_sharpe", "ib_cumulative_return") if rule == "trajectory" else ():
            if ranked := sorted(value for epoch in self.members if (value := epoch.episode.metrics[name].value) is not None):
                middle = ranked[(len(ranked) - 1) // 2]
                return (next(epoch for epoch in self.members if epoch.episode.metrics[name].value == middle),)
        return self.members

    def figure(self, name: str, rule: Median) -> float | str:
        """Return the median of a figure over the epochs shown that have one, or why none has one."""
        metrics = [epoch.episode.metrics[name] for epoch in self.shown(rule)]
        values = [metric.value for metric in metrics if metric.value is not None]
        return float(median(values)) if values else "; ".join(sorted({str(metric.reason) for metric in metrics}))


def read_epochs(paths: Sequence[Path], rules: RuleSet | None) -> list[Epochs]:
    """Return the epochs on the cards of files and run folders (`RUN/cards/*.json`), in any order. `rules`: only cards by this rule
    set. Raises UsageError, CardError: there is none; cards are by two rule sets; those of one task and window differ in task,
    market or days, or hold a seed twice; different models have equal labels.
    """
    cards = [(path, card) for path, card in _cards(paths) if rules in (None, card.rules) and card.episodes]
    if not cards:
        raise UsageError(f"{paths[0]}: has no finished episode with InvestorBench's figures by {rules or 'any'} rules")
    if len({card.rules for _, card in cards}) > 1:
        raise CardError("cards are by both strict and paper rules; choose with --rules")
    groups: dict[tuple[str, str, str], dict[int, Epoch]] = {}
    for path, card in sorted(cards, key=lambda entry: str(entry[0])):
        kind = encode_canonical([card.model, card.agent, card.call])
        for episode in card.episodes:
            epochs = groups.setdefault((card.task.name, episode.window, kind), {})
            if other := epochs.get(episode.seed):
                raise CardError(f"{path} and {other.path}: seed {episode.seed} of {card.model.name} stands on both; give one")
            epochs[episode.seed] = Epoch(path, card, episode)
    result = [Epochs(*key, tuple(epochs[seed] for seed in sorted(epochs))) for key, epochs in groups.items()]
    _check_same(result)
    return sorted(_labelled(result), key=lambda group: (group.task, group.window, group.label))


def _cards(paths: Sequence[Path]) -> Iterator[tuple[Path, TradingCard]]:
    """Yield the trading cards with the figures, each file once; others are skipped in a folder, and refused as files."""
    for file in card_files(paths):
        card = load_card(file, "trading" if file in paths else None)
        if isinstance(card, TradingCard) and all(name in card.metrics for name in FIGURES):
            yield file, card
        elif file in paths:
            raise UsageError(f"{file}: lacks InvestorBench's figures; `ktdeval score RUN --metrics {','.join(FIGURES)}` adds them")


def _check_same(groups: Sequence[Epochs]) -> None:
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for group in groups:
        for path, card, episode in ((epoch.path, epoch.card, epoch.episode) for epoch in group.members):
            days = f"{episode.first_day} … {episode.last_day}"
            facts = f"config {card.task.hash[:12]} of version {card.task.version}, market {card.snapshot.id[:12]}, {days}"
            other, theirs = first.setdefault((group.task, group.window), (path, facts))
            if facts != theirs:
                raise CardError(f"{path} and {other} can't stand in one table of {group.task}: {facts}; {theirs}")


def _labelled(groups: Sequence[Epochs]) -> list[Epochs]:
    for name in (lambda card: card.model.name, lambda card: f"{with_args(card.model)} {with_args(card.agent)}"):
        named = [replace(group, label=name(group.members[0].card)) for group in groups]
        if len({(group.label, group.kind) for group in named}) == len({group.label for group in named}):
            return named
    raise CardError("cards of one model and agent differ in parameters of calls alone, such as the temperature; give those of one")
