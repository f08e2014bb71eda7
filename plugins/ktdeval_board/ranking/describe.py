"""What the columns of a board are called and what they mean: for readers who have not read the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ktdeval.api import PANEL_FAMILIES, JsonValue
from ktdeval_board.entries import Board, Card, Entry
from ktdeval_board.rules import Division

ALPHA = "selection_alpha"
"""The metric that the α-rank goes by."""


class _Words(NamedTuple):
    title: str
    description: str


@dataclass(frozen=True)
class Definition:
    """A column that is no metric of the cards but made by the board.

    Attributes:
        title: heading.
        unit: `fraction`, `USD`, `count`.
        better: `higher`, `lower` or `neither`.
        group: heading over columns of one kind.
        headline: whether the board shows it unasked.
        formula: identifier and formula.
        source: where it comes from.
        description: one sentence for readers.
    """

    title: str
    unit: str
    better: str
    group: str
    headline: bool
    formula: str
    source: str
    description: str


EXTRA: Mapping[str, Definition] = {
    "excess": Definition(
        "Excess return", "fraction", "higher", "returns and risk", True,
        "excess/1: total_return less the total return of the benchmark over the same window", "ktdeval",
        "What the agent earned beyond buying the index at the start of the window and holding it, without costs.",
    ),
    "gross_return": Definition(
        "Return before fees", "fraction", "higher", "returns and risk", False,
        "gross_return/1: last NAV with all fees added back / initial cash - 1", "AMA",
        "The total return as it would be without fees, at the same trades; from the board's own execution of the decisions.",
    ),
    "vs_random": Definition(
        "Beats random traders", "fraction", "higher", "returns and risk", True,
        "vs_random/1: share of 200 random traders with the agent's dates, turnover and number of names that it beats, ties half",
        "ktdeval", "0.5 is what chance alone gives. From the board's own execution of the decisions.",
    ),
    "decided": Definition(
        "Decided by the model", "fraction", "higher", "reliability and calibration", False,
        "decided/1: steps that the model decided / steps planned", "ktdeval",
        "At the other steps the engine held, because a call failed or no submission was valid. Below 0.95 nothing is ranked.",
    ),
    "cost_usd": Definition(
        "Cost of an episode", "USD", "lower", "cost", True,
        "cost_usd/1: tokens of an episode at the list price on the card", "ktdeval",
        "The same whether a reply was paid for or found in a cache.",
    ),
    "tokens": Definition(
        "Tokens of an episode", "count", "neither", "cost", False,
        "tokens/1: input_tokens + output_tokens", "ktdeval", "Tokens read and written by the model in an episode.",
    ),
}  # fmt: skip
"""Columns made by the board, in the order in which they are shown."""

_SCORING_EXTRA = ("decided", "cost_usd", "tokens")
_SCORING_DEFAULT = ("decided", "cost_usd")

_FIRST = ("total_return", "excess", ALPHA, "sharpe", "max_drawdown", "information_ratio", "vs_random", "gross_return")
_DEFAULT = ("total_return", "excess", ALPHA, "sharpe", "max_drawdown", "vs_random", "turnover", "ece", "cost_usd")

_METRICS: Mapping[str, _Words] = {
    "total_return": _Words("Total return", "Growth of the portfolio from the initial cash to the last close, after fees."),
    "sharpe": _Words(
        "Sharpe ratio", "Mean daily return over its standard deviation, for a year; a short window says little of it."
    ),
    "max_drawdown": _Words("Maximum drawdown", "Largest fall from a peak of the portfolio's value to a later low."),
    "information_ratio": _Words(
        "Information ratio", "Mean daily return beyond the benchmark over its standard deviation, for a year."
    ),
    "turnover": _Words(
        "Turnover", "What was bought and sold in a year, as a multiple of the portfolio; selling all and buying anew is 2."
    ),
    "hhi": _Words(
        "Concentration", "Herfindahl-Hirschman index of the holdings: 1 over the number of names where their weights are equal."
    ),
    "cash_ratio": _Words("Cash", "Share of the portfolio held in cash at the close."),
    "abstention_rate": _Words("Abstention", "Share of the model's decisions without an order."),
    "parse_failure_rate": _Words("Parse failures", "Share of steps whose submission was still invalid after every retry."),
    "ece": _Words(
        "Calibration error", "Expected calibration error: how far stated confidence lies from how often orders were right."
    ),
    "tool_validity_rate": _Words("Valid tool calls", "Share of research tool calls that could be carried out."),
    "brier": _Words("Brier score", "Mean squared difference of stated confidence and outcome; 0.25 is what a constant 50 % gives."),
    "unmask_attempts": _Words("Unmask attempts", "How often the model offered a real name, code or date that the mask hides."),
    "decision_coverage": _Words("Decision coverage", "Share of an episode's steps that the model decided."),
    "brier_reliability": _Words(
        "Brier: reliability", "Part of the Brier score that comes from confidence off the mark; 0 is best."
    ),
    "brier_resolution": _Words("Brier: resolution", "How well confidence tells orders that succeed from those that do not."),
    "brier_uncertainty": _Words("Brier: uncertainty", "How hard the outcomes were to forecast at all."),
    "ece_debiased": _Words("Calibration error, debiased", "The calibration error less what few outcomes add to it by chance."),
    "reliability_debiased": _Words("Brier: reliability, debiased", "Reliability less what few outcomes add to it by chance."),
    "psr": _Words(
        "Probabilistic Sharpe ratio", "Probability that the true Sharpe ratio is positive, given length, skew and tails."
    ),
    "min_track_record": _Words("Minimum track record", "Years needed to show at 95 % that the Sharpe ratio is positive."),
    "common_return": _Words("Common return", "Part of the total return that every stock of the market earned."),
    "style_return": _Words("Style return", "Part of the total return that comes from tilts to nine known style factors."),
    ALPHA: _Words(
        "Selection alpha", "Part of the total return that neither market nor style factors explain: the choice of stocks."
    ),
    "trading_effect": _Words("Trading effect", "Part of the total return that comes from the timing of fills, fees and rounding."),
}

_ATTRIBUTION = ("common_return", "style_return", ALPHA, "trading_effect")
_GROUPS = {name: family for family, names in PANEL_FAMILIES.items() for name in names} | dict.fromkeys(_ATTRIBUTION, "attribution")

_TRUST = ("re-run", "re-executed", "self-reported", "unchecked")


def by_trust(entries: Iterable[Entry]) -> list[Entry]:
    """Entries whose figures are confirmed best first, of these whole runs before limited ones.

    What cards say of the market and of metrics is taken from the first, so that no claim weighs more than the board's own finding.
    """
    return sorted(entries, key=lambda entry: (_TRUST.index(entry.tier), entry.card["limit"] is not None, entry.card_id))


def division_kind(board: Board, division: Division) -> str:
    """`trading` or `scoring`; a division without cards counts as trading."""
    return next((str(entry.card["kind"]) for entry in board.of_division(division)), "trading")


def division_scopes(board: Board, division: Division) -> list[str]:
    """`all` and each window; scores of a scoring task are made of all answers together, so such a division has `all` alone."""
    return ["all"] if division_kind(board, division) == "scoring" else ["all", *division.window_names()]


def division_columns(board: Board, division: Division) -> list[str]:
    """Names of a division's columns, in the order in which they are shown; none without cards.

    The names are those of the task's config, which the division's hash pins: a submitter can't add columns.
    """
    entries = by_trust(board.of_division(division))
    if not entries:
        return []
    card = entries[0].card
    if card["kind"] == "scoring":
        return [*card["score_order"], *_SCORING_EXTRA]
    asked = card["task"]["config"].get("metrics")
    names = [str(name) for name in asked] if isinstance(asked, list) else sorted(card["metrics"])
    known = [*(name for name in names if name in card["metrics"]), *EXTRA]
    if division.rank_by not in known and division.rank_by in card["metrics"]:
        known.append(division.rank_by)
    first = [name for name in dict.fromkeys((division.rank_by, *_FIRST)) if name in known]
    return [*first, *(name for name in known if name not in first)]


def default_columns(columns: Sequence[str], rank_by: str) -> list[str]:
    """The columns that a reader sees unasked: a choice of a trading task's, the first four scores of a scoring task."""
    if "total_return" in columns:
        return [name for name in columns if name == rank_by or name in _DEFAULT]
    scores = [name for name in columns if name not in EXTRA]
    return list(
        dict.fromkeys([*(name for name in columns if name == rank_by), *scores[:4], *(_SCORING_DEFAULT if columns else ())])
    )


def describe_metrics(board: Board) -> dict[str, JsonValue]:
    """Column -> title, unit, better, group, headline, formula, source and description, for all divisions of the board."""
    found: dict[str, JsonValue] = {}
    for division in board.rules.divisions:
        columns = division_columns(board, division)
        for entry in by_trust(board.of_division(division))[:1]:
            given = dict(_definitions(entry.card))
            for name in columns:
                found.setdefault(name, given[name] if name in given else asdict(EXTRA[name]))
    return dict(sorted(found.items()))


def direction(board: Board, division: Division, column: str) -> str:
    """Whether `higher`, `lower` or `neither` is better in a column of the division."""
    for entry in by_trust(board.of_division(division))[:1]:
        given = dict(_definitions(entry.card))
        if column in given:
            return str(given[column]["better"])
    return EXTRA[column].better if column in EXTRA else "neither"


def _definitions(card: Card) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    kind = "scores" if card["kind"] == "scoring" else "metrics"
    for name, entry in card[kind].items():
        words = _METRICS.get(name)
        yield (
            name,
            {
                "title": words.title if words else name.replace("_", " ").capitalize(),
                "unit": entry["unit"],
                "better": entry["better"] or "neither",
                "group": "scores" if kind == "scores" else _GROUPS.get(name, "diagnostics"),
                "headline": entry["headline"],
                "formula": entry["formula"],
                "source": entry["source"],
                "description": words.description if words else entry["formula"],
            },
        )
