"""The account that a file declares stands next to the executed one, with the gap by cause.

Worked by hand, on a market whose opens are 10, 10, 11, 12, 12 and whose last closes are 11.50 on
2024-01-03 and 12.00 from 2024-01-04 on. An order costs 5.00 at least and a hundred-thousandth of
its value for its transfer, a sale 0.05 % more; lots have 100 shares.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ktdeval.market import save_snapshot
from ktdeval.testing import Terminal, snapshot_of_days

CODE = "600001.SH"


@pytest.fixture
def market(tmp_path: Path) -> Path:
    opens = [[10.0], [10.0], [11.0], [12.0], [12.0]]
    closes = [[10.0], [10.5], [11.5], [12.0], [12.0]]
    folder = tmp_path / "market"
    save_snapshot(snapshot_of_days([CODE], opens, closes, first="2024-01-01"), folder)
    return folder


def judged(terminal: Terminal, path: Path, market: Path, *options: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(
        terminal.out("judge", path, "--data", market, "--json", *options)
    )
    return report


def parts_of(report: dict[str, Any]) -> dict[str, float]:
    return {part["cause"]: part["value"] for part in report["declared"]["parts"] if part["value"]}


def positions(*rows: tuple[str, int, float]) -> str:
    lines = []
    for number, (day, shares, cash) in enumerate(rows):
        lines.append({"date": day, "id": number, "positions": {CODE: shares, "CASH": cash}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_cash_and_holdings_are_the_declared_account(
    tmp_path: Path, market: Path, terminal: Terminal
) -> None:
    """The file buys 150 at 10.00 and sells them at 12.50; 100 are bought at 10 and sold at 12. Fifty
    shares gain 100 by the purchase and 25 by the sale, 100 shares lose 50 by the price of the sale.
    """
    path = tmp_path / "position.jsonl"
    path.write_text(
        positions(("2024-01-01", 0, 1e5), ("2024-01-02", 150, 98_500), ("2024-01-04", 0, 100_375))
    )
    report = judged(terminal, path, market)

    assert report["declared"]["source"] == "books"
    assert report["declared"]["declared_value"] == 100_375.0
    assert report["declared"]["executed_value"] == 100_190.0 - 0.01 - 0.01 - 0.60
    assert parts_of(report) == {"price_and_moment": 50.0, "lots_and_limits": 125.0, "fees": 10.62}
    assert report["declared"]["largest_residual"] == 0.0


def test_money_that_appears_in_the_books_is_the_residual(
    tmp_path: Path, market: Path, terminal: Terminal
) -> None:
    path = tmp_path / "position.jsonl"
    path.write_text(
        positions(("2024-01-01", 0, 1e5), ("2024-01-02", 100, 99_000), ("2024-01-03", 100, 99_070))
    )
    assert parts_of(judged(terminal, path, market)) == {"fees": 5.01, "residual": 70.0}


def test_a_trade_of_the_morning_shows_the_price_of_its_moment(
    tmp_path: Path, market: Path, terminal: Terminal
) -> None:
    """200 shares at 10.20 on 2024-01-02 at 10:15 are bought at the next open, 11.00."""
    path = tmp_path / "trades.csv"
    path.write_text("time,code,side,shares,price\n2024-01-02 10:15,600001.SH,buy,200,10.2\n")
    report = judged(terminal, path, market, "--cash", 100_000)

    assert report["declared"]["source"] == "trades"
    assert report["declared"]["declared_value"] == 100_260.0
    assert parts_of(report) == {"price_and_moment": 160.0, "fees": 5.02}


def test_a_trade_of_the_last_afternoon_in_another_code_is_left_out(
    tmp_path: Path, terminal: Terminal
) -> None:
    """100 of the second code at 19.00 on the last day, which closes at 20.00; 100 of the first at
    10.00, which is its open, are worth 10.00 at the end.
    """
    market = tmp_path / "two"
    codes = ["000002.SZ", CODE]
    save_snapshot(snapshot_of_days(codes, [[20.0, 10.0]] * 5, first="2024-01-01"), market)
    path = tmp_path / "trades.csv"
    path.write_text(
        "time,code,side,shares,price\n2024-01-03 09:00,600001.SH,buy,100,10\n"
        "2024-01-05 14:00,000002.SZ,buy,100,19\n"
    )
    report = judged(terminal, path, market, "--cash", 100_000)

    assert report["declared"]["declared_value"] == 100_100.0
    assert parts_of(report) == {"fees": 5.01, "rows_left_out": 100.0}


def test_decisions_of_the_last_day_are_rows_left_out(
    tmp_path: Path, market: Path, terminal: Terminal
) -> None:
    """200 more shares at 11.90 in the afternoon of the last day, which closes at 12.00."""
    path = tmp_path / "position.jsonl"
    path.write_text(
        positions(
            ("2024-01-01", 0, 1e5),
            ("2024-01-04", 100, 98_800),
            ("2024-01-05 14:00:00", 300, 96_420),
        )
    )
    report = judged(terminal, path, market, "--until", "2024-01-05")

    assert parts_of(report) == {"fees": 5.01, "rows_left_out": 20.0}


def test_the_gap_to_a_claimed_nav_has_the_same_causes(
    tmp_path: Path, market: Path, terminal: Terminal
) -> None:
    """A claim without costs: the whole gap is fees."""
    path = tmp_path / "orders.csv"
    path.write_text("date,code,side,shares\n2024-01-01,600001.SH,buy,1000\n")
    nav = tmp_path / "nav.csv"
    nav.write_text("date,nav\n2024-01-01,100000\n2024-01-02,100500\n2024-01-03,101500\n")
    report = judged(terminal, path, market, "--nav", nav, "--cash", 100_000)

    assert report["declared"]["source"] == "nav"
    assert sum(parts_of(report).values()) == pytest.approx(5.1)


@pytest.mark.shared_data
@pytest.mark.slow
def test_daily_books_of_published_agents_have_no_residual(
    tmp_path: Path, shared_data: Path, terminal: Terminal
) -> None:
    """Seven models on the SSE 50, 2025-10 to 2025-11: each price is the open, to the cent."""
    bars = shared_data / "a_share_sse50" / "sse50_daily.csv.gz"
    market = tmp_path / "sse50"
    terminal.out("data", "make", "long", "--bars", bars, "--out", market)

    packed = (shared_data / "published" / "ai-trader.tar.zst").read_bytes()
    data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read()
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive.getmembers():
            if "agent_data_astock/" not in member.name or not member.name.endswith(
                "position.jsonl"
            ):
                continue

            stream = archive.extractfile(member)
            assert stream is not None, "a file of positions"
            lines = stream.read().decode().splitlines(keepends=True)
            path = tmp_path / f"{len(found)}" / "position.jsonl"
            path.parent.mkdir()
            path.write_text("".join(line for line in lines if '"2025-11-19"' not in line))
            report = judged(terminal, path, market)
            found.append(report["declared"]["largest_residual"])

    assert len(found) == 7
    assert max(found) <= 0.01
