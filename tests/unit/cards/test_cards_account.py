"""What an account's figures rest on is on its card: fills at a price that was decided on, holdings
whose bars have ended, and orders of which one rule rejected most.
"""

from __future__ import annotations

from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.cards import account_claims, derive_card, parse_card
from ktdeval.cards.card import TradingCard
from ktdeval.cards.fields.returns.assumptions import DECIDED_PRICE_REASON
from ktdeval.cards.fields.returns.rank_correlation import BEYOND_SKILL, correlation_rows
from ktdeval.cards.recomputation_diff import card_difference
from ktdeval.cards.show import make_report
from ktdeval.market.snapshots.snapshot import Instrument
from ktdeval.registry import load_plugins
from ktdeval.task_api.traits import task_traits
from ktdeval.testing import Terminal
from ktdeval.trading import Ledger, Scale, StaleHoldings, stale_holdings
from ktdeval.values import dumps_pretty
from support.figures.card_cases import (
    card as made_card,
    episode,
    stale_card,
    without_bars,
)
from support.figures.metric_cases import CODES, ledger, market, order, spec, step
from support.figures.renewed_cards import renewed_card
from support.market.long_imports import Imports

# ---- holdings without a bar


def held(values: dict[str, int], cash: int = 500) -> Ledger:
    return ledger([step(number, cash, values) for number in range(5)])


def test_the_share_of_a_holding_whose_bars_ended_is_of_the_last_nav() -> None:
    # 350 of 500 + 350 + 150 = 1,000; its last bar is that of 2024-01-04, three days before the end
    market_ = without_bars({CODES[1]: 2})

    found = stale_holdings(held({CODES[0]: 150, CODES[1]: 350}), market_)

    assert found == StaleHoldings(holdings=1, since="2024-01-04", share=0.35)
    assert found is not None
    assert found.words == (
        "35.0 % of the last NAV has had no bar since 2024-01-04 (1 holding, at its last price)"
    )


def test_the_oldest_last_bar_is_named_and_shorts_count_as_positive() -> None:
    market_ = without_bars({CODES[0]: 1, CODES[1]: 3})

    found = stale_holdings(held({CODES[0]: -200, CODES[1]: 200}, cash=1000), market_)

    assert found == StaleHoldings(holdings=2, since="2024-01-03", share=0.4)


def test_holdings_with_a_bar_on_the_last_day_are_not_stale() -> None:
    assert stale_holdings(held({CODES[0]: 500}), without_bars({CODES[1]: 2})) is None


def test_a_share_of_an_account_without_value_is_unknown() -> None:
    found = stale_holdings(held({CODES[1]: 350}, cash=-350), without_bars({CODES[1]: 2}))

    assert found == StaleHoldings(holdings=1, since="2024-01-04", share=None)
    assert found.is_large


def test_bars_after_the_last_day_are_not_read() -> None:
    """A code that is suspended on the last day of an episode may trade again later."""
    early = ledger([step(number, 500, {CODES[1]: 500}) for number in range(3)])
    market_ = without_bars({CODES[1]: 1})

    closes = market_.close.copy()
    closes[5, market_.asset_index[CODES[1]]] = 20.0
    found = stale_holdings(early, replaced(market_, close=closes))

    assert found == StaleHoldings(holdings=1, since="2024-01-03", share=0.5)


def test_a_weekend_of_another_calendar_does_not_make_a_share_stale() -> None:
    """2024-01-06 and 07 are a weekend: coins trade, New York does not."""
    days = np.arange(np.datetime64("2024-01-02"), np.datetime64("2024-01-08"))
    stock = Instrument("stock", "USD", "us_equity")
    coin = Instrument("crypto", "USD", "crypto_spot")
    prices = np.full((6, 2), 10.0)
    prices[4:, 1] = np.nan  # the share, at the weekend
    mixed = replaced(
        market(), days=days, codes=("BTC", "TSLA"), instruments=(coin, stock), rules={},
        open=prices, high=prices, low=prices, close=prices,
    )  # fmt: skip
    steps = []
    for number in range(5):
        on = {"decided_on": str(days[number]), "filled_on": str(days[number + 1])}
        steps.append(step(number, 500, {"BTC": 250, "TSLA": 250}, **on))

    assert stale_holdings(ledger(steps), mixed) is None
    assert stale_holdings(ledger(steps[:4]), mixed) is None

    # without a bar on Friday either, it is stale from Thursday on
    prices = prices.copy()
    prices[3, 1] = np.nan
    found = stale_holdings(ledger(steps), replaced(mixed, close=prices))

    assert found == StaleHoldings(holdings=1, since="2024-01-04", share=0.25)


def test_a_card_names_the_share_and_the_day_above_five_per_cent() -> None:
    card = stale_card({CODES[0]: 150, CODES[1]: 350}, {CODES[1]: 2})

    assert card["episodes"][0]["stale"] == {"holdings": 1, "since": "2024-01-04", "share": 0.35}
    assert "stale value" in card["labels"]

    typed: Any = parse_card(dumps_pretty(card), "card")
    (claim,) = account_claims(typed)
    assert claim.startswith("Value: 35.0 % of the last NAV has had no bar since 2024-01-04")
    assert claim in make_report(typed).claims


def test_a_small_share_is_recorded_without_a_label() -> None:
    card = stale_card({CODES[0]: 475, CODES[1]: 25}, {CODES[1]: 2})

    assert card["episodes"][0]["stale"]["share"] == 0.025
    assert "stale value" not in card["labels"]


# ---- fills at a price that was decided on


def look_ahead_card(**changes: Any) -> Any:
    """A card of fills at the close that was decided on."""
    ahead = Scale(fill="same_close")
    made = replaced(episode(spec(0, call={"temperature": 0.7})), scales={CODES[0]: ahead})
    return made_card(ledgers=[made], **changes)


def test_fills_at_the_decided_price_are_a_label_and_no_rank() -> None:
    card = look_ahead_card()

    assert card["assumptions"] == {"fills": ["same_close"], "free_shorts": False}
    assert "fills at a known price" in card["labels"]
    assert card["rankable"] == {"value": False, "reasons": [DECIDED_PRICE_REASON]}


def test_cards_of_a_task_that_prescribes_such_fills_are_ranked_among_themselves() -> None:
    card = look_ahead_card(prescribes_fills=True)

    assert card["assumptions"]["prescribed"] is True
    assert "fills at a known price" in card["labels"]
    assert card["rankable"]["value"]


def test_fills_at_the_next_open_have_no_label() -> None:
    card = made_card()

    assert card["assumptions"] == {"fills": ["next_open"], "free_shorts": False}
    assert "fills at a known price" not in card["labels"]


def test_a_card_without_its_assumptions_does_not_verify() -> None:
    """It reads as a card from before they were recorded, but its eligibility must follow from the
    records.
    """
    honest = look_ahead_card()
    forged = {name: value for name, value in honest.items() if name != "assumptions"}
    typed: Any = parse_card(dumps_pretty(made_card()), "card")
    forged["labels"] = [label for label in forged["labels"] if label != "fills at a known price"]
    forged["rankable"] = {"value": True, "reasons": []}

    assert parse_card(dumps_pretty(forged), "card") != typed
    assert "rankable" in str(card_difference(forged, honest))


def test_a_card_from_before_assumptions_still_verifies() -> None:
    today = made_card()
    before = {name: value for name, value in today.items() if name != "assumptions"}

    parse_card(dumps_pretty(before), "card")

    assert card_difference(before, today) is None


def test_a_stale_value_can_not_be_hidden_by_leaving_out_the_assumptions() -> None:
    honest = stale_card({CODES[0]: 150, CODES[1]: 350}, {CODES[1]: 2})
    forged = {name: value for name, value in honest.items() if name != "assumptions"}
    forged["episodes"] = [
        {name: value for name, value in each.items() if name != "stale"}
        for each in honest["episodes"]
    ]
    forged["labels"] = [label for label in honest["labels"] if label != "stale value"]

    assert "labels" in str(card_difference(forged, honest))


def test_a_task_at_the_venue_of_a_paper_prescribes_its_fills() -> None:
    plugins = load_plugins()
    prescribes = {}
    for name in ("market_blinded", "investorbench_msft", "ama_tsla_long", "deepfund_berkshire"):
        prescribes[name] = task_traits(plugins.make_task(name)).prescribes_fills

    assert prescribes == {
        "market_blinded": False,
        "investorbench_msft": True,
        "ama_tsla_long": True,
        "deepfund_berkshire": True,
    }


# ---- shorts without a fee


@pytest.mark.parametrize(("cash", "free"), [(0, True), (-3, False)])
def test_shorts_without_a_borrow_fee_are_recorded(cash: int, free: bool) -> None:
    charge = {"kind": "borrow", "code": CODES[0], "shares": 100, "price_ticks": 1, "fee_minor": 0}
    charges = [] if free else [{**charge, "cash_minor": cash}]
    short = {"code": CODES[0], "shares": -100, "locked": 0, "price_ticks": 1, "value_minor": -200}
    steps = []
    for number in range(5):
        more = {"positions": [short], "charges": charges, "orders": [order(side="SELL")]}
        steps.append(step(number, 1200, **more))

    card = made_card(ledgers=[ledger(steps, 1000, spec())])

    assert card["assumptions"]["free_shorts"] is free


# ---- orders that one rule rejected


def order_card(rejected: int, filled: int, rule: str = "lot") -> Any:
    orders = [order(filled=0, rule=rule)] * rejected + [order()] * filled
    steps = [step(0, 500, {CODES[0]: 500}, orders=orders)]
    steps += [step(number, 500, {CODES[0]: 500}) for number in range(1, 5)]
    return made_card(ledgers=[ledger(steps, 1000, spec())])


def test_a_card_whose_orders_one_rule_mostly_rejected_says_so_first() -> None:
    card = order_card(83, 17)

    assert "mostly rejected" in card["labels"]

    typed: Any = parse_card(dumps_pretty(card), "card")
    assert list(account_claims(typed)) == [
        "Orders: 83 of 100 were rejected by one rule (lot), so the figures describe the orders that"
        " it left. Give the account more cash: one lot costs more than the weights ordered.",
        "Failures and repairs: 83 of 100 orders rejected or cut: lot 83.",
    ]


@pytest.mark.parametrize(("rejected", "filled"), [(0, 0), (0, 3), (50, 50), (2, 5)])
def test_half_of_the_orders_or_fewer_are_no_label(rejected: int, filled: int) -> None:
    assert "mostly rejected" not in order_card(rejected, filled)["labels"]


def test_two_rules_that_reject_less_than_half_each_are_no_label() -> None:
    orders = [order(filled=0, rule="lot")] * 4 + [order(filled=0, rule="cash")] * 4
    steps = [step(number, 500, {CODES[0]: 500}, orders=[*orders, order()]) for number in range(5)]

    assert "mostly rejected" not in made_card(ledgers=[ledger(steps, 1000, spec())])["labels"]


def test_labels_follow_from_the_card() -> None:
    card: Any = parse_card(dumps_pretty(order_card(83, 17)), "card")

    assert derive_card(card) == card


# ---- an own market


@pytest.mark.slow
def test_a_market_of_known_prices_says_so_at_its_import(terminal: Terminal, tmp_path: Path) -> None:
    imports = Imports(tmp_path, terminal)
    lines = ["date,code,close"]
    for number, day in enumerate(np.arange("2024-01-02", "2024-02-10", dtype="datetime64[D]")):
        lines.append(f"{day},AAA,{10 + 0.1 * (number % 7)}")

    imports.made("\n".join(lines) + "\n", "--venue", "frictionless_long")

    assert (
        "venue frictionless_long fills at the close that was decided on: a look-ahead"
        in imports.printed
    )


# ---- holdings and next returns


def foreseen(floor: float) -> dict[str, Any]:
    """A card with this lower bound, and everything that follows from it."""
    plain = made_card()
    plain["rank_correlation"] = {
        "value": 0.9,
        "over": "assets",
        "days": 42,
        "interval": {
            "low": 0.8,
            "high": 0.95,
            "level": 0.95,
            "kind": "betting, by calendar day",
            "n": 42,
        },
        "floor": floor,
        "spearman": 0.3,
    }
    return renewed_card(plain)


def test_a_card_that_orders_the_next_returns_beyond_any_skill_is_not_ranked() -> None:
    card = foreseen(0.151)

    assert "beyond skill" in card["labels"]
    assert BEYOND_SKILL in card["rankable"]["reasons"]
    assert "beyond skill" not in foreseen(0.15)["labels"]
    assert BEYOND_SKILL not in foreseen(0.15)["rankable"]["reasons"]


def printed(floor: float) -> dict[str, str]:
    facts = parse_card(dumps_pretty(foreseen(floor)), "card.json")
    assert isinstance(facts, TradingCard)
    return dict(correlation_rows(facts.rank_correlation, facts))


def test_the_printed_card_says_the_correlation_with_its_interval_and_floor() -> None:
    words = "+0.900 [95 %: +0.800 … +0.950] across assets, 42 days"
    beyond = f"{words}; above 0.600 at 99.999 %, published skill ≤ 0.15"

    assert printed(-0.2) == {"holding ranks": words}
    assert printed(0.6) == {"holding ranks": beyond}


def test_a_card_without_the_label_that_follows_from_its_records_does_not_verify() -> None:
    """Who removes the field, as if the card was older, still has to keep label and eligibility."""
    recomputed = foreseen(0.6)
    older = {name: value for name, value in recomputed.items() if name != "rank_correlation"}
    stripped = {**older, "labels": [one for one in older["labels"] if one != "beyond skill"]}

    assert card_difference(older, recomputed) is None
    assert "labels" in (card_difference(stripped, recomputed) or "")
