"""Exports of Interactive Brokers: an activity statement, and a Flex query, as CSV in English.

Times of a statement are those of New York. They are brought to the market's time zone where one is
given: a purchase in Hong Kong at 10:00 stands on the evening before. `TradeDate` of a Flex query is
the exchange's day and is taken as it is. Only stocks are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.cells import NEW_YORK, CellRow, day_of, zone_of
from ktdeval_judge.readers.export_rows import ExportContents, check_columns, plain, row_of
from ktdeval_judge.readers.frames import FrameFill, by_day, signed_fill, trades_of, values_of
from ktdeval_judge.readers.sample import FileSample, ReadOptions, text_rows

name = "interactive-brokers"
_DATE_TIME = re.compile(r"([0-9]{8});?([0-9]{6})")
_TRADES = ("DataDiscriminator", "Asset Category", "Symbol", "Date/Time", "Quantity", "T. Price")
_FLEX_TRADES = ("Symbol", "TradeDate", "Quantity", "TradePrice")
_FLEX_VALUES = ("ReportDate", "Total")
_MARKS = ("HEADER", "DATA", "BOF", "BOA", "BOS", "EOS", "EOA", "EOF", "MSG")


def recognises(sample: FileSample) -> bool:
    """Whether a text is an activity statement or a Flex query."""
    if any(row[:2] in (("Trades", "Header"), ("Statement", "Header")) for row in sample.head):
        return True

    return any({"TradeDate", "TradePrice"} <= set(row) for row in sample.head)


def read(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises DataError: the first fault, with its place."""
    lines = list(text_rows(path))
    is_statement = any(cells[1:2] in (["Header"], ["Data"]) for _, cells in lines)
    found = ExportContents()
    if is_statement:
        _read_statement(path, lines, options.clock, found)
    else:
        _read_flex(path, lines, found)

    if len(found.currencies) > 1:
        shown = ", ".join(sorted(found.currencies))[:80]
        raise DataError(f"{path}: has trades in {shown}; export the trades of one currency")

    notes = ["Holdings from before the period are not read."]
    if found.others:
        notes.append(f"Left out: {found.others} trades in assets other than stocks.")

    values = values_of(by_day(found.values, "ReportDate"), path) if found.values else None
    return Declared(
        program=name,
        source=path.name,
        trades=trades_of(_one_level(found.fills), path),
        values=values,
        cash=found.cash,
        notes=tuple(notes),
    )


def _one_level(fills: list[tuple[str, FrameFill]]) -> Iterator[FrameFill]:
    """Yield fills of one level of detail: executions repeat what an order sums up."""
    levels = {level for level, _ in fills}
    for chosen in ("EXECUTION", "Order", "ORDER", "Trade", ""):
        if chosen in levels:
            yield from (fill for level, fill in fills if level == chosen)
            return


# ---- activity statement


def _read_statement(
    path: Path, lines: list[tuple[int, list[str]]], zone: str, found: ExportContents
) -> None:
    header: list[str] = []
    for line, cells in lines:
        section = cells[0] if cells else ""
        kind = cells[1] if len(cells) > 1 else ""
        if section == "Trades" and kind == "Header":
            header = cells
            check_columns(f"{path}: line {line}", header, _TRADES)
        elif section == "Trades" and kind == "Data":
            row = row_of(f"{path}: line {line}", header, cells)
            if row.text("DataDiscriminator") in ("Order", "Trade"):
                _add_statement_trade(row, zone, found)
        elif section == "Change in NAV" and cells[2:3] == ["Starting Value"]:
            row = CellRow(f"{path}: line {line}", {"Starting Value": plain(cells[-1])})
            found.cash = row.number("Starting Value")


def _add_statement_trade(row: CellRow, zone: str, found: ExportContents) -> None:
    if row.text("Asset Category") not in ("Stocks", "Equity"):
        found.others += 1
        return

    if row.has("Currency"):
        found.currencies.add(row.text("Currency"))
    moment = _local(row.moment("Date/Time"), zone)
    fill = signed_fill(row, moment, row.text("Symbol"), "Quantity", "T. Price")
    fee = -row.number("Comm/Fee") if row.has("Comm/Fee") else None
    found.fills.append((row.text("DataDiscriminator"), fill.with_fee(fee)))


def _local(moment: datetime, zone: str) -> datetime:
    if not zone:
        return moment
    return moment.replace(tzinfo=ZoneInfo(NEW_YORK)).astimezone(zone_of(zone)).replace(tzinfo=None)


# ---- Flex query


def _read_flex(path: Path, lines: list[tuple[int, list[str]]], found: ExportContents) -> None:
    header: list[str] = []
    for line, cells in lines:
        if cells and cells[0] in _MARKS:
            if cells[0] not in ("HEADER", "DATA"):
                continue
            cells = cells[2:]  # after section code and line descriptor

        place = f"{path}: line {line}"
        if "ClientAccountID" in cells or "TradeDate" in cells or "ReportDate" in cells:
            header = cells
            if "TradePrice" in header or "TradeDate" in header:
                check_columns(place, header, _FLEX_TRADES)
        elif "TradePrice" in header:
            _add_flex_trade(row_of(place, header, cells), found)
        elif set(_FLEX_VALUES) <= set(header):
            row = row_of(place, header, cells)
            found.values.append((row, day_of(row.moment("ReportDate")), row.number("Total")))

    if not header:
        raise DataError(
            f"{path}: lacks a header with the column TradePrice; include column headers"
        )


def _add_flex_trade(row: CellRow, found: ExportContents) -> None:
    level = row.cells.get("LevelOfDetail", "")
    if level not in ("", "EXECUTION", "ORDER"):
        return
    if row.has("AssetClass") and row.text("AssetClass") != "STK":
        found.others += 1
        return

    if row.has("CurrencyPrimary"):
        found.currencies.add(row.text("CurrencyPrimary"))
    fill = signed_fill(row, _flex_moment(row), row.text("Symbol"), "Quantity", "TradePrice")
    if row.has("Buy/Sell") and row.side("Buy/Sell") != fill.side:
        row.refuse("Buy/Sell", "differs from the sign of Quantity; leave cancelled trades out")

    fee = -row.number("IBCommission") if row.has("IBCommission") else None
    found.fills.append((level, fill.with_fee(fee)))


def _flex_moment(row: CellRow) -> datetime:
    """Return the trade's day at its time, where the query has one in its usual form."""
    day = row.moment("TradeDate")
    stamp = _DATE_TIME.fullmatch(str(row.cells.get("DateTime", "")))
    if stamp is None:
        return day

    hour, minute, second = int(stamp[2][:2]), int(stamp[2][2:4]), int(stamp[2][4:])
    if hour > 23 or minute > 59 or second > 59:
        row.refuse("DateTime", f"expected a time such as 093000, was {stamp[2]}")
    return day.replace(hour=hour, minute=minute, second=second)
