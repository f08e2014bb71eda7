"""A model that predicts: what it sees, what it trades, and that records alone give it again."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.attribution.style_factor_panel import factor_history
from ktdeval.keyless import choose_replaced
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.testing import on_each_row
from support.runs.forging import change_transcript, read_transcript
from support.runs.run_support import SAME_MASK, TASK, WINDOW, copy_run, episodes, ktdeval, records
from support.searching import examples

PLUGIN = Path(__file__).parents[2] / "support" / "baselines" / "predictor_plugin.py"
LIMIT = 4


def run(
    folder: Path, market: Path, *words: object, model: str = "test/calm", task: str = TASK
) -> Path:
    how = (
        "--plugin",
        PLUGIN,
        "--windows",
        WINDOW,
        "--limit",
        LIMIT,
        "--data",
        market,
        *SAME_MASK,
        *words,
    )
    done = ktdeval("--model", model, "--tasks", task, *how, "--out", folder, cwd=folder.parent)

    assert done.code == 0, done

    return folder


@pytest.fixture(scope="module")
def traded(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("traded") / "run", market)


def stated_model(folder: Path) -> Path:
    """A plugin that says where the model runs, and can't make one: records have to do."""
    path = folder / "stated_model.py"
    path.write_text(
        "from ktdeval.hookspecs import Spec, hookimpl\n\n\n"
        "def absent(name, params):\n"
        "    raise AssertionError('a model was made')\n\n\n"
        "@hookimpl\n"
        "def ktdeval_models():\n"
        "    return [Spec('test/calm', absent, 'not here', remote=False)]\n"
    )

    return path


@pytest.mark.exhaustive
def test_it_buys_the_names_that_it_predicts_best(traded: Path, market: Path) -> None:
    snapshot = load_snapshot(market)
    first = load_ledger(episodes(traded)[0] / "ledger.parquet").steps[0]
    day = int(np.searchsorted(snapshot.days, np.datetime64(first.decided_on)))
    volatility = factor_panel(snapshot, range(day - 4, day + 1))[FACTOR_NAMES.index("RV_60")].mean(
        axis=0
    )
    order = [
        snapshot.codes[asset]
        for asset in np.argsort(volatility, kind="stable")
        if snapshot.member[day, asset]
    ]
    bought = {record.code for record in first.orders}

    assert len(bought) > 5  # others of the best cost more than their part of the account
    assert bought <= set(order[:20])
    # on the fill day
    assert {record.rule for record in first.orders if not record.filled_shares} <= {"suspended"}


def test_predictions_are_recorded_by_handle_and_suffice_to_verify_the_card(
    traded: Path, market: Path, tmp_path: Path
) -> None:
    for entry in read_transcript(episodes(traded)[0]):
        assert len(entry["predicted"]) > 30
        assert all(handle.startswith("asset_") for handle in entry["predicted"])
        assert all(float(f"{score:.6g}") == score for score in entry["predicted"].values())

    done = ktdeval("card", "verify", traded, "--plugin", stated_model(tmp_path), cwd=tmp_path)

    assert done.code == 0, done


@pytest.mark.exhaustive
def test_a_model_whose_plugin_is_absent_has_no_price_of_this_machine(
    traded: Path, tmp_path: Path
) -> None:
    done = ktdeval("card", "verify", traded, cwd=tmp_path)
    assert done.code == 1
    assert "price: is the price of a model of this machine" in done.out + done.err
    assert "--plugin" in done.out


def test_a_name_that_was_not_predicted_is_found_in_the_transcript(
    traded: Path, tmp_path: Path
) -> None:
    forged = copy_run(traded, tmp_path / "forged")

    def invent(entries: list) -> None:
        entries[1]["predicted"]["asset_9999"] = 1.0

    change_transcript(episodes(forged)[0], invent)
    done = ktdeval("card", "verify", forged, "--plugin", stated_model(tmp_path), cwd=tmp_path)

    assert done.code != 0
    assert "transcript" in done.out + done.err
    assert "asset_9999" in done.out + done.err


def test_trades_are_the_same_under_every_mask(traded: Path, market: Path, tmp_path: Path) -> None:
    bright = run(tmp_path / "bright", market, task="bright_open_research")
    ledgers = [load_ledger(episodes(each)[0] / "ledger.parquet").steps for each in (traded, bright)]
    fills = []

    for steps in ledgers:
        orders = chain.from_iterable(step.orders for step in steps)
        fills.append([(order.code, order.filled_shares, order.price_ticks) for order in orders])

    assert fills[0] == fills[1]


@pytest.mark.exhaustive
def test_a_replay_has_the_recorded_predictions(traded: Path, market: Path, tmp_path: Path) -> None:
    again = run(tmp_path / "again", market, model=f"replay/{traded}")
    assert (
        load_ledger(episodes(again)[0] / "ledger.parquet").steps
        == load_ledger(episodes(traded)[0] / "ledger.parquet").steps
    )
    assert ktdeval("card", "verify", again, cwd=tmp_path).code == 0


@pytest.mark.slow
def test_a_replay_of_two_masks_has_the_predictions_of_each(market: Path, tmp_path: Path) -> None:
    both = f"bright_open_research,{TASK}"
    first = run(tmp_path / "first", market, task=both)
    again = run(tmp_path / "again", market, model=f"replay/{first}", task=both)

    assert len(episodes(first)) == 2

    handles = set()

    for folder in episodes(first):
        entry = read_transcript(folder)[0]
        name = load_ledger(folder / "ledger.parquet").spec["task"]
        (twin,) = [
            other
            for other in episodes(again)
            if load_ledger(other / "ledger.parquet").spec["task"] == name
        ]
        assert [step["predicted"] for step in read_transcript(twin)] == [
            step["predicted"] for step in read_transcript(folder)
        ]
        handles.add(min(entry["predicted"])[:6])

    assert len(handles) == 2  # codes and handles
    assert ktdeval("card", "verify", again, cwd=tmp_path).code == 0


def test_equal_runs_are_equal_byte_by_byte(traded: Path, market: Path, tmp_path: Path) -> None:
    assert records(run(tmp_path / "run", market)) == records(traded)


def test_a_wrong_number_of_predictions_ends_the_episode_with_one_line(
    market: Path, tmp_path: Path
) -> None:
    words = (
        "--plugin",
        PLUGIN,
        "--windows",
        WINDOW,
        "--limit",
        1,
        "--data",
        market,
        "--out",
        tmp_path / "run",
    )
    done = ktdeval("--model", "test/nonsense", "--tasks", TASK, *words, cwd=tmp_path)

    assert done.code != 0
    assert "Nonsense.predict gave an array of shape" in done.out + done.err


def test_days_before_the_data_are_unknown(market: Path) -> None:
    history = factor_history(load_snapshot(market).as_of(3), 10)
    assert history.shape[0] == 10
    assert np.isnan(history[:6]).all()


SCORES = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0, "e": 0.0}  # standard deviation: square root of 2


@on_each_row(
    "held, threshold, gone",
    # a beats e by 4, b beats d by 2: both above 0.71
    (["d", "e"], 0.5, ["d", "e"]),
    # 2 is not above 2.83
    (["d", "e"], 2.0, ["e"]),
    # nor is 4 above 4.24
    (["d", "e"], 3.0, []),
    # b beats c by 1
    (["a", "c"], 0.5, ["c"]),
    (["a", "c"], 0.8, []),
    # the best are held
    (["a", "b"], 0.0, []),
    # one too many: the worst goes, whatever the threshold
    (["a", "d", "e"], 3.0, ["e"]),
)
def test_holdings_give_way_to_names_that_beat_them_by_the_threshold(
    held: list[str], threshold: float, gone: list[str]
) -> None:
    best = [{"stock_id": name} for name in SCORES]
    assert choose_replaced(SCORES, held, best, 2, threshold) == set(gone)


@pytest.mark.slow
@examples(40)
@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=12, unique=True), st.integers(1, 4), st.data()
)
def test_a_higher_threshold_never_trades_more(
    values: list[float], positions: int, data: st.DataObject
) -> None:
    scores = {f"n{number}": value for number, value in enumerate(values)}
    held = data.draw(st.lists(st.sampled_from(sorted(scores)), unique=True, max_size=positions))
    best = [{"stock_id": name} for name in sorted(scores, key=lambda name: -scores[name])]
    gone = [
        choose_replaced(scores, held, best, positions, threshold)
        for threshold in (0.0, 0.5, 1.0, 4.0)
    ]

    assert all(fewer <= more for more, fewer in pairwise(gone))

    without = [row["stock_id"] for row in best[:positions]]
    assert gone[0] == {name for name in held if name not in without} or len(held) < positions
