"""Real prices, end to end: import, a run over the long window, and its books kept again from the
raw files alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.trading.ledger import StepRecord
from support.accept import accept_overheard
from support.accept.accept_runs import card, evaluate, import_real, verify
from support.market import reference_broker

pytestmark = pytest.mark.shared_data

LEVEL_BEFORE = 3431.1099
LEVEL_AFTER = 4636.5654
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


@pytest.mark.exhaustive
def test_the_long_window_has_548_steps_and_its_card_verifies(
    run: RunFolder, steps: Sequence[StepRecord]
) -> None:
    assert len(steps) == 548
    assert (steps[0].decided_on, steps[0].filled_on, steps[-1].filled_on) == (
        "2023-12-29",
        "2024-01-02",
        "2026-04-10",
    )

    verify(run.path)


def test_the_cards_benchmark_return_is_that_of_the_index(run: RunFolder) -> None:
    found = card(run, "blinded_open_research")
    assert found["snapshot"]["synthetic"] is False
    assert found["labels"] == ["mask not certified", "identifiable by its prices", "public key"]

    total = found["reference"]["benchmark_buy_and_hold"]["long"]["metrics"]["total_return"]["value"]
    assert total == pytest.approx(LEVEL_AFTER / LEVEL_BEFORE - 1, rel=0, abs=1e-12)


# --- the raw files, read with pandas and nothing of ours


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> dict[str, pd.DataFrame]:
    """[days, codes] tables: open, close and volume where it traded, factor, member."""
    table = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    table = table[table["date"] >= "2023-12-01"].assign(
        date=lambda t: t["date"].dt.strftime("%Y-%m-%d")
    )
    factor = table.pivot(index="date", columns="code", values="factor").astype(float)
    bars = table[table["traded"]].pivot(
        index="date", columns="code", values=["raw_open", "raw_close", "volume"]
    )
    bars = bars.reindex(factor.index).astype(float).round(2)
    member = pd.DataFrame(False, index=factor.index, columns=factor.columns)

    for row in pd.read_csv(
        shared_data / "a_share" / "csi300_members_by_rebalance.csv"
    ).itertuples():
        if row.code in member:
            member.loc[row.in_date : row.out_date, row.code] = True

    wide = {name: bars[column].reindex(columns=factor.columns) for name, column in COLUMNS.items()}

    return {**wide, "factor": factor, "member": member}


@pytest.mark.exhaustive
def test_accounts_from_the_raw_files_give_every_fill_fee_holding_and_nav(
    raw: dict[str, pd.DataFrame], steps: Sequence[StepRecord]
) -> None:
    seen = reference_broker.keep(raw, steps)
    assert seen["fills"] > 400
    assert seen["changes"] > 50
    assert seen["at limit"] > 0


@pytest.mark.exhaustive
def test_holdings_keep_value_over_splits_and_dividends_even_if_suspended(
    raw: dict[str, pd.DataFrame], snapshot: Path, tmp_path: Path
) -> None:
    """Names bought because they split or pay soon, the largest changes first; one of them while it
    is suspended.
    """
    first = "2024-07-08"
    last = "2024-07-31"
    suspended = "600027.SH"
    factor = raw["factor"].loc[first:last].iloc[1:].loc[:, raw["member"].loc[first]].dropna(axis=1)
    changes = factor.pct_change().abs().max()
    buys = sorted(changes.index, key=lambda code: (code != suspended, -changes[code]))[:20]

    assert (changes[buys] > JITTER).all()

    accept_overheard.PURCHASES[:] = buys
    words = [
        "--plugin",
        accept_overheard.__name__,
        "--data",
        str(snapshot),
        "--windows",
        f"{first}:{last}",
    ]
    folder = evaluate(tmp_path / "run", "overheard/buyer", ["bright_memory_only"], *words)
    steps = folder.load_ledger(folder.manifest.specs[0]).steps

    assert reference_broker.keep(raw, steps)["changes"] >= 15

    booked = set()

    for step in steps:
        booked |= {(step.filled_on, change.code) for change in step.corporate_actions}

    assert any(code == suspended and np.isnan(raw["open"].loc[day, code]) for day, code in booked)


@pytest.mark.parametrize(
    "model",
    [
        "random",
        pytest.param("reversal", marks=pytest.mark.exhaustive),
        pytest.param("low_volatility", marks=pytest.mark.exhaustive),
    ],
)
def test_books_of_other_strategies_agree_too(
    model: str, raw: dict[str, pd.DataFrame], snapshot: Path, tmp_path: Path
) -> None:
    """Losers and coin tosses meet what momentum avoids: suspensions, limit-down days, names that
    leave the index.
    """
    words = ["--data", str(snapshot), "--windows", "2024-05-06:2024-12-31", "--seed", "3"]
    folder = evaluate(tmp_path / "run", f"builtin/{model}", ["blinded_open_research"], *words)
    seen = reference_broker.keep(raw, folder.load_ledger(folder.manifest.specs[0]).steps)

    assert seen["fills"] > 20
    assert seen["changes"] > 5
