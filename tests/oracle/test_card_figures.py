"""Every figure of a card of a short run on a small market follows from its ledgers and prices,
without ktdeval's arithmetic.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.accept.accept_figures import Prices
from support.accept.accept_runs import evaluate
from support.figures.card_checks import check_card
from support.tasks.ktdfin_market import FIRST, LAST

RUNS = {
    "chaos": ("builtin/chaos", "blinded_open_research"),
    "random": ("builtin/random", "blinded_fixed_candidate"),
    "hold": ("builtin/hold", "blinded_memory_only"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_every_figure_of_a_card_follows_from_ledgers_and_prices(
    name: str, market: Path, tmp_path: Path
) -> None:
    model, task = RUNS[name]
    words = ("--data", str(market), "--windows", f"{FIRST}:{LAST}", "--seeds", "2")
    run = evaluate(tmp_path / "run", model, [task], *words).path

    for rules in ("strict", "paper"):
        (tmp_path / rules).mkdir()
        check_card(run, Prices(market), rules, tmp_path / rules)
