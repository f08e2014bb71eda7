"""What counts as recovered: codes in any vendor's style, dates by trading days, boards and industries in many spellings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from deanon_play import NOTHING, samples_of
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval_deanon.answer import ANSWER_FORM, days_off, names_sector, sector_keys, tickers_of
from ktdfin_market import small_market


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return small_market()


def answer(**fields: Any) -> dict[str, Any]:
    return {**NOTHING, **fields}


@pytest.mark.parametrize(
    "text",
    [
        "600519", "600519.SH", "600519.SS", "SH600519", "sh.600519", "600519.XSHG", " 600519.sh ", "６００５１９",
        "600519 Kweichow Moutai", "贵州茅台（600519）", "Kweichow Moutai (600519.SH)", "600519:SH",
    ],
)  # fmt: skip
def test_a_code_is_understood_in_any_vendors_style(text: str) -> None:
    assert tickers_of(answer(tickers=[text])) == ("600519.SH",)


def test_what_is_no_code_is_left_out_and_repeats_count_once() -> None:
    assert tickers_of(answer(tickers=["asset_0042", "Moutai", "600519", "600519.SH", "000858"])) == ("600519.SH", "000858.SZ")
    assert tickers_of(answer(tickers=["6005190", "", "60051"])) == ()
    assert tickers_of(answer(tickers=[f"{code}" for code in range(600001, 600010)])) == tuple(
        f"{code}.SH" for code in range(600001, 600006)
    )


DAYS = np.array(["2024-04-01", "2024-04-02", "2024-04-03", "2024-04-08", "2024-04-09"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    ("date", "row", "off"),
    [
        ("2024-04-03", 2, 0),
        ("2024-04-08", 2, 1),
        ("2024-04-01", 3, 3),
        ("2024-04-05", 2, 0),  # a holiday counts as the trading day beside it that is nearer to the true one
        ("2024-04-05", 3, 0),
        ("2024-04-06", 1, 1),
        ("2024-04-06", 4, 1),
        ("2024-03-31", 0, None),  # outside the data
        ("2024-04-10", 4, None),
        ("2024-02-30", 0, None),  # no date
        ("0000-00-00", 0, None),
        (None, 0, None),
    ],
)
def test_a_date_is_off_by_trading_days(date: str | None, row: int, off: int | None) -> None:
    assert days_off(answer(date=date), DAYS, row) == off


def test_the_margins_count_trading_days_and_include_their_ends(market: MarketSnapshot) -> None:
    exam = samples_of(market)
    row = exam.probes[0].row
    for off, within in ((0, (True, True, True)), (5, (True, True, True)), (6, (False, True, True)), (20, (False, True, True))):
        scores = exam.score(0, answer(date=str(market.days[row - off])))
        assert tuple(scores[f"date_within_{margin}"] for margin in (5, 20, 60)) == within
    assert exam.score(0, answer(date=str(market.days[row - 60])))["date_within_60"]
    assert not exam.score(0, answer(date=str(market.days[row - 61])))["date_within_60"]


def test_first_place_and_the_other_four_are_told_apart(market: MarketSnapshot) -> None:
    exam = samples_of(market)
    gold, day = exam.facts(2)["code"], exam.facts(2)["day"]
    others = [code for code in market.codes if code != gold]
    first = exam.score(2, answer(tickers=[gold, *others[:4]], date=day))
    assert (first["ticker_top1"], first["ticker_top5"], first["joint"]) == (True, True, True)
    fifth = exam.score(2, answer(tickers=[*others[:4], gold], date=day))
    assert (fifth["ticker_top1"], fifth["ticker_top5"], fifth["joint"]) == (False, True, True)
    none = exam.score(2, answer(tickers=others[:5], date=day))
    assert (none["ticker_top1"], none["ticker_top5"], none["joint"]) == (False, False, False)
    late = exam.score(2, answer(tickers=[gold], date=str(market.days[exam.probes[2].row - 6])))
    assert (late["ticker_top5"], late["date_within_20"], late["joint"]) == (True, True, False)


def test_an_answer_of_nothing_recovers_nothing(market: MarketSnapshot) -> None:
    assert not any(samples_of(market).score(0, NOTHING).values())


@pytest.mark.parametrize(
    ("text", "board"),
    [
        ("main", "main"), ("Main Board", "main"), ("SSE main board", "main"), ("深市主板", "main"),
        ("ChiNext", "chinext"), ("GEM", "chinext"), ("创业板", "chinext"), ("SZSE ChiNext", "chinext"),
        ("STAR", "star"), ("STAR Market", "star"), ("科创板", "star"),
        ("BSE", "bse"), ("Beijing Stock Exchange", "bse"), ("北交所", "bse"),
        ("main or chinext", None), ("Shanghai", None), ("starting", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_a_board_is_understood_in_english_and_chinese(market: MarketSnapshot, text: str | None, board: str | None) -> None:
    exam = samples_of(market)
    for number in range(8):
        assert exam.score(number, answer(board=text))["board"] is (exam.facts(number)["board"] == board)


@pytest.mark.parametrize(
    ("text", "industry"),
    [
        ("银行", "银行"), ("Banks", "银行"), ("banking sector", "银行"), ("银行业", "银行"), ("Banking (A-share)", "银行"),
        ("Securities brokerage", "证券"), ("券商", "证券"), ("Baijiu", "白酒"), ("白酒板块", "白酒"), ("Food & Beverage", "白酒"),
        ("Semiconductor industry", "半导体"), ("Pharmaceuticals", "化学制药"), ("pharmaceuticals", "生物制药"),
        ("Zephrite 3", "Zephrite 3"), ("ZEPHRITE 3", "Zephrite 3"),
    ],
)  # fmt: skip
def test_an_industry_is_known_by_its_other_names(text: str, industry: str) -> None:
    assert names_sector(answer(sector=text), industry)


@pytest.mark.parametrize(
    ("text", "industry"),
    [
        ("Insurance", "银行"), ("insurance, banks", "银行"), ("Zephrite 4", "Zephrite 3"), ("sector_07", "银行"),
        ("sector", "银行"),
        ("", "银行"), (None, "银行"), ("unknown", "白酒"),
    ],
)  # fmt: skip
def test_another_industry_or_a_list_of_all_is_no_hit(text: str | None, industry: str) -> None:
    assert not names_sector(answer(sector=text), industry)


def test_a_stock_without_an_industry_has_no_score_for_it(market: MarketSnapshot) -> None:
    exam = samples_of(replace(market, industries=("unknown",) * len(market.codes)))
    assert exam.facts(0)["sector"] is None
    assert exam.facts(0)["sector_members"] is None
    assert exam.score(0, answer(sector="unknown"))["sector"] is None


def test_no_industry_of_the_table_is_without_a_name_of_its_own() -> None:
    from ktdeval_deanon.answer import _industry_names

    for industry, others in _industry_names().items():
        assert sector_keys(industry), industry
        assert others, industry
        assert len(set(others)) == len(others), industry


def test_the_form_takes_what_it_says_and_nothing_else() -> None:
    validator = Draft202012Validator(dict(ANSWER_FORM.parameters))
    assert validator.is_valid(NOTHING)
    assert validator.is_valid(answer(tickers=["600519"] * 5, date="2024-04-01", sector="banks", board="main", confidence=1))
    for wrong in (
        {"tickers": ["600519"] * 6}, {"tickers": "600519"}, {"date": "April 2024"}, {"date": "20240401"}, {"confidence": 1.5},
        {"confidence": None}, {"reasoning": None}, {"more": 1},
    ):  # fmt: skip
        assert not validator.is_valid(answer(**wrong)), wrong
    assert not validator.is_valid({key: value for key, value in NOTHING.items() if key != "date"})
