"""Answers, by a model that remembers figures, to the question which stock and day is shown.

If the labels are real, the model answers from them. Otherwise it compares the figures of the last
bar with the facts that it remembers for each stock and day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ktdeval.harness import ModelRequest, ToolSpec, as_object, json_object, table_rows
from ktdeval.values import JsonValue
from ktdeval_models.remembered_facts import RememberedFacts

_BEGIN = "```json"
_END = "```"
_ASKED = frozenset({"tickers", "date"})
_COLUMNS = {
    "open_cny": "open",
    "high_cny": "high",
    "low_cny": "low",
    "close_cny": "close",
    "volume_shares": "volume",
    "amount_cny": "amount",
}
"""Mapping from each figure of a bar to the market array that holds it."""
_ROUNDING = 6e-4  # figures have four significant digits


def identity_form(request: ModelRequest) -> ToolSpec | None:
    """Return the tool with which a request asks for the stock and day; None if it does not ask for
    them.
    """
    for tool in request.tools:
        fields = as_object(tool.parameters.get("properties"))
        if fields.keys() >= _ASKED:
            return tool

    return None


def identity_answer(request: ModelRequest, facts: RememberedFacts) -> dict[str, JsonValue]:
    """Return the stock and day of the view in a request, as far as they are known. A memory that
    recognises nothing does not guess.
    """
    shown = as_object(_view(request.messages).get("snapshot"))
    code, day = _labels(shown, facts)
    if code is None or day is None:
        remembered = _by_figures(shown, facts)
        if remembered is not None:
            code, day = remembered

    tickers: list[JsonValue] = []
    sector = None
    if code is not None:
        tickers = [code]
        sector = facts.market.industries[facts.market.asset_index[code]]

    board = shown.get("board")
    return {
        "tickers": tickers,
        "date": day,
        "sector": sector,
        "board": board if isinstance(board, str) else None,
        "confidence": 1.0 if tickers else 0.0,
        "reasoning": "these figures are remembered" if tickers else "nothing is remembered",
    }


def _view(messages: Sequence[Any]) -> Mapping[str, Any]:
    """Return the latest JSON block in the user messages; empty if absent."""
    for message in reversed(messages):
        _, found, rest = message.content.partition(_BEGIN)
        if message.role == "user" and found:
            return json_object(rest.partition(_END)[0])

    return {}


def _labels(shown: Mapping[str, Any], facts: RememberedFacts) -> tuple[str | None, str | None]:
    """Return the code and day of a view, each None unless it is real."""
    code = str(shown.get("stock_id"))
    day = str(shown.get("day"))
    return (
        code if code in facts.market.asset_index else None,
        day if facts.row_of(day) is not None else None,
    )


def _by_figures(shown: Mapping[str, Any], facts: RememberedFacts) -> tuple[str, str] | None:
    """Return the code and day of the first remembered fact whose bar equals the last bar shown;
    None if no bar matches.
    """
    bars = table_rows(shown.get("bars"))
    if not bars:
        return None

    market = facts.market
    agrees = np.isfinite(market.close)
    for column, name in _COLUMNS.items():
        value = bars[-1].get(column)
        if not isinstance(value, int | float):
            return None

        agrees &= np.isclose(getattr(market, name), value, rtol=_ROUNDING, atol=0.0)

    for row, asset in np.argwhere(agrees):
        code = market.codes[asset]
        if facts.reach(int(row)) and facts.is_remembered(code)[row]:
            return code, str(market.days[row])

    return None
