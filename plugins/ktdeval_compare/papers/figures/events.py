"""Figures 3 and 4 in AMA: two runs on one asset, with the gap between them at each event; and
votes, shown together with the asset's price and news sentiment.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from msgspec import UNSET

from ktdeval.cards import clean, count
from ktdeval.errors import CardError, StoreError, UsageError
from ktdeval.harness import TranscriptEntry, as_object, submission_object
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder, read_exchanges
from ktdeval.trading import DECIDED, StepRecord
from ktdeval_compare.pairs.compared_cards import EntrantCard, Values
from ktdeval_compare.papers.ama_deepfund_tables import (
    RowName,
    asset_of,
    check_asset_rules,
    row_names,
)
from ktdeval_compare.papers.figures.definitions import FigureChoices, PaperFigure
from ktdeval_compare.papers.figures.figure_runs import (
    MAX_LINES,
    DailyPath,
    check_one_task,
    daily_paths,
    figure_entrants,
    markets_of,
    mean_ends,
    mean_of_paths,
    origin_notes,
    warn_of_cards,
)

Sentiment = Literal["bullish", "neutral", "bearish"]
_SIGNS: Mapping[int, Sentiment] = {1: "bullish", 0: "neutral", -1: "bearish"}
_TRIPLE = re.compile(r"(positive|neutral|negative)\s+(\d(?:\.\d+)?)", re.IGNORECASE)
_WORDS = {"bull": 1, "positive": 1, "neutral": 0, "bear": -1, "negative": -1}
_MAX_TITLES = 3  #: maximum number of titles shown for one day


def sentiment_sign(text: str) -> int | None:
    """Return 1, 0 or -1 for a sentiment in the format of its source. This is the sign of a score or
    label; if there are three scores, it is the sign of the label with the largest score. Return
    None if the string has no such format.
    """
    scores = {word.lower(): float(score) for word, score in _TRIPLE.findall(text)}
    label = max(scores, key=lambda word: scores[word]) if scores else text.lower()
    for word, sign in _WORDS.items():
        if word in label:
            return sign

    try:
        score = float(label)
    except ValueError:
        return None
    return None if np.isnan(score) else int(np.sign(score))


# -- the asset and its news


@dataclass(frozen=True)
class AssetDay:
    """An asset's state in the market on one day."""

    day: str
    ratio: float  #: last known close divided by the first known close
    documents: int  #: number of documents that became known since the previous close
    titles: str
    sentiment: Sentiment | None  #: None if no document has a known sentiment


def asset_days(market: MarketSnapshot, asset: str, days: Sequence[str]) -> list[AssetDay]:
    """Return the asset's state on each day. Documents are those filed under the asset or under no
    asset.
    """
    rows = [market.day_index(day) for day in days]
    closes = market.adjusted_close[:, market.asset_index[asset]]
    titles: dict[int, list[str]] = {}
    signs: dict[int, list[int]] = {}
    for row, title, sign in _items(market, asset):
        titles.setdefault(row, []).append(title)
        if sign is not None:
            signs.setdefault(row, []).append(sign)

    shown = []
    last = float("nan")
    first = float("nan")
    for day, row in zip(days, rows, strict=True):
        close = float(closes[row])
        last = last if np.isnan(close) else close
        first = last if np.isnan(first) else first
        own = titles.get(row, [])
        rated = signs.get(row)
        sentiment = None if rated is None else _SIGNS[int(np.sign(sum(rated)))]
        more = f" (and {len(own) - _MAX_TITLES} more)" if len(own) > _MAX_TITLES else ""
        text = " · ".join(clean(title) for title in own[:_MAX_TITLES]) + more
        shown.append(AssetDay(day, last / first, len(own), text, sentiment))

    return shown


def _items(market: MarketSnapshot, asset: str) -> Iterator[tuple[int, str, int | None]]:
    """For each document, yield the row of the day at whose close the document is known, its title,
    and the sign of its sentiment.
    """
    documents = market.documents
    view = documents.as_of(market.days)
    for code in (asset, ""):
        for row in documents.rows_of.get(code, ()):
            day = view.day_of(int(row))
            if day < len(market.days):
                item = documents[int(row)]
                yield day, item.title, sentiment_sign(item.sentiment)


def _market(entrants: Sequence[EntrantCard], choices: FigureChoices) -> MarketSnapshot:
    """Return the market on which the runs were made. Raises CardError if the market can't be
    opened.
    """
    markets = markets_of(choices, "without the market, prices and news can't be shown")
    return markets.need(entrants[0])


def _one_asset(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> tuple[list[EntrantCard], list[RowName], str]:
    """Return the cards, their row names, and the asset. Raises CardError unless all cards cover the
    same single asset and window.
    """
    entrants = figure_entrants(paths, figure, choices)
    check_asset_rules(entrants)
    check_one_task(entrants, figure)
    windows = {episode.window for entrant in entrants for episode in entrant.card.episodes}
    if len(windows) != 1:
        raise CardError(
            f"{figure.name} is of one window, these cards have {', '.join(sorted(windows))}; give"
            " runs of one"
        )

    names = row_names(entrants)
    for name, cards in Counter(names).items():
        if cards > 1:
            raise CardError(
                f"{entrants[0].path}: {cards} cards are of {name.agent} with {name.model}; give one"
                " of them"
            )

    return entrants, names, asset_of(entrants[0])


def _label(name: RowName) -> str:
    return f"{name.agent} ({name.model})"


# -- Figure 3


def gap_frame(paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices) -> pd.DataFrame:
    """Return a frame by [day], with the NAV of two runs and the value of Buy & Hold, each relative
    to its first value. The frame also has the gap (first minus second), the change in the gap to
    the next day, documents, and marked events.
    """
    entrants, names, asset = _one_asset(paths, figure, choices)
    if len(entrants) != 2:
        raise CardError(
            f"{figure.name} compares two runs on one asset; give two, not {len(entrants)}"
        )

    means = [_mean_ratio(entrant) for entrant in entrants]
    (days, first, _), (other_days, second, _) = means
    if days != other_days:
        raise CardError(
            f"{entrants[1].path}: its ledgers cover other days than those of {entrants[0].path};"
            " give runs of the same window and limit"
        )

    around = asset_days(_market(entrants, choices), asset, days)
    gap = first - second
    change = np.append(np.diff(gap), np.nan)
    events = _events(around, choices.events, int(figure.settings["events"]))
    rows = []
    for at, day in enumerate(around):
        rows.append(
            {
                "day": day.day,
                "first": float(first[at]),
                "second": float(second[at]),
                "hold": day.ratio,
                "gap": float(gap[at]),
                "change": None if np.isnan(change[at]) else float(change[at]),
                "documents": day.documents,
                "event": events.get(day.day),
                "titles": day.titles or None,
            }
        )

    frame = pd.DataFrame(rows, dtype=object)
    labels = tuple(_label(name) for name in names)
    hold = f"{asset} Buy & Hold"
    frame.attrs["names"] = (*labels, hold)
    warn_of_cards(entrants)
    seeds = [count(mean[2], "seed") for mean in means]
    legend = f"first: {labels[0]}, {seeds[0]}; second: {labels[1]}, {seeds[1]}"
    frame.attrs["notes"] = (
        legend,
        *_event_notes(frame),
        *_change_notes(frame),
        *figure.notes,
        *origin_notes(entrants),
    )
    return frame


def _mean_ratio(entrant: EntrantCard) -> tuple[tuple[str, ...], Values, int]:
    """Return the days, the mean NAV relative to its first value, and the number of seeds."""
    paths = [(path.days, path.ratio) for path in daily_paths(entrant)]
    mean = mean_of_paths({entrant.path: paths})
    return mean.days, mean.mean, mean.n


def _events(days: Sequence[AssetDay], named: Sequence[str], most: int) -> dict[str, str]:
    """Return the titles of the events to mark, in order of day. The events are on the named days
    or, if none are named, on the days whose documents preceded the largest price moves.

    Raises UsageError if a named day is not in the figure.
    """
    by_day = {day.day: day for day in days}
    for wanted in named:
        if wanted not in by_day:
            raise UsageError(
                f"--event {wanted}: is not a day of these runs, which are {days[0].day} … {days[-1].day}"
            )

    chosen = sorted(named)
    if not named:
        moves = []
        for day, after in pairwise(days):
            if day.documents:
                moves.append((-abs(after.ratio / day.ratio - 1.0), day.day))
        chosen = sorted(day for _, day in sorted(moves)[:most])

    return {day: by_day[day].titles or "no document" for day in chosen}


def _event_notes(frame: pd.DataFrame) -> Iterator[str]:
    """Yield, for each event, the gap at the close of the event's day and at the next close."""
    numbers = itertools.count(1)
    for row in frame[frame["event"].notna()].to_dict("records"):
        gap, change = row["gap"], row["change"]
        after = "-" if change is None else f"{gap + change:+.4f}"
        yield (
            f"event {next(numbers)}, {row['day']}: gap {gap:+.4f}, a day later {after}:"
            f" {row['event']}"
        )


def _change_notes(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the mean change in the gap after days with documents, and after days without
    documents.
    """
    known = frame[frame["change"].notna()]
    for words, part in (
        ("after a day with documents", known[known["documents"] > 0]),
        ("after a day without", known[known["documents"] == 0]),
    ):
        values = part["change"].to_numpy(dtype=np.float64)
        if not len(values):
            continue

        low, high = mean_ends(values)
        interval = ""
        if low is not None and high is not None:
            interval = f", 95 % t interval {low:+.5f} … {high:+.5f} as of independent days"
        yield f"mean change of the gap {words}: {values.mean():+.5f} (n {len(values)}{interval})"


# -- Figure 4


def vote_frame(paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices) -> pd.DataFrame:
    """Return decisions by [day of decision and run], with the value of Buy & Hold and the sentiment
    on that day.
    """
    entrants, names, asset = _one_asset(paths, figure, choices)
    if len(entrants) > MAX_LINES:
        raise UsageError(f"{figure.name}: {len(entrants)} rows are too many; give {MAX_LINES}")

    decided = [_decisions(entrant) for entrant in entrants]
    days = list(decided[0])
    for entrant, own in zip(entrants, decided, strict=True):
        if list(own) != days:
            raise CardError(
                f"{entrant.path}: its decisions are of other days than those of"
                f" {entrants[0].path}; give runs of the same window and limit"
            )

    around = asset_days(_market(entrants, choices), asset, days)
    rows = []
    for name, own in zip(names, decided, strict=True):
        for day in around:
            actions = own[day.day]
            rows.append(
                {
                    "day": day.day,
                    "line": _label(name),
                    "action": _majority(actions),
                    "n": len(actions),
                    "hold": day.ratio,
                    "sentiment": day.sentiment,
                    "documents": day.documents,
                }
            )

    frame = pd.DataFrame(rows, dtype=object)
    frame.attrs["names"] = (f"{asset} Buy & Hold",)
    warn_of_cards(entrants)
    rated = [day for day in around if day.sentiment is not None]
    notes = [*figure.notes]
    if not rated:
        notes.append("the documents of these runs have no sentiment scores, so no day has one")
    frame.attrs["notes"] = (*notes, *origin_notes(entrants))
    return frame


def _majority(actions: Sequence[str]) -> str:
    """Return the decision made by more than half of the seeds, or `split`."""
    action, seeds = Counter(actions).most_common(1)[0]
    return action if 2 * seeds > len(actions) else "split"


def _decisions(entrant: EntrantCard) -> dict[str, list[str]]:
    """Return the decisions of all seeds, by day."""
    decisions: dict[str, list[str]] = {}
    for path in daily_paths(entrant):
        talks = _transcript(path)
        for step, talk in zip(path.ledger.steps, talks, strict=True):
            decisions.setdefault(step.decided_on, []).append(decision_of(step, talk))

    return decisions


def _transcript(path: DailyPath) -> list[TranscriptEntry]:
    """Return an episode's transcript, with one entry per step.

    Raises StoreError if the transcript is missing or incomplete.
    """
    folder = RunFolder.load(path.entrant.run_folder)
    for spec in folder.manifest.specs:
        if folder.episode_path(spec).name == path.episode.id:
            talks = list(folder.load_transcript(spec))
            if len(talks) == len(path.ledger.steps):
                return talks

    raise StoreError(
        f"{folder.path}: the transcript of {path.episode.id} is not next to its ledger; give the "
        "whole run folder"
    )


def decision_of(step: StepRecord, talk: TranscriptEntry) -> str:
    """Return BUY, SELL or HOLD. This is the submitted decision or, for a vote, the decision on more
    than half of the ballots; without such a majority, it is HOLD. Return `none` if there was no
    valid decision.
    """
    if step.provenance not in DECIDED:
        return "none"
    if talk.submission is not None:
        return _stance(talk.submission)

    ballots = []
    for exchange in read_exchanges(talk, "transcript"):
        if exchange.reply is not UNSET:
            ballots += [_stance(call.arguments) for call in exchange.reply.tool_calls]

    action, votes = Counter(ballots or ["HOLD"]).most_common(1)[0]
    return action if 2 * votes > len(talk.exchanges) else "HOLD"


def _stance(submission: str) -> str:
    """Return the decision in a submission on one asset. A submission without orders is HOLD."""
    submitted = submission_object(submission)
    entries: Any = submitted.get("decisions", submitted.get("orders"))
    for entry in entries if isinstance(entries, list) else []:
        item = as_object(entry)
        return str(item.get("decision", item.get("side"))).upper()

    return "HOLD"
