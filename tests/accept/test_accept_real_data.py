"""Real prices, end to end: import, a run over the long window, and its books kept again from the raw files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accept_overheard
import reference_broker
from accept_runs import card, evaluate, import_real, silently, verify
from ktdeval.runner.store import RunFolder
from ktdeval.trading.ledger import StepRecord
from qlib_writer import write_qlib

pytestmark = pytest.mark.shared_data

LEVEL_BEFORE, LEVEL_AFTER = 3431.1099, 4636.5654
JITTER = 1e-5
COLUMNS = {"open": "raw_open", "close": "raw_close", "volume": "volume"}


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


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> dict[str, pd.DataFrame]:
    """[days, codes] tables: open, close and volume where it traded, factor, member."""
    table = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    table = table[table["date"] >= "2023-12-01"].assign(date=lambda t: t["date"].dt.strftime("%Y-%m-%d"))
    factor = table.pivot(index="date", columns="code", values="factor").astype(float)
    bars = table[table["traded"]].pivot(index="date", columns="code", values=["raw_open", "raw_close", "volume"])
    bars = bars.reindex(factor.index).astype(float).round(2)
    member = pd.DataFrame(False, index=factor.index, columns=factor.columns)
    for row in pd.read_csv(shared_data / "a_share" / "csi300_members_by_rebalance.csv").itertuples():
        if row.code in member:
            member.loc[row.in_date : row.out_date, row.code] = True
    wide = {name: bars[column].reindex(columns=factor.columns) for name, column in COLUMNS.items()}
    return {**wide, "factor": factor, "member": member}


def test_books_kept_from_the_raw_files_give_every_fill_fee_holding_and_nav(
    raw: dict[str, pd.DataFrame], steps: Sequence[StepRecord]
) -> None:
    seen = reference_broker.keep(raw, steps)
    assert seen["fills"] > 400
    assert seen["changes"] > 50
    assert seen["at limit"] > 0


def test_holdings_keep_their_value_over_splits_and_dividends_also_while_suspended(
    raw: dict[str, pd.DataFrame], snapshot: Path, tmp_path: Path
) -> None:
    """Names bought because they split or pay soon, the largest changes first; one of them while it is suspended."""
    first, last, suspended = "2024-07-08", "2024-07-31", "600027.SH"
    factor = raw["factor"].loc[first:last].iloc[1:].loc[:, raw["member"].loc[first]].dropna(axis=1)
    changes = factor.pct_change().abs().max()
    buys = sorted(changes.index, key=lambda code: (code != suspended, -changes[code]))[:20]
    assert (changes[buys] > JITTER).all()
    accept_overheard.PURCHASES[:] = buys
    words = ["--plugin", "accept_overheard", "--data", str(snapshot), "--windows", f"{first}:{last}"]
    folder = evaluate(tmp_path / "run", "overheard/buyer", ["bright_memory_only"], *words)
    steps = folder.load_ledger(folder.manifest.specs[0]).steps
    assert reference_broker.keep(raw, steps)["changes"] >= 15
    booked = {(step.filled_on, change.code) for step in steps for change in step.corporate_actions}
    assert any(code == suspended and np.isnan(raw["open"].loc[day, code]) for day, code in booked)


@pytest.mark.parametrize("model", ["reversal", "random", "low_volatility"])
def test_books_of_other_strategies_agree_too(model: str, raw: dict[str, pd.DataFrame], snapshot: Path, tmp_path: Path) -> None:
    """Losers and coin tosses meet what momentum avoids: suspensions, limit-down days, names that leave the index."""
    words = ["--data", str(snapshot), "--windows", "2024-05-06:2024-12-31", "--seed", "3"]
    folder = evaluate(tmp_path / "run", f"builtin/{model}", ["blinded_open_research"], *words)
    seen = reference_broker.keep(raw, folder.load_ledger(folder.manifest.specs[0]).steps)
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
    kept = ["--repair", "accept_member_count"]
    assert silently(["data", "import", "long", *tables, *kept, "--map", columns, "--out", str(tmp_path / "from-tables")]) == 0
    write_qlib(tmp_path / "qlib", *qlib_parts(table, members, pd.read_csv(folder / "index_daily.csv.gz")))
    words = ["--folder", str(tmp_path / "qlib"), "--universe", "csi300"]
    assert silently(["data", "import", "qlib", *words, *kept, "--out", str(tmp_path / "from-qlib")]) == 0
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
