"""`ktdeval compare labels`: pairs of episodes checked by hand, their means and intervals, the part
of a result due to chance, and the effect of a key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import UNSET, structs
from scipy import stats

from ktdeval.cards.fields.replies.calls import Calls
from ktdeval.errors import CardError
from ktdeval.task_api.episode_spec import Window
from ktdeval.testing import errors_of
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from ktdeval.values import from_plain
from ktdeval_compare import functions
from ktdeval_compare.forks.episode_distance import FIGURES, course_of, distances, parted_on
from ktdeval_compare.labels.label_invariance import (
    InvarianceOptions,
    InvarianceReport,
    PairFigureRow,
    invariance,
)
from ktdeval_compare.labels.label_invariance_texts import key_parts
from ktdeval_compare.masks import mask_key_effect
from ktdeval_compare.masks.mask_key_effect import (
    FirstPurchases,
    KeyReport,
    KeySpreadOptions,
    SpreadRow,
    first_listed,
    profits_of,
)
from ktdeval_compare.pairs.compared_cards import EntrantCard, load_entrants
from ktdeval_compare.table_columns import lines_of
from support.figures.card_cases import CALLS, spec_of
from support.figures.compare_cards import CardTerminal, Cell, make_card, save_run
from support.figures.metric_cases import CODES, market, order, spec, step

# ---- figures of a pair, by hand


def ledger(*steps: tuple[int, Sequence[dict[str, Any]], Sequence[dict[str, Any]]]) -> Ledger:
    """Ledger with the NAV in fen, orders and positions of each step; it starts with 1,000 CNY."""
    made = []
    for number, (nav, orders, positions) in enumerate(steps):
        record = {
            **step(0, nav),
            "step": number,
            "decided_on": f"2024-01-0{number + 2}",
            "filled_on": f"2024-01-0{number + 3}",
        }
        made.append(
            {
                **record,
                "orders": list(orders),
                "positions": list(positions),
                "cash_minor": 50_000,
                "open_nav_minor": 100_000,
            }
        )

    return Ledger({}, 100_000, from_plain(made, list[StepRecord], "steps"))


HELD = [
    {"code": CODES[0], "shares": 100, "locked": 0, "price_ticks": 100_000, "value_minor": 100_000}
]


def test_figures_by_hand() -> None:
    """Three steps: the same purchase; the same account with a different decision; different
    accounts without orders.
    """
    same = order(CODES[0], filled=10)
    one = ledger(
        (100_000, [same], []), (110_000, [order(CODES[0], filled=20)], HELD), (110_000, [], HELD)
    )
    other = ledger(
        (100_000, [same], []), (100_000, [order(CODES[1], filled=30), same], []), (121_000, [], [])
    )
    found = distances(course_of(one), course_of(other))

    # Orders by step: {a} {a}; {b'} {b, a}: as decided all weigh 0.05, so that `a` is in both; {}
    # {}.
    assert found["decisions"] == pytest.approx(1 / 3)
    assert found["decisions_alike"] == pytest.approx(1 / 2)
    assert found["orders"] == pytest.approx(1 - 2 / 3)
    # Filled, as shares of 1,000 CNY: 0.1 in both; then 0.2 of the first asset against 0.1, and 0.3
    # of the second against none.
    assert found["turnover"] == pytest.approx((0.1 + 0.3) / (0.2 + 0.3 + 0.3))
    assert found["nav"] == pytest.approx((0 + np.log(1.1) + np.log(1.1)) / 3)
    assert found["total_return"] == pytest.approx(0.11)
    assert parted_on(course_of(one), course_of(other)) == "2024-01-04"


def test_side_size_and_asset_alone_are_part_of_a_decision() -> None:
    base = order(CODES[0], filled=0)

    def decisions(*orders: dict[str, Any]) -> float | str:
        return distances(
            course_of(ledger((100_000, [base], []))), course_of(ledger((100_000, orders, [])))
        )["decisions"]

    assert (
        decisions(
            {
                **base,
                "confidence": 0.9,
                "reason": "another thought",
                "status": "rejected",
                "rule": "lot",
            }
        )
        == 0.0
    )
    assert decisions({**base, "side": "SELL"}) == 1.0
    assert decisions({**base, "target_weight": 0.06}) == 1.0
    assert decisions({**base, "target_weight": None, "shares": 100}) == 1.0
    assert decisions({**base, "code": CODES[1]}) == 1.0
    assert decisions({**base, "code": None, "stock_id": "asset_9999"}) == 1.0
    assert decisions(base, base) == 1.0

    two = [order(CODES[0]), order(CODES[1])]
    left, right = (course_of(ledger((100_000, orders, []))) for orders in (two, two[::-1]))

    assert set(distances(left, right).values()) == {0.0}


def test_without_orders_there_is_no_share_of_them() -> None:
    still = course_of(ledger((100_000, [], [])))

    undefined = {"orders": "neither gave an order", "turnover": "neither traded"}

    assert distances(still, still) == dict.fromkeys(FIGURES, 0.0) | undefined
    assert parted_on(still, still) is None


def test_a_nav_that_is_not_positive_has_no_path_to_compare() -> None:
    one = course_of(ledger((100_000, [], [])))
    ruined = course_of(ledger((0, [], [])))

    assert distances(one, ruined)["nav"] == "a NAV is not positive"
    assert distances(ruined, one)["nav"] == "a NAV is not positive"
    assert distances(one, ruined)["total_return"] == 1.0


# ---- runs under several keys

STILL = (0.0,) * 5
ROSE = (0.1, 0.0, 0.0, 0.0, 0.0)
GAINED = (0.02, 0.0, 0.0, 0.0, 0.0)
WINDOWS = (("A1", 0), ("A2", 0))
BUY = order(CODES[0])


def run_of(
    folder: Path,
    key: str,
    daily: Mapping[Cell, Sequence[float]],
    orders: Mapping[Cell, Any] | None = None,
    **changes: Any,
) -> Path:
    """A run under the mask key given by a letter."""
    card = make_card(dict.fromkeys(daily, 0.0), mask_key=key * 32, **changes)
    return save_run(folder, card, daily, orders=orders or {}).parent.parent


def of_two_keys(folder: Path) -> list[Path]:
    """Under one key, the first window's NAV rises by 10 % on its first day, and an order is placed
    on the second; in the second window both keys have the same order.
    """
    orders = {WINDOWS[0]: {1: [BUY]}, WINDOWS[1]: {0: [BUY]}}
    one = run_of(folder / "one", "a", {WINDOWS[0]: ROSE, WINDOWS[1]: STILL}, orders)
    same = {WINDOWS[1]: {0: [BUY]}}
    other = run_of(folder / "other", "b", {WINDOWS[0]: STILL, WINDOWS[1]: STILL}, same)

    return [one, other]


def report_of(paths: Sequence[Path], **options: Any) -> InvarianceReport:
    """The report on runs."""
    return invariance(load_entrants(paths), InvarianceOptions(**options))


def rows_of(report: InvarianceReport, between: str = "labels") -> dict[str, PairFigureRow]:
    """Rows for one kind of pair, by figure."""
    return {row.figure: row for row in report.figures if row.between == between}


def test_a_key_run_twice_tells_chance_from_labels(tmp_path: Path) -> None:
    """By hand: the key's runs differ by 0.1 and 0.02; from the other's by 0.1 or 0, and 0 or 0.02."""
    runs = [
        run_of(tmp_path / "1", "a", {WINDOWS[0]: ROSE, WINDOWS[1]: STILL}),
        run_of(tmp_path / "2", "a", {WINDOWS[0]: STILL, WINDOWS[1]: GAINED}),
        run_of(tmp_path / "3", "b", {WINDOWS[0]: STILL, WINDOWS[1]: STILL}),
    ]

    report = report_of(runs)

    labels = rows_of(report)["total_return"]
    again = rows_of(report, "again")["total_return"]
    beyond = rows_of(report, "labels - again")["total_return"]

    assert (labels.pairs, labels.value) == (4, pytest.approx(0.03))
    assert (again.pairs, again.value) == (2, pytest.approx(0.06))
    assert (beyond.pairs, beyond.value) == (None, pytest.approx(-0.03))

    reach = 0.02 * stats.t.ppf(0.975, 1)
    assert (beyond.low, beyond.high) == pytest.approx((-0.03 - reach, -0.03 + reach))

    kinds = list(dict.fromkeys(row.between for row in report.figures))
    assert kinds == ["labels", "again", "labels - again"]

    orders = rows_of(report)["orders"]
    assert (orders.value, orders.pairs, orders.cells) == (None, 0, 0)
    assert orders.reason == "neither gave an order"
    assert report.pairs[0].undefined == {
        "orders": "neither gave an order",
        "turnover": "neither traded",
    }


SEEDED = (("A1", 0), ("A1", 1), ("A2", 0), ("A2", 1))


def of_two_seeds(folder: Path) -> list[Path]:
    """Only seed 0 of the first window rises, and only under one key."""
    still = dict.fromkeys(SEEDED, STILL)
    one = run_of(folder / "one", "a", still | {SEEDED[0]: ROSE})
    return [one, run_of(folder / "other", "b", still)]


@pytest.mark.slow
def test_seeds_of_one_key_are_paired_within_their_window(tmp_path: Path) -> None:
    """By hand: seeds differ by 0.1 under one key and 0 under the other; labels by 0.1 once in four."""
    report = report_of(of_two_seeds(tmp_path))

    seeds = rows_of(report, "seeds")["total_return"]
    labels = rows_of(report)["total_return"]

    assert (seeds.pairs, seeds.cells, seeds.windows, seeds.over) == (4, 2, 2, "window")
    assert seeds.value == pytest.approx(0.025)
    assert (labels.pairs, labels.cells, labels.over) == (4, 4, "episode")
    assert labels.value == pytest.approx(0.025)

    error = 0.1 / 4
    assert labels.high == pytest.approx(0.025 + stats.t.ppf(0.975, 3) * error)

    by_kind = {row.between: row for row in report.noise}
    assert list(by_kind) == ["labels", "seeds"]
    assert by_kind["labels"].sd == pytest.approx(math.sqrt(0.005 / 4))
    assert by_kind["seeds"].sd == pytest.approx(math.sqrt(0.0025 / 2))
    assert by_kind["seeds"].episodes == 4


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ("episode", "one (window, seed) does not generalise to others"),
        ("window", "one window does not generalise to others"),
    ],
)
def test_one_value_has_no_interval(over: str, reason: str, tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / "1", "a", {WINDOWS[0]: ROSE}),
        run_of(tmp_path / "2", "b", {WINDOWS[0]: STILL}),
    ]

    total = rows_of(report_of(runs, over=over))["total_return"]

    assert (total.value, total.low, total.high) == (pytest.approx(0.1), None, None)
    assert total.reason == reason


def test_without_any_change_the_bound_is_that_of_no_success(tmp_path: Path) -> None:
    """Two episodes without a difference, at 95 %: all but 1 - 0.05 ** (1 / 2)."""
    daily = {WINDOWS[0]: ROSE, WINDOWS[1]: STILL}
    runs = [run_of(tmp_path / key, key, daily) for key in "ab"]

    assert f" {100 * (1 - 0.05**0.5):.3g} %" in report_of(runs).notes[0]


# ---- notes


@pytest.mark.slow
def test_notes_say_what_intervals_vary_over_and_what_a_mask_hides(tmp_path: Path) -> None:
    episodes = report_of(of_two_keys(tmp_path / "1")).notes
    windows = report_of(of_two_keys(tmp_path / "2"), over="window").notes
    bright = {"mask": "bright"}
    daily = {WINDOWS[0]: ROSE}
    shown = report_of([run_of(tmp_path / key, key, daily, **bright) for key in "ab"]).notes

    vary = (
        "intervals vary over (window, seed): they describe other labels in these windows; other"
        " windows with --over window"
    )

    assert vary in episodes
    assert vary not in windows
    assert not any("no decision changed" in note for note in episodes)
    assert shown[0] == (
        "bright_open_research: bright hides nothing, so draws differ only in the order of rows"
    )
    assert not any("bright hides" in note or note.startswith("seeds:") for note in episodes)


def test_seeds_hold_the_part_of_labels_too(tmp_path: Path) -> None:
    notes = report_of(of_two_seeds(tmp_path)).notes

    assert (
        "seeds: another seed changes both the call seed and the alias map, so this figure includes the effect of labels"
    ) in notes


def asked(
    folder: Path, settings: Any, keys: str, calls: Mapping[str, Any] | None = None
) -> list[EntrantCard]:
    """Runs under several keys, whose cards record the provider's settings; `calls`: call counts of
    all runs but the first.
    """
    paths = []
    for number, key in enumerate(keys):
        paths.append(run_of(folder / str(number), key, {WINDOWS[0]: ROSE}))

    entrants = []
    for number, entrant in enumerate(load_entrants(paths)):
        card = structs.replace(entrant.card, request_settings=settings)
        if calls is not None and number:
            counted = from_plain({**CALLS, **calls}, Calls, "calls")
            card = structs.replace(card, provenance=structs.replace(card.provenance, calls=counted))

        entrants.append(replace(entrant, card=card))

    return entrants


NOT_TWICE = (
    "no mask key was run twice, so differences between keys include the model's own randomness"
)
AT_MOST = "the seeds of calls also differ between keys"


@pytest.mark.parametrize(
    ("settings", "keys", "starts"),
    [
        ({}, "ab", [NOT_TWICE]),
        (None, "ab", []),
        (None, "aab", []),
        ({}, "aab", [AT_MOST]),
        ({"omit": ["seed"]}, "aab", []),
        ({"not_sent": ["seed"]}, "aab", []),
        ({"not_sent": ["top_p"], "omit": None}, "aab", [AT_MOST]),
        ({"takes_seed": False}, "aab", []),
        ({"takes_seed": True}, "aab", [AT_MOST]),
    ],
)
def test_what_a_provider_was_sent_bounds_what_a_repeat_shows(
    settings: Any, keys: str, starts: list[str], tmp_path: Path
) -> None:
    notes = invariance(asked(tmp_path, settings, keys), InvarianceOptions()).notes

    found = []
    for note in notes:
        found += [start for start in (NOT_TWICE, AT_MOST) if note.startswith(start)]

    assert found == starts


@pytest.mark.slow
@pytest.mark.parametrize(("answered", "cached"), [(90, 9), (1, 1)])
def test_replies_of_a_repeat_that_came_from_the_cache_are_counted(
    answered: int, cached: int, tmp_path: Path
) -> None:
    calls = {"answered": answered, "cached": cached}

    repeated = invariance(asked(tmp_path / "1", {}, "aab", calls), InvarianceOptions()).notes
    once = invariance(asked(tmp_path / "2", {}, "ab", calls), InvarianceOptions()).notes

    end = f"{cached} of its replies came from the cache, so their agreement does not measure randomness"

    assert sum(note.endswith(end) for note in repeated) == 2
    assert not any(note.endswith(end) for note in once)


def test_steps_that_the_engine_held_are_counted(tmp_path: Path) -> None:
    first, second = load_entrants(of_two_keys(tmp_path))
    coverage = structs.replace(first.card.coverage, steps_decided=first.card.coverage.steps - 3)
    held = replace(first, card=structs.replace(first.card, coverage=coverage))

    notes = invariance([held, second], InvarianceOptions()).notes

    words = "step(s) were held by the engine, not decided by the model; they count as steps"

    assert [note for note in notes if words in note] == [f"{first.path}: 3 {words} without orders"]


# ---- refusals


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("a", f"the one card of blinded_open_research is of mask key {'a' * 32}; run the same"),
        ("aa", f"every card of blinded_open_research is of mask key {'a' * 32}; run the same"),
    ],
)
def test_one_key_is_not_enough(keys: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CardError, match=message):
        invariance(asked(tmp_path, None, keys), InvarianceOptions())


@pytest.mark.parametrize(
    ("keys", "calls", "is_refused"),
    [
        ("aab", {"answered": 0, "cached": 9}, True),
        ("aab", {"answered": 1, "cached": 9}, False),
        ("aab", {"answered": 0, "cached": 0}, False),
        ("ab", {"answered": 0, "cached": 9}, False),
    ],
)
def test_a_repeat_out_of_the_cache_is_no_repeat(
    keys: str, calls: dict[str, int], is_refused: bool, tmp_path: Path
) -> None:
    entrants = asked(tmp_path, {}, keys, calls)

    if not is_refused:
        assert invariance(entrants, InvarianceOptions()).pairs
        return

    with pytest.raises(CardError, match=f"repeats mask key {'a' * 32} with replies from the cache"):
        invariance(entrants, InvarianceOptions())


def test_cards_differ_in_the_key_alone_and_lie_in_runs_of_the_same_days(tmp_path: Path) -> None:
    one = run_of(tmp_path / "1", "a", {WINDOWS[0]: ROSE})
    tuned = run_of(tmp_path / "2", "b", {WINDOWS[0]: ROSE}, args={"positions": 3})
    bare = run_of(tmp_path / "3", "b", {WINDOWS[0]: ROSE})
    (path,) = bare.rglob("ledger.parquet")
    path.unlink()

    short = run_of(tmp_path / "4", "b", {WINDOWS[0]: ROSE[:4]})
    pairs = [[one, tuned], [one, bare], [one, short]]

    assert errors_of(report_of, *pairs, folder=tmp_path) == snapshot("""\
CardError: FOLDER/2/cards/blinded_open_research.json and FOLDER/1/cards/blinded_open_research.json have different models: {"args":{"positions":3},"name":"house/one"} and {"args":{},"name":"house/one"}; only the mask key may differ, otherwise the difference is not due to the labels
CardError: FOLDER/3/cards/blinded_open_research.json: no ledgers next to the card; decisions are compared in the ledgers of the run folder
CardError: FOLDER/4/cards/blinded_open_research.json and FOLDER/1/cards/blinded_open_research.json have ledgers of other days in window A1
""")


# ---- tables


def test_the_table_shows_the_figures_in_per_cent(tmp_path: Path, terminal: CardTerminal) -> None:
    assert terminal.text("compare", "labels", *of_two_keys(tmp_path)) == snapshot("""\
Episodes of the same window and seed, compared over mask keys aaaaaaaa, bbbbbbbb; all in per cent
  what differs       figure                   pairs  n   mean  95 % interval
  labels (mask key)  decisions changed            2  2  10.00              -
  labels (mask key)    from equal accounts        2  2  0.000              -
  labels (mask key)  orders changed               2  2  50.00              -
  labels (mask key)  turnover difference          2  2  50.00              -
  labels (mask key)  NAV path difference          2  2  4.766  0.000 … 65.32
  labels (mask key)  total return difference      2  2  5.000  0.000 … 68.53
  -: the interval of 2 values is the whole range
  -: no variation: all values are the same

Effect on a total return: two runs of one model differ by less than this in 95 of 100 cases
  what differs       SD of an episode  one episode  mean of all  episodes
  labels (mask key)             5.000        13.86        9.800         2

Notes
  decisions: sets of (asset, side, weight or shares) in true identities; turnover: 0 the same trades, 100 none in common
  intervals vary over (window, seed): they describe other labels in these windows; other windows with --over window
  synthetic: every card
""")


# ---- what a key is worth

GENTLE = [[10.0 + 0.2 * day, 20.0 - 0.2 * day] for day in range(6)]
FREE_OF_COST = {"buy_fee_bps": 0.0, "sell_fee_bps": 0.0, "min_fee_cny": 0.0}


@pytest.mark.parametrize(
    ("names", "limit", "weight", "profits"),
    [
        # bought at 10.20 and 19.80 on the second day; at the end 11.00 and 19.00. A tenth of
        # 1,000,000 CNY buys 9,800 and 5,000 shares in lots of 100.
        (1, None, 0.10, (9_800 * 80, -5_000 * 80)),
        # held to the close of the third day, at 10.40 and 19.60
        (1, 2, 0.10, (9_800 * 20, -5_000 * 20)),
        # 98 % in equal parts of two names
        (2, None, 1.0, (48_000 * 80, -24_700 * 80)),
        (5, None, 1.0, (48_000 * 80, -24_700 * 80)),
        (0, None, 1.0, (96_000 * 80, -49_400 * 80)),
    ],
)
def test_a_name_brings_what_its_shares_gain_to_the_end_of_the_window(
    names: int, limit: int | None, weight: float, profits: tuple[int, int]
) -> None:
    bars = market(opens=GENTLE)
    config = TradingConfig(max_weight=weight, **FREE_OF_COST)
    tape = MarketTape.from_snapshot(bars, config)

    made = profits_of(bars, tape, config, spec(limit=limit), names)

    assert made.of_each.tolist() == list(profits)
    assert made.cash == 100_000_000
    assert made.names == max(1, min(names, 2))


def test_only_names_of_the_universe_before_the_window_are_bought() -> None:
    bars = market(opens=GENTLE)
    member = bars.member.copy()
    member[0, 1] = False
    bars = replace(bars, member=member)
    config = TradingConfig(max_weight=1.0, **FREE_OF_COST)
    tape = MarketTape.from_snapshot(bars, config)

    made = profits_of(bars, tape, config, spec(), 2)

    assert made.of_each.tolist() == [96_000 * 80, 0]
    assert made.names == 1
    assert first_listed(spec(mask_key="a" * 32), bars, 0, 2) == [0]


def test_a_key_lists_the_universe_in_its_order() -> None:
    bars = market()
    orders = set()
    for letter in "0123456789abcdef":
        orders.add(tuple(first_listed(spec(mask_key=letter * 32), bars, 0, 2)))

    assert orders == {(0, 1), (1, 0)}
    assert len(first_listed(spec(mask_key="a" * 32), bars, 0, 1)) == 1


def test_a_row_of_keys_has_their_quantiles_and_the_rank_of_the_cards_own(tmp_path: Path) -> None:
    """Of the values 0 to 100 per mille, 30 lie below 30, and one is equal."""
    (entrant, _) = load_entrants(of_two_keys(tmp_path))
    returns = np.array([*range(101), 30]) / 1000

    row = mask_key_effect._spread_row(entrant, "A1", returns, FirstPurchases(4, 3, 1.5))

    quantiles = (row.q5, row.q25, row.q50, row.q75, row.q95)

    assert quantiles == pytest.approx((0.005, 0.025, 0.05, 0.075, 0.095))
    assert (row.n, row.own, row.window) == (101, 0.03, "A1")
    assert row.rank == pytest.approx(30.5 / 101)
    assert row.sd == pytest.approx(np.std(returns[:-1], ddof=1))
    assert (row.bought, row.among_first, row.by_chance) == (4, 3, 1.5)


@pytest.mark.parametrize(
    ("bought", "counts"),
    [
        ([order(CODES[0])], (1, 1, 0.5)),
        ([order(CODES[1])], (1, 0, 0.5)),
        ([order(CODES[0]), order(CODES[1])], (2, 1, 1.0)),
        ([order(CODES[0], "SELL")], (0, 0, 0.0)),
        ([order(CODES[0], filled=0)], (0, 0, 0.0)),
        ([], (0, 0, 0.0)),
    ],
)
def test_purchases_of_the_first_step_are_set_against_those_of_chance(
    bought: list[dict[str, Any]], counts: tuple[float, ...], tmp_path: Path
) -> None:
    """One of two names was listed first, so half of the names are bought by chance."""
    path = run_of(tmp_path, "a", {WINDOWS[0]: STILL}, {WINDOWS[0]: {0: bought, 1: [BUY]}})
    (entrant,) = load_entrants([path])
    planned = spec_of(entrant.card.plain, Window("A1", "2011-03-01", "2011-03-05"), 0)

    found = mask_key_effect._first_purchases(entrant, planned, [CODES[0]], 2)

    assert (found.bought, found.among_first, found.by_chance) == counts


def test_purchases_of_several_episodes_are_added() -> None:
    assert FirstPurchases(1, 2, 0.5).plus(FirstPurchases(10, 20, 1.0)) == FirstPurchases(
        11, 22, 1.5
    )


@pytest.mark.parametrize(("own", "is_named"), [(97, False), (98, True)])
def test_a_key_among_the_luckiest_is_named(own: int, is_named: bool, tmp_path: Path) -> None:
    (entrant, _) = load_entrants(of_two_keys(tmp_path))
    returns = np.array([*range(100), own], dtype=float)
    row = mask_key_effect._spread_row(entrant, "all windows", returns, FirstPurchases(0, 0, 0.0))

    notes = list(mask_key_effect._card_notes(entrant, row))

    assert row.rank == (own + 0.5) / 100
    assert len(notes) == is_named
    assert all("only 1.5 % of keys do better for a model that buys" in note for note in notes)


def spread_row(**changes: Any) -> SpreadRow:
    """A row of a window."""
    fields: dict[str, Any] = {
        "task": "t",
        "card": "house/one",
        "n": 1000,
        "window": "A1",
        "q5": -0.05,
        "q25": -0.02,
        "q50": 0.0,
        "q75": 0.02,
        "q95": 0.05,
        "sd": 0.03,
        "own": 0.04,
        "rank": 0.9346,
        "bought": 9,
        "among_first": 2,
        "by_chance": 1.25,
    }
    return SpreadRow(**fields | changes)


def test_the_worth_of_a_key_is_a_table_a_card() -> None:
    rows = [spread_row(), spread_row(window="all windows"), spread_row(card="house/two")]
    report = KeyReport(keys=1_000, positions=7, spread=rows, notes=["a lucky key"])

    assert "\n".join(lines_of(key_parts(report))) == snapshot("""\
A model that buys the first 7 names listed and keeps them, over 1,000 mask keys: total return in per cent
  t, house/one
  window          n     5 %    25 %   50 %    75 %    95 %  this key   rank  first listed bought
  A1           1000  -5.000  -2.000  0.000  +2.000  +5.000    +4.000  0.935         2 of 9 (1.2)
  all windows  1000  -5.000  -2.000  0.000  +2.000  +5.000    +4.000  0.935         2 of 9 (1.2)
  t, house/two
  window     n     5 %    25 %   50 %    75 %    95 %  this key   rank  first listed bought
  A1      1000  -5.000  -2.000  0.000  +2.000  +5.000    +4.000  0.935         2 of 9 (1.2)

Notes
  rank: share of keys under which that model does worse than under the card's; without a choice every rank is as likely
  first listed bought: of the names that the card bought at the first steps of its episodes (by chance)
  a lucky key\
""")


def test_options_of_keys_and_of_pairs_are_told_apart(tmp_path: Path) -> None:
    paths = of_two_keys(tmp_path)
    every = [
        {"positions": 5},
        {"keys": 20, "alpha": 0.1},
        {"keys": 19},
        {"keys": 20, "positions": 0},
        {"over": "seed"},
    ]

    assert errors_of(
        lambda options: functions.invariance(*paths, **options), *every, folder=tmp_path
    ) == snapshot("""\
UsageError: positions goes with keys
UsageError: alpha, over and common are of runs under several keys, not of a spread over keys
ConfigError: invariance: keys: expected a value from 20 to 100000, was 19
ConfigError: invariance: positions: expected a value from 1 to 1000, was 0
ConfigError: invariance: over: expected one of episode, window, was 'seed'
""")


def test_the_command_takes_options_of_one_of_both(terminal: CardTerminal) -> None:
    labels = ("compare", "labels", terminal.folder)
    assert terminal.refusals(
        (*labels, "--positions", "5"),
        (*labels, "--keys", "20", "--over", "window"),
        (*labels, "--keys", "20", "--alpha", "0.1"),
        (*labels, "--keys", "20", "--common"),
    ) == snapshot("""\
ktdeval: error: --positions goes with --keys
ktdeval: error: --over applies to runs under several keys; leave it out with --keys
ktdeval: error: --alpha applies to runs under several keys; leave it out with --keys
ktdeval: error: --common applies to runs under several keys; leave it out with --keys
""")


def test_a_spread_over_keys_needs_a_key_and_a_run(tmp_path: Path) -> None:
    (entrant, _) = load_entrants(of_two_keys(tmp_path))
    keyless = replace(entrant, card=structs.replace(entrant.card, mask_key=UNSET))

    options = KeySpreadOptions(keys=20)

    assert errors_of(
        lambda each: mask_key_effect.key_spread([each], options), keyless, entrant, folder=tmp_path
    ) == snapshot("""\
CardError: FOLDER/one/cards/blinded_open_research.json: has no mask key
CardError: FOLDER/one/cards/blinded_open_research.json: the baseline trades on the run's market: the card is not in a run folder that names its market
""")
