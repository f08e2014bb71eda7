"""What a holding is worth after its bars have ended is the user's figure, and is named: CRSP's
delisting return, applied on the session after the last bar.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ktdeval.market.rules.calendar import sessions
from ktdeval.testing import Terminal
from support.market.long_imports import Imports

DAYS = sessions("2024-01-02", "2024-01-31", "XNYS").astype(str).tolist()
END = 9  #: row of the last bar of GONE: 2024-01-16, a Tuesday after a holiday


def bars(last: int = END, factor: bool = False) -> str:
    """Two shares: STAY at 20 on all days, GONE at 10 up to a row; it is split 2:1 on row 5."""
    lines = ["date,code,open,high,low,close,volume" + ",factor" * factor]
    for row, day in enumerate(DAYS):
        lines.append(f"{day},STAY,20,20.5,19.5,{20 + 0.1 * (row % 3):.2f},1000" + ",1" * factor)
        if row <= last:
            price = 10 if row < 5 or not factor else 5
            also = f",{1 if row < 5 else 2}" * factor
            lines.append(
                f"{day},GONE,{price},{price + 0.1},{price - 0.1},{price},{900 + row}{also}"
            )

    return "\n".join(lines) + "\n"


@pytest.fixture
def imports(tmp_path: Path, terminal: Terminal) -> Imports:
    return Imports(tmp_path, terminal)


def test_codes_that_end_before_the_market_are_warned_of_with_their_last_day(
    imports: Imports,
) -> None:
    imports.made(bars(), "--venue", "us_equity")

    assert "warning [ended_codes] codes that end before the market's last day" in imports.printed
    assert f"» GONE on {DAYS[END]}" in imports.printed
    assert "--delisting-return -0.3" in imports.printed


def test_a_code_with_a_bar_on_the_last_day_is_not_warned_of(imports: Imports) -> None:
    imports.made(bars(len(DAYS) - 1), "--venue", "us_equity")

    assert "ended_codes" not in imports.printed


def test_one_return_is_applied_on_the_session_after_the_last_bar(imports: Imports) -> None:
    market = imports.made(bars(), "--venue", "us_equity", "--delisting-return", "-0.3")
    gone = market.asset_index["GONE"]

    # 10 x (1 - 0.3) = 7, on the day after the last bar alone, without volume: it can't be traded
    assert market.close[END, gone] == 10.0
    assert market.close[END + 1, gone] == pytest.approx(7.0, abs=1e-12)
    assert market.volume[END + 1, gone] == 0.0
    assert np.isnan(market.close[END + 2 :, gone]).all()
    assert np.isfinite(market.close[:, market.asset_index["STAY"]]).all()
    assert market.meta.repairs == ("delisting_return: 1 code ends at -30 % after its last bar",)
    assert "ended_codes" not in imports.printed


def test_without_the_option_nothing_is_assumed(imports: Imports) -> None:
    market = imports.made(bars(), "--venue", "us_equity")

    assert np.isnan(market.close[END + 1 :, market.asset_index["GONE"]]).all()
    assert market.meta.repairs == ()


def test_returns_by_code_come_from_a_file_with_crsps_name(imports: Imports, tmp_path: Path) -> None:
    file = tmp_path / "delisted.csv"
    file.write_text("code,DLRET\ngone,-1\nSTAY,-0.5\nOTHER,0.2\n")

    market = imports.made(bars(), "--venue", "us_equity", "--delisting-return", file)

    # nothing is left: the smallest price of the venue, a hundredth of a cent
    assert market.close[END + 1, market.asset_index["GONE"]] == 0.0001
    assert np.isfinite(market.close[:, market.asset_index["STAY"]]).all()
    assert market.meta.repairs == (
        "delisting_return: 1 code ends at -100 % after its last bar; 1 of the file has bars to the"
        " market's end",
    )


def test_a_code_that_a_file_leaves_out_keeps_its_last_price_and_is_counted(
    imports: Imports, tmp_path: Path
) -> None:
    file = tmp_path / "delisted.csv"
    file.write_text("code,return\nOTHER,0.2\n")

    market = imports.made(bars(), "--venue", "us_equity", "--delisting-return", file)

    assert np.isnan(market.close[END + 1, market.asset_index["GONE"]])
    assert market.meta.repairs == ("delisting_return: 0 codes; 1 that ends keeps its last price",)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("-30", "delisting return of GONE: -30 is not a return from -1 (worthless) to 100"),
        ("nan", "delisting return of GONE: nan is not a return from -1"),
        ("code,return\nGONE,\n", "code GONE has no return; write -0.3"),
        ("code,return\nGONE,-1\ngone,-0.5\n", "code GONE has two returns; leave one out"),
        ("code,name\nGONE,x\n", "return"),
    ],
)
def test_wrong_returns_are_refused_in_one_line(
    text: str, refusal: str, imports: Imports, tmp_path: Path
) -> None:
    given = text
    if "\n" in text:
        file = tmp_path / "delisted.csv"
        file.write_text(text)
        given = str(file)

    assert refusal in imports.refused(bars(), "--venue", "us_equity", "--delisting-return", given)


def test_the_last_price_is_read_in_terms_of_the_day_of_the_return(imports: Imports) -> None:
    """After a 2:1 split, 5 is the close, and 5 x 0.7 = 3.5 the value that is left."""
    market = imports.made(bars(factor=True), "--venue", "us_equity", "--delisting-return", "-0.3")
    gone = market.asset_index["GONE"]

    assert market.factor[END, gone] == 2.0
    assert market.close[END + 1, gone] == pytest.approx(3.5, abs=1e-12)


@pytest.mark.slow
def test_an_account_that_holds_the_code_loses_the_return_and_its_card_names_it(
    imports: Imports, terminal: Terminal, tmp_path: Path
) -> None:
    """500,000 of 1,000,000 USD buy 50,000 shares at 10.00. They end at 7.00 instead of 10.00: 150,000
    USD, 15 % of the account, are lost.
    """
    decisions = tmp_path / "weights.csv"
    rows = [f"{DAYS[1]},GONE,0.5", f"{DAYS[1]},STAY,0.4", f"{DAYS[18]},GONE,0.5"]
    decisions.write_text("\n".join(["date,code,weight", *rows]) + "\n")
    earned = {}
    printed = {}
    for name, options in {"kept": (), "lost": ("--delisting-return", "-0.3")}.items():
        imports.made(bars(), "--venue", "us_equity", *options)
        words = ("judge", decisions, "--data", tmp_path / "market", "--out", tmp_path / name)
        printed[name] = terminal.out(*words)
        document = json.loads((tmp_path / name / "judge.json").read_text())
        earned[name] = document["executed_return"]["value"]

    assert earned["kept"] - earned["lost"] == pytest.approx(0.15, abs=1e-9)
    assert "% of the last NAV has had no bar since 2024-01-16 (1 holding" in printed["kept"]
    assert "% of the last NAV has had no bar since 2024-01-17 (1 holding" in printed["lost"]

    (card,) = (tmp_path / "lost" / "cards").glob("*.json")
    shown = terminal.out("card", "show", card, "--all")
    assert "delisting_return: 1 code ends at -30 % after its last bar" in " ".join(shown.split())
