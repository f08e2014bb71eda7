"""Markets of InvestorBench's form: its public files, and the synthetic one with planted news."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.contracts.scoring import market_problem
from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market import MarketSnapshot, with_id
from ktdeval.registry import load_plugins
from ktdeval.testing import random_snapshot
from ktdeval_investorbench.files import make_market
from ktdeval_investorbench.params import FileParams, TwinParams
from ktdeval_investorbench.twin import make_twin
from market_scene import market_scene
from tables import on_each_row

DAYS = {
    "2020-10-01": {"prices": 10.0, "news": ["Microsoft rose.", "Rain fell."], "10k": ["the year"], "10q": []},
    "2020-10-02": {"prices": None, "news": ["no price"], "10k": [], "10q": ["the quarter"]},
    "2020-10-05": {"prices": 12, "news": []},
}


def write_files(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def read(folder: Path, *symbols: str) -> MarketSnapshot:
    return make_market(FileParams(folder=str(folder), symbols=symbols))


def test_closes_news_and_filings_of_a_day_are_known_at_its_close_and_a_day_without_a_price_has_none(tmp_path: Path) -> None:
    coin = {"2020-10-03": {"prices": 7.5, "news": ["Bitcoin moved"]}}
    market = read(write_files(tmp_path, msft=DAYS, btc=coin, other={}))
    assert (market.codes, market.names) == (("BTC", "MSFT"), ("Bitcoin", "Microsoft"))
    assert market.venues == ("close_fill_crypto", "close_fill_stock")
    assert {market.rules[name].fill for name in market.venues} == {"same_close"}
    assert [market.rules[name].days_a_year for name in market.venues] == [365, 252]
    assert market.days.astype(str).tolist() == ["2020-10-01", "2020-10-02", "2020-10-03", "2020-10-05"]
    np.testing.assert_array_equal(market.close[:, 1], [10.0, np.nan, np.nan, 12.0])
    assert np.isnan(market.open).all()
    assert not market.meta.has_factor
    assert [(item.kind, item.assets, item.text) for item in market.as_of(0).documents] == [
        ("annual report", ("MSFT",), "the year"), ("news", ("MSFT",), "Microsoft rose."), ("news", ("MSFT",), "Rain fell."),
    ]  # fmt: skip
    assert {item.text for item in market.as_of(1).documents} >= {"no price", "the quarter"}
    assert "Bitcoin moved" in {item.text for item in market.as_of(2).documents}
    assert {entity.code for entity in market.documents.entities} == {"BTC", "MSFT"}
    assert read(tmp_path, "msft").codes == ("MSFT",)


@on_each_row
def test_a_file_of_another_form_is_named_with_its_day(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        read(write_files(tmp_path, msft=content))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@on_each_row
def test_a_symbol_that_is_not_there_is_named(symbols: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read(write_files(tmp_path, msft=DAYS), *symbols)
    with pytest.raises(KtdevalError):
        read(tmp_path / "nowhere")


# -- the synthetic market


WORDS = {"good": ("raised", "rose", "cleared"), "bad": ("cut its", "customer left", "opened a case")}


def effects(market: MarketSnapshot) -> dict[str, np.ndarray]:
    """Log returns of the day after news of each kind, all assets together."""
    returns: dict[str, list[float]] = {"good": [], "bad": [], "talk": []}
    for item in market.documents:
        if item.kind == "news":
            closes = market.close[:, market.asset_index[item.assets[0]]]
            rows = np.flatnonzero(np.isfinite(closes))
            row = int(np.searchsorted(rows, market.day_index(item.published_at.date().isoformat())))
            if row + 1 < len(rows):
                told = [kind for kind, words in WORDS.items() if any(word in item.text for word in words)]
                kind = told[0] if told else "talk"
                returns[kind].append(float(np.log(closes[rows[row + 1]] / closes[rows[row]])))
    return {kind: np.array(values) for kind, values in returns.items()}


@pytest.fixture(scope="module")
def twin() -> MarketSnapshot:
    return make_twin(TwinParams())


def test_the_same_seed_gives_the_same_market_and_another_seed_another_one(twin: MarketSnapshot) -> None:
    assert with_id(twin).id == with_id(make_twin(TwinParams())).id != with_id(make_twin(TwinParams(seed=8))).id
    assert twin.meta.synthetic
    assert {item.kind for item in twin.documents} == {"news", "annual report", "quarterly report"}


def test_news_that_tell_are_followed_by_what_was_planted_and_talk_by_nothing(twin: MarketSnapshot) -> None:
    for market, planted in ((twin, 0.006), (make_twin(TwinParams(effect=0.0)), 0.0)):
        moves = effects(market)
        for kind, side in (("good", 1), ("bad", -1), ("talk", 0)):
            returns = moves[kind]
            error = float(np.std(returns, ddof=1)) / len(returns) ** 0.5
            assert len(returns) > 300
            assert abs(float(returns.mean()) - side * planted) < 4 * error
            assert error < 0.0012


def test_a_masked_prompt_names_neither_the_benchmark_nor_its_asset_nor_a_day(twin: MarketSnapshot) -> None:
    task = load_plugins().make_task("investorbench_msft")
    assert task.mask == "blinded"
    scene, row = market_scene(task, twin, task.windows["stock"]), twin.day_index("2020-10-01")
    for day in range(row, row + 60, 7):
        shown = scene.observe(day - row, twin.as_of(day), type("Account", (), {"positions": {}})(), None)
        text = (shown.system + shown.user).lower()
        for word in ("investor", "bench", "msft", "microsoft", "btc", "crypto", "2020"):
            assert word not in text, word
        assert json.loads(shown.user.split("```json\n")[1].split("\n```")[0])["candidates"]["rows"][0][1] == "stock"


def test_a_market_without_the_asset_is_refused_before_a_run(twin: MarketSnapshot) -> None:
    task = load_plugins().make_task("investorbench_msft")
    assert market_problem(task, twin) is None
    refused = market_problem(task, random_snapshot())
    assert refused is not None
    assert refused.startswith("investorbench_msft is about MSFT, which random-0 has not: import it, or choose other --data")
