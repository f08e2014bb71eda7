"""Reasons and shown texts of foreign records, as the process scores read them."""

from __future__ import annotations

import json

from support.fuzzing.fuzz_kit import Parser, text_of

_SHOWN = {
    "account": {"cash_cny": 39230.8},
    "candidates": {
        "columns": ["stock_id", "close", "rsi", "return_20d_pct"],
        "rows": [["asset_0042", 15.63, 28.4, -11.09], ["asset_0007", 7.2, 71.2, -2.4]],
    },
}


def reason_parsers() -> dict[str, Parser]:
    """Return parsers of reasons, of what was shown, and of a recorded step."""
    from ktdeval_rationale.claims import ArguedOrder, judge_reason
    from ktdeval_rationale.claims.recorded_reasons import tool_result

    order = ArguedOrder("asset_0042", "BUY", 0.05)
    shown = json.dumps(_SHOWN).encode()
    reason = "RSI of 28.4 < 30; down 11.1 % over 20 days, higher RSI than asset_0007. 动量为-3.2%"

    return {
        "shown text": Parser(
            lambda data: judge_reason(reason, [text_of(data)], None, [order]),
            (shown, b"The state:\n\n```json\n" + shown + b"\n```\n", b'{"A": {"rsi": 1e400}}'),
            ("ktdeval_rationale/claims/shown_facts.py",),
        ),
        "reason": Parser(
            lambda data: judge_reason(text_of(data), [], _SHOWN, [order]),
            (reason.encode(), b"momentum" + b" " * 3000, b"RSI" + b"(" * 3000, b"9" * 3000),
            (),
        ),
        "tool result": Parser(
            lambda data: tool_result(text_of(data)),
            (shown, b'{"error": "no such stock"}'),
            ("ktdeval_rationale/claims/recorded_reasons.py",),
        ),
    }
