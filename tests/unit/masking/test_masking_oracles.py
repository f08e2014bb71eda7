"""What answers a question tells no digit that the mask does not show, whatever is asked, day after day."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ktdeval.masking.draws import cut_significant, round_significant
from ktdeval.masking.lens import Lens, MaskConfig
from ktdeval.masking.payload import Price, Shares
from ktdfin_market import small_market
from ktdfin_play import PLUGINS, Play
from oracle_play import Prober, scaled_below

MARKET = small_market()
BASE = 304  # the day before the window of `spec_of`
STEPS = 12


def played(task: str, market: Any, most: float = 0.7) -> tuple[list[str], Play]:
    prober = Prober(most)
    play = Play(PLUGINS.make_task(task), prober, market)
    play.run(STEPS)
    return prober.requests, play


def test_two_markets_that_a_mask_shows_alike_answer_every_question_alike() -> None:
    """No question, order, fill, rejection, cost, cash or NAV tells which of two markets it is: their prices differ below three
    digits. Fills are at the true prices of each.
    """
    base = PLUGINS.make_task("blinded_rebased_open_research").scene
    other = scaled_below(MARKET, Play(PLUGINS.make_task("blinded_rebased_open_research"), Prober(), MARKET).scene.lens.base_row, 3)
    assert base is not None
    changes = np.abs(other.close[-1] / MARKET.close[-1] - 1.0)
    assert np.nanmedian(changes) > 5e-4, "far more than a fen"
    (one, first), (two, second) = (played("blinded_rebased_open_research", market) for market in (MARKET, other))
    assert len(one) > 4 * STEPS
    assert one == two
    filled = [order for record in first.records for order in record.orders if order.filled_shares]
    ends = Counter(order.rule for record in first.records for order in record.orders)
    assert len(filled) > 20
    assert ends.keys() > {"lot", "weight_limit"}, ends
    assert [record.nav_minor for record in first.records] != [record.nav_minor for record in second.records]
    assert [[order.filled_shares for order in record.orders] for record in first.records] == [
        [order.filled_shares for order in record.orders] for record in second.records
    ]
