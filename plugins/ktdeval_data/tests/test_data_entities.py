"""Words that give assets away in documents (`--entities`), as vendors write them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.market import Entity
from support.market.long_imports import Imports

BARS = "date,code,open,high,low,close,volume\n" + "".join(
    f"2024-01-0{day},{code},10,10.2,9.9,10,1000\n"
    for day, code in product((2, 3, 4), ("AAPL", "MSFT"))
)
NEWS = '{"published_at": "2024-01-02T14:00:00-05:00", "assets": "AAPL", "text": "b"}\n'
FOUND = (Entity("AAPL", "person", "Tim Cook"), Entity("AAPL", "product", "iPhone"))


def options_of(folder: Path, name: str, content: str, *more: str) -> tuple[object, ...]:
    (folder / "news.jsonl").write_text(NEWS)
    (folder / name).write_text(content, encoding="utf-8")
    files = ("--documents", folder / "news.jsonl", "--entities", folder / name)
    return ("--venue", "us_equity", *files, *more)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("ours.csv", "code,kind,text\nAAPL,person,Tim Cook\nAAPL,product,iPhone\n", ()),
        (
            "vendor.csv",
            "ticker,entity_type,mention,score\nAAPL US Equity,PERSON,Tim Cook,0.9\nAAPL,PRODUCT,iPhone,1\n",
            (),
        ),
        ("names.csv", "symbol,type,name\naapl,person,Tim Cook\naapl,product,iPhone\n", ()),
        ("tabs.tsv", "code\tkind\ttext\nAAPL\tperson\tTim Cook\nAAPL\tproduct\tiPhone\n", ()),
        (
            "mapped.csv",
            "who,what,how\nAAPL,person,Tim Cook\nAAPL,product,iPhone\n",
            ("--map", "entities.code=who,entities.kind=what,entities.text=how"),
        ),
        (
            "lines.jsonl",
            '{"code": "AAPL", "kind": "person", "text": "Tim Cook"}\n'
            '{"code": "AAPL", "kind": "product", "text": "iPhone"}\n',
            (),
        ),
    ],
)
def test_entities_are_read_under_the_names_of_vendors(
    name: str, content: str, options: tuple[str, ...], tmp_path: Path, imports: Imports
) -> None:
    market = imports.made(BARS, *options_of(tmp_path, name, content, *options))
    assert sorted(market.documents.entities) == sorted(FOUND)


def test_what_is_wrong_with_entities_is_said_in_one_line(tmp_path: Path, imports: Imports) -> None:
    said = ""
    for name, content, *options in (
        ("e.csv", "who,what,how\nAAPL,product,iPhone\n"),
        ("e.csv", "code,text\nAAPL,iPhone\n"),
        ("e.csv", "code,kind,text\nAAPL,gadget,iPhone\n"),
        ("e.csv", "code,kind,text\nAAPL,product,\n"),
        ("e.csv", "code,kind,text\nAAPL,product,iPhone\n", "--map", "entities.txt=text"),
        (
            "e.jsonl",
            '{"code": "AAPL", "kind": "product", "word": "iPhone"}\n',
            "--map",
            "entities.text=word",
        ),
    ):
        said += imports.refused(BARS, *options_of(tmp_path, name, content, *options))

    assert said.replace(str(tmp_path), "FOLDER") == snapshot("""\
ktdeval: error: FOLDER/e.csv: no columns for 'code' and 'kind' and 'text' (tried code, ts_code, stock_code, con_code, symbol, instrument; kind, type, entity_type, label, category; text, name, entity, alias, term, word, mention, surface); name it: --map entities.code=who,entities.kind=what,entities.text=how
ktdeval: error: FOLDER/e.csv: no column for 'kind' (tried kind, type, entity_type, label, category); none of its columns (code, text) holds kinds; add it to the file
ktdeval: error: FOLDER/e.csv: line 2 of e.csv: kind 'gadget' is unknown; expected one of name, former, ticker, product, person, place
ktdeval: error: FOLDER/e.csv: line 2 of e.csv: code and text must not be empty; fill them in or remove the row
ktdeval: error: --map: 'txt' is not a field of e.csv; did you mean 'text'?
ktdeval: error: --map entities.text is of tables, and FOLDER/e.jsonl has an object a line; name their fields code, kind, text
""")
