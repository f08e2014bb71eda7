"""Rates, their bounds, and what chance gives on the very probes that were answered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from deanon_play import NOTHING, record_of, samples_of, task_of
from ktdeval.contracts.scoring import AnswerRecord, Score
from ktdeval.jsonio import dumps_canonical
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval_deanon.scores import DEFINITIONS, chance_of
from ktdfin_market import small_market


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return small_market()


@pytest.fixture(scope="module")
def samples(market: MarketSnapshot) -> Any:
    return samples_of(market)


def summary_of(records: list[AnswerRecord]) -> dict[str, Score]:
    return dict(task_of("blinded").summarise(records))


def gold(samples: Any, number: int) -> dict[str, Any]:
    facts = samples.facts(number)
    told = {"tickers": [facts["code"]], "date": facts["day"], "sector": facts["sector"], "board": facts["board"], "confidence": 0.5}
    return {**NOTHING, **told}


def test_every_definition_has_a_score_and_every_score_a_definition(samples: Any) -> None:
    summary = summary_of([record_of(samples, 0, gold(samples, 0))])
    assert list(summary) == list(DEFINITIONS) == list(task_of("blinded").scores)
    for name, definition in DEFINITIONS.items():
        assert definition.formula
        assert definition.source
        assert definition.better in ("lower", ""), name


def test_rates_intervals_and_bounds_are_those_of_the_textbook(samples: Any) -> None:
    records = [record_of(samples, number, gold(samples, number) if number < 7 else NOTHING) for number in range(30)]
    score = summary_of(records)["ticker_top1"]
    assert score.value == 7 / 30
    assert score.n == 30
    assert score.interval is not None
    assert (score.interval.low, score.interval.high) == pytest.approx(proportion_confint(7, 30, method="wilson"))
    assert score.interval.level == 0.95
    assert score.detail["upper_95"] == pytest.approx(stats.binomtest(7, 30, alternative="less").proportion_ci(0.95).high)
    assert score.detail["mean_confidence"] == pytest.approx(7 * 0.5 / 30)
    hits = np.ones(1)  # of as many coins as there are probes, each with its own chance: coefficients of a product
    for number in range(30):
        chance = chance_of("ticker_top1", samples.facts(number))
        hits = np.convolve(hits, [1 - chance, chance])
    assert score.detail["p_value"] == pytest.approx(hits[7:].sum())


def test_chance_is_what_a_member_of_the_board_and_a_day_of_the_period_give(market: MarketSnapshot, samples: Any) -> None:
    for number in (0, 3, 9):
        facts, probe = samples.facts(number), samples.probes[number]
        peers = [asset for asset in range(48) if market.member[probe.row, asset] and market.boards[asset] is probe.board]
        assert chance_of("ticker_top1", facts) == 1 / len(peers)
        assert chance_of("ticker_top5", facts) == min(1.0, 5 / len(peers))
        same = [asset for asset in peers if market.industries[asset] == market.industries[probe.asset]]
        assert chance_of("sector", facts) == len(same) / len(peers)
        start, stop = samples.period
        for margin in (5, 20, 60):
            near = sum(abs(row - probe.row) <= margin for row in range(start, stop))
            assert chance_of(f"date_within_{margin}", facts) == near / (stop - start)
        assert chance_of("joint", facts) == chance_of("ticker_top5", facts) * chance_of("date_within_5", facts)
        assert chance_of("board", facts) == 1.0


def test_the_baseline_is_the_mean_chance_of_the_answered_probes_alone(samples: Any) -> None:
    records = [
        record_of(samples, number, None if number % 3 else NOTHING, "fallback" if number % 3 else "model") for number in range(12)
    ]
    for name, score in summary_of(records).items():
        if name != "unparsable_rate":
            chances = [chance_of(name, samples.facts(number)) for number in range(0, 12, 3)]
            assert score.n == 4
            assert score.baseline == pytest.approx(math.fsum(chances) / 4)


def test_answers_without_a_valid_form_are_counted_and_left_out(samples: Any) -> None:
    records = [record_of(samples, number, gold(samples, number)) for number in range(6)]
    records += [record_of(samples, number, None, why) for number, why in ((6, "fallback"), (7, "fallback"), (8, "error"))]
    summary = summary_of(records)
    assert summary["ticker_top1"].value == 1.0
    assert summary["ticker_top1"].n == 6
    lost = summary["unparsable_rate"]
    assert (lost.value, lost.n) == (3 / 9, 9)
    assert lost.detail["by_provenance"] == {"error": 1, "fallback": 2}
    assert lost.interval is not None
    assert lost.baseline is None


def test_windows_and_boards_are_broken_down(market: MarketSnapshot, samples: Any) -> None:
    other = samples_of(market, seed=1)
    records = [record_of(samples, number, gold(samples, number)) for number in range(8)]
    records += [
        replace(record_of(other, number, NOTHING), facts={**other.facts(number), "window": "April"}) for number in range(12)
    ]
    detail = summary_of(records)["date_within_5"].detail
    assert detail["by_window"]["March"] | {"low": 0, "baseline": 0} == {
        "n": 8, "successes": 8, "value": 1.0, "low": 0, "high": 1.0, "baseline": 0,
    }  # fmt: skip
    assert detail["by_window"]["April"]["value"] == 0.0
    boards = detail["by_board"]
    assert boards.keys() == {"main", "chinext", "star", "bse"}
    assert sum(rate["n"] for rate in boards.values()) == 20
    assert sum(rate["successes"] for rate in boards.values()) == 8


def test_probes_without_a_gold_industry_do_not_count_for_it(samples: Any) -> None:
    records = [record_of(samples, number, gold(samples, number)) for number in range(4)]
    for record in records[:2]:
        record.facts.update({"sector": None, "sector_members": None, "largest_sector": None})
        record.scores["sector"] = None
    score = summary_of(records)["sector"]
    assert (score.value, score.n) == (1.0, 2)
    assert 0.0 < score.detail["always_the_largest"] <= 1.0
    nothing = summary_of(records[:2])["sector"]
    assert (nothing.value, nothing.n) == (None, 0)
    assert nothing.reason


def test_without_a_valid_answer_every_rate_is_undefined_and_says_why(samples: Any) -> None:
    summary = summary_of([record_of(samples, 0, None, "error")])
    assert summary["joint"].value is None
    assert "no probe has a valid answer" in summary["joint"].reason
    assert summary["unparsable_rate"].value == 1.0
    assert summary_of([])["unparsable_rate"].value is None


def test_facts_scores_and_details_are_strict_json(samples: Any) -> None:
    records = [record_of(samples, number, gold(samples, number)) for number in range(5)]
    dumps_canonical([[record.facts, record.scores] for record in records])
    for score in summary_of(records).values():
        dumps_canonical([score.value, score.baseline, dict(score.detail), score.interval and score.interval.to_json()])
        for value in (score.value, score.baseline):
            assert value is None or type(value) is float
