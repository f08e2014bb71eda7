"""A market of InvestorBench's form from a seed: random-walk closes, news of which some predict them, and filings.

`twin.yaml` holds periods, the words of the news and their effects. Informative news move the next day's close; talk has no effect.
Prices are sums of shocks, rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.market import MarketSnapshot, assemble, sessions
from ktdeval.seeds import derive_seed
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.files import Day, market_of
from ktdeval_investorbench.params import TWIN_VERSION, TwinParams

_HERE = Path(__file__).parent


def make_twin(params: TwinParams) -> MarketSnapshot:
    """Return the snapshot, without an id; equal parameters give equal bytes."""
    plan, symbols = load_yaml(_HERE / "twin.yaml"), load_yaml(_HERE / "symbols.yaml")
    days = {
        code: _days(
            group, symbols[code]["name"], plan, np.random.default_rng(derive_seed(params.seed, "investorbench", code)), params
        )
        for group in plan["groups"].values()
        for code in group["symbols"]
    }
    source = f"ktdeval synthetic InvestorBench, generator {TWIN_VERSION}, seed {params.seed}, news effect {params.effect:g}"
    return assemble(market_of(f"synthetic-investorbench-{params.seed}", source, days, [], synthetic=True))


def _days(group: Mapping[str, Any], name: str, plan: Mapping[str, Any], rng: np.random.Generator, params: TwinParams) -> list[Day]:
    """Return the days of one asset in the public form."""
    dates = np.datetime_as_string(sessions(group["first"], group["last"], group["calendar"]), unit="D").tolist()
    count = len(dates)
    tells, side = rng.random(count) < plan["tell_share"], rng.choice([-1, 1], count)
    has_news = rng.random(count) < plan["news_share"]
    drift = np.zeros(count)
    drift[1:] = np.where(has_news & tells, side, 0)[:-1] * plan["effect"] * params.effect
    closes = np.exp(np.log(rng.uniform(*group["price"])) + np.cumsum(group["volatility"] * rng.standard_normal(count) + drift))
    words = plan["words"]
    days: list[Day] = []
    for row, date in enumerate(dates):
        kind = "talk" if not tells[row] else "good" if side[row] > 0 else "bad"
        text = str(rng.choice(words[kind])).format(name=name, figure=int(rng.integers(11, 100)))
        filing = words["filing"].format(name=name, date=date)
        quarter = [filing] if group["filings"] and row % plan["filing_days"] == plan["filing_days"] - 1 else []
        is_year = bool(quarter) and row // plan["filing_days"] % 4 == 3
        cells = {"news": [text] if has_news[row] else [], "10k": quarter if is_year else [], "10q": [] if is_year else quarter}
        days.append((date, round(float(closes[row]), 6), cells))
    return days
