"""Recovery rates over answered probes: each with its interval, its exact bound, and what chance gives on these very probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktdeval.contracts import AnswerRecord, Score, ScoreDefinition
from ktdeval.jsonio import JsonValue
from ktdeval.stats import clopper_pearson_upper, poisson_binomial, wilson

LEVEL = 0.95
UNPARSABLE = "unparsable_rate"

_SOURCE = "KTD-Fin, section 4.3 and Appendix K"
_OURS = "of our own, after KTD-Fin, Appendix K"
_WHOLE = (0.0, 1.0)


def _definition(formula: str, better: str = "lower", source: str = _SOURCE, headline: bool = True) -> ScoreDefinition:
    return ScoreDefinition(
        formula=formula, unit="fraction of answers", range=_WHOLE, better=better, source=source, headline=headline
    )


DEFINITIONS: Mapping[str, ScoreDefinition] = {
    "ticker_top1": _definition("the first code is the stock's"),
    "ticker_top5": _definition("one of up to five codes is the stock's"),
    "board": _definition(
        "the board is the stock's; it is shown under every mask, so this only tells whether an attacker reads", ""
    ),
    "sector": _definition("the industry is the stock's, by its name in the data or a known other one", source=_OURS),
    "date_within_5": _definition("the date lies within 5 trading days of the day"),
    "date_within_20": _definition("the date lies within 20 trading days of the day"),
    "date_within_60": _definition("the date lies within 60 trading days of the day"),
    "joint": _definition("ticker_top5 and date_within_5"),
    UNPARSABLE: ScoreDefinition(
        formula="probes without a valid answer, over all probes; they are left out of the other scores",
        unit="fraction of probes",
        range=_WHOLE,
        better="lower",
        source=_SOURCE,
        headline=False,
    ),
}
"""What each score means, in the order shown. Low is good for the mask, and says nothing against the attacker."""


def chance_of(name: str, facts: Mapping[str, JsonValue]) -> float:
    """Probability that a guess at random recovers one thing of one probe.

    The guesser knows the index members of that day and the board, which is shown, and draws its codes among the members of this
    board; its industry is that of a member drawn likewise; its date is any trading day of the period, drawn apart from the codes.
    `name`: of a score, but not `unparsable_rate`.
    """
    return _CHANCES[name](facts)


def _candidates(facts: Mapping[str, Any]) -> int:
    return int(facts["members"][facts["board"]])


def _chance_of_ticker(tries: int, facts: Mapping[str, Any]) -> float:
    return min(1.0, tries / _candidates(facts))


def _chance_of_date(margin: int, facts: Mapping[str, Any]) -> float:
    return float(facts["near_days"][str(margin)] / facts["period_days"])


_CHANCES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "ticker_top1": lambda facts: _chance_of_ticker(1, facts),
    "ticker_top5": lambda facts: _chance_of_ticker(5, facts),
    "board": lambda _: 1.0,
    "sector": lambda facts: facts["sector_members"] / _candidates(facts),
    "date_within_5": lambda facts: _chance_of_date(5, facts),
    "date_within_20": lambda facts: _chance_of_date(20, facts),
    "date_within_60": lambda facts: _chance_of_date(60, facts),
    "joint": lambda facts: _chance_of_ticker(5, facts) * _chance_of_date(5, facts),
}


def summarise(records: Sequence[AnswerRecord]) -> dict[str, Score]:
    """All scores of `DEFINITIONS` over these records, which may be of several windows and seeds."""
    answered = [record for record in records if record.answer is not None]
    scores = {name: _recovery(name, answered) for name in _CHANCES}
    return {**scores, UNPARSABLE: _unparsable(records)}


def _recovery(name: str, answered: Sequence[AnswerRecord]) -> Score:
    """One recovery rate with its breakdown. A probe whose gold answer the data lack (a score of null) doesn't count."""
    scored = [record for record in answered if record.scores[name] is not None]
    if not scored:
        return Score(None, 0, reason="no probe has a valid answer" if not answered else "the data have no gold answer to any probe")
    hits = sum(bool(record.scores[name]) for record in scored)
    chances = [chance_of(name, record.facts) for record in scored]
    detail: dict[str, JsonValue] = {
        "successes": hits,
        "upper_95": clopper_pearson_upper(hits, len(scored), LEVEL),
        "p_value": poisson_binomial(chances).at_least(hits),
        "by_window": _by_stratum("window", name, scored),
        "by_board": _by_stratum("board", name, scored),
    }
    if name == "ticker_top1":
        detail["mean_confidence"] = sum(record.answer["confidence"] for record in scored if record.answer) / len(scored)
    if name == "sector":
        largest = [record.facts["largest_sector"] / _candidates(record.facts) for record in scored]
        detail["always_the_largest"] = sum(largest) / len(largest)
    interval = wilson(hits, len(scored), LEVEL)
    return Score(hits / len(scored), len(scored), interval, sum(chances) / len(chances), detail)


def _by_stratum(key: str, name: str, scored: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """Rate in each window or board, with its interval and what chance gives there."""
    strata: dict[str, list[AnswerRecord]] = {}
    for record in scored:
        strata.setdefault(record.facts[key], []).append(record)
    return {stratum: _rate(name, strata[stratum]) for stratum in sorted(strata)}


def _rate(name: str, records: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    hits = sum(bool(record.scores[name]) for record in records)
    interval = wilson(hits, len(records), LEVEL)
    chance = sum(chance_of(name, record.facts) for record in records) / len(records)
    rate = hits / len(records)
    return {"n": len(records), "successes": hits, "value": rate, "low": interval.low, "high": interval.high, "baseline": chance}


def _unparsable(records: Sequence[AnswerRecord]) -> Score:
    """How many probes have no valid answer, and why: no valid form (`fallback`), or a call that failed (`error`)."""
    if not records:
        return Score(None, 0, reason="there are no probes")
    missing = [record.provenance for record in records if record.answer is None]
    count, n = len(missing), len(records)
    detail: dict[str, JsonValue] = {
        "successes": count,
        "upper_95": clopper_pearson_upper(count, n, LEVEL),
        "by_provenance": {provenance: missing.count(provenance) for provenance in sorted(set(missing))},
    }
    return Score(count / n, n, wilson(count, n, LEVEL), detail=detail)
