"""Parsers of files of markets and of QFinZero's datasets, and of what a browser sends to its pages."""

from __future__ import annotations

import asyncio
import gzip
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from fuzz_kit import Parser, in_folder, of_file, scratch

BARS_CSV = b"symbol,time,open,high,low,close,volume\nAVLN,2025-01-06,1,2,0.5,1.5,100\n"


def files_of_markets() -> dict[str, Parser]:
    """Return the parsers by name. Imports are inside: a run needs one of them."""
    return {**_markets(), **_ingested(), **_datasets(), **_pages()}


def _markets() -> dict[str, Parser]:
    from ktdeval_arena.deepfund_database import read_database
    from ktdeval_investorbench.markets import read_files
    from ktdeval_investorbench.provider_params import FileParams

    def files(folder: Path) -> object:
        return read_files(FileParams(folder=str(folder)))

    days = (
        b'{"2020-10-01":{"prices":1.5,"news":["a. positive"],"10k":null},"2020-10-02":{"prices":2}}'
    )

    return {
        "deepfund database": Parser(
            of_file(read_database, "deepfund.db"),
            (_deepfund(),),
            ("ktdeval_arena/deepfund_database.py",),
        ),
        "investorbench file": Parser(
            in_folder("msft.json", files), (days,), ("ktdeval_investorbench/markets.py",)
        ),
    }


def _deepfund() -> bytes:
    held = '{"AAA": {"value": 5.0, "shares": 2}}'
    rows = {
        "config": (("id", "exp_name", "llm_model"), ("c", "mine", "m")),
        "portfolio": (("id", "config_id", "positions"), ("p", "c", held)),
        "signal": (
            ("portfolio_id", "ticker", "analyst", "signal", "justification"),
            ("p", "AAA", "news", "Bearish", "it falls"),
        ),
        "decision": (
            ("portfolio_id", "trading_date", "ticker", "action", "shares", "justification"),
            ("p", "2025-04-01", "AAA", "Hold", 0, "why"),
        ),
    }
    path = scratch() / "seed.db"
    path.unlink(missing_ok=True)

    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA page_size = 512")
        for table, (columns, row) in rows.items():
            base.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            base.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        base.commit()

    return path.read_bytes()


def _ingested() -> dict[str, Parser]:
    from ktdeval_qfinzero.data.ingest_spec import load_spec
    from ktdeval_qfinzero.data.make_and_check import is_dataset

    spec = b"name: x\ndefault_as_of: 2025-01-08\nbars: [{file: a.csv, asset_class: stock, resolution: day}]\n"
    as_json = b'{"name":"x","bars":[{"file":"a.csv","asset_class":"stock","resolution":"day"}]}'
    lines = b'{"symbol":"AVLN","time":"2025-01-06","open":1.5}\n{"symbol":"B","time":1}\n'

    return {
        "ingest spec": Parser(
            of_file(load_spec, "spec.yaml"), (spec,), ("ktdeval_qfinzero/data/ingest_spec.py",)
        ),
        "ingest spec json": Parser(of_file(load_spec, "spec.json"), (as_json,), ()),
        "qfinzero manifest": Parser(
            in_folder("manifest.json", is_dataset),
            (b'{"format":"ktdeval-qfinzero-dataset","version":1}',),
            ("ktdeval_qfinzero/data/make_and_check.py",),
        ),
        "ingested csv": Parser(
            of_file(_ingested_rows, "day.csv"),
            (BARS_CSV, b'symbol,time,open\n"A ""b""","2025\n",1\n'),
            ("ktdeval/values/tables/rows.py", "ktdeval/values/tables/blocks.py"),
        ),
        "ingested packed csv": Parser(
            of_file(_ingested_rows, "day.csv.gz"), (gzip.compress(BARS_CSV),), ()
        ),
        "ingested lines": Parser(of_file(_ingested_rows, "day.jsonl"), (lines,), ()),
        "ingested json": Parser(
            of_file(_ingested_rows, "day.json"), (b'[{"symbol":"A","time":"2025-01-06"}]',), ()
        ),
    }


def _ingested_rows(path: Path) -> object:
    from ktdeval.values import read_blocks, read_rows
    from ktdeval_qfinzero.data.ingest_mapping import as_problem, files_of, plain_json, table_of
    from ktdeval_qfinzero.data.ingest_spec import TableSource
    from ktdeval_qfinzero.data.validation_rules import ProblemList

    fields = ("symbol", "time", "open", "high", "low", "close", "volume")
    problems = ProblemList()

    for file in files_of(path.parent, path.name):
        table = table_of(file, fields, ("symbol", "time"), TableSource(path.name))
        for row in read_rows(table, as_problem(table.name, problems)):
            try:
                plain_json(dict(row.cells))
            except ValueError:  # its callers make a problem of it
                problems.add("too large")

        for columns in read_blocks(table, as_problem(table.name, problems)):
            assert len(columns.lines) == len(columns.texts["symbol"])

    problems.refuse()

    return problems


def _datasets() -> dict[str, Parser]:
    import pyarrow as pa

    from ktdeval_qfinzero.data.bar_files import read_block, read_group, read_index
    from ktdeval_qfinzero.data.sqlite_stores import EVERYTHING, open_calendars, open_news
    from ktdeval_qfinzero.data.tables import TABLES
    from ktdeval_qfinzero.errors import ServiceError

    def bars(path: Path) -> object:
        index = read_index(path)
        return read_block(path), [read_group(path, index, n) for n in range(len(index.groups))]

    unreadable = (OSError, pa.ArrowException, ServiceError)
    seeds = _seeds_of_datasets()

    return {
        "qfinzero bars": Parser(
            of_file(bars, "bars.parquet"),
            (seeds["bars"],),
            ("ktdeval_qfinzero/data/bar_files.py",),
            unreadable,
        ),
        "qfinzero rates": Parser(
            of_file(TABLES["rates"].read, "rates.parquet"),
            (seeds["rates"],),
            ("ktdeval_qfinzero/data/tables.py",),
            unreadable,
        ),
        "qfinzero symbols": Parser(
            of_file(TABLES["symbols"].read, "symbols.parquet"), (seeds["symbols"],), (), unreadable
        ),
        "qfinzero calendar": Parser(
            of_file(lambda path: open_calendars(path).events(*EVERYTHING), "calendars.sqlite"),
            (seeds["events"],),
            ("ktdeval_qfinzero/data/sqlite_stores.py",),
            unreadable,
        ),
        "qfinzero news": Parser(
            of_file(lambda path: open_news(path).news(*EVERYTHING), "news.sqlite"),
            (seeds["news"],),
            (),
            unreadable,
        ),
    }


def dated_parquet() -> bytes:
    """Return a table whose columns state histograms of their levels."""
    import pandas as pd

    packed = io.BytesIO()
    days = pd.to_datetime(["2024-01-02", "2024-01-03"])
    pd.DataFrame({"date": days, "code": ["A", "B"]}).to_parquet(packed)

    return packed.getvalue()


def _seeds_of_datasets() -> dict[str, bytes]:
    """Return one small file of each kind that a dataset of QFinZero has."""
    from datetime import date

    import numpy as np

    from ktdeval_qfinzero.data.bar_files import block_of, write_block
    from ktdeval_qfinzero.data.rows import (
        NEWS_TYPES,
        TENOR_YEARS,
        Bars,
        EventRelease,
        EventRow,
        NewsRow,
        RateRow,
        SymbolRow,
    )
    from ktdeval_qfinzero.data.tables import TABLES

    number = np.array([1_736_121_600_000_000_000, 1_736_208_000_000_000_000], np.int64)
    price = np.array([10_000, 10_100], np.int64)
    bars = Bars(number, price, price, price, price, np.array([5.0, 6.0]), price)
    folder = scratch()
    write_block(folder / "bars.seed", block_of({"AVLN": bars, "B": bars}))
    moment = 1_736_121_600_000_000_000
    rows: dict[Any, Any] = {
        "rates": RateRow(date(2025, 1, 6), dict.fromkeys(TENOR_YEARS, 4.0), moment),
        "symbols": SymbolRow("AVLN", "stock", "Avalon", "energy", moment),
        "events": EventRow(
            "e1", "earnings", "Results", moment, moment, "high", ("AVLN",), "US", "us",
            {"eps_actual": 1.5}, (EventRelease(moment, {"eps_actual": 1.5}),),
        ),
        "news": NewsRow(
            "n1", NEWS_TYPES[0], "Title", moment, "high", ("AVLN",), "d", "body",
            "https://news.example/1", "A. Writer", {"name": "Wire"}, "us", ("a",),
        ),
    }  # fmt: skip
    seeds = {"bars": (folder / "bars.seed").read_bytes()}

    for name, row in rows.items():
        path = folder / f"{name}.seed"
        path.unlink(missing_ok=True)
        TABLES[name].write(path, [row])
        if name in ("events", "news"):
            _shrink(path)

        seeds[name] = path.read_bytes()

    return seeds


def _shrink(path: Path) -> None:
    """Give a database small pages, so that a mutation hits content."""
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA page_size = 512")
        base.execute("VACUUM")


def _pages() -> dict[str, Parser]:
    from ktdeval_qfinzero.errors import ServiceError

    return {
        "body of a page": Parser(
            _page_body,
            (b'{"instruction":"x"}', b"{}"),
            ("ktdeval_qfinzero/access/endpoints.py",),
            (ServiceError,),
        )
    }


def _page_body(data: bytes) -> object:
    from starlette.requests import Request

    from ktdeval_qfinzero.access.guarded_dispatch import check_json
    from ktdeval_qfinzero.access.pages.app import read_texts

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    check_json(data or b"{}")  # as the server's reader of bodies does
    scope = {
        "type": "http",
        "method": "POST",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }

    return asyncio.run(read_texts(Request(scope, receive), "instruction"))
