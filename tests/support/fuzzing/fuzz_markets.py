"""Parsers of files of markets and of QFinZero's datasets, and of what a browser sends to its pages."""

from __future__ import annotations

import asyncio
import gzip
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from support.fuzzing.fuzz_kit import Parser, in_folder, of_file, scratch

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
            ("ktdeval_tables/readers/rows.py", "ktdeval_tables/readers/blocks.py"),
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
    from ktdeval_qfinzero.data.ingest_mapping import as_problem, files_of, plain_json, shape_table
    from ktdeval_qfinzero.data.ingest_spec import TableFiles
    from ktdeval_qfinzero.data.problems import ProblemList
    from ktdeval_tables.readers.blocks import read_blocks
    from ktdeval_tables.readers.rows import read_rows

    fields = ("symbol", "time", "open", "high", "low", "close", "volume")
    problems = ProblemList()

    for file in files_of(path.parent, path.name):
        table = shape_table(file, fields, ("symbol", "time"), TableFiles(path.name))
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
    import duckdb

    from ktdeval_qfinzero.data.contents import all_parts
    from ktdeval_qfinzero.data.stored_market import open_market

    def market(path: Path) -> object:
        with open_market(path) as connection:
            return all_parts(connection)

    return {
        "qfinzero market": Parser(
            of_file(market, "market.duckdb"),
            (_market(),),
            ("ktdeval_qfinzero/data/contents.py", "ktdeval_qfinzero/data/schema.py"),
            (duckdb.Error, ValueError, OverflowError),
        ),
    }


def dated_parquet() -> bytes:
    """Return a table whose columns state histograms of their levels."""
    import pandas as pd

    packed = io.BytesIO()
    days = pd.to_datetime(["2024-01-02", "2024-01-03"])
    pd.DataFrame({"date": days, "code": ["A", "B"]}).to_parquet(packed)

    return packed.getvalue()


def _market() -> bytes:
    """Return the file of a small dataset, in small blocks, so that a mutation hits content."""
    import duckdb

    from ktdeval_qfinzero.data.schema import create_tables

    path = scratch() / "market.seed"
    path.unlink(missing_ok=True)
    moment = 1_736_121_600_000_000_000
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS market (BLOCK_SIZE 16384)")
        create_tables(connection, "market")
        for statement in (
            f"series VALUES (0, 'stock', 'day', 'AVLN', 'AVLN', {moment}, {moment})",
            f"bars VALUES (0, {moment}, 10000, 10100, 9900, 10000, 5, 1)",
            f"symbols VALUES ('AVLN', 'stock', 'Avalon', 'energy', {moment}, false)",
            f"rates VALUES ('2025-01-06', map {{'1M': 4.0}}, {moment})",
            f"events VALUES ('e1', 'earnings', 'Results', {moment}, {moment}, 'high', ['AVLN'], 'US', 'us', '{{}}', '[]',"
            f" 'test', ' results ', [], [{moment}])",
        ):
            connection.execute(f"INSERT INTO market.{statement}")

    return path.read_bytes()


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
