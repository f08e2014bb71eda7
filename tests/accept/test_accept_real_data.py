"""Real prices, end to end: import, a run over the long window, and its books kept again from the raw files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import accept_overheard
from accept_runs import card, evaluate, import_real, silently, verify
from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
from ktdeval.trading.ledger import StepRecord
from qlib_writer import write_qlib

pytestmark = pytest.mark.shared_data

LEVEL_BEFORE, LEVEL_AFTER = 3431.1099, 4636.5654
CASH_FEN = 100_000_000


@pytest.fixture(scope="module")
def snapshot(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_real(shared_data, tmp_path_factory.mktemp("real") / "csi300")


@pytest.fixture(scope="module")
def run(snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The default window, which is the long one."""
    out = tmp_path_factory.mktemp("real-run") / "run"
    return evaluate(out, "builtin/momentum", ["blinded_open_research"], "--data", str(snapshot))


@pytest.fixture(scope="module")
def steps(run: RunFolder) -> Sequence[StepRecord]:
    return run.load_ledger(run.manifest.specs[0]).steps


def test_the_check_finds_by_itself_what_the_notes_list(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(snapshot), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {finding["kind"]: finding for finding in report["findings"]}
    assert report["errors"] == 0
    assert found["unpriced_members"]["count"] == 2
    assert [example[:9] for example in found["unpriced_members"]["examples"]] == ["600837.SH", "601989.SH"]
    assert found["codes_without_amount"]["count"] == 22
    assert found["suspended_rows"]["count"] == 380


def test_the_long_window_has_548_steps_and_its_card_verifies(run: RunFolder, steps: Sequence[StepRecord]) -> None:
    assert len(steps) == 548
    assert (steps[0].decided_on, steps[0].filled_on, steps[-1].filled_on) == ("2023-12-29", "2024-01-02", "2026-04-10")
    verify(run.path)


def test_the_cards_benchmark_return_is_that_of_the_index(run: RunFolder) -> None:
    found = card(run, "blinded_open_research")
    assert found["snapshot"]["synthetic"] is False
    assert found["labels"] == ["mask not certified"]
    total = found["reference"]["benchmark_buy_and_hold"]["long"]["metrics"]["total_return"]["value"]
    assert total == pytest.approx(LEVEL_AFTER / LEVEL_BEFORE - 1, rel=0, abs=1e-12)


# --- the raw files, read with pandas and nothing of ours


@dataclass(frozen=True)
class Raw:
    """Day by code: open and close in fen (whole), the factor as an exact number, trade and membership."""

    days: list[str]
    open: Mapping[str, Mapping[str, int]]
    close: Mapping[str, Mapping[str, int]]
    factor: Mapping[str, Mapping[str, Fraction]]
    spells: Mapping[str, list[tuple[str, str]]]

    def trades(self, code: str, day: str) -> bool:
        return day in self.open[code]

    def is_member(self, code: str, day: str) -> bool:
        return any(first <= day <= last for first, last in self.spells.get(code, []))


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> Raw:
    table = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    table = table[table["date"] >= "2023-12-01"].assign(date=lambda t: t["date"].dt.strftime("%Y-%m-%d"))
    traded = table[table["traded"]]

    def by_code(rows: pd.DataFrame, values: pd.Series) -> dict[str, dict[str, Any]]:
        made: dict[str, dict[str, Any]] = {code: {} for code in table["code"].unique()}
        for code, day, value in zip(rows["code"], rows["date"], values, strict=True):
            made[code][day] = value
        return made

    members = pd.read_csv(shared_data / "a_share" / "csi300_members_by_rebalance.csv")
    spells: dict[str, list[tuple[str, str]]] = {}
    for row in members.itertuples():
        spells.setdefault(row.code, []).append((row.in_date, row.out_date))
    return Raw(
        days=sorted(table["date"].unique()),
        open=by_code(traded, (traded["raw_open"] * 100).round().astype(int)),
        close=by_code(traded, (traded["raw_close"] * 100).round().astype(int)),
        factor=by_code(table, table["factor"].astype(float).map(Fraction)),
        spells=spells,
    )


@dataclass
class Lot:
    """A holding: shares, those of them bought today, and what one was worth at the last close, in fen of today's terms."""

    shares: int
    today: int = 0
    mark: Fraction = Fraction(0)


@dataclass
class Books:
    """An account kept from fills and raw prices. `factor` is the last one applied to each holding."""

    cash: int = CASH_FEN
    lots: dict[str, Lot] = field(default_factory=dict)
    factor: dict[str, Fraction] = field(default_factory=dict)


JITTER = Fraction(1, 100_000)
LIMITS = {"main": Fraction(10, 100), "growth": Fraction(20, 100), "bse": Fraction(30, 100)}


def stop_distance(code: str) -> Fraction:
    """The board's daily limit less half a percentage point."""
    kind = "growth" if code.startswith(("30", "688", "689")) else "bse" if code.endswith(".BJ") else "main"
    return LIMITS[kind] - Fraction(5, 1000)


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def overnight(books: Books, raw: Raw, step: StepRecord) -> int:
    """Carry the books over factor changes as the ledger says it did, checking that no holding gains or loses a fen."""
    day = step.filled_on
    booked = {change.code: change for change in step.corporate_actions}
    for code, lot in list(books.lots.items()):
        lot.today = 0
        now = raw.factor[code].get(day, books.factor[code])
        ratio = now / books.factor[code]
        if abs(ratio - 1) <= JITTER:
            assert code not in booked
            continue
        change, books.factor[code] = booked.pop(code), now
        assert change.ratio == pytest.approx(float(ratio), rel=1e-8)
        assert change.shares_before == lot.shares
        assert change.shares_after == floor(lot.shares * ratio)
        before, ex_price = lot.shares * lot.mark, lot.mark / ratio
        if not raw.trades(code, day):  # such a holding is marked at a whole tick of 1/10,000 CNY
            ex_price = Fraction(floor(ex_price * 100), 100)
        assert abs(change.shares_after * ex_price + change.cash_minor - before) <= 1, (day, code)
        assert 0 <= change.cash_minor <= lot.mark + 1 + (0 if raw.trades(code, day) else change.shares_after / 100)
        books.cash += change.cash_minor
        books.lots[code] = Lot(change.shares_after, 0, ex_price)
    assert not booked
    return len(step.corporate_actions)


def is_at_limit(raw: Raw, code: str, day: str, side: str) -> bool:
    """Is the open at or beyond the stop, against the last close in the day's own terms?"""
    earlier = [known for known in raw.close[code] if known < day]
    if not earlier:
        return False
    last = max(earlier)
    reference = raw.close[code][last] * raw.factor[code][last] / raw.factor[code][day]
    move = raw.open[code][day] / reference - 1
    return move >= stop_distance(code) if side == "BUY" else move <= -stop_distance(code)


def open_worth(books: Books, raw: Raw, day: str) -> int:
    """NAV at the opens, before any fill."""
    return books.cash + sum(half_up(lot.shares * raw.open[code].get(day, lot.mark)) for code, lot in books.lots.items())


def fill(books: Books, raw: Raw, day: str, order: Mapping[str, Any], nav: int) -> None:
    """BrokerState one fill, judging it by every rule."""
    code, shares = order.code, order.filled_shares
    assert raw.trades(code, day), "no fill on a suspended day"
    price = raw.open[code][day]
    assert order.price_ticks == price * 100, "fills are at the open"
    assert not is_at_limit(raw, code, day, order.side)
    notional = shares * price
    rate = Fraction(5 if order.side == "BUY" else 15, 10_000)
    fee = max(500, half_up(notional * rate))
    assert (order.notional_minor, order.fee_minor) == (notional, fee)
    if order.side == "BUY":
        assert raw.is_member(code, day), "buys are of members"
        assert shares % 100 == 0
        assert shares >= (200 if code.startswith(("688", "689")) else 100)
        lot = books.lots.setdefault(code, Lot(0))
        books.factor.setdefault(code, raw.factor[code][day])
        lot.shares, lot.today = lot.shares + shares, lot.today + shares
        assert lot.shares * price * 10 <= nav, "at most a tenth of NAV in one name"
        books.cash -= notional + fee
    else:
        lot = books.lots[code]
        assert shares <= lot.shares - lot.today, "T+1"
        assert shares % 100 == 0 or (lot.shares - lot.today - shares) % 100 == 0
        lot.shares -= shares
        books.cash += notional - fee
        if not lot.shares:
            del books.lots[code], books.factor[code]
    assert books.cash >= 0
    assert len(books.lots) <= 20


def close(books: Books, raw: Raw, step: StepRecord) -> None:
    """Mark at the closes and compare holdings, cash and NAV with the ledger."""
    day = step.filled_on
    worth = {}
    for code, lot in books.lots.items():
        if raw.trades(code, day):
            lot.mark = Fraction(raw.close[code][day])
        worth[code] = half_up(lot.shares * lot.mark)
    recorded = {row.code: (row.shares, row.locked, row.value_minor) for row in step.positions}
    assert recorded == {code: (lot.shares, lot.today, worth[code]) for code, lot in books.lots.items()}, day
    assert (step.cash_minor, step.holdings_minor) == (books.cash, sum(worth.values())), day
    assert step.nav_minor == books.cash + sum(worth.values()), day


def keep_books(raw: Raw, steps: Sequence[StepRecord]) -> Mapping[str, int]:
    """Keep the books over all steps; returns counts of what came by."""
    books, seen = Books(), {"fills": 0, "changes": 0, "suspended": 0, "at limit": 0}
    for step in steps:
        day = step.filled_on
        assert step.decided_on == raw.days[raw.days.index(day) - 1]
        seen["changes"] += overnight(books, raw, step)
        nav = open_worth(books, raw, day)
        assert step.open_nav_minor == nav, day
        seen["suspended"] += sum(not raw.trades(code, day) for code in books.lots)
        for side in ("SELL", "BUY"):
            for order in step.orders:
                if order.side == side and order.filled_shares:
                    fill(books, raw, day, order, nav)
                    seen["fills"] += 1
                elif order.side == side:
                    assert order.status == "rejected"
                    if order.rule == "price_limit":
                        assert is_at_limit(raw, order.code, day, side)
                        seen["at limit"] += 1
        close(books, raw, step)
    return seen


def test_books_kept_from_the_raw_files_give_every_fill_fee_holding_and_nav(raw: Raw, steps: Sequence[StepRecord]) -> None:
    seen = keep_books(raw, steps)
    assert seen["fills"] > 400
    assert seen["changes"] > 50
    assert seen["at limit"] > 0


def test_holdings_keep_their_value_over_splits_and_dividends_also_while_suspended(raw: Raw, snapshot: Path, tmp_path: Path) -> None:
    """Names bought because they split or pay soon, the largest changes first; one of them while it is suspended."""
    first, last, suspended = "2024-07-08", "2024-07-31", "600027.SH"
    days = [day for day in raw.days if first < day <= last]
    changes = {
        code: max((abs(factor[day] / factor[before] - 1) for before, day in pairwise(days)), default=Fraction(0))
        for code, factor in raw.factor.items()
        if raw.is_member(code, first) and set(days) <= set(factor)
    }
    buys = sorted(changes, key=lambda code: (code != suspended, -changes[code]))[:20]
    assert all(changes[code] > JITTER for code in buys)
    accept_overheard.PURCHASES[:] = buys
    words = ["--plugin", "accept_overheard", "--data", str(snapshot), "--windows", f"{first}:{last}"]
    folder = evaluate(tmp_path / "run", "overheard/buyer", ["bright_memory_only"], *words)
    steps = folder.load_ledger(folder.manifest.specs[0]).steps
    assert keep_books(raw, steps)["changes"] >= 15
    booked = {(step.filled_on, change.code) for step in steps for change in step.corporate_actions}
    assert any(code == suspended and not raw.trades(code, day) for day, code in booked)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["reversal", "random", "low_volatility"])
def test_books_of_other_strategies_agree_too(model: str, raw: Raw, snapshot: Path, tmp_path: Path) -> None:
    """Losers and coin tosses meet what momentum avoids: suspensions, limit-down days, names that leave the index."""
    words = ["--data", str(snapshot), "--windows", "2024-05-06:2024-12-31", "--seed", "3"]
    folder = evaluate(tmp_path / "run", f"builtin/{model}", ["blinded_open_research"], *words)
    seen = keep_books(raw, folder.load_ledger(folder.manifest.specs[0]).steps)
    assert seen["fills"] > 20
    assert seen["changes"] > 5


def test_a_qlib_folder_of_a_part_of_it_trades_the_same(shared_data: Path, tmp_path: Path) -> None:
    """Fifty names over eighteen months, written in Qlib's layout and imported from it, and from tables: the same ledger."""
    folder = shared_data / "a_share"
    table = pd.read_parquet(folder / "csi300_ever_daily.parquet")
    members = pd.read_csv(folder / "csi300_members_by_rebalance.csv")
    codes = sorted(set(table["code"]) & set(members["code"]))[::7]
    table = table[table["code"].isin(codes) & table["date"].between("2023-07-03", "2024-12-31")]
    members = members[members["code"].isin(codes)]
    bars = tmp_path / "bars.parquet"
    table.to_parquet(bars)
    members.to_csv(tmp_path / "members.csv", index=False)
    tables = ["--bars", str(bars), "--benchmark", str(folder / "index_daily.csv.gz"), "--members", str(tmp_path / "members.csv")]
    columns = "open=raw_open,high=raw_high,low=raw_low,close=raw_close"
    assert silently(["data", "import", "long", *tables, "--map", columns, "--out", str(tmp_path / "from-tables")]) == 0
    write_qlib(tmp_path / "qlib", *qlib_parts(table, members, pd.read_csv(folder / "index_daily.csv.gz")))
    words = ["--folder", str(tmp_path / "qlib"), "--universe", "csi300"]
    assert silently(["data", "import", "qlib", *words, "--out", str(tmp_path / "from-qlib")]) == 0
    records = []
    for name in ("from-tables", "from-qlib"):
        words = ["--data", str(tmp_path / name), "--windows", "W4", "--limit", "30"]
        run = evaluate(tmp_path / f"run-{name}", "builtin/momentum", ["blinded_open_research"], *words)
        verify(run.path)
        records.append(run.load_ledger(run.manifest.specs[0]).steps)
    assert sum(order.filled_shares > 0 for step in records[0] for order in step.orders) > 20
    for one, other in zip(*records, strict=True):
        assert one == other


def qlib_parts(
    table: pd.DataFrame, members: pd.DataFrame, indices: pd.DataFrame
) -> tuple[list[str], dict[str, Any], dict[str, list[tuple[str, str, str]]]]:
    """Calendar, features and instruments in Qlib's terms: adjusted prices, volume divided by the factor."""
    days = [str(day)[:10] for day in sorted(table["date"].unique())]
    place = {day: number for number, day in enumerate(days)}

    def series(dates: pd.Series, values: pd.Series) -> tuple[int, list[float]]:
        places = [place[str(day)[:10]] for day in dates]
        dense = [float("nan")] * (max(places) - min(places) + 1)
        for at, value in zip(places, values, strict=True):
            dense[at - min(places)] = float(value)
        return min(places), dense

    features: dict[str, Any] = {}
    for code, rows in table[table["traded"]].groupby("code"):
        factor = rows["factor"].astype(float)
        values = {name: rows[f"raw_{name}"] * factor for name in ("open", "high", "low", "close")}
        values |= {"volume": rows["volume"] / factor, "amount": rows["amount"], "factor": factor}
        features[f"{code[7:]}{code[:6]}"] = {name: series(rows["date"], numbers) for name, numbers in values.items()}
    level = indices[(indices["code"] == "000300.SH") & indices["date"].isin(days)]
    features["SH000300"] = {"close": series(level["date"], level["close"])}
    instruments = [(f"{row.code[7:]}{row.code[:6]}", row.in_date, row.out_date) for row in members.itertuples()]
    return days, features, {"csi300": instruments}
