"""Figures that no prompt may show are found, and proper ones are not."""

from __future__ import annotations

import pytest

from support.tasks.odd_figures import odd_figures

ODD = [
    ("the account holds 1e+06 CNY", "exponent of a raw float"),
    ("a return of 0.30000000000000004", "digits of a raw float"),
    ('Account:\n{"cash": 9.0011e5, "positions": []}', "money with an exponent"),
    ("NAV of 1e6 at the close", "money with an exponent"),
    ("at most 2e5 CNY an order", "money with an exponent"),
    ("a Sharpe ratio of NaN", "no number"),
    ("mean: nan", "no number"),
    ("above its 10/20 average", "figure of two numbers"),
    ('Orders: [{"side": "BUY", "fee": null}, {"side": "SELL", "fee": null}]', "/fee of 2 rows"),
    ('{"day": {"columns": ["a", "b"], "rows": [[1, null], [2, null]]}}', "/day/rows/b of 2 rows"),
]
PROPER = [
    "volumes as 2.4e7, and 1.2e8 traded",
    '{"cash": 900110.0, "volume": 2.4e7, "amount": 1.2e8}',
    '[{"side": "BUY", "fee": null}, {"side": "SELL", "fee": 0.5}]',
    '[{"side": "BUY", "fee": null}]',
    '{"columns": ["a", "b"], "rows": [[1, null], [2, 3]]}',
    "5/10 of the candidates; on 2 of 3 days; None of them",
    "momentum over 10 and 20 days",
]


@pytest.mark.parametrize(("text", "kind"), ODD)
def test_an_odd_figure_is_found_with_its_kind(text: str, kind: str) -> None:
    (found,) = odd_figures(text)
    assert kind in found


@pytest.mark.parametrize("text", PROPER)
def test_a_proper_figure_is_left_alone(text: str) -> None:
    assert list(odd_figures(text)) == []
