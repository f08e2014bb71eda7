"""Model epochs: finished episodes from cards, grouped by task, window and model. They are the input
to InvestorBench's tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from ktdeval.cards import System, TradingCard, TradingEpisode, card_files, load_card, system_labels
from ktdeval.errors import CardError, UsageError
from ktdeval.stats import RuleSet

FIGURES = ("ib_cumulative_return", "ib_sharpe", "ib_volatility", "ib_max_drawdown")
Median = Literal["trajectory", "figures"]


@dataclass(frozen=True)
class EpochCard:
    """A finished episode and its card."""

    path: Path
    card: TradingCard
    episode: TradingEpisode


@dataclass(frozen=True)
class SystemEpochs:
    """All epochs of a system on one task and window, sorted by seed."""

    task: str
    window: str
    system: System
    members: tuple[EpochCard, ...]
    label: str = ""  #: name shown in tables

    def choose_epochs(self, rule: Median) -> tuple[EpochCard, ...]:
        """Return the epochs from which figures are computed.

        These are all epochs or, if `rule` is `trajectory`, only the epoch with the median Sharpe
        ratio (the lower median; ties go to the lowest seed). If no epoch has a Sharpe ratio,
        cumulative returns are ranked instead.
        """
        if rule != "trajectory":
            return self.members

        for name in ("ib_sharpe", "ib_cumulative_return"):
            values = [epoch.episode.metrics[name].value for epoch in self.members]
            ranked = sorted(value for value in values if value is not None)
            if ranked:
                middle = ranked[(len(ranked) - 1) // 2]
                return (self.members[values.index(middle)],)

        return self.members

    def figure(self, name: str, rule: Median) -> float | str:
        """Return the median of a figure over the chosen epochs that have it, or why no epoch has
        it.
        """
        metrics = [epoch.episode.metrics[name] for epoch in self.choose_epochs(rule)]
        values = [metric.value for metric in metrics if metric.value is not None]
        if values:
            return float(median(values))

        reasons = {str(metric.reason) for metric in metrics}
        return "; ".join(sorted(reasons))


def read_epochs(paths: Sequence[Path], rules: RuleSet | None) -> list[SystemEpochs]:
    """Return the epochs on the cards in files and run folders (`RUN/cards/*.json`).

    `paths`: files and folders in any order. `rules`: only cards under this rule set. Raises
    UsageError or CardError if no card is found, if the cards use two rule sets, or if the cards of
    one task and window differ in task, market or days, or repeat a seed.
    """
    cards = []
    for path, card in _cards(paths):
        if rules in (None, card.rules) and card.episodes:
            cards.append((path, card))

    if not cards:
        raise UsageError(
            f"{paths[0]}: has no finished episode with InvestorBench's figures under "
            f"{rules or 'any'} rules"
        )
    if len({card.rules for _, card in cards}) > 1:
        raise CardError("cards use both strict and paper rules; choose with --rules")

    groups: dict[tuple[str, str, System], dict[int, EpochCard]] = {}
    for path, card in sorted(cards, key=lambda entry: str(entry[0])):
        system = System.of(card)
        for episode in card.episodes:
            epochs = groups.setdefault((card.task.name, episode.window, system), {})
            other = epochs.get(episode.seed)
            if other is not None:
                raise CardError(
                    f"{path} and {other.path}: both contain seed {episode.seed} of "
                    f"{card.model.name}; give one"
                )

            epochs[episode.seed] = EpochCard(path, card, episode)

    labels = system_labels(system for _, _, system in groups)
    result = []
    for (task, window, system), epochs in groups.items():
        members = tuple(epochs[seed] for seed in sorted(epochs))
        result.append(SystemEpochs(task, window, system, members, labels[system]))

    _check_same(result)
    return sorted(result, key=lambda group: (group.task, group.window, group.label))


def _cards(paths: Sequence[Path]) -> Iterator[tuple[Path, TradingCard]]:
    """Yield the trading cards that have InvestorBench's figures, each file once. Other cards are
    skipped in a folder, and refused if given as files.
    """
    for file in card_files(paths):
        card = load_card(file, "trading" if file in paths else None)
        if isinstance(card, TradingCard) and all(name in card.metrics for name in FIGURES):
            yield file, card
        elif file in paths:
            raise UsageError(
                f"{file}: lacks InvestorBench's figures; `ktdeval score RUN --metrics"
                f" {','.join(FIGURES)}` adds them"
            )


def _check_same(groups: Sequence[SystemEpochs]) -> None:
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for group in groups:
        for epoch in group.members:
            path = epoch.path
            card = epoch.card
            episode = epoch.episode
            days = f"{episode.first_day} … {episode.last_day}"
            facts = (
                f"config {card.task.hash[:12]} of version {card.task.version}, market"
                f" {card.snapshot.id[:12]}, {days}"
            )
            other, theirs = first.setdefault((group.task, group.window), (path, facts))
            if facts != theirs:
                raise CardError(
                    f"{path} and {other} can't be combined in one table of {group.task}: {facts};"
                    f" {theirs}"
                )
