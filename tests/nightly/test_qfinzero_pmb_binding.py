"""What is sent inside a bar changes nothing that the bar fills: each bar is played twice from one
state, with and without it.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from random import Random
from typing import Any

import pytest

from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.pmb import commands as broker_commands
from ktdeval_qfinzero.pmb.broker import Broker
from ktdeval_qfinzero.timestamps import MINUTE, moment_text
from support.qfinzero.qfinzero_broker_play import thing
from support.qfinzero.qfinzero_calls import copied
from support.qfinzero.qfinzero_margin import ids_for
from support.qfinzero.qfinzero_world import at, contracts, small_dataset

STOCKS = ("AVLN", "BRKT", "CSTL")
CONTRACTS = [contract.symbol for contract in contracts() if contract.expiry.month == 2]
HOUR = 60 * MINUTE
Command = tuple[str, dict[str, Any]]


def some_order(random: Random, broker: Broker) -> Command:
    """An order near the last price, with a bracket or in a group now and then."""
    choice = random.choice
    working = list(broker.state.working.values())
    symbol = choice([*STOCKS, choice(CONTRACTS)])
    kind = choice(("MARKET", "LIMIT", "STOP", "STOP_LIMIT"))
    side = choice(("BUY", "SELL"))
    asked: dict[str, Any] = {
        "instrument": thing(symbol),
        "side": side,
        "order_type": kind,
        "qty": choice((1, 30, 300, 5_000)),
    }

    if working and random.random() < 0.3:
        other = choice(working)
        asked |= {
            "instrument": thing(other.instrument.symbol),
            "side": other.side,
            "qty": other.open_qty,
            "oco_with": other.id,
        }

    mark = broker.engine.marks().get(f"{asked['instrument']['type']}:{symbol}", 50_000) / 10_000
    near = {
        name: max(0.01, round(mark * random.uniform(0.98, 1.02), 2))
        for name in ("limit", "stop")
        if name.upper() in kind
    }
    sign = 1 if asked["side"] == "BUY" else -1
    bracket = {"take_profit_price": 1 + 0.04 * sign, "stop_loss_price": 1 - 0.04 * sign}
    asked |= {f"{name}_price": price for name, price in near.items()}
    asked |= {
        name: max(0.01, round(mark * part, 2))
        for name, part in bracket.items()
        if random.random() < 0.2
    }

    return "order.place", {"order": {**asked, "time_in_force": choice(("DAY", "GTC"))}}


def some_command(random: Random, broker: Broker) -> Command:
    choice = random.choice
    state = broker.state
    one = {"order_id": choice([*state.working, "ord-000001"])}
    updates = choice(
        ({"qty": 7}, {"limit_price": choice((50.0, 100.0))}, {"stop_price": choice((50.0, 100.0))})
    )
    positions = chain.from_iterable(each.positions for each in state.accounts.values())
    held = [name[7:] for name in positions if name.startswith("OPTION:")] or CONTRACTS
    begun = {
        "frequency": choice(("1d", "1m")),
        "start_ts": moment_text(broker.clock.as_of_ns),
        "end_ts": "2025-02-07",
    }
    legs = [
        {"side": choice(("BUY", "SELL")), "instrument": thing(name)}
        for name in random.sample(CONTRACTS, 2)
    ]
    known: list[Command] = [
        *(
            some_order(random, broker),
            some_order(random, broker),
            ("order.cancel", one),
            ("order.modify", {**one, "updates": updates}),
        ),
        *(("session.stop", {}), ("account.create", {}), ("spread.place", {"legs": legs, "qty": 2})),
        (
            "option.exercise",
            {"contract": choice(held), **choice(({"qty": 1}, {"do_not_exercise": True}))},
        ),
        (
            "session.create",
            {
                "account_id": choice(list(state.accounts)),
                **begun,
                "universe": {"stocks": list(STOCKS)},
            },
        ),
    ]

    return choice(known)


def send(broker: Broker, name: str, given: dict[str, Any]) -> None:
    """Send a command to the running session, if it is about one; what is refused is passed over."""
    session = broker.engine.session
    ids = ids_for(
        name, *(("none", "none") if session is None else (session.id, session.account_id))
    )

    with suppress(ServiceError):
        broker.execute(name, {**ids, **given})


def differing(seed: int, days: int = 12) -> tuple[int, int]:
    """(bars that filled something, bars whose fills depend on what was sent inside) of a random
    story.
    """
    random = Random(seed)
    dataset = small_dataset()
    workspace = Workspace(dataset, at("2025-01-05T00:00:00Z"))
    broker = workspace.broker
    hours = dataset.info.hours
    filled = 0
    different = 0

    for _ in range(2):
        kind = {
            "initial_cash": random.choice((5_000, 50_000, 5_000_000)),
            "account_type": random.choice(("MARGIN", "CASH")),
        }
        send(broker, "account.create", kind)

    for day in range(days):
        row = int(hours.open_ns.searchsorted(at("2025-01-06T00:00:00Z"))) + day
        workspace.clock.advance(
            max(broker.clock.as_of_ns, int(hours.open_ns[row]) - random.choice((0, 1, HOUR)))
        )
        universe = {"stocks": list(STOCKS), "options": CONTRACTS}
        span = {
            "start_ts": moment_text(broker.clock.as_of_ns),
            "end_ts": "2025-02-07",
            "frequency": random.choice(("1d", "1m")),
        }
        rules = {
            "fills": {"max_volume_pct": random.choice((1, 10, 100))},
            "margin": {"call_days": random.choice((0, 1))},
        }
        account_id = random.choice(list(broker.state.accounts))
        send(
            broker,
            "session.create",
            {"account_id": account_id, **span, "universe": universe, "execution_config": rules},
        )
        session = broker.engine.session
        start_ns = int(hours.open_ns[row])
        end_ns = int(hours.close_ns[row])
        if session is not None and session.frequency == "1m":
            start_ns += random.randrange(380) * MINUTE
            end_ns = start_ns + MINUTE

        workspace.clock.advance(max(broker.clock.as_of_ns, start_ns - random.choice((0, 1))))
        for _ in range(random.choice((1, 3, 6))):
            send(broker, *some_order(random, broker))

        workspace.clock.advance(random.choice((start_ns + 1, (start_ns + end_ns) // 2, end_ns - 1)))
        before = len(broker.state.trades)
        blind = copied(workspace)
        for _ in range(random.choice((2, 8))):
            send(broker, *some_command(random, broker))

        fills = []
        for each in (workspace, blind):
            each.clock.advance(end_ns)
            trades = each.broker.state.trades[before:]
            fills.append(
                sorted(
                    (trade.account_id, trade.instrument.id, trade.qty, trade.price_e4)
                    for trade in trades
                )
            )

        filled = filled + bool(fills[1])
        different = different + (fills[0] != fills[1])

    return filled, different


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_nothing_that_is_sent_inside_a_bar_changes_what_it_fills(first: int) -> None:
    played = [differing(seed) for seed in range(first, first + 10)]
    assert sum(filled for filled, _ in played) > 20
    assert [seed for seed, (_, different) in enumerate(played, first) if different] == []


@pytest.mark.parametrize("field", ["order_id", "session_id", "contract"])
def test_a_broker_that_lets_orders_be_taken_back_is_found_at_once(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders that are cancelled or modified, the end of the session and early exercise, each by
    itself.
    """
    require_no_bar = broker_commands._require_no_bar
    monkeypatch.setattr(
        broker_commands,
        "_require_no_bar",
        lambda *given: None if given[2] == field else require_no_bar(*given),
    )

    assert any(differing(seed)[1] for seed in range(20))
