"""Decisions under either code of a renumbered asset are executed on all days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.market import Instrument, MarketSnapshot, NameSpell, save_snapshot, with_id
from ktdeval.testing import Terminal, snapshot_of_days

pytestmark = pytest.mark.needs("ktdeval_markets", "ktdeval_data")

# USD 200,000, without costs: 1,000 shares from 100 to 118 gain 18,000, which is 9 %
EVER = "2200-01-01"
RENAMED = (
    NameSpell("META", "1900-01-01", "2024-01-06", "Facebook", "FB"),
    NameSpell("META", "2024-01-07", EVER, "Meta Platforms", "META"),
)
DAYS = 12
RULES = ("--venue", "unrestricted_usd", "--cash", 200_000)


def american(codes: tuple[str, ...] = ("META", "MSFT"), **more: Any) -> MarketSnapshot:
    """12 days from 2024-01-01; META rises by 2 a day, from 100 on 2024-01-03, and is called FB until
    2024-01-06; the others stay at 50.
    """
    opens = [[96.0 + 2 * day] + [50.0] * (len(codes) - 1) for day in range(DAYS)]
    return snapshot_of_days(
        codes,
        opens,
        first="2024-01-01",
        instruments=(Instrument("stock", "USD", "us_equity"),) * len(codes),
        spells=RENAMED,
        **more,
    )


@pytest.fixture
def market(tmp_path: Path) -> Path:
    return stored(american(), tmp_path)


def stored(snapshot: MarketSnapshot, folder: Path) -> Path:
    save_snapshot(with_id(snapshot), folder / "market")
    return folder / "market"


def declared(folder: Path, *rows: str, header: str = "date,code,side,qty") -> Path:
    path = folder / "declared.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def judged(terminal: Terminal, file: Path, market: Path, *rules: object) -> Any:
    out = file.with_name("run")
    terminal.out("judge", file, "--data", market, "--out", out, *(rules or RULES))
    return terminal.report("judge", out)


@pytest.mark.parametrize(
    ("bought", "sold"), [("FB", "META"), ("META", "META"), ("FB", "FB"), ("fb", "meta")]
)
def test_either_code_is_read_on_all_days(
    bought: str, sold: str, market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    file = declared(tmp_path, f"2024-01-02,{bought},buy,1000", f"2024-01-11,{sold},sell,1000")
    report = judged(terminal, file, market)

    assert report["executed_return"]["value"] == pytest.approx(0.09)
    assert (report["unfilled"], report["codes"]) == ([], 1)


def test_both_codes_on_one_day_are_one_asset(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    rows = ("2024-01-02,FB,buy,700", "2024-01-02,META,buy,300", "2024-01-11,META,sell,1000")
    report = judged(terminal, declared(tmp_path, *rows), market)
    assert report["executed_return"]["value"] == pytest.approx(0.09)


def test_weights_under_todays_code_before_the_rename_are_held_and_sold(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    """Half the account from 100 to 118; the holding, shown as FB, is neither bought twice nor sold
    by the same weights on a later day.
    """
    rows = ("2024-01-02,META,0.5", "2024-01-11,MSFT,0")
    file = declared(tmp_path, *rows, header="date,code,weight")
    report = judged(terminal, file, market)
    assert report["executed_return"]["value"] == pytest.approx(0.09)
    assert report["unfilled"] == []


def test_two_weights_of_a_day_under_two_codes_are_refused(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    rows = ("2024-01-02,FB,0.5", "2024-01-02,META,0.3")
    file = declared(tmp_path, *rows, header="date,code,weight")
    error = terminal.refusal("judge", file, "--data", market)
    assert "line 3: 2024-01-02 has two targets for META, as FB and META; keep one row" in error


def test_a_renumbering_of_beijing_is_read_under_both_codes(
    tmp_path: Path, terminal: Terminal
) -> None:
    """A tenth of the account falls by 23 %: -2.30 %."""
    renumbered = (
        NameSpell("920017.BJ", "1900-01-01", "2024-01-05", "star", "430017.BJ"),
        NameSpell("920017.BJ", "2024-01-06", EVER, "star", "920017.BJ"),
    )
    opens = [[10.0]] * 3 + [[7.7]] * (DAYS - 3)
    market = snapshot_of_days(["920017.BJ"], opens, first="2024-01-01", spells=renumbered)
    path = stored(market, tmp_path)
    rules = ("--venue", "unrestricted_cny", "--cash", 100_000, "--until", "2024-01-10")
    for code in ("430017", "920017.BJ"):
        folder = tmp_path / code
        folder.mkdir()
        file = declared(folder, f"2024-01-02,{code},buy,1000")
        report = judged(terminal, file, path, *rules)
        assert report["executed_return"]["value"] == pytest.approx(-0.023), code


def test_a_code_that_another_asset_has_taken_over_is_refused_with_both(
    tmp_path: Path, terminal: Terminal
) -> None:
    taken_over = american(codes=("META", "MSFT"))
    spells = (*RENAMED, NameSpell("MSFT", "2024-01-09", EVER, "Other", "FB"))
    market = stored(
        snapshot_of_days(
            ["META", "MSFT"],
            [[100.0, 50.0]] * DAYS,
            first="2024-01-01",
            instruments=taken_over.instruments,
            spells=spells,
        ),
        tmp_path,
    )
    file = declared(tmp_path, "2024-01-02,FB,buy,1000")
    error = terminal.refusal("judge", file, "--data", market)
    assert "line 2: 'FB' is the code of two assets of tiny, one after the other: META" in error
    assert "and MSFT" in error


def test_a_misspelled_former_code_is_suggested(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    error = terminal.refusal(
        "judge", declared(tmp_path, "2024-01-02,FBB,buy,1000"), "--data", market
    )
    assert "did you mean 'FB'?" in error
