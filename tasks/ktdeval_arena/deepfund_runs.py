"""Reader of run folders for DeepFund's tables: results, weekly figures, and the signals and
decisions of any team whose analysts give signals.
"""

from __future__ import annotations

import math
import os.path
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from ktdeval.cards import System, TradingCard, load_card, system_labels
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import (
    StepSignals,
    TranscriptEntry,
    as_object,
    label_key,
    step_signals,
    submission_object,
)
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder, run_of
from ktdeval.stats import filled_orders
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import DECIDED, Ledger, OrderRecord, StepRecord
from ktdeval_arena.signal_decision_consistency import (
    Action,
    AnalystSignal,
    SignalRecord,
    TickerDecision,
)

_ACTIONS: Mapping[str, Action] = {"BUY": "Buy", "SELL": "Sell", "HOLD": "Hold"}


@dataclass(frozen=True)
class EpisodeGroup:
    """Finished episodes of one task in one run."""

    folder: RunFolder
    task: str
    experiment: str  #: task, with the run if there are several runs
    model: str  #: model and agent, with the differences from other systems of the same name
    specs: Sequence[EpisodeSpec]


def read_groups(paths: Sequence[Path]) -> list[EpisodeGroup]:
    """Open run folders and group their finished episodes. A card's path means its run.

    Raises StoreError if a folder is not a run; UsageError if a run has no finished trading episode.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        run = run_of(path) if path.is_file() else path
        folders[Path(os.path.realpath(run))] = None

    groups = []
    for path in folders:
        folder = RunFolder.load(path)
        tasks: dict[str, list[EpisodeSpec]] = {}
        for spec in folder.manifest.specs:
            has_ledger = (folder.episode_path(spec) / "ledger.parquet").is_file()
            if folder.is_complete(spec) and has_ledger:
                tasks.setdefault(spec.task, []).append(spec)

        if not tasks:
            raise UsageError(f"{path}: no finished episode of a trading task; finish one first")

        for task, specs in tasks.items():
            experiment = task
            if len(folders) > 1:
                alike = sum(other.name == path.name for other in folders)
                experiment = f"{task} · {path.name if alike == 1 else path}"

            groups.append(EpisodeGroup(folder, task, experiment, "", specs))

    return _named_groups(groups)


def _named_groups(groups: Sequence[EpisodeGroup]) -> list[EpisodeGroup]:
    """Name each group by model and agent. If several systems share a name, their differences are
    added.
    """
    systems = [
        System.of_spec(group.specs[0], group.folder.manifest.request_settings) for group in groups
    ]
    labels = system_labels(systems)
    by_name: dict[str, set[System]] = {}

    for system in systems:
        by_name.setdefault(f"{system.model} · {system.agent}", set()).add(system)

    named = []
    for group, system in zip(groups, systems, strict=True):
        name = f"{system.model} · {system.agent}"
        if len(by_name[name]) > 1:
            name = labels[system]

        named.append(replace(group, model=name))

    return named


# -- signals and decisions


def read_record(groups: Sequence[EpisodeGroup]) -> SignalRecord:
    """Find signals and decisions in transcripts. A ticker is the asset's code if an order in the
    episode reveals the code, else the asset's label.

    Raises StoreError if a record is damaged.
    """
    opinions: list[AnalystSignal] = []
    decisions: list[TickerDecision] = []
    configs = {str(number): (group.experiment, group.model) for number, group in enumerate(groups)}

    for config, group in zip(configs, groups, strict=True):
        for spec in group.specs:
            steps = _read_steps(group.folder, spec)
            codes = _codes_by_label(steps)
            window = spec.window_name
            seed = f"seed {spec.seed}"
            owner = (config, f"{window} {seed}" if window else seed)
            for step in steps:
                opinions += step.opinions(owner, codes)
                decisions += step.decisions(owner, codes)

    return SignalRecord(configs, opinions, decisions)


def _read_steps(folder: RunFolder, spec: EpisodeSpec) -> list[_ReadStep]:
    ledger = folder.load_ledger(spec)
    talks = folder.load_transcript(spec)
    if len(ledger.steps) != len(talks):
        raise StoreError(
            f"{folder.episode_path(spec)}: {len(ledger.steps)} steps in the ledger, but "
            f"{len(talks)} in the transcript"
        )

    return [_ReadStep(step, talk, ledger) for step, talk in zip(ledger.steps, talks, strict=True)]


def _codes_by_label(steps: Sequence[_ReadStep]) -> dict[str, str]:
    """Return the code behind each label for which the episode records an order."""
    codes: dict[str, str] = {}
    for step in steps:
        for label, order in step.orders.items():
            if order.code is not None:
                codes[label] = order.code
    return codes


class _ReadStep:
    """One step: the signals, and what was submitted for each label."""

    def __init__(self, step: StepRecord, talk: TranscriptEntry, ledger: Ledger) -> None:
        self.step = step
        self._ledger = ledger
        self._signals = step_signals(talk)
        # A decision by vote is not a model's submission.
        self._is_traced = talk.submission is not None
        self.actions, self.orders = _read_submitted(talk, step, self._signals)

    def opinions(self, owner: tuple[str, str], codes: Mapping[str, str]) -> Iterator[AnalystSignal]:
        """Yield each analyst's expected signals, one for each asset shown."""
        for analyst, signals in self._signals.answers.items():
            for label in self._signals.held:
                signal = signals.get(label)
                yield AnalystSignal(
                    *owner, codes.get(label, label), analyst, signal, signal is None
                )

    def decisions(
        self, owner: tuple[str, str], codes: Mapping[str, str]
    ) -> Iterator[TickerDecision]:
        """Yield a decision on each asset that was shown or ordered."""
        is_default = self.step.provenance not in DECIDED
        held = self._signals.held
        if not is_default and not self._is_traced:
            return

        for label in dict.fromkeys([*held, *self.actions]):
            votes = []
            for signals in self._signals.answers.values():
                if label in signals:
                    votes.append(signals[label])

            action = self.actions.get(label, "Hold")
            yield TickerDecision(
                *owner,
                day=self.step.decided_on,
                ticker=codes.get(label, label),
                action="Hold" if is_default else action,
                shares=self._find_filled_shares(label),
                held=held.get(label, 0.0),
                signals=tuple(votes),
                is_default=is_default,
            )

    def _find_filled_shares(self, label: str) -> float:
        """Return the number of shares filled by the order for a label."""
        order = self.orders.get(label)
        if order is None:
            return 0.0
        return order.filled_shares / self._ledger.scale(order.code).steps_per_unit


def _read_submitted(
    talk: TranscriptEntry, step: StepRecord, signals: StepSignals
) -> tuple[dict[str, Action], dict[str, OrderRecord]]:
    """Return the submitted actions and, if orders were submitted, their records, keyed by the label
    shown.
    """
    submitted = submission_object(talk.submission or "{}")
    shown = {label_key(label): label for label in signals.held}
    entries = submitted.get("orders", submitted.get("decisions"))
    labels: list[str] = []
    actions: dict[str, Action] = {}

    for entry in entries if isinstance(entries, list) else []:
        item = as_object(entry)
        written = str(item.get("stock_id"))
        label = shown.get(label_key(written), written)
        labels.append(label)
        side = str(item.get("side", item.get("decision"))).upper()
        if side in _ACTIONS:
            actions[label] = _ACTIONS[side]

    # Order records carry no labels, but are in the order of the submission.
    orders: dict[str, OrderRecord] = {}
    if "orders" in submitted and len(labels) == len(step.orders):
        orders = dict(zip(labels, step.orders, strict=True))

    return actions, orders


# -- results


@dataclass(frozen=True, kw_only=True)
class EffectiveOrders:
    """Number of filled orders that have a next price, and how many of them proved right; None if
    unknown.
    """

    buys: int | None = None
    effective_buys: int | None = None
    sells: int | None = None
    effective_sells: int | None = None


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """Effectiveness and cost of one group's decisions."""

    experiment: str
    model: str
    buys: int | None
    effective_buys: int | None
    sells: int | None
    effective_sells: int | None
    total_return: float | None  #: median on the card, as a fraction
    usd: float | None  #: cost per episode
    return_per_usd: float | None


def result_rows(
    groups: Sequence[EpisodeGroup], markets: Mapping[Path, MarketSnapshot | str]
) -> list[ResultRow]:
    """Return one row per group. Figures that its card lacks are None."""
    rows = []
    for group in groups:
        market = markets[group.folder.path]
        orders = EffectiveOrders() if isinstance(market, str) else _effective(group, market)
        card = _card_of(group)
        total_return = None
        usd = None
        return_per_usd = None
        if card is not None:
            line = card.metrics.get("total_return")
            cost = card.cost
            total_return = line.value if line else None
            usd = cost.per_episode.value if cost.per_episode else None
            return_per_usd = cost.return_per_usd.value if cost.return_per_usd else None

        rows.append(
            ResultRow(
                experiment=group.experiment,
                model=group.model,
                buys=orders.buys,
                effective_buys=orders.effective_buys,
                sells=orders.sells,
                effective_sells=orders.effective_sells,
                total_return=total_return,
                usd=usd,
                return_per_usd=return_per_usd,
            )
        )

    return rows


def _effective(group: EpisodeGroup, market: MarketSnapshot) -> EffectiveOrders:
    """Count filled orders with a next price, and how many proved right: buys followed by a rise and
    sells followed by a fall.
    """
    filled: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for spec in group.specs:
        for order, change in filled_orders(group.folder.load_ledger(spec), market):
            if not math.isfinite(change):
                continue

            filled[order.side] += 1
            # §4.3, "effective"
            is_right = change > 0 if order.side == "BUY" else change < 0
            right[order.side] += is_right

    return EffectiveOrders(
        buys=filled["BUY"],
        effective_buys=right["BUY"] if filled["BUY"] else None,
        sells=filled["SELL"],
        effective_sells=right["SELL"] if filled["SELL"] else None,
    )


def _card_of(group: EpisodeGroup) -> TradingCard | None:
    path = group.folder.card_path(group.task)
    card = load_card(path) if path.is_file() else None
    return card if isinstance(card, TradingCard) else None


# -- weeks


@dataclass(frozen=True, kw_only=True)
class WeekRow:
    """Figures for a group and window at the end of a week, averaged over seeds. Returns and
    drawdowns are fractions.
    """

    experiment: str
    model: str
    window: str | None
    seeds: int
    week: str  #: Sunday that ends the week
    nav: float  #: NAV in currency units
    total_return: float  #: return since the first decision
    week_return: float
    max_drawdown: float  #: largest drawdown so far


def weekly_rows(groups: Sequence[EpisodeGroup]) -> list[WeekRow]:
    """Return one row for each week of each group and window.

    Figures are computed per seed and then averaged. The drawdown of an average NAV would be
    smaller, since seeds have their drawdowns on different days.
    """
    rows: list[WeekRow] = []
    for group in groups:
        windows: dict[str | None, list[Ledger]] = {}
        for spec in group.specs:
            windows.setdefault(spec.window_name, []).append(group.folder.load_ledger(spec))

        for window, ledgers in windows.items():
            if len({tuple(ledger.days.tolist()) for ledger in ledgers}) != 1:
                raise UsageError(
                    f"{group.folder.path}: {group.task}, {window}: seeds cover different days; "
                    f"finish the run first"
                )

            rows += _weeks(group, window, ledgers)

    return rows


def _weeks(group: EpisodeGroup, window: str | None, ledgers: Sequence[Ledger]) -> Iterator[WeekRow]:
    # Number of each week's last day, keyed by the Sunday that ends the week.
    last: dict[str, int] = {}
    for index, day in enumerate(ledgers[0].days.tolist(), 1):
        sunday = day + timedelta(days=6 - day.weekday())
        last[str(sunday)] = index

    # [seeds, days + 1]; the first column is the initial cash
    nav = np.array([ledger.nav for ledger in ledgers], dtype=np.float64)
    peaks = np.maximum.accumulate(nav, axis=1)
    drawdown = np.maximum.accumulate(1.0 - nav / peaks, axis=1)

    before = 0
    for week, index in last.items():
        yield WeekRow(
            experiment=group.experiment,
            model=group.model,
            window=window,
            seeds=len(ledgers),
            week=week,
            nav=float(nav[:, index].mean()),
            total_return=float((nav[:, index] / nav[:, 0] - 1.0).mean()),
            week_return=float((nav[:, index] / nav[:, before] - 1.0).mean()),
            max_drawdown=float(drawdown[:, index].mean()),
        )
        before = index
