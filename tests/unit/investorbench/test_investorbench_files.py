"""Public files of InvestorBench: what is read of them, and how a file of another form is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval_investorbench.files import make_market
from ktdeval_investorbench.params import FileParams
from tables import on_each_row

DAYS = {
    "2020-10-01": {"prices": 10.0, "news": ["Microsoft rose.", "Rain fell."], "10k": ["the year"], "10q": []},
    "2020-10-02": {"prices": None, "news": ["no price"], "10k": [], "10q": ["the quarter"]},
    "2020-10-05": {"prices": 12, "news": []},
}


def written(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def read(folder: Path, *symbols: str) -> MarketSnapshot:
    return make_market(FileParams(folder=str(folder), symbols=symbols))


def test_closes_news_and_filings_of_a_day_are_known_at_its_close_and_a_day_without_a_price_has_none(tmp_path: Path) -> None:
    coin = {"2020-10-03": {"prices": 7.5, "news": ["Bitcoin moved"]}}
    market = read(written(tmp_path, msft=DAYS, btc=coin, other={}))
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
        read(written(tmp_path, msft=content))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@on_each_row
def test_a_symbol_that_is_not_there_is_named(symbols: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read(written(tmp_path, msft=DAYS), *symbols)
    with pytest.raises(KtdevalError):
        read(tmp_path / "nowhere")
