"""Words that give assets away in documents (`--entities`), as vendors write them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ktdeval.market import Entity, load_snapshot
from support.terminal import Terminal

BARS = "date,code,open,high,low,close,volume\n" + "".join(
    f"2024-01-0{day},{code},10,10.2,9.9,10,1000\n"
    for day, code in product((2, 3, 4), ("AAPL", "MSFT"))
)
NEWS = '{"published_at": "2024-01-02T14:00:00-05:00", "assets": "AAPL", "text": "b"}\n'
FOUND = (Entity("AAPL", "person", "Tim Cook"), Entity("AAPL", "product", "iPhone"))


def imported(
    folder: Path, terminal: Terminal, name: str, content: str, *words: str
) -> tuple[int, str, str]:
    (folder / "bars.csv").write_text(BARS)
    (folder / "news.jsonl").write_text(NEWS)
    (folder / name).write_text(content, encoding="utf-8")
    files = ("--bars", folder / "bars.csv", "--documents", folder / "news.jsonl")
    options = ("--venue", "us_equity", "--entities", folder / name, *words)

    return terminal.call("data", "make", "long", *files, *options, "--out", folder / "market")


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
    name: str, content: str, options: tuple[str, ...], tmp_path: Path, terminal: Terminal
) -> None:
    code, _, err = imported(tmp_path, terminal, name, content, *options)
    assert code == 0, err
    entities = load_snapshot(tmp_path / "market").documents.entities
    assert sorted(entities) == sorted(FOUND)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "e.csv",
            "who,what,how\nAAPL,product,iPhone\n",
            (),
            "no columns for 'code' and 'kind' and 'text'",
        ),
        ("e.csv", "code,text\nAAPL,iPhone\n", (), "no column for 'kind'"),
        ("e.csv", "code,kind,text\nAAPL,gadget,iPhone\n", (), "line 2 of e.csv: kind 'gadget'"),
        ("e.csv", "code,kind,text\nAAPL,product,\n", (), "line 2 of e.csv: code and text must not"),
        (
            "e.csv",
            "code,kind,text\nAAPL,product,iPhone\n",
            ("--map", "entities.txt=text"),
            "map: 'txt' is not a field of e.csv; did you mean 'text'?",
        ),
        (
            "e.jsonl",
            '{"code": "AAPL", "kind": "product", "word": "iPhone"}\n',
            ("--map", "entities.text=word"),
            "has an object a line; name their fields code, kind, text",
        ),
    ],
)
def test_what_is_wrong_with_entities_is_said_in_one_line(
    name: str,
    content: str,
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    code, out, err = imported(tmp_path, terminal, name, content, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
