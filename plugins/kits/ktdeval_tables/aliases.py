"""Names that vendors give to fields, tried if the user gives no mapping."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval_tables.options import ReadingOptions

ALIASES: Mapping[str, tuple[str, ...]] = {
    "date": ("trade_date", "datetime", "day"),
    "code": ("ts_code", "stock_code", "con_code", "symbol", "instrument"),
    "volume": ("vol",),
    "amount": ("money", "turnover"),
    "factor": ("adj_factor",),
    "special": ("is_st", "isst", "st", "special_treatment", "是否st"),
    "limit_up": ("up_limit", "high_limit", "upper_limit", "upstopprice", "涨停价"),
    "limit_down": ("down_limit", "low_limit", "lower_limit", "downstopprice", "跌停价"),
    "bid": ("bid_price", "best_bid", "bid1", "买一价"),
    "ask": ("ask_price", "best_ask", "ask1", "卖一价"),
    "list_date": ("listed", "listing_date", "ipo_date", "ipodate", "上市日期"),
    "in_date": ("first", "start", "start_date"),
    "out_date": ("last", "end", "end_date"),
    "name": ("stock_name",),
    "industry": ("sector",),
    "code_then": ("former_code", "old_code"),
    "time": ("ends_at", "datetime", "timestamp", "trade_date", "date"),
    "ratio": ("split_ratio", "stock splits"),
    "split_to": ("new",),
    "split_from": ("old",),
    "return": ("delisting_return", "dlret"),
}
#: further aliases in files next to the bars, keyed by the file's option: in other files, these
#: names mean other fields
_OWN_ALIASES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "entities": {
        "kind": ("type", "entity_type", "label", "category"),
        "text": ("name", "entity", "alias", "term", "word", "mention", "surface"),
    }
}


def aliases_of(reading: ReadingOptions) -> Mapping[str, tuple[str, ...]]:
    """Return the names that fields may have in a file."""
    return {**ALIASES, **_OWN_ALIASES.get(reading.file, {})}
