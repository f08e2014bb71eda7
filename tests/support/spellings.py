"""Many ways to write a code, and texts that are none."""

from __future__ import annotations

CODE_STYLES = {
    "bare": "{digits}", "dotted": "{digits}.{exchange}", "lower": "{digits}.{lower}", "prefix": "{exchange}{digits}",
    "lower prefix": "{lower}{digits}", "baostock": "{lower}.{digits}", "spaced": "{exchange} {digits}",
    "underscored": "{exchange}_{digits}", "hyphen": "{head}-{tail}", "space": "{head} {tail}", "slash": "{head}/{tail}",
    "underscore": "{head}_{tail}", "bold": "{head}*{tail}", "middle dot": "{head}·{tail}", "spread": "{spread}",
    "full width": "{wide}", "zero width": "{head}\u200b{tail}", "soft hyphen": "{head}\u00ad{tail}",
    "word joiner": "{head}\u2060{tail}", "no-break space": "{head}\u00a0{tail}", "no-break hyphen": "{head}\u2011{tail}",
    "minus": "{head}\u2212{tail}", "mathematical": "{mathematical}", "keycaps": "{keycaps}", "json escapes": "{escaped}",
    "market number": "1.{digits}", "chinese digits": "{chinese}",
}  # fmt: skip


def spell(style: str, code: str) -> str:
    digits, exchange = code.split(".")
    return CODE_STYLES[style].format(
        digits=digits, exchange=exchange, lower=exchange.lower(), head=digits[:3], tail=digits[3:], spread=" ".join(digits),
        wide="".join(chr(ord(digit) - ord("0") + 0xFF10) for digit in digits),
        mathematical="".join(chr(ord(digit) - ord("0") + 0x1D7D8) for digit in digits),
        keycaps="".join(f"{digit}\ufe0f\u20e3" for digit in digits), escaped="".join(f"\\u{ord(digit):04x}" for digit in digits),
        chinese="".join("〇一二三四五六七八九"[int(digit)] for digit in digits),
    )  # fmt: skip


HARMLESS = [
    "", "asset_0042", "asset_2024", "sector_07", "day_+12", "day_-20", "day_+2024", "day_-2001", "asset_0600 519", "asset_0025 55",
    "T+1", "52-week", "5/10/20-day averages", "20/60-day", "MOM_12_1, RV_60 and HIGH_52W", "9.5 % (main board), 19.5 %",
    "1,000,000", "you may buy up to 5 names", "May I sell?", "may 10 orders", "they march on 5 fronts", "sat down", "the sun",
    "mar the result", "5 decimals", "secondly", "augment", "octave", "second quarter", "Q1", "h1", "yearly",
    "2000 shares", "2024 shares", "buy 2000 of it", "at most 2010", "CNY 2024", "price=2024", "2024 CNY", "2015 tokens",
    "CNY 600519", "¥600519", "600519 yuan", "123456", "1,600,519", "600,519", "[600,519]", '{"a":600,"b":519}', "600.519",
    "6.00519e5", "1.600519e6", "12.2024", "2024.5", "0.2024", "1.2024e5", "-2024.0", "2e7", "20.5", "300-751",
    "main, star, chinext and bse boards", "sh", "SZ", "unknown", "3个月", "一周一次", "两周", "每月", "10年",
    "你可以买入候选股票。", "'20 names'", "top 20", "step 12 of 43", "n/a", "…", "±9.5 %", "naïve", "#1", "\\n\\n", "1/20 of NAV",
    "a good friend", "double 12.5 %", "第五十一期间",
]  # fmt: skip
