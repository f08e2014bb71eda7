"""Inputs of a report: cards, and for cards in a run folder, their ledgers and market."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import UNSET, structs

from ktdeval.cards import (
    EpisodeMetric,
    ScoringCard,
    System,
    TradingCard,
    TradingEpisode,
    card_files,
    compute_metric,
    derive_card,
    load_evaluation,
    system_labels,
)
from ktdeval.errors import CardError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, load_ledger, recorded_market, run_file, run_of
from ktdeval.stats import RuleSet
from ktdeval.trading import Ledger
from ktdeval.values import file_sha256

_NO_MARKET = "Without the market there is no benchmark by day, no attribution and no interval"

Cell = tuple[str, int]  #: Window and seed


@dataclass(frozen=True)
class ReportedCard:
    """A card and where it comes from."""

    path: Path  # the card's file, as given
    card: TradingCard  # parsed content of the card
    label: str = ""  # unique name of the card on the page
    anchor: str = ""  # the label in a form that suits file names and the page's anchors
    # run folder of the card; None if the card is not in one, in which case it has no ledgers
    folder: Path | None = None
    market: MarketSnapshot | None = None  # snapshot that the run used, if it is available
    # rule set in the card's file; `card` uses the same one unless another was requested
    recorded_rules: str = ""
    problem: str = ""  # reason for missing inputs; empty if all are available

    @property
    def system(self) -> System:
        """System that was evaluated."""
        return System.of(self.card)

    @property
    def windows(self) -> list[str]:
        """Names of the windows with a finished episode, in the order of the card."""
        finished = {episode.window for episode in self.card.episodes}
        names = [window.name for window in self.card.windows]
        return [name for name in names if name in finished]

    @property
    def pooled_windows(self) -> list[str]:
        """Windows that are pooled in the card's figures."""
        excluded = self.card.left_out or {}
        return [name for name in self.windows if name not in excluded]

    def episodes(self) -> dict[Cell, TradingEpisode]:
        """Finished episodes, keyed by window and seed."""
        return {(episode.window, episode.seed): episode for episode in self.card.episodes}

    def episodes_of(self, window: str) -> list[TradingEpisode]:
        """Finished episodes of one window."""
        return [episode for episode in self.card.episodes if episode.window == window]

    def ledgers(self) -> dict[Cell, Ledger]:
        """Read the ledgers. They are not cached, since many cards can have large ledgers.

        Raises CardError if a ledger is missing or is not the ledger that the card was made from.
        Raises StoreError if a ledger can't be read.
        """
        if self.folder is None:
            return {}

        ledgers = {}
        for cell, episode in self.episodes().items():
            ledgers[cell] = _ledger(self, self.folder, episode)

        return ledgers


@dataclass(frozen=True)
class ReportSources:
    """Sources used in addition to the run folders."""

    plugins: Plugins  # loaded plugins, which provide data and metrics
    # snapshot folder or data provider that replaces the recorded one; None for the recorded one
    data: str | None = None
    # rule set for computing metrics; None for each card's own rule set
    rules: RuleSet | None = None


def load_evaluations(
    paths: Sequence[Path], sources: ReportSources
) -> tuple[list[ReportedCard], list[ScoringCard]]:
    """Return the trading cards and the scoring cards of the given files and run folders
    (`RUN/cards/*.json`), in order and without duplicates.

    Raises UsageError if a folder has no cards, CardError if a card is invalid or does not belong to
    its run folder, DataError if `sources.data` is not a run's market, and StoreError if a run's
    records can't be read.
    """
    markets: dict[str, MarketSnapshot | str] = {}
    evaluations = []
    scored = []

    for path in card_files(paths):
        card = load_evaluation(path)
        if isinstance(card, ScoringCard):
            scored.append(card)
            continue

        evaluation = ReportedCard(path, card, recorded_rules=card.rules)
        evaluation = _with_records(evaluation, sources, markets)
        evaluations.append(evaluation)

    rules = sources.rules
    if rules is not None:
        evaluations = [_under_rules(one, rules, sources.plugins) for one in evaluations]

    return list(_labelled_evaluations(evaluations)), scored


def _with_records(
    evaluation: ReportedCard, sources: ReportSources, markets: dict[str, MarketSnapshot | str]
) -> ReportedCard:
    folder = run_of(evaluation.path)
    if not (folder / "manifest.json").is_file():
        return replace(
            evaluation,
            problem=(
                "The card is not in a run folder, so daily figures and their plots are missing."
            ),
        )

    run = RunFolder.load(folder)
    wanted = evaluation.card.snapshot.id
    used = run.manifest.snapshot or "none"
    if used != wanted:
        raise CardError(
            f"{evaluation.path}: names snapshot {wanted[:12]}, the run around it used {used[:12]}"
        )

    if wanted not in markets:
        markets[wanted] = recorded_market(run, sources.plugins, sources.data, _NO_MARKET)

    market = markets[wanted]
    if isinstance(market, str):
        return replace(evaluation, folder=folder, problem=f"{market}.")

    return replace(evaluation, folder=folder, market=market)


def _ledger(evaluation: ReportedCard, folder: Path, episode: TradingEpisode) -> Ledger:
    name = f"episodes/{episode.id}/ledger.parquet"
    path = run_file(folder, name)
    if not path.is_file():
        raise CardError(
            f"{evaluation.path}: {name} is missing from the run folder; restore it, or score the"
            " run again"
        )
    if file_sha256(path) != evaluation.card.artefacts.get(name):
        raise CardError(
            f"{evaluation.path}: {name} is not the ledger that the card was made from; score the"
            " run again"
        )

    ledger = load_ledger(path)
    if len(ledger.steps) != episode.steps:
        raise CardError(f"{evaluation.path}: {name} has not the steps of the card")

    return ledger


def _under_rules(evaluation: ReportedCard, rules: RuleSet, plugins: Plugins) -> ReportedCard:
    """Return a card with its metrics recomputed under another rule set. The card's file is not
    changed.
    """
    if evaluation.card.rules == rules:
        return evaluation
    if evaluation.market is None:
        raise UsageError(
            f"{evaluation.path}: its metrics are by {evaluation.card.rules} rules, and can't be"
            f" computed by {rules} ones without its run folder and market; score the run under"
            " these rules, or name the market with --data"
        )

    metrics = {name: plugins.make_metric(name) for name in evaluation.card.metrics}
    ledgers = evaluation.ledgers()
    episodes = []

    for episode in evaluation.card.episodes:
        ledger = ledgers[episode.window, episode.seed]
        entries = {}
        for name, metric in metrics.items():
            owner = plugins.owner("metrics", name)
            value = compute_metric(metric, ledger, evaluation.market, rules, owner)
            reason = UNSET if value.reason is None else value.reason
            entries[name] = EpisodeMetric(value=value.value, n=value.n, reason=reason)

        episodes.append(structs.replace(episode, metrics=entries))

    card = structs.replace(evaluation.card, rules=rules, episodes=episodes)
    return replace(evaluation, card=derive_card(card))


def _labelled_evaluations(evaluations: Sequence[ReportedCard]) -> Iterator[ReportedCard]:
    """Yield each evaluation with a unique anchor and label. The label consists of system and task,
    plus the path if two labels would be the same.
    """
    systems = system_labels(one.system for one in evaluations)
    labels = [f"{systems[one.system]} · {one.card.task.name}" for one in evaluations]
    counts = Counter(labels)

    for number, (evaluation, label) in enumerate(zip(evaluations, labels, strict=True), 1):
        if counts[label] > 1:
            label = f"{label} · {evaluation.path}"

        card = evaluation.card
        words = re.sub(r"[^A-Za-z0-9]+", "-", f"{card.model.name}-{card.task.name}").strip("-")
        anchor = f"{number:02d}-{words[:60].lower()}"
        yield replace(evaluation, label=label, anchor=anchor)


def is_never_somewhere(episodes: Sequence[TradingEpisode], metric: str) -> bool:
    """Return whether the event that a metric measures never happens in some episode. A mean over
    the other episodes would omit the worst case.
    """
    entries = [episode.metrics[metric] for episode in episodes if metric in episode.metrics]
    return any(entry.ordered == math.inf for entry in entries)


def known_values(episodes: Sequence[TradingEpisode], metric: str) -> list[float]:
    """Return the values of a metric in the episodes where it is defined."""
    entries = [episode.metrics[metric] for episode in episodes if metric in episode.metrics]
    return [entry.value for entry in entries if entry.value is not None]
