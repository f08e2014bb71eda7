"""`builtin/memory` as an attacker of a mask: it names the stocks and days whose figures it
remembers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.harness import CallParams, Message, ModelRequest, ToolSpec
from ktdeval.testing import small_market
from ktdeval_models.memorizing_model import MemoryModel
from ktdeval_models.params import MemoryParams
from ktdeval_models.remembered_facts import RememberedFacts

FORM = ToolSpec(
    "submit_answer",
    "what was recovered",
    {"type": "object", "properties": {"tickers": {}, "date": {}, "sector": {}}},
)
ROW = 120
TRADED = 8  # an asset with a bar on that day
MARKET = small_market()
COLUMNS = {
    "open_cny": "open",
    "high_cny": "high",
    "low_cny": "low",
    "close_cny": "close",
    "volume_shares": "volume",
    "amount_cny": "amount",
}


def shown(row: int, asset: int, **changes: Any) -> dict[str, Any]:
    """The view of a stock on a day behind the mask, with figures of four digits."""
    figures = [float(f"{getattr(MARKET, name)[row, asset]:.4g}") for name in COLUMNS.values()]
    bars = {"columns": list(COLUMNS), "rows": [figures]}
    return {"stock_id": "asset_1", "day": "day_+0", "board": "main", "bars": bars, **changes}


def answer(view: Mapping[str, Any], params: MemoryParams) -> dict[str, Any]:
    text = f"Which stock is it?\n```json\n{json.dumps({'snapshot': view})}\n```\nAnswer."
    request = ModelRequest(
        messages=(Message("user", text),),
        tools=(FORM,),
        tool_choice="submit_answer",
        params=CallParams(),
    )
    (call,) = MemoryModel("", params).reply(request).tool_calls
    assert call.name == "submit_answer"
    given: dict[str, Any] = json.loads(call.arguments)
    return given


def test_it_names_stock_and_day_of_figures_that_it_remembers(market: Path) -> None:
    given = answer(shown(ROW, TRADED), MemoryParams(market=str(market)))
    assert given["tickers"] == [MARKET.codes[TRADED]]
    assert given["date"] == str(MARKET.days[ROW])
    assert given["sector"] == MARKET.industries[TRADED]


@pytest.mark.exhaustive
def test_it_names_exactly_the_facts_of_its_dose(market: Path) -> None:
    """Every name of one day: a hit where the fact is remembered, and no guess elsewhere."""
    params = MemoryParams(market=str(market), recall=0.5)
    facts = RememberedFacts(MARKET, params)
    hits = []
    for asset in np.flatnonzero(np.isfinite(MARKET.close[ROW])):
        given = answer(shown(ROW, asset), params)
        remembered = bool(facts.is_remembered(MARKET.codes[asset])[ROW])
        hits.append(remembered)
        assert given["tickers"] == ([MARKET.codes[asset]] if remembered else [])

    assert 0 < sum(hits) < len(hits)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"bars": {"columns": [], "rows": []}}, id="no bar"),
        pytest.param(
            {"bars": {"columns": list(COLUMNS), "rows": [[100.0] * len(COLUMNS)]}},
            id="figures of no bar",
        ),
        pytest.param({"bars": {"columns": ["close_cny"], "rows": [[None]]}}, id="nothing shown"),
    ],
)
def test_figures_of_no_fact_are_not_guessed(changes: dict[str, Any], market: Path) -> None:
    given = answer(shown(ROW, TRADED, **changes), MemoryParams(market=str(market)))
    assert given["tickers"] == []
    assert given["date"] is None
    assert given["confidence"] == 0.0


def test_true_labels_are_read_without_any_memory(market: Path) -> None:
    """The positive control of a certificate: it can read."""
    view = shown(ROW, TRADED, stock_id=MARKET.codes[3], day=str(MARKET.days[50]))
    given = answer(view, MemoryParams(market=str(market), recall=0.0))
    assert given["tickers"] == [MARKET.codes[3]]
    assert given["date"] == str(MARKET.days[50])


def test_a_text_without_a_view_is_answered(market: Path) -> None:
    request = ModelRequest(
        messages=(Message("user", "```json\nnot json\n```"),),
        tools=(FORM,),
        tool_choice="submit_answer",
        params=CallParams(),
    )
    (call,) = MemoryModel("", MemoryParams(market=str(market))).reply(request).tool_calls
    assert json.loads(call.arguments)["tickers"] == []
