"""Small boards with planted truths."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import zstandard

SYMBOLS = ("600000.SH", "688001.SH")


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A board of one entrant on three days of two A-shares, by the hour."""
    return make_board(tmp_path / "board")


def make_board(folder: Path) -> Path:
    (folder / "runs/one").mkdir(parents=True)
    (folder / "runs/one/position.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    bars = ["code,time,open,high,low,close,volume"]
    for symbol, base in zip(SYMBOLS, (10.0, 50.0)):
        for number, stamp in enumerate(STAMPS):
            price = base + number
            bars.append(f"{symbol},{stamp},{price},{price + 1},{price - 1},{price + 0.5},1000000")
    (folder / "bars.csv").write_text("\n".join(bars) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


#: ends of bars: each begins where the one before ends
STAMPS = (
    "2025-10-09 10:30:00",
    "2025-10-09 11:30:00",
    "2025-10-10 10:30:00",
    "2025-10-10 11:30:00",
    "2025-10-13 10:30:00",
)


def _row(number: int, stamp: str, action: tuple[str, str, float], held: dict, cash: float) -> dict:
    kind, symbol, amount = action
    positions = {**dict.fromkeys(SYMBOLS, 0), **held, "CASH": cash}
    row = {"date": stamp, "id": number, "positions": positions}
    if kind:
        row["this_action"] = {"action": kind, "symbol": symbol, "amount": amount}
    return row


#: a buy and a sell on one day (T+1 forbids it), a STAR buy below 200, a row of amount 0; all at the
#: open of the bar that ends at the row's stamp, which is an hour before it
ROWS = (
    _row(0, "2025-10-09 09:00:00", ("", "", 0), {}, 100000.0),
    _row(1, STAMPS[0], ("buy", SYMBOLS[0], 1000), {SYMBOLS[0]: 1000}, 90000.0),
    _row(2, STAMPS[1], ("sell", SYMBOLS[0], 400), {SYMBOLS[0]: 600}, 94400.0),
    _row(3, STAMPS[2], ("buy", SYMBOLS[1], 100), {SYMBOLS[0]: 600, SYMBOLS[1]: 100}, 89200.0),
    _row(4, STAMPS[3], ("buy", SYMBOLS[1], 0), {SYMBOLS[0]: 600, SYMBOLS[1]: 100}, 89200.0),
)

RECIPE = """\
recipe: 1
name: mine
title: Mine
source: {repository: me/mine, commit: "0123456", licence: MIT}
period: 2025-10
claim: {text: One model trades two shares.}
form: positions
published: {by: unknown, note: The files hold no commits.}
entrants: {glob: "runs/{entrant}/position.jsonl"}
market:
  venue: a_share
  bar: hour
  stamp: end
  star_lot: 200
  prices: {form: csv, path: bars.csv, columns: {symbol: code, stamp: time}}
"""


@pytest.fixture(scope="session")
def boards_folder(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the archives of `../shared/data/published`, unpacked."""
    archives = shared_data / "published"
    if not archives.is_dir():
        pytest.skip(f"needs the archives in {archives}, which are not there")
    folder = tmp_path_factory.mktemp("boards")
    for archive in archives.glob("*.tar.zst"):
        with archive.open("rb") as stream:
            reader = zstandard.ZstdDecompressor().stream_reader(stream)
            with tarfile.open(fileobj=reader, mode="r|") as tar:
                tar.extractall(folder / archive.name.removesuffix(".tar.zst"), filter="data")
    return folder
