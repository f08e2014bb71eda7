"""What counts as recovered, in any spelling; rates, bounds and chance levels; and attackers of
known strength.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ktdeval.market.snapshots.snapshot import MarketSnapshot, NameSpell
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.stats.intervals import Interval, clopper_pearson_upper, poisson_binomial, wilson
from ktdeval.task_api.scoring import AnswerRecord, Score
from ktdeval.testing import not_empty, on_each_row, small_market
from ktdeval.values import dumps_canonical
from ktdeval_deanon.answer import (
    ANSWER_FORM,
    _industry_names,
    days_off,
    is_sector_in_labels,
    is_stock_in_labels,
    names_sector,
    tickers_of,
)
from ktdeval_deanon.recovery_rates import DEFINITIONS, chance_of
from support.accept.accept_runs import import_real
from support.masking.deanon_play import (
    NOTHING,
    PROBES,
    Reader,
    attack,
    random_answer,
    record_of,
    samples_of,
    task_of,
)

MARKET = small_market()
DAYS = np.array(
    ["2024-04-01", "2024-04-02", "2024-04-03", "2024-04-08", "2024-04-09"], dtype="datetime64[D]"
)


@pytest.fixture(scope="module")
def samples() -> Any:
    return samples_of(MARKET)


def answer(**fields: Any) -> dict[str, Any]:
    return {**NOTHING, **fields}


def gold(samples: Any, number: int) -> dict[str, Any]:
    facts = samples.facts(number)
    return answer(
        tickers=[facts["code"]],
        date=facts["day"],
        sector=facts["sector"],
        board=facts["board"],
        confidence=0.5,
    )


def summary_of(records: list[AnswerRecord]) -> dict[str, Score]:
    return dict(task_of("blinded").summarise(records))


# ---- what an answer says


@on_each_row(
    "text",
    ("600519",),
    ("600519.SH",),
    ("600519.SS",),
    ("SH600519",),
    ("sh.600519",),
    ("600519.XSHG",),
    (" 600519.sh ",),
    ("６００５１９",),
    ("600519 Kweichow Moutai",),
    ("贵州茅台（600519）",),
    ("Kweichow Moutai (600519.SH)",),
    ("600519:SH",),
    ("贵州茅台600519",),
    ("600519-Kweichow Moutai",),
    ("**600519.SH** 贵州茅台股份。",),
)
def test_a_code_is_understood_in_any_vendors_style(text: str) -> None:
    assert tickers_of(answer(tickers=[text])) == ("600519.SH",)


def test_invalid_codes_repeats_and_more_than_five_answers_do_not_count() -> None:
    assert tickers_of(
        answer(tickers=["asset_0042", "Moutai", "600519", "600519.SH", "000858"])
    ) == ("600519.SH", "000858.SZ")
    assert tickers_of(answer(tickers=["6005190", "", "60051"])) == ()
    assert tickers_of(answer(tickers=list(map(str, range(600001, 600010))))) == tuple(
        f"{code}.SH" for code in range(600001, 600006)
    )


@on_each_row(
    "date, row, off",
    ("2024-04-03", 2, 0),
    ("2024-04-08", 2, 1),
    ("2024-04-03\n", 2, 0),
    ("2024-04-01", 3, 3),
    # A holiday counts as the trading day beside it that is nearer to the true one.
    ("2024-04-05", 2, 0),
    ("2024-04-05", 3, 0),
    ("2024-04-06", 1, 1),
    ("2024-04-06", 4, 1),
    # Outside the data, or no date.
    ("2024-03-31", 0, None),
    ("2024-04-10", 4, None),
    ("2024-02-30", 0, None),
    ("0000-00-00", 0, None),
    (None, 0, None),
)
def test_a_date_is_off_by_trading_days(date: str | None, row: int, off: int | None) -> None:
    assert days_off(answer(date=date), DAYS, row) == off


@pytest.mark.parametrize(
    ("off", "within"),
    [
        (0, [True, True, True]),
        (5, [True, True, True]),
        (6, [False, True, True]),
        (20, [False, True, True]),
        (60, [False, False, True]),
        (61, [False, False, False]),
    ],
)
def test_the_margins_count_trading_days_and_include_their_ends(
    samples: Any, off: int, within: list[bool]
) -> None:
    row = samples.probes[0].row
    scores = samples.score(0, answer(date=str(MARKET.days[row - off])))
    assert [bool(scores[f"date_within_{margin}"]) for margin in (5, 20, 60)] == within


def test_a_code_that_the_stock_had_before_it_was_renumbered_names_it_too(samples: Any) -> None:
    code = samples.facts(0)["code"]
    spells = (
        NameSpell(code, "2000-01-01", "2024-03-01", "", "609999.SH"),
        NameSpell(code, "2024-03-02", "2100-01-01", "", code),
    )
    renumbered = samples_of(replace(MARKET, spells=spells))

    for text in (code, "609999"):
        assert renumbered.score(0, answer(tickers=[text]))["ticker_top1"], text

    assert not samples.score(0, answer(tickers=["609999"]))["ticker_top1"]


def test_first_answer_other_four_and_day_are_scored_separately(samples: Any) -> None:
    code = samples.facts(2)["code"]
    day = samples.facts(2)["day"]
    row = samples.probes[2].row
    others = [other for other in MARKET.codes if other != code]

    for tickers, date, expected in (
        ([code, *others[:4]], day, (True, True, True)),
        ([*others[:4], code], day, (False, True, True)),
        (others[:5], day, (False, False, False)),
        ([code], str(MARKET.days[row - 6]), (True, True, False)),
    ):
        scores = samples.score(2, answer(tickers=tickers, date=date))
        assert (scores["ticker_top1"], scores["ticker_top5"], scores["joint"]) == expected

    assert not any(samples.score(0, NOTHING).values())


@on_each_row(
    "board, texts",
    ("main", ["main", "Main Board", "SSE main board", "深市主板"]),
    ("chinext", ["ChiNext", "GEM", "创业板", "SZSE ChiNext"]),
    ("star", ["STAR", "STAR Market", "科创板"]),
    ("bse", ["BSE", "Beijing Stock Exchange", "北交所"]),
    (None, ["main or chinext", "Shanghai", "starting", "", None]),
)
def test_a_board_is_understood_in_english_and_chinese(
    samples: Any, board: str | None, texts: tuple[str | None, ...]
) -> None:
    for text in not_empty(texts):
        for number in range(8):
            assert samples.score(number, answer(board=text))["board"] is (
                samples.facts(number)["board"] == board
            ), text


@on_each_row(
    "industry, names, others",
    (
        "银行",
        ["银行", "Banks", "banking sector", "银行业", "Banking (A-share)"],
        ["Insurance", "insurance, banks", "sector_07", "sector", "", None],
    ),
    ("证券", ["Securities brokerage", "券商"], []),
    ("白酒", ["Baijiu", "白酒板块", "Food & Beverage"], ["unknown"]),
    ("半导体", ["Semiconductor industry"], []),
    ("化学制药", ["Pharmaceuticals"], []),
    ("生物制药", ["pharmaceuticals"], []),
    ("Zephrite 3", ["Zephrite 3", "ZEPHRITE 3"], ["Zephrite 4"]),
)
def test_an_industry_is_known_by_its_other_names(
    industry: str, names: tuple[str, ...], others: tuple[str | None, ...]
) -> None:
    assert [name for name in names if not names_sector(answer(sector=name), industry)] == []
    assert [other for other in others if names_sector(answer(sector=other), industry)] == []


@on_each_row(
    "wrong",
    ({"tickers": ["600519", "600519", "600519", "600519", "600519", "600519"]},),
    ({"tickers": "600519"},),
    ({"date": "April 2024"},),
    ({"date": "20240401"},),
    ({"confidence": 1.5},),
    ({"confidence": None},),
    ({"reasoning": None},),
    ({"more": 1},),
)
def test_another_form_of_an_answer_is_not_taken(wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(dict(ANSWER_FORM.parameters)).is_valid(answer(**wrong))


def test_the_form_accepts_only_its_documented_values() -> None:
    validator = Draft202012Validator(dict(ANSWER_FORM.parameters))
    assert validator.is_valid(NOTHING)
    assert validator.is_valid(
        answer(
            tickers=["600519"] * 5, date="2024-04-01", sector="banks", board="main", confidence=1
        )
    )
    assert not validator.is_valid({key: value for key, value in NOTHING.items() if key != "date"})


def test_rates_intervals_and_bounds_match_the_textbook(samples: Any) -> None:
    records = [
        record_of(samples, number, gold(samples, number) if number < 7 else NOTHING)
        for number in range(30)
    ]
    summary = summary_of(records)

    assert list(summary) == list(DEFINITIONS) == list(task_of("blinded").scores)
    assert all(
        each.formula and each.source and each.better in ("lower", "")
        for each in DEFINITIONS.values()
    )

    score = summary["ticker_top1"]
    assert (score.value, score.n) == (7 / 30, 30)
    assert (score.interval.low, score.interval.high) == pytest.approx(
        proportion_confint(7, 30, method="wilson")
    )
    assert score.interval.level == 0.95
    assert score.detail["upper_95"] == pytest.approx(
        stats.binomtest(7, 30, alternative="less").proportion_ci(0.95).high
    )
    assert score.detail["mean_confidence"] == pytest.approx(7 * 0.5 / 30)

    # of as many coins as there are probes, each with its own chance: coefficients of a product
    hits = np.ones(1)

    for number in range(30):
        chance = chance_of("ticker_top1", samples.facts(number))
        hits = np.convolve(hits, [1 - chance, chance])

    assert score.detail["p_value"] == pytest.approx(hits[7:].sum())

    # all of it is strict JSON
    dumps_canonical([[record.facts, record.scores] for record in records])
    for score in summary.values():
        dumps_canonical(
            [
                score.value,
                score.baseline,
                dict(score.detail),
                score.interval and score.interval.to_json(),
            ]
        )
        assert {type(value) for value in (score.value, score.baseline)} <= {float, type(None)}


# ---- rates


@pytest.mark.parametrize("number", [0, 3, 9])
def test_chance_is_what_a_member_of_the_board_and_a_day_of_the_period_give(
    samples: Any, number: int
) -> None:
    start, stop = samples.period
    facts = samples.facts(number)
    probe = samples.probes[number]
    peers = [
        asset
        for asset in range(48)
        if MARKET.member[probe.row, asset] and MARKET.boards[asset] is probe.board
    ]
    same = [asset for asset in peers if MARKET.industries[asset] == MARKET.industries[probe.asset]]
    expected = {
        "ticker_top1": 1 / len(peers),
        "ticker_top5": min(1.0, 5 / len(peers)),
        "board": 1.0,
        "sector": len(same) / len(peers),
    }

    for margin in (5, 20, 60):
        near = sum(abs(row - probe.row) <= margin for row in range(start, stop))
        expected[f"date_within_{margin}"] = near / (stop - start)

    expected["joint"] = expected["ticker_top5"] * expected["date_within_5"]

    assert {name: chance_of(name, facts) for name in expected} == expected


def test_invalid_answers_are_counted_and_excluded_from_scores_and_chances(
    samples: Any,
) -> None:
    answered = range(0, 12, 3)
    failed = {1: "fallback", 2: "fallback", 4: "error"}
    records = [record_of(samples, number, gold(samples, number)) for number in answered]
    records += [record_of(samples, number, None, why) for number, why in failed.items()]
    summary = summary_of(records)
    lost = summary.pop("unparsable_rate")
    assert summary.pop("label_rate").value == 0.0

    assert (lost.value, lost.n, lost.baseline) == (3 / 7, 7, None)
    assert lost.detail["by_provenance"] == {"error": 1, "fallback": 2}
    assert lost.interval is not None

    for name, score in summary.items():
        chances = [chance_of(name, samples.facts(number)) for number in answered]
        assert (score.value, score.n, score.baseline) == (
            1.0,
            4,
            pytest.approx(math.fsum(chances) / 4),
        ), name
        # silence is neither a miss nor a hit: both are shown, over all probes
        assert score.detail["with_unanswered"] == {"n": 7, "low": 4 / 7, "high": 1.0}

    nothing = summary_of([record_of(samples, 0, None, "error")])

    assert nothing["joint"].value is None
    assert "no probe has a valid answer" in nothing["joint"].reason
    assert nothing["unparsable_rate"].value == 1.0
    assert summary_of([])["unparsable_rate"].value is None


@on_each_row(
    "tickers, sector, in_labels",
    (["asset_9004"], "sector_43", (True, True)),
    ([" asset_9004.", "asset_0012"], "Sector_43?", (True, True)),
    (["asset_9004", "600519"], "sector_43 (banks)", (False, False)),
    (["asset_9004 Kweichow Moutai"], "the 43rd sector", (False, False)),
    ([], None, (False, False)),
    (["", "Moutai"], "", (False, False)),
)
def test_an_answer_is_in_labels_if_it_says_nothing_else(
    tickers: list[str], sector: str | None, in_labels: tuple[bool, bool]
) -> None:
    given = answer(tickers=tickers, sector=sector)
    assert (is_stock_in_labels(given), is_sector_in_labels(given)) == in_labels


def test_answers_in_labels_are_not_attempts_and_counted(samples: Any) -> None:
    """By hand: of six answers one is right, and two name the stock by a label, two the industry, one
    of them both.
    """
    given = [
        gold(samples, 0),
        answer(tickers=["000000"], sector="none"),
        answer(),
        answer(tickers=["asset_9004"], sector="none"),
        answer(tickers=["asset_9004"], sector="sector_43"),
        answer(tickers=["000000"], sector="sector_43"),
    ]
    records = [record_of(samples, number, each) for number, each in enumerate(given)]
    summary = summary_of(records)

    for name in ("ticker_top1", "ticker_top5", "joint", "sector"):
        assert (summary[name].value, summary[name].n) == (1 / 4, 4), name
        assert summary[name].interval == wilson(1, 4, 0.95)
        bounds = {"n": 6, "low": 1 / 6, "high": 1 / 2}
        assert summary[name].detail["with_unanswered"] == bounds

    assert (summary["date_within_5"].n, summary["board"].n) == (6, 6)

    labels = summary["label_rate"]
    assert (labels.value, labels.n) == (1 / 2, 6)
    assert (labels.detail["stock"], labels.detail["industry"]) == (2, 2)
    assert "2 name the stock and 2 the industry" in str(labels.detail["verdict"])
    assert "verdict" not in summary_of(records[:3])["label_rate"].detail

    only = summary_of([record_of(samples, 0, answer(tickers=["asset_9004"], sector="sector_43"))])
    assert only["ticker_top5"].value is None
    assert (
        only["ticker_top5"].reason == "every answer is a label of the mask, which is not an attempt"
    )


def test_probes_without_a_gold_industry_do_not_count_for_it(samples: Any) -> None:
    unknown = samples_of(replace(MARKET, industries=("unknown",) * len(MARKET.codes)))
    records = [
        record_of(unknown if number < 2 else samples, number, gold(samples, number))
        for number in range(4)
    ]

    assert [
        (record.facts["sector"], record.facts["sector_members"], record.scores["sector"])
        for record in records[:2]
    ] == [(None,) * 3] * 2

    score = summary_of(records)["sector"]
    nothing = summary_of(records[:2])["sector"]

    assert (score.value, score.n) == (1.0, 2)
    assert 0.0 < score.detail["always_the_largest"] <= 1.0
    assert (nothing.value, nothing.n) == (None, 0)
    assert nothing.reason


# ==== attackers of known strength: one that reads, one that guesses


RATES = (
    "ticker_top1",
    "ticker_top5",
    "board",
    "sector",
    "date_within_5",
    "date_within_20",
    "date_within_60",
    "joint",
)
SETS = 1000
PROBE_SETS = 10
MARGIN = 0.015


@cache
def synthetic() -> MarketSnapshot:
    return open_snapshot(load_plugins(), "synthetic", {})


def sample_sets_of(market: MarketSnapshot, seed: int, mask: str = "blinded") -> list[Any]:
    """The five default windows: 200 probes."""
    task = task_of(mask)
    return [samples_of(market, mask, task.windows[name], seed) for name in task.default_windows]


# ---- the one that reads


@pytest.mark.exhaustive
@on_each_row(
    "mask, recovered",
    (
        "bright",
        [
            "ticker_top1",
            "ticker_top5",
            "board",
            "sector",
            "date_within_5",
            "date_within_20",
            "date_within_60",
            "joint",
        ],
    ),
    ("stock_blind", ["board", "date_within_5", "date_within_20", "date_within_60"]),
    ("date_blind", ["ticker_top1", "ticker_top5", "board", "sector"]),
    ("blinded", ["board"]),
)
def test_a_reader_recovers_all_that_is_shown_and_nothing_that_is_hidden(
    mask: str, recovered: list[str]
) -> None:
    """No hit in 20 probes: the share may still be as large as 1 - 0.05^(1/20), and no test of
    chance is failed.
    """
    market = small_market()
    summary = task_of(mask).summarise(attack(samples_of(market, mask), market, Reader(), range(20)))

    assert {name: summary[name].value for name in RATES} == {
        name: float(name in recovered) for name in RATES
    }
    assert summary["unparsable_rate"].value == 0.0

    joint = summary["joint"].detail

    if mask == "bright":
        assert joint["p_value"] < 1e-12
    else:
        assert (joint["upper_95"], joint["p_value"]) == pytest.approx((1 - 0.05 ** (1 / 20), 1.0))


# ---- the one that guesses


@cache
def simulated() -> dict[str, list[tuple[int, float, tuple[float, ...]]]]:
    """A thousand sets of 200 answered probes of the embedded market: score -> hits, baseline and
    chances of each set.

    Ten sets of probes, a hundred guesses at each; every guess is an answer that goes through the
    real scoring.
    """
    market = synthetic()
    chance = random.Random(20240401)
    sets: dict[str, list[tuple[int, float, tuple[float, ...]]]] = {name: [] for name in RATES}

    for seed in range(PROBE_SETS):
        probes = []
        for sample_set in sample_sets_of(market, seed):
            numbers = range(len(sample_set))
            probes += [(sample_set, number, sample_set.facts(number)) for number in numbers]

        chances = {}
        for name in RATES:
            chances[name] = tuple(chance_of(name, facts) for _, _, facts in probes)

        for _ in range(SETS // PROBE_SETS):
            scores = [
                sample_set.score(number, random_answer(facts, sample_set, market, chance))
                for sample_set, number, facts in probes
            ]
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
    """Variance of the number of hits, as a share of that of as many probes with one and the same
    chance.
    """
    mean = sum(chances) / len(chances)
    return (
        sum(p * (1 - p) for p in chances) / (len(chances) * mean * (1 - mean)) if mean < 1 else 1.0
    )


def exact_coverage(chances: tuple[float, ...]) -> float:
    """How often Wilson's interval covers the baseline when hits follow these chances, without
    simulation.
    """
    mean = sum(chances) / len(chances)
    n = len(chances)
    distribution = poisson_binomial(chances)

    return float(sum(p for hits, p in enumerate(distribution) if covers(hits, n, mean)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RATES)
def test_intervals_and_bounds_of_a_random_attacker_cover_as_stated(name: str) -> None:
    """95 % ± 1.5 % wherever chance gives five hits or more in a set, and the probes have chances
    that are alike.

    Wilson's interval takes all probes for equally hard. Where they are not (five codes for a board
    of five members are sure to hit, for the main board they hardly do), hits vary less than it
    allows for, and it covers more often than it says. Below five hits, whole steps are too coarse
    to come near to 95 %; that is what the exact bound is for.
    """
    sets = simulated()[name]

    assert len(sets) == SETS

    # Over all sets a guess hits as often as computed, and the exact bound holds for rare events,
    # too.
    every = [*chain.from_iterable(chances for _, _, chances in sets)]
    error = math.sqrt(sum(chance * (1 - chance) for chance in every))

    assert sum(hits for hits, _, _ in sets) == pytest.approx(sum(every), abs=4 * error + 1e-6)

    held = (
        sum(
            clopper_pearson_upper(hits, len(chances), 0.95) >= baseline - 1e-12
            for hits, baseline, chances in sets
        )
        / SETS
    )

    assert held >= 0.95 - MARGIN

    exact_hits, (_, baseline, chances) = poisson_binomial(sets[0][2]), sets[0]
    bounds = [clopper_pearson_upper(hits, len(chances), 0.95) for hits in range(len(exact_hits))]

    assert (
        sum(p for p, bound in zip(exact_hits, bounds, strict=True) if bound >= baseline - 1e-12)
        >= 0.95
    )

    if name == "board":  # it is shown
        return

    covered = sum(covers(hits, len(chances), baseline) for hits, baseline, chances in sets) / SETS
    expected = min(baseline * len(chances) for _, baseline, chances in sets)
    even = min(evenness(chances) for _, _, chances in sets)

    assert covered >= 0.95 - MARGIN or expected < 5
    assert covered <= 0.95 + MARGIN or expected < 5 or even < 0.95

    # What the discreteness of these very probe sets allows is known exactly; the simulation must
    # agree (four standard errors).
    exact = (
        sum(exact_coverage(chances) for _, _, chances in sets[:: SETS // PROBE_SETS]) / PROBE_SETS
    )

    assert covered == pytest.approx(exact, abs=4 * (exact * (1 - exact) / SETS) ** 0.5 + 1e-9)


@pytest.mark.slow
def test_a_summary_of_guesses_is_no_better_than_chance() -> None:
    """The whole road once: 200 probes, guessed at and summarised."""
    market = synthetic()
    chance = random.Random(7)
    records = []

    for sample_set in sample_sets_of(market, 3):
        records += [
            record_of(sample_set, n, random_answer(sample_set.facts(n), sample_set, market, chance))
            for n in range(len(sample_set))
        ]

    summary = task_of("blinded").summarise(records)
    for name in RATES:
        score = summary[name]
        assert score.n == 200
        assert score.detail["p_value"] > 0.01, name
        assert set(score.detail["by_window"]) == {"W1", "W4", "W6", "W8", "W10"}


# ---- the embedded market and a real one


def boards_of(sample_set: Any) -> Counter[str]:
    return Counter(str(probe.board) for probe in sample_set.probes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mask", PROBES)
def test_the_embedded_market_is_probed_over_four_boards(mask: str) -> None:
    market = synthetic()
    for sample_set in not_empty(sample_sets_of(market, 0, mask)):
        boards = boards_of(sample_set)
        members = sample_set.facts(0)["members"]
        assert boards.total() == 40
        assert boards.keys() <= {"main", "chinext", "star", "bse"}
        n_bse = boards.pop("bse")
        assert n_bse <= 10
        # one probe a stock: members of the window, which change at a review
        assert n_bse <= members["bse"] + 2
        assert len(boards) == 3
        assert max(boards.values()) - min(boards.values()) <= 1
        attack(sample_set, market, Reader(), range(0, 40, 20))


@pytest.mark.shared_data
def test_a_real_market_is_probed_over_the_boards_that_its_index_has(
    shared_data: Path, tmp_path: Path
) -> None:
    market = load_snapshot(import_real(shared_data, tmp_path / "csi300"))
    assert set(market.industries) - {"unknown"} <= _industry_names().keys()

    for sample_set in sample_sets_of(market, 0):
        boards = boards_of(sample_set)
        assert boards.keys() < {"main", "chinext", "star", "bse"}
        assert sorted(boards.values()) == [13, 13, 14]
        records = attack(sample_set, market, Reader(), range(0, 40, 13))
        assert not any(
            record.scores["ticker_top5"] or record.scores["date_within_60"] for record in records
        )
        assert "The data are real" in sample_set.sample(0).system

    bright = sample_sets_of(market, 0, "bright")[1]
    summary = task_of("bright").summarise(attack(bright, market, Reader(), range(0, 40, 5)))

    assert all(summary[name].value == 1.0 for name in RATES)
