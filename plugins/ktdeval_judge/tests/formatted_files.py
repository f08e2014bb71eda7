"""Write files of programs that can't be run here, in the format that their source or documents give.

    python plugins/ktdeval_judge/tests/formatted_files.py

Trades are those of the rule in `make_program_files.py`, filled at the open of the next day, as if the
exchange were in New York: fills at 09:30 there. `files/programs.csv` names the source of each format.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from make_program_files import CASH, CODES, COMMISSION, chosen, folder, panel

NEW_YORK = ZoneInfo("America/New_York")
UTC = ZoneInfo("UTC")


@dataclass(frozen=True)
class Fill:
    """A fill of the rule."""

    day: pd.Timestamp
    code: str
    shares: int  #: negative: sold
    price: float

    @property
    def fee(self) -> float:
        return round(abs(self.shares) * self.price * COMMISSION, 4)

    @property
    def moment(self) -> datetime:
        return datetime(self.day.year, self.day.month, self.day.day, 9, 30, tzinfo=NEW_YORK)


def simulated() -> tuple[list[Fill], pd.Series]:
    """Return the fills and the account's value at each close."""
    opens, closes, weights = panel("open"), panel("close"), chosen()
    held = dict.fromkeys(CODES, 0)
    cash = CASH
    fills: list[Fill] = []
    values = {}
    waiting: dict[str, int] = {}
    for day in closes.index:
        for code, shares in sorted(waiting.items(), key=lambda pair: pair[1]):
            fill = Fill(day, code, shares, float(opens.loc[day, code]))
            fills.append(fill)
            held[code] += shares
            cash -= shares * fill.price + fill.fee
        value = cash + sum(held[code] * closes.loc[day, code] for code in CODES)
        values[day] = round(float(value), 4)
        waiting = {}
        if not weights.loc[day].isna().all():
            for code in CODES:
                target = int(weights.loc[day, code] * value / closes.loc[day, code] // 100 * 100)
                if target != held[code]:
                    waiting[code] = target - held[code]

    return fills, pd.Series(values)


def write_lean(fills: list[Fill], values: pd.Series) -> None:
    """Write a result and its order events."""
    points = [[_unix(values.index[0], 0), *[CASH] * 4]]
    night = pd.Timedelta(days=1)  # equity is sampled at the midnight that ends a day
    points += [[_unix(day + night, 0), *[value] * 4] for day, value in values.items()]
    orders = {}
    events = []
    for number, fill in enumerate(fills, start=1):
        stamp = fill.moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        direction = 0 if fill.shares > 0 else 1
        sid = f"{fill.code} R735QTJ8XC9X"
        orders[str(number)] = {
            "type": 4, "id": number, "contingentId": 0, "brokerId": [str(number)],
            "symbol": {"value": fill.code, "id": sid, "permtick": fill.code},
            "price": fill.price, "priceCurrency": "USD", "time": stamp, "createdTime": stamp,
            "lastFillTime": stamp, "quantity": fill.shares, "status": 3, "tag": "",
            "securityType": 1, "direction": direction, "value": fill.shares * fill.price,
        }  # fmt: skip
        events.append({
            "id": f"backtest-{number}-2", "algorithmId": "backtest", "orderId": number,
            "orderEventId": 2, "symbol": sid, "symbolValue": fill.code,
            "symbolPermtick": fill.code, "time": fill.moment.timestamp(), "status": "filled",
            "orderFeeAmount": fill.fee, "orderFeeCurrency": "USD", "fillPrice": fill.price,
            "fillPriceCurrency": "USD", "fillQuantity": fill.shares,
            "direction": "sell" if direction else "buy", "isAssignment": False,
            "quantity": fill.shares,
        })  # fmt: skip

    equity = {"name": "Equity", "unit": "$", "index": 0, "seriesType": 2, "values": points}
    result = {
        "charts": {"Strategy Equity": {"name": "Strategy Equity", "series": {"Equity": equity}}},
        "orders": dict(list(orders.items())[:40]),
        "statistics": {
            "Total Orders": str(len(fills[:40])), "Start Equity": str(int(CASH)),
            "End Equity": str(values.iloc[-1]),
        },
    }  # fmt: skip
    (folder("lean") / "result.json").write_text(json.dumps(result))
    (folder("lean_events") / "backtest-order-events.json").write_text(json.dumps(events[:40]))


def _unix(day: pd.Timestamp, hour: int) -> int:
    return int(datetime(day.year, day.month, day.day, hour, tzinfo=NEW_YORK).timestamp())


def write_statement(fills: list[Fill]) -> None:
    """Write an activity statement of Interactive Brokers."""
    rows = [
        ["Statement", "Header", "Field Name", "Field Value"],
        ["Statement", "Data", "BrokerName", "Interactive Brokers LLC"],
        ["Statement", "Data", "Title", "Activity Statement"],
        ["Statement", "Data", "Period", "March 3, 2025 - May 29, 2025"],
        ["Change in NAV", "Header", "Field Name", "Field Value"],
        ["Change in NAV", "Data", "Starting Value", str(int(CASH))],
        ["Trades", "Header", "DataDiscriminator", "Asset Category", "Currency", "Symbol",
         "Date/Time", "Quantity", "T. Price", "C. Price", "Proceeds", "Comm/Fee", "Basis",
         "Realized P/L", "MTM P/L", "Code"],
    ]  # fmt: skip
    closes = panel("close")
    for fill in fills:
        money = -fill.shares * fill.price
        rows.append([
            "Trades", "Data", "Order", "Stocks", "USD", fill.code,
            f"{fill.moment:%Y-%m-%d, %H:%M:%S}", f"{fill.shares:,}", str(fill.price),
            str(closes.loc[fill.day, fill.code]), f"{money:.2f}", str(-fill.fee), "", "0", "0",
            "O" if fill.shares > 0 else "C",
        ])  # fmt: skip
    rows.append(["Trades", "SubTotal", "", "Stocks", "USD", CODES[0], "", "0", "", "", "0", "0",
                 "0", "0", "0", ""])  # fmt: skip
    _write_csv(folder("interactive_brokers") / "statement.csv", rows, csv.QUOTE_MINIMAL)


def write_flex(fills: list[Fill], values: pd.Series) -> None:
    """Write a Flex query with trades and the account's value by day."""
    names = ["ClientAccountID", "CurrencyPrimary", "AssetClass", "Symbol", "DateTime", "TradeDate",
             "Quantity", "TradePrice", "Buy/Sell", "IBCommission", "IBCommissionCurrency",
             "LevelOfDetail"]  # fmt: skip
    rows = [names]
    for fill in fills:
        rows.append([
            "U0000000", "USD", "STK", fill.code, f"{fill.moment:%Y%m%d;%H%M%S}",
            f"{fill.moment:%Y%m%d}", str(fill.shares), str(fill.price),
            "BUY" if fill.shares > 0 else "SELL", str(-fill.fee), "USD", "EXECUTION",
        ])  # fmt: skip
    rows.append(["ClientAccountID", "CurrencyPrimary", "ReportDate", "Cash", "Stock", "Total"])
    rows += [
        ["U0000000", "USD", f"{day:%Y%m%d}", "0", "0", str(value)] for day, value in values.items()
    ]
    _write_csv(folder("interactive_brokers_flex") / "flex.csv", rows, csv.QUOTE_ALL)


def _write_csv(path: Path, rows: list[list[str]], quoting: int) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream, quoting=quoting, lineterminator="\n").writerows(rows)


def write_alpaca(fills: list[Fill]) -> None:
    """Write account activities, and orders."""
    activities = []
    orders = []
    for number, fill in enumerate(fills):
        stamp = fill.moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.123456Z")
        side = "buy" if fill.shares > 0 else "sell"
        quantity = str(abs(fill.shares))
        order_id = f"61e69015-8549-4bab-b63c-{number:012d}"
        activities.append({
            "id": f"{fill.moment:%Y%m%d%H%M%S}000::{number:012d}", "activity_type": "FILL",
            "transaction_time": stamp, "type": "fill", "price": str(fill.price), "qty": quantity,
            "side": side, "symbol": fill.code, "leaves_qty": "0", "order_id": order_id,
            "cum_qty": quantity, "order_status": "filled",
        })  # fmt: skip
        created = (fill.moment - timedelta(hours=12)).astimezone(UTC)
        orders.append({
            "id": order_id, "created_at": created.strftime("%Y-%m-%dT%H:%M:%S.123456Z"),
            "filled_at": stamp, "symbol": fill.code, "asset_class": "us_equity", "qty": quantity,
            "filled_qty": quantity, "filled_avg_price": str(fill.price), "type": "market",
            "side": side, "time_in_force": "opg", "status": "filled",
        })  # fmt: skip
    activities.append({
        "id": "20250401000000000::1", "activity_type": "DIV", "date": "2025-04-01",
        "net_amount": "1.02", "symbol": CODES[0], "qty": "2", "per_share_amount": "0.51",
    })  # fmt: skip
    orders.append({**orders[-1], "id": "61e69015-8549-4bab-b63c-999999999999", "filled_at": None,
                   "filled_qty": "0", "filled_avg_price": None, "status": "canceled"})  # fmt: skip
    (folder("alpaca") / "activities.json").write_text(json.dumps(activities))
    (folder("alpaca_orders") / "orders.json").write_text(json.dumps(orders))
    table = pd.DataFrame(activities)
    table.to_csv(folder("alpaca_table") / "activities.csv", index=False)


def write_tradingagents() -> None:
    """Write a log for each of two assets and six days."""
    ratings = ["Buy", "Hold", "Overweight", "Underweight", "Sell", "Hold"]
    days = panel("close").index[10:40:5]
    for code, order in ((CODES[0], ratings), (CODES[3], ratings[::-1])):
        for day, rating in zip(days, order, strict=True):
            text = f"**Rating**: {rating}\n\n**Executive Summary**: A rule decided.\n"
            debate = dict.fromkeys(("bull_history", "bear_history", "history", "current_response",
                                    "judge_decision"), "")  # fmt: skip
            state = {
                "company_of_interest": code, "trade_date": f"{day:%Y-%m-%d}",
                "market_report": "", "sentiment_report": "", "news_report": "",
                "fundamentals_report": "", "investment_debate_state": debate,
                "trader_investment_decision": f"**Action**: {rating}",
                "risk_debate_state": {"history": "", "judge_decision": text},
                "investment_plan": "", "final_trade_decision": text,
            }  # fmt: skip
            place = folder("tradingagents", code, "TradingAgentsStrategy_logs")
            path = place / f"full_states_log_{day:%Y-%m-%d}.json"
            path.write_text(json.dumps(state, indent=4))


def write_first_hedge_fund() -> None:
    """Write days of a backtest by version 1 of ai-hedge-fund's web application: two trades, filled at
    the close of the day.
    """
    closes = panel("close")
    code = CODES[0]
    cash, shares = CASH, 0
    results = []
    for day, action, quantity in _plan(closes):
        price = float(closes.loc[day, code])
        moved = {"buy": quantity, "sell": -quantity}.get(action, 0)
        cash -= moved * price
        shares += moved
        decision = {"action": action, "quantity": quantity, "confidence": 80.0, "reasoning": "rule"}
        results.append({
            "date": f"{day:%Y-%m-%d}", "portfolio_value": round(cash + shares * price, 4),
            "cash": round(cash, 4), "decisions": {code: decision},
            "executed_trades": {code: quantity}, "analyst_signals": {},
            "current_prices": {code: price},
        })  # fmt: skip
    document = {
        "results": results, "performance_metrics": {"sharpe_ratio": 0.0},
        "portfolio_values": [{"Date": "2025-03-03T00:00:00", "Portfolio Value": CASH}],
        "final_portfolio": {}, "error_count": 0, "total_days": len(results),
    }  # fmt: skip
    (folder("ai_hedge_fund_v1") / "backtest.json").write_text(json.dumps(document))


def _plan(closes: pd.DataFrame) -> Iterator[tuple[pd.Timestamp, str, int]]:
    for number, day in enumerate(closes.index[:10]):
        yield day, {1: "buy", 6: "sell"}.get(number, "hold"), {1: 1000, 6: 400}.get(number, 0)


if __name__ == "__main__":
    fills, values = simulated()
    write_lean(fills, values)
    write_statement(fills)
    write_flex(fills, values)
    write_alpaca(fills[:30])
    write_tradingagents()
    write_first_hedge_fund()
