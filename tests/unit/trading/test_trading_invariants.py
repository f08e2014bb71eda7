"""Each invariant catches the defect it is there for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktdeval.errors import InvariantError
from ktdeval.trading.account import Settlement, check_step
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Order, Position, TradingConfig
from trading_market import CODES, make_market

CONFIG = TradingConfig()
MARKET = make_market(
    [CODES["main2"], CODES["main"]],
    [[10.0, 20.0], [10.1, 10.2]],
    closes=[[10.0, 20.0], [10.3, 10.1]],
    factor=[[1.0, 1.0], [1.0, 1.97]],
)
DAY = MarketTape.from_snapshot(MARKET, CONFIG).day(1)
BEFORE = Account(10_000_000, {0: Position(500, 100), 1: Position(300)})
ACTION = (Order(0, "SELL", 0.5, "", shares=200), Order(1, "BUY", 0.5, "", shares=100), Order(None, "BUY", 0.5, "", shares=100))
GOOD = settle(BEFORE, DAY, ACTION, CONFIG, 0)


def tampered_after(cash: int = 0, **positions: Position) -> Settlement:
    """GOOD with other cash (by a difference) or positions (`p0`, `p1`, `p7`: shares 0 removes), NAV kept consistent."""
    held = {**GOOD.after.positions, **{int(name[1:]): position for name, position in positions.items()}}
    held = {asset: position for asset, position in held.items() if position != Position(0)}
    return GOOD._replace(after=Account(GOOD.after.cash_fen + cash, held))


def test_a_day_booked_by_the_executor_passes() -> None:
    assert [outcome.status for outcome in GOOD.outcomes] == ["filled", "filled", "rejected"]
    assert GOOD.after.positions == {0: Position(300), 1: Position(691, 100)}
    assert len(GOOD.corporate_actions) == 1
    assert GOOD.nav_fen == GOOD.after.cash_fen + 30 * 10_300 + 691 * 1_010
    check_step(GOOD, DAY, decided_row=0)


def test_a_decision_on_the_fill_day_is_a_breach() -> None:
    with pytest.raises(InvariantError, match="not before the fill"):
        check_step(GOOD, DAY, decided_row=1)


CHANGE = GOOD.corporate_actions[0]
BREACHES: dict[str, tuple[str, Callable[[], Settlement]]] = {
    "cash appears": ("the fills give", lambda: tampered_after(cash=1)),
    "cash is negative": ("cash is negative", lambda: tampered_after(cash=-GOOD.after.cash_fen - 1)),
    "shares appear": ("the fills give others", lambda: tampered_after(p0=Position(400))),
    "a lock is forgotten": ("the fills give others", lambda: tampered_after(p1=Position(691, 0))),
    "more is locked than held": ("of them locked", lambda: tampered_after(p0=Position(300, 301))),
    "an empty position is kept": (
        "holds 0 shares",
        lambda: GOOD._replace(after=Account(GOOD.after.cash_fen, {**GOOD.after.positions, 7: Position(0)})),
    ),
    "a position vanishes": ("a position is missing", lambda: tampered_after(p0=Position(0))),
    "NAV is off by a fen": ("is not cash", lambda: GOOD._replace(nav_fen=GOOD.nav_fen + 1)),
    "holdings and NAV are off together": (
        "is not cash",
        lambda: GOOD._replace(nav_fen=GOOD.nav_fen + 1, holdings_fen=GOOD.holdings_fen + 1),
    ),
    "an order has no outcome": ("have 2 outcomes", lambda: GOOD._replace(outcomes=GOOD.outcomes[:2])),
    "a fill is booked twice": ("the fills give", lambda: GOOD._replace(outcomes=(GOOD.outcomes[0], *GOOD.outcomes[:2]))),
    "a split makes money": (
        "makes or loses money",
        lambda: GOOD._replace(corporate_actions=(CHANGE._replace(cash_fen=CHANGE.cash_fen + 1),)),
    ),
    "a split takes cash": ("takes cash", lambda: GOOD._replace(corporate_actions=(CHANGE._replace(cash_fen=-1),))),
    "a split is booked twice": ("starts from another holding", lambda: GOOD._replace(corporate_actions=(CHANGE, CHANGE))),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_defect_of_the_books_is_caught(name: str) -> None:
    message, defect = BREACHES[name]
    with pytest.raises(InvariantError, match=message):
        check_step(defect(), DAY, decided_row=0)


def test_the_message_names_the_fill_day_and_blames_the_engine() -> None:
    with pytest.raises(InvariantError, match=r"^fill day 1: .*defect of the engine"):
        check_step(tampered_after(cash=1), DAY, decided_row=0)
