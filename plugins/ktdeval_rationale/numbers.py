"""Numbers in prose: is this one a code, a date, or a price, an amount, a count?

`IdentityIndex` reads numbers as a guard must: what could be a code or a year is one. In a model's own words `a close of 2015`
and `cash 600519` are figures, and a linter that counts them measures nothing. Words around a number decide.
"""

from __future__ import annotations

import re

from ktdeval.masking import is_amount

_NEAR = 48


def _either(*words: str) -> str:
    return f"(?:{'|'.join(word for line in words for word in line.split())})"


# --- figures: `688981 million`, `cash 600519`, 市值601318

_SCALE = _either(
    "thousand million billion trillion mn bn k m pct percent ppm dollars hands? trades? ticks? levels? units members",
    "亿 万 千 手 股 元 块",
)
_SCALE_AFTER = re.compile(f" ?{_SCALE}(?![A-Za-z])", re.IGNORECASE)
_QUANTITY = _either(
    "amount turnover notional nav cash capital market.(?:cap|value) value volume shares balance proceeds cost",
    "fees? weights? score count total sum equity rank number id row step order",
)
_FIGURE_BEFORE = re.compile(
    rf"(?<![A-Za-z]){_QUANTITY}(?: \([^)]{{0,20}}\))?(?: (?:of|is|was|at|near|about|around|roughly|stands at))?[ :=~≈]{{0,3}}\Z"
    r"|(?:成交额|成交量|金额|现金|市值|净值|总额|资金|余额|数量|均量)(?:为|是|约|达|约为|达到|剩余|还有)?[ ::=]?\Z",
    re.IGNORECASE,
)

# --- prices: `a previous close of 1998`, `support at 1995`, 前收1998

_MOVE_TO = _either(
    "gap(?:s|ped)? rises? rose falls? fell up down back moves? moved rebound(?:s|ed)? climb(?:s|ed)? drop(?:s|ped)? slip(?:s|ped)?",
    "returns?",
)
_LEVEL = _either(
    "price[sd]? close[sd]? opens? opened highs? lows? shelf floor ceiling trades? traded trading quoted support resistance",
    "stop(?:-loss)? target levels? entry exit bought sold filled fills? stands? stood settled bid ask mark(?:ed)? ma[0-9]* vwap",
    "average peak(?:ed|s)? bottom(?:ed|s)? breaks? broke reclaim(?:s|ed)? above below cny rmb",
)
_PRICE_BEFORE = re.compile(
    rf"(?<![A-Za-z])(?:at|{_MOVE_TO} to|{_LEVEL}(?: (?:is|was|at|near|around|about|above|below|back|just|only|now|sits|price))*"
    r"|(?:previous|prev\.?|prior|last|its|day's|today's|a) (?:close|open|high|low|price)(?: of)?|(?:price|level|target|stop) of"
    r")[ :=~≈<>]{1,3}\Z"
    r"|(?:价格|现价|股价|收盘|收于|收报|开盘|前收|昨收|最高|最低|支撑|压力|阻力|止损|目标价?|均线|站上|跌破|突破)"
    r"(?:价|位|为|是|约|在|于|至|到)*[ ::=]?\Z",
    re.IGNORECASE,
)

# --- years and days

_BARE_YEAR = re.compile(r"(?:199|20[0-3])[0-9]s?")
_SURE_YEAR_AFTER = re.compile(
    r"(?:'s)? (?:lows?|highs?|bottom|peak|crash|rally|bear|bull|crisis|bubble|earnings|results|annual|report|guidance|season)\b"
    r"|年|[-/.][0-9]|[QHqh][1-4]|[EAF]\b",
    re.IGNORECASE,
)
_MONTH_AND_NUMBER = re.compile(r"[A-Za-z]+\.?[ -]([0-9]{1,2})")
_NOT_A_DAY_AFTER = re.compile(r" ?%|[ -]?(?:day|session|bar|week|month)s?\b|\.[0-9]", re.IGNORECASE)
_BARE_CODE = re.compile(r"[0-9]{6}")

FOREIGN_CODE = re.compile(
    r"(?<![0-9A-Za-z.])[0-9]{4,5}\.HK(?![A-Za-z])|(?<![A-Za-z])(?:NYSE|NASDAQ|HKEX|SEHK)[:. ] ?[A-Z0-9]{1,5}(?![A-Za-z0-9])"
)
"""A code of another exchange, with the exchange's name: `0700.HK`, `NYSE: BABA`."""

_RESULTS = r"(?:earnings|results?|reports?|guidance|profits?|revenues?|season|numbers|figures)"
CALENDAR_WORDS = (
    re.compile(rf"(?<![A-Za-z0-9])(?:Q[1-4]|[1-4]Q|H[12]|[12]H) {_RESULTS}\b"),
    re.compile(rf"\b(?:first|second|third|fourth)[ -](?:quarter|half) {_RESULTS}\b", re.IGNORECASE),
    re.compile(r"(?<![0-9一二三四五六七八九十前后每])[一二三四1-4] ?季度|[上下]半年"),
)
"""Quarters and halves of a year that stand without the year: `Q3 earnings`, 三季度."""


def is_code_here(folded: str, start: int, end: int) -> bool:
    """Is what reads as a code meant as one? A bare number beside a word of quantity is an amount, `0.600519` a decimal number."""
    if folded.startswith("0.", start):
        return False
    if not _BARE_CODE.fullmatch(folded, start, end):
        return True
    return not (is_amount(folded, start, end) or _is_figure(folded, start, end))


def is_date_here(folded: str, start: int, end: int) -> bool:
    """Is what reads as a date meant as one? Not a year that is a price, not a month's name before a number of something else."""
    if _BARE_YEAR.fullmatch(folded, start, end):
        if _SURE_YEAR_AFTER.match(folded, end):
            return True
        is_price = _PRICE_BEFORE.search(folded, max(0, start - _NEAR), start) is not None
        return not (is_price or _is_figure(folded, start, end))
    month = _MONTH_AND_NUMBER.fullmatch(folded, start, end)
    return month is None or not (_NOT_A_DAY_AFTER.match(folded, end) or is_amount(folded, *month.span(1)))


def _is_figure(folded: str, start: int, end: int) -> bool:
    return bool(_SCALE_AFTER.match(folded, end) or _FIGURE_BEFORE.search(folded, max(0, start - _NEAR), start))
