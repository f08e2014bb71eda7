"""JSON Schemas (draft 2020-12) of arguments and answers that several price queries share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval_qfinzero.operations import Schema
from ktdeval_qfinzero.schema_parts import number, text
from ktdeval_qfinzero.upq.arguments import MAX_TICKERS


def fields(known: Sequence[str], always: Sequence[str]) -> Schema:
    """The argument that chooses fields."""
    return text(f"Fields of a row, comma-separated, out of: {', '.join(known)}. {' and '.join(always)} are always there.", 400)


TICKERS = text(
    f"Tickers in capitals, comma-separated, such as AVLN,BRKT; at most {MAX_TICKERS}. Rows come by ticker, then by time.", 2_400
)
START_DAY = text("First day, such as 2025-01-06; included.")
END_DAY = text("Last day, such as 2025-01-17; included.")
START_MOMENT = text("First moment a bar may start at, such as 2025-01-06T14:30:00Z (UTC where no offset is given), or a day.")
END_MOMENT = text("Last moment a bar may start at, included; a day includes all of it.")

TICKER: Schema = {"type": "string", "description": "Ticker."}

BAR_VALUES: Mapping[str, Schema] = {
    "open": number("First price, in dollars."),
    "high": number("Highest price."),
    "low": number("Lowest price."),
    "close": number("Last price."),
    "volume": number("Shares, contracts or coins traded."),
    "transactions": {"type": "integer", "description": "Trades."},
}
