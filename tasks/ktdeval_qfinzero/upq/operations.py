"""Operations of UPQ."""

from __future__ import annotations

from ktdeval_qfinzero.operations import Operation, query
from ktdeval_qfinzero.upq.bars import crypto_daily, crypto_minute, stock_daily, stock_minute
from ktdeval_qfinzero.upq.options import chain_query, ticker_query
from ktdeval_qfinzero.upq.reference import dividends_query, freshness, rates_query, splits_query, symbols_list

OPERATIONS: tuple[Operation, ...] = (
    query("UPQ.stock.minute", "GET", "/stock", stock_minute),
    query("UPQ.stock.daily", "GET", "/stock/daily", stock_daily),
    query("UPQ.crypto.minute", "GET", "/crypto", crypto_minute),
    query("UPQ.crypto.daily", "GET", "/crypto/daily", crypto_daily),
    query("UPQ.option.chain_query", "GET", "/option/chain_query", chain_query),
    query("UPQ.option.ticker_query", "GET", "/option/ticker_query", ticker_query),
    query("UPQ.rates.query", "GET", "/rates/query", rates_query),
    query("UPQ.dividends.query", "GET", "/dividends/query", dividends_query),
    query("UPQ.splits.query", "GET", "/splits/query", splits_query),
    query("UPQ.symbols.list", "GET", "/symbols", symbols_list),
    query("UPQ.health.freshness", "GET", "/health/freshness", freshness),
)  #: All of them, in the order in which models see them
