"""Attackers of known strength: one that reads, one that guesses. The scores must say so."""

from __future__ import annotations

import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from accept_runs import import_real
from deanon_play import PROBES, Reader, attack, random_answer, record_of, samples_of, task_of
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.market.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.data_source import open_snapshot
from ktdeval.stats.intervals import Interval, clopper_pearson_upper, poisson_binomial, wilson
from ktdeval_deanon.answer import _industry_names
from ktdeval_deanon.scores import chance_of
from ktdfin_market import small_market
from tables import on_each_row

RATES = ("ticker_top1", "ticker_top5", "board", "sector", "date_within_5", "date_within_20", "date_within_60", "joint")
SETS, PROBE_SETS, MARGIN = 1000, 10, 0.015


@cache
def synthetic() -> MarketSnapshot:
    return open_snapshot(load_plugins(), "synthetic", {})


def exams_of(market: MarketSnapshot, seed: int, mask: str = "blinded") -> list[Any]:
    """The five default windows: 200 probes."""
    task = task_of(mask)
    return [samples_of(market, mask, task.windows[name], seed) for name in task.default_windows]


# ---- the one that reads


@on_each_row
def test_a_reader_recovers_all_that_is_shown_and_nothing_that_is_hidden(mask: str, recovered: list[str]) -> None:
    """No hit in 20 probes: the share may still be as large as 1 - 0.05^(1/20), and no test of chance is failed."""
    market = small_market()
    summary = task_of(mask).summarise(attack(samples_of(market, mask), market, Reader(), range(20)))
    assert {name: summary[name].value for name in RATES} == {name: float(name in recovered) for name in RATES}
    assert summary["unparsable_rate"].value == 0.0
    joint = summary["joint"].detail
    if mask == "bright":
        assert joint["p_value"] < 1e-12
    else:
        assert (joint["upper_95"], joint["p_value"]) == (pytest.approx(1 - 0.05 ** (1 / 20)), 1.0)


# ---- the one that guesses


@cache
def simulated() -> dict[str, list[tuple[int, float, tuple[float, ...]]]]:
    """A thousand sets of 200 answered probes of the embedded market: score -> hits, baseline and chances of each set.

    Ten sets of probes, a hundred guesses at each; every guess is an answer that goes through the real scoring.
    """
    market, chance = synthetic(), random.Random(20240401)
    sets: dict[str, list[tuple[int, float, tuple[float, ...]]]] = {name: [] for name in RATES}
    for seed in range(PROBE_SETS):
        exams = exams_of(market, seed)
        probes = [(exam, number, exam.facts(number)) for exam in exams for number in range(len(exam))]
        chances = {name: tuple(chance_of(name, facts) for _, _, facts in probes) for name in RATES}
        for _ in range(SETS // PROBE_SETS):
            scores = [exam.score(number, random_answer(facts, exam, market, chance)) for exam, number, facts in probes]
            for name in RATES:
                hits = sum(bool(score[name]) for score in scores)
                sets[name].append((hits, sum(chances[name]) / len(probes), chances[name]))
    return sets


@cache
def wilson_of(hits: int, n: int) -> Interval:
    return wilson(hits, n, 0.95)


def covers(hits: int, n: int, baseline: float) -> bool:
    interval = wilson_of(hits, n)
    return bool(interval.low <= baseline <= interval.high)  # type: ignore[operator]


def evenness(chances: tuple[float, ...]) -> float:
    """Variance of the number of hits, as a share of that of as many probes with one and the same chance."""
    mean = sum(chances) / len(chances)
    return sum(p * (1 - p) for p in chances) / (len(chances) * mean * (1 - mean)) if mean < 1 else 1.0


def exact_coverage(chances: tuple[float, ...]) -> float:
    """How often Wilson's interval covers the baseline when hits follow these chances, without simulation."""
    mean, n = sum(chances) / len(chances), len(chances)
    distribution = poisson_binomial(chances).probabilities
    return float(sum(p for hits, p in enumerate(distribution) if covers(hits, n, mean)))


@pytest.mark.slow
@pytest.mark.parametrize("name", RATES)
def test_intervals_and_bounds_of_a_random_attacker_hold_as_often_as_they_say(name: str) -> None:
    """95 % ± 1.5 % wherever chance gives five hits or more in a set, and the probes have chances that are alike.

    Wilson's interval takes all probes for equally hard. Where they are not (five codes for a board of five members are sure to
    hit, for the main board they hardly do), hits vary less than it allows for, and it covers more often than it says.
    Below five hits, whole steps are too coarse to come near to 95 %; that is what the exact bound is for.
    """
    sets = simulated()[name]
    assert len(sets) == SETS
    # Over all sets a guess hits as often as computed, and the exact bound holds for rare events, too.
    every = [chance for *_, chances in sets for chance in chances]
    error = math.sqrt(sum(chance * (1 - chance) for chance in every))
    assert sum(hits for hits, _, _ in sets) == pytest.approx(sum(every), abs=4 * error + 1e-6)
    held = sum(clopper_pearson_upper(hits, len(chances), 0.95) >= baseline - 1e-12 for hits, baseline, chances in sets) / SETS
    assert held >= 0.95 - MARGIN
    exact_hits, (_, baseline, chances) = poisson_binomial(sets[0][2]).probabilities, sets[0]
    bounds = [clopper_pearson_upper(hits, len(chances), 0.95) for hits in range(len(exact_hits))]
    assert sum(p for p, bound in zip(exact_hits, bounds, strict=True) if bound >= baseline - 1e-12) >= 0.95
    if name == "board":  # it is shown
        return
    covered = sum(covers(hits, len(chances), baseline) for hits, baseline, chances in sets) / SETS
    expected = min(baseline * len(chances) for _, baseline, chances in sets)
    even = min(evenness(chances) for _, _, chances in sets)
    assert covered >= 0.95 - MARGIN or expected < 5
    assert covered <= 0.95 + MARGIN or expected < 5 or even < 0.95
    # What the discreteness of these very probe sets allows is known exactly; the simulation must agree (four standard errors).
    exact = sum(exact_coverage(chances) for _, _, chances in sets[:: SETS // PROBE_SETS]) / PROBE_SETS
    assert covered == pytest.approx(exact, abs=4 * (exact * (1 - exact) / SETS) ** 0.5 + 1e-9)


def test_a_summary_of_guesses_is_no_better_than_chance() -> None:
    """The whole road once: 200 probes, guessed at and summarised."""
    market, chance = synthetic(), random.Random(7)
    records = []
    for exam in exams_of(market, 3):
        records += [record_of(exam, n, random_answer(exam.facts(n), exam, market, chance)) for n in range(len(exam))]
    summary = task_of("blinded").summarise(records)
    for name in RATES:
        score = summary[name]
        assert score.n == 200
        assert score.detail["p_value"] > 0.01, name
        assert set(score.detail["by_window"]) == {"W1", "W4", "W6", "W8", "W10"}


# ---- the embedded market and a real one


@pytest.mark.parametrize("mask", PROBES)
def test_the_embedded_market_is_probed_over_four_boards(mask: str) -> None:
    market = synthetic()
    for exam in exams_of(market, 0, mask):
        counts = [sum(str(probe.board) == board for probe in exam.probes) for board in ("main", "chinext", "star", "bse")]
        members = exam.facts(0)["members"]
        assert sum(counts) == 40
        assert counts[3] == min(10, sum(str(probe.board) == "bse" for probe in exam.probes))
        assert counts[3] <= members["bse"] + 2  # one probe a stock: members of the window, which change at a review
        assert max(counts[:3]) - min(counts[:3]) <= 1
        attack(exam, market, Reader(), range(0, 40, 20))


@pytest.mark.shared_data
def test_a_real_market_is_probed_over_the_boards_that_its_index_has(shared_data: Path, tmp_path: Path) -> None:
    market = load_snapshot(import_real(shared_data, tmp_path / "csi300"))
    assert set(market.industries) - {"unknown"} <= _industry_names().keys()
    for exam in exams_of(market, 0):
        counts = [sum(str(probe.board) == board for probe in exam.probes) for board in ("main", "chinext", "star", "bse")]
        assert sorted(counts) == [0, 13, 13, 14]
        records = attack(exam, market, Reader(), range(0, 40, 13))
        assert not any(record.scores["ticker_top5"] or record.scores["date_within_60"] for record in records)
        assert "The data are real" in exam.sample(0).system
    bright = exams_of(market, 0, "bright")[1]
    summary = task_of("bright").summarise(attack(bright, market, Reader(), range(0, 40, 5)))
    assert all(summary[name].value == 1.0 for name in RATES)
