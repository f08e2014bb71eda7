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
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval_models.memorizing_model import MemoryModel
from ktdeval_models.params import MemoryParams
from ktdeval_models.remembered_facts import RememberedFacts
from support.tasks.ktdfin_market import small_market

FORM = ToolSpec(
    "submit_answer",
    "what was recovered",
    {"type": "object", "properties": {"tickers": {}, "date": {}, "sector": {}}},
)
ROW = 120
TRADED = 8  # an asset with a bar on that day
COLUMNS = {
    "open_cny": "open",
    "high_cny": "high",
    "low_cny": "low",
    "close_cny": "close",
    "volume_shares": "volume",
    "amount_cny": "amount",
}


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    return small_market()


@pytest.fixture(scope="module")
def folder(market: MarketSnapshot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probed") / "market"
    save_snapshot(market, path)
    return path


def shown(market: MarketSnapshot, row: int, asset: int, **changes: Any) -> dict[str, Any]:
    """The view of a stock on a day behind the mask, with figures of four digits."""
    figures = [float(f"{getattr(market, name)[row, asset]:.4g}") for name in COLUMNS.values()]
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


def test_it_names_stock_and_day_of_figures_that_it_remembers(
    market: MarketSnapshot, folder: Path
) -> None:
    given = answer(shown(market, ROW, TRADED), MemoryParams(market=str(folder)))
    assert given["tickers"] == [market.codes[TRADED]]
    assert given["date"] == str(market.days[ROW])
    assert given["sector"] == market.industries[TRADED]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_it_names_exactly_the_facts_of_its_dose(market: MarketSnapshot, folder: Path) -> None:
    """Every name of one day: a hit where the fact is remembered, and no guess elsewhere."""
    params = MemoryParams(market=str(folder), recall=0.5)
    facts = RememberedFacts(market, params)
    hits = []
    for asset in np.flatnonzero(np.isfinite(market.close[ROW])):
        given = answer(shown(market, ROW, asset), params)
        remembered = bool(facts.is_remembered(market.codes[asset])[ROW])
        hits.append(remembered)
        assert given["tickers"] == ([market.codes[asset]] if remembered else [])

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
def test_figures_of_no_fact_are_not_guessed(
    changes: dict[str, Any], market: MarketSnapshot, folder: Path
) -> None:
    given = answer(shown(market, ROW, TRADED, **changes), MemoryParams(market=str(folder)))
    assert given["tickers"] == []
    assert given["date"] is None
    assert given["confidence"] == 0.0


def test_true_labels_are_read_without_any_memory(market: MarketSnapshot, folder: Path) -> None:
    """The positive control of a certificate: it can read."""
    view = shown(market, ROW, TRADED, stock_id=market.codes[3], day=str(market.days[50]))
    given = answer(view, MemoryParams(market=str(folder), recall=0.0))
    assert given["tickers"] == [market.codes[3]]
    assert given["date"] == str(market.days[50])


def test_a_text_without_a_view_is_answered(folder: Path) -> None:
    request = ModelRequest(
        messages=(Message("user", "```json\nnot json\n```"),),
        tools=(FORM,),
        tool_choice="submit_answer",
        params=CallParams(),
    )
    (call,) = MemoryModel("", MemoryParams(market=str(folder))).reply(request).tool_calls
    assert json.loads(call.arguments)["tickers"] == []
