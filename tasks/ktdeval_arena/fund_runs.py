"""Reader of run folders for `ktdeval deepfund`: signals and decisions of any team whose analysts give signals, results, weeks."""

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
from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import StepSignals, TranscriptEntry, as_object, json_object, label_key, step_signals
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder, run_of
from ktdeval.stats import filled_orders
from ktdeval.trading import DECIDED, Ledger, OrderRecord, StepRecord
from ktdeval_arena.consistency import Action, Decided, Opinion, Record, Row

_ACTIONS: Mapping[str, Action] = {"BUY": "Buy", "SELL": "Sell", "HOLD": "Hold"}


@dataclass(frozen=True)
class Group:
    """Finished episodes of one task in one run."""

    folder: RunFolder
    task: str
    experiment: str  #: the task, with the run where there are several
    model: str  #: model and agent, and what tells its system from others of these names
    specs: Sequence[EpisodeSpec]


def read_groups(paths: Sequence[Path]) -> list[Group]:
    """Open run folders; a card stands for its run. Raises StoreError: no run; UsageError: no trading episode is finished in one."""
    folders, groups = list(dict.fromkeys(Path(os.path.realpath(run_of(path) if path.is_file() else path)) for path in paths)), []
    for path in folders:
        folder, tasks = RunFolder.load(path), dict[str, list[EpisodeSpec]]()
        for spec in folder.manifest.specs:
            if folder.is_complete(spec) and (folder.episode_path(spec) / "ledger.parquet").is_file():
                tasks.setdefault(spec.task, []).append(spec)
        if not tasks:
            raise UsageError(f"{path}: no episode of a trading task is finished; run one to its end first")
        for task, specs in tasks.items():
            alike = sum(other.name == path.name for other in folders)
            experiment = task if len(folders) == 1 else f"{task} · {path.name if alike == 1 else path}"
            groups.append(Group(folder, task, experiment, "", specs))
    return _named(groups)


def _named(groups: Sequence[Group]) -> list[Group]:
    """Name each by model and agent, and where these are of several systems, by what tells the systems apart."""
    systems = [System.of_spec(group.specs[0], group.folder.manifest.request_settings) for group in groups]
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


def read_record(groups: Sequence[Group]) -> Record:
    """Find signals and decisions in transcripts. A ticker is the asset's code where an order of the episode tells it, else a label.

    Raises StoreError: a record is damaged.
    """
    opinions: list[Opinion] = []
    decisions: list[Decided] = []
    configs = {str(number): (group.experiment, group.model) for number, group in enumerate(groups)}
    for config, group in zip(configs, groups, strict=True):
        for spec in group.specs:
            ledger, talks = group.folder.load_ledger(spec), group.folder.load_transcript(spec)
            if (steps := len(ledger.steps)) != len(talks):
                raise StoreError(f"{group.folder.episode_path(spec)}: {steps} steps in the ledger, {len(talks)} in the transcript")
            read = [_ReadStep(step, talk, ledger) for step, talk in zip(ledger.steps, talks, strict=True)]
            codes = {label: order.code for step in read for label, order in step.orders.items() if order.code is not None}
            for step in read:
                owner = (config, " ".join(filter(None, (spec.window_name, f"seed {spec.seed}"))))
                opinions += step.opinions(owner, codes)
                decisions += step.decisions(owner, codes)
    return Record(configs, opinions, decisions)


class _ReadStep:
    """One step: signals, and what was submitted by label."""

    def __init__(self, step: StepRecord, talk: TranscriptEntry, ledger: Ledger) -> None:
        self.step, self._ledger, self._signals = step, ledger, step_signals(talk)
        self._is_traced = talk.submission is not None  # else it is nobody's submission, as of a vote
        self.actions, self.orders = _submitted(talk, step, self._signals)

    def opinions(self, owner: tuple[str, str], codes: Mapping[str, str]) -> Iterator[Opinion]:
        """Yield what each analyst owes: a signal on each asset shown."""
        for analyst, signals in self._signals.answers.items():
            for label in self._signals.held:
                signal = signals.get(label)
                yield Opinion(*owner, codes.get(label, label), analyst, signal, signal is None)

    def decisions(self, owner: tuple[str, str], codes: Mapping[str, str]) -> Iterator[Decided]:
        """Yield a decision on each asset that was shown or ordered."""
        is_default, held = self.step.provenance not in DECIDED, self._signals.held
        if not is_default and not self._is_traced:
            return
        for label in dict.fromkeys([*held, *self.actions]):
            votes = [signals[label] for signals in self._signals.answers.values() if label in signals]
            action: Action = "Hold" if is_default else self.actions.get(label, "Hold")
            order = self.orders.get(label)
            shares = 0.0 if order is None else order.filled_shares / self._ledger.scale(order.code).steps_per_unit
            day, code = self.step.decided_on, codes.get(label, label)
            yield Decided(*owner, day, code, action, shares, held.get(label, 0.0), tuple(votes), is_default)


def _submitted(talk: TranscriptEntry, step: StepRecord, signals: StepSignals) -> tuple[dict[str, Action], dict[str, OrderRecord]]:
    """Return actions, and where orders were submitted their records, by the label that was shown."""
    submitted, shown = json_object(talk.submission or "{}"), {label_key(label): label for label in signals.held}
    orders, entries = "orders" in submitted, submitted.get("orders", submitted.get("decisions"))
    items = [as_object(item) for item in entries] if isinstance(entries, list) else []
    labels = [shown.get(label_key(str(item.get("stock_id"))), str(item.get("stock_id"))) for item in items]
    sides = [str(item.get("side", item.get("decision"))).upper() for item in items]
    actions = {label: _ACTIONS[side] for label, side in zip(labels, sides, strict=True) if side in _ACTIONS}
    return actions, dict(zip(labels, step.orders, strict=True)) if orders and len(labels) == len(step.orders) else {}


# -- results


def result_rows(groups: Sequence[Group], markets: Mapping[Path, MarketSnapshot | str]) -> list[Row]:
    """One row a group: effective buys and sells of those filled that have a next price (None where there are none), and from its
    card the median total return (a fraction), dollars and total return per dollar of an episode (None where the card has none).
    """
    rows = []
    for group in groups:
        row: Row = {"experiment": group.experiment, "model": group.model}
        row |= dict.fromkeys(("buys", "effective_buys", "sells", "effective_sells"))
        market = markets[group.folder.path]
        if not isinstance(market, str):
            ledgers = map(group.folder.load_ledger, group.specs)
            counts = Counter(
                (order.side, change > 0 if order.side == "BUY" else change < 0)
                for ledger in ledgers
                for order, change in filled_orders(ledger, market)
                if math.isfinite(change)
            )
            for name, side in (("buys", "BUY"), ("sells", "SELL")):
                row[name] = counts[side, True] + counts[side, False]
                row[f"effective_{name}"] = counts[side, True] if row[name] else None
        rows.append(row | _card_figures(group))
    return rows


def _card_figures(group: Group) -> Row:
    path = group.folder.card_path(group.task)
    card = load_card(path) if path.is_file() else None
    if not isinstance(card, TradingCard):
        return dict.fromkeys(("total_return", "usd", "return_per_usd"))
    line, cost = card.metrics.get("total_return"), card.cost
    return {
        "total_return": line.value if line else None,
        "usd": cost.per_episode.value if cost.per_episode else None,
        "return_per_usd": cost.return_per_usd.value if cost.return_per_usd else None,
    }


# -- weeks


def weekly_rows(groups: Sequence[Group]) -> list[Row]:
    """One row for each week, that ends on a Sunday, of a group and window: the NAV at its end (in units of currency), the return
    since the first decision and in the week, and the maximum drawdown so far, as fractions. Each is the mean over seeds of the
    figure of a seed: the drawdown of a mean NAV would be smaller, since seeds fall on different days.
    """
    rows: list[Row] = []
    for group in groups:
        windows: dict[str | None, list[Ledger]] = {}
        for spec in group.specs:
            windows.setdefault(spec.window_name, []).append(group.folder.load_ledger(spec))
        for window, ledgers in windows.items():
            if len({tuple(ledger.days.tolist()) for ledger in ledgers}) != 1:
                raise UsageError(f"{group.folder.path}: {group.task}, {window}: seeds have different days; finish the run first")
            named = {"experiment": group.experiment, "model": group.model, "window": window}
            rows += [{**named, "seeds": len(ledgers), **row} for row in _weeks(ledgers)]
    return rows


def _weeks(ledgers: Sequence[Ledger]) -> Iterator[Row]:
    days = ledgers[0].days.tolist()
    last = {str(day + timedelta(days=6 - day.weekday())): index for index, day in enumerate(days, 1)}  # Sunday -> its last day
    nav = np.array([ledger.nav for ledger in ledgers], dtype=np.float64)  # [seeds, days], the first of them the cash at the start
    peaks = np.maximum.accumulate(nav, axis=1)
    drawdown = np.maximum.accumulate(1.0 - nav / peaks, axis=1)
    for (week, index), before in zip(last.items(), [0, *last.values()]):
        by_seed = {
            "nav": nav[:, index],
            "total_return": nav[:, index] / nav[:, 0] - 1.0,
            "week_return": nav[:, index] / nav[:, before] - 1.0,
            "max_drawdown": drawdown[:, index],
        }
        yield {"week": week, **{name: float(values.mean()) for name, values in by_seed.items()}}
