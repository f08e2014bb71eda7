"""Bad inputs, each with its refusal: the option that the message names is executed, and the import
then succeeds; a message without an option says so.
"""

from __future__ import annotations

import re
import shlex
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from support.market.long_imports import Imports

_OPTION = re.compile(r"(--[a-z][a-z-]*) ('[^']*'|[^\s;,)]+(?:,[^\s;,)]+)*)")
CODED = "date,code,open,high,low,close,volume\n"
NEWS = (
    '{"published_at": "2024-01-02T14:00:00-05:00", "assets": "AAPL", "title": "A", "text": "b"}\n'
)
DAYS = ("2024-01-02", "2024-01-03", "2024-01-04")


class Bad(NamedTuple):
    """A bad input, and what the proposed option is to give."""

    name: str
    bars: str
    options: str = ""
    side: tuple[str, str] | None = None  #: option and text of another file
    blanks: dict[str, str] | None = None  #: what stands for words in capitals
    proposed: str = ""  #: how the proposed option begins; empty: none must be proposed
    says: str = ""  #: of the message
    codes: tuple[str, ...] = ()  #: of the market after the option


def rows(*codes: str, form: str = "{day},{code},10,10.2,9.9,10,1000") -> str:
    return "".join(f"{form.format(day=day, code=code)}\n" for code, day in product(codes, DAYS))


US = "--venue us_equity"
CASES = [
    Bad("US symbols", CODED + rows("AAPL", "BRK.B"), proposed="--venue us_equity", codes=("AAPL", "BRK.B")),
    Bad("Bloomberg's US", CODED + rows("AAPL US Equity"), proposed="--venue us_equity", codes=("AAPL",)),
    Bad("coins", CODED + rows("BTCUSDT"), proposed="--venue crypto_spot", codes=("BTCUSDT",)),
    Bad("pairs", CODED + rows("BTC-USD", "ETH-USD"), proposed="--venue crypto_spot", codes=("BTC-USD", "ETH-USD")),
    Bad("both", CODED + rows("BTC-USD", "SPY"), proposed="--industry",
        blanks={"FILE": "code,venue\nBTC-USD,crypto_spot\nSPY,us_equity\n"}, codes=("BTC-USD", "SPY")),
    Bad("Hong Kong", CODED + rows("00700.HK"), says=r"00700\.HK \(Hong Kong share\)"),
    Bad("Bloomberg's Hong Kong", CODED + rows("700 HK Equity"), says="no option helps.*Hong Kong share"),
    Bad("funds", CODED + rows("510300"), says=r"510300 \(fund\).*no option helps"),
    Bad("bonds", CODED + rows("113050"), says=r"113050 \(bond\).*no option helps"),
    Bad("B shares", CODED + rows("900901"), says=r"900901 \(B share\).*no option helps"),
    Bad("one fund", CODED + rows("600519", "159915"), proposed="--repair drop_unknown_codes", codes=("600519.SH",)),
    Bad("one asset", "date,open,high,low,close,volume\n" + rows("", form="{day},10,10.2,9.9,10,1000"), US,
        proposed="--code", blanks={"CODE": "AAPL"}, codes=("AAPL",)),
    Bad("several assets", "date,asset,open,high,low,close,volume\n" + rows("AAPL", "MSFT"), US,
        proposed="--map code=asset", codes=("AAPL", "MSFT")),
    Bad("no codes of several", "date,open,high,low,close,volume\n" + 2 * rows("", form="{day},10,10.2,9.9,10,1000"), US,
        says="none of its columns .* holds codes; add it"),
    Bad("another name", CODED.replace("close", "closing") + rows("AAPL"), US,
        proposed="--map close=closing", codes=("AAPL",)),
    Bad("members", CODED + rows("AAPL", "MSFT"), US, ("members", 'day0,list\n2024-01-02,"AAPL,MSFT"\n'),
        proposed="--map members.code=list,members.in_date=day0", codes=("AAPL", "MSFT")),
    Bad("splits", CODED + rows("AAPL", "MSFT"), US, ("splits", "when,who,how\n2024-01-03,AAPL,1:1\n"),
        proposed="--map splits.date=when,splits.code=who,splits.ratio=how", codes=("AAPL", "MSFT")),
    Bad("entities", CODED + rows("AAPL", "MSFT"), f"{US} --documents news.jsonl", ("entities", "who,what,how\nAAPL,product,iPhone 15\n"),
        proposed="--map entities.code=who,entities.kind=what,entities.text=how", codes=("AAPL", "MSFT")),
    Bad("lost zeros", CODED + rows("1"), proposed="--code-width 6", codes=("000001.SZ",)),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_option_that_a_message_names_is_executed_and_works(
    case: Bad, tmp_path: Path, imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(case.options)
    Path("news.jsonl").write_text(NEWS)

    if case.side:
        Path("side.csv").write_text(case.side[1])
        words += [f"--{case.side[0]}", "side.csv"]

    message = imports.refused(case.bars, *words)

    assert re.search(case.says, message), message

    proposed = [f"{name} {value}" for name, value in _OPTION.findall(message)]

    if not case.proposed:
        assert proposed == []
        return

    (way,) = (text for text in proposed if text.startswith(case.proposed.split("COLUMN")[0]))
    for blank, value in (case.blanks or {}).items():
        if "\n" in value:
            Path("given.csv").write_text(value)
            value = "given.csv"

        way = way.replace(blank, value)

    market = imports.made(case.bars, *words, *shlex.split(way))
    assert market.codes == case.codes
