"""Pages of other markets than A-shares: money, prices and quantities in the units that a ledger of version 2 states."""

from __future__ import annotations

from ktdeval.trading import Ledger
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import from_plain, to_plain
from ktdeval_view.units import step_in_units
from ledger_cases import short_ledger


def test_a_step_of_version_2_is_shown_in_units_of_currency_and_shares() -> None:
    ledger = short_ledger()
    step = step_in_units(ledger, ledger.steps[1])
    assert (step["nav"], step["cash"]) == (960.0, 1230.0)
    assert (
        step["orders"][0] | {"filled_shares": 0.5, "shares": 0.5, "price": 300.0, "notional": 150.0, "fee": 1.0}
        == step["orders"][0]
    )
    assert step["positions"] == [{"code": "TSLA", "shares": -0.9, "locked": 0.0, "price": 300.0, "value": -270.0}]
    assert [(charge["kind"], charge["shares"], charge["cash"]) for charge in step["charges"]] == [
        ("borrow", -1.0, -0.12),
        ("margin_call", 0.1, -31.0),
    ]
    assert not any(name.endswith(("_minor", "_ticks")) for name in step)


def test_a_step_in_a_shares_keeps_whole_shares_and_has_no_charges() -> None:
    record = to_plain(short_ledger().steps[0])
    del record["charges"]
    ledger = Ledger({}, 100_000, [from_plain(record, StepRecord, "record")])
    step = step_in_units(ledger, ledger.steps[0])
    assert (step["orders"][0]["filled_shares"], step["orders"][0]["price"], "charges" in step) == (15_000, 300.0, False)
    assert isinstance(step["orders"][0]["filled_shares"], int)
