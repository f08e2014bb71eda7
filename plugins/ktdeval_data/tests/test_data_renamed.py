"""Files under former codes are those of the renumbered asset: chains of codes, and documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktdeval.market import load_snapshot
from ktdeval.testing import Terminal

DAYS = ("2024-03-04", "2024-03-05", "2024-03-06", "2024-03-07", "2024-03-08", "2024-03-11")
CODES = ("OLD", "OLD", "MID", "MID", "NEW", "NEW")
EACH_STEP = "MID,Mid,2024-03-04,2024-03-05,OLD\nNEW,New,2024-03-06,2024-03-07,MID\n"
TODAY = "NEW,Old,2024-03-04,2024-03-05,OLD\nNEW,Mid,2024-03-06,2024-03-07,MID\n"


def made(terminal: Terminal, folder: Path, names: str) -> Any:
    bars = ["date,code,open,high,low,close,volume"]
    for number, (day, code) in enumerate(zip(DAYS, CODES, strict=True)):
        bars.append(f"{day},{code},{10 + number},{10 + number},{10 + number},{10 + number},1000")
    (folder / "bars.csv").write_text("\n".join(bars) + "\n")
    (folder / "names.csv").write_text("code,name,in_date,out_date,code_then\n" + names)
    items = []
    for code in ("OLD", "NEW"):
        known = "2024-03-05T12:00:00-05:00"
        item = {"published_at": known, "source": "wire", "kind": "news", "assets": code}
        items.append(json.dumps({**item, "title": code, "text": "words"}))
    (folder / "news.jsonl").write_text("\n".join(items) + "\n")

    words = ("--bars", folder / "bars.csv", "--venue", "us_equity", "--names", folder / "names.csv")
    words += ("--documents", folder / "news.jsonl", "--documents-close", "16:00 America/New_York")
    terminal.out("data", "make", "long", *words, "--out", folder / "market")
    return load_snapshot(folder / "market")


@pytest.mark.parametrize("last", ["", "NEW,New,2024-03-08,,NEW\n"])
@pytest.mark.parametrize("names", [EACH_STEP, TODAY])
def test_a_chain_of_two_renames_is_one_asset(
    names: str, last: str, tmp_path: Path, terminal: Terminal
) -> None:
    market = made(terminal, tmp_path, names + last)
    assert market.codes == ("NEW",)
    assert market.close[:, 0].tolist() == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
    assert [market.assets_called(code) for code in ("OLD", "MID", "NEW")] == [(0,)] * 3
    assert [market.name_asset(0, row)[0] for row in (0, 2)] == ["OLD", "MID"]


def test_documents_under_a_former_code_are_found_for_the_asset(
    tmp_path: Path, terminal: Terminal
) -> None:
    market = made(terminal, tmp_path, TODAY)
    view = market.as_of(1).documents
    assert {view[row].title for row in view.rows(2, ["NEW"])} == {"OLD", "NEW"}
