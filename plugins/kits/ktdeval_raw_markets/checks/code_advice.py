"""Advice on codes that are not A-shares. An option is suggested only if it fits every code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktdeval_raw_markets.checks.security_kinds import kind_of_security

_US = r"[A-Z]{1,5}(?:[.\-/][A-Z])?(?:\.US| U[A-Z](?: Equity)?)?"
_PAIR = (
    r"[A-Z0-9]{2,10}[-/_](?:USDT?|USDC|BUSD|BTC|ETH|EUR)"
    r"|[A-Z0-9]{2,10}(?:USDT|USDC|BUSD)|[A-Z0-9]{3,10}(?:USD|BTC|ETH|EUR)"
)
_VENUES = {"us_equity": _US, "crypto_spot": _PAIR}


def advice_on_codes(unknown: Sequence[str]) -> str:
    """Return advice for a source without any A-share code, where dropping unknown codes would leave
    no data.
    """
    venues = {_venue_of(code) for code in unknown}
    if "" in venues:
        others = [code for code in unknown if not _venue_of(code)]
        kinds = {kind_of_security(code) for code in others}
        if "" in kinds:
            return (
                "correct the code column, or choose a venue that fits the codes (--venue"
                " us_equity, or --venue unrestricted_usd without lots, limits and costs)"
            )
        return (
            f"no option helps: these codes are not A-shares ({', '.join(sorted(kinds))}), and no"
            " built-in venue trades them; correct the code column, or give the bars of other"
            " assets"
        )

    if len(venues) == 1:
        return f"correct the code column, or name their market (--venue {venues.pop()})"
    return "correct the code column, or name their venues (--industry FILE with code, venue)"


def _venue_of(code: str) -> str:
    """Return the built-in venue whose symbol format matches a code; empty if none does."""
    for venue, form in _VENUES.items():
        if re.fullmatch(form, code, re.IGNORECASE):
            return venue
    return ""
