"""Ledger files: version 1 of A-shares, version 2 of any market, each read as it was written."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ktdeval.errors import StoreError
from ktdeval.runner.ledger_file import encode_ledger, load_ledger
from ktdeval.testing import step_record
from ktdeval.trading import ChargeRecord, Ledger, Scale
from ktdeval.trading.ledger import StepRecord
from ktdeval.typed import from_plain, to_plain
from trading_market import make_market


def ledgers() -> tuple[Ledger, Ledger]:
    record = step_record(make_market(["600001.SH"], [[10.0], [10.5]]), 0, 1)
    charges = (ChargeRecord(kind="borrow", code="TSLA", shares=-10_000, price_ticks=3_000_000, cash_minor=-12, fee_minor=0),)
    charged = from_plain({**to_plain(record), "charges": to_plain(charges)}, StepRecord, "record")
    of_a_shares = Ledger({"seed": 1}, 100_000_000, [record])
    return of_a_shares, Ledger({"seed": 1}, 1_000_000, [charged], "USD", 100, 365, {"TSLA": Scale(10_000, 10_000)})


def names_of(path: Path) -> str:
    return str(pq.read_schema(path).remove_metadata())


def test_a_ledger_is_read_as_it_was_written_and_only_that_of_a_shares_speaks_of_fen(tmp_path: Path) -> None:
    for version, ledger in enumerate(ledgers(), start=1):
        path = tmp_path / f"{version}.parquet"
        path.write_bytes(encode_ledger(ledger))
        assert ledger.version == version
        assert load_ledger(path) == dataclasses.replace(ledger, steps=list(ledger.steps))
        assert encode_ledger(load_ledger(path)) == path.read_bytes()
        assert ("_fen" in names_of(path), "_minor" in names_of(path), "charges" in names_of(path)) == (
            version == 1,
            version == 2,
            version == 2,
        )


def test_a_ledger_of_another_version_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.parquet"
    path.write_bytes(encode_ledger(ledgers()[1]))
    table = pq.read_table(path)
    market = table.schema.metadata[b"ktdeval.ledger"].replace(b'"version":2', b'"version":3')
    metadata = {**table.schema.metadata, b"ktdeval.ledger": market}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(StoreError, match=r"ledger.parquet.*version"):
        load_ledger(path)


def test_quantities_and_prices_of_a_code_have_its_own_scale() -> None:
    ledger = ledgers()[1]
    assert (ledger.scale("TSLA"), ledger.scale("600519.SH"), ledger.scale(None)) == (Scale(10_000, 10_000), Scale(), Scale())
