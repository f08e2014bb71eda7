"""Rankings of a board: hand-worked tables, figures equal to those of the cards, who is ranked, and
what stands beside them.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from ktdeval.errors import CardError, ConfigError
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import to_plain
from ktdeval_board.document_types import Series
from ktdeval_board.errata import Erratum
from ktdeval_board.ranking.column_texts import (
    competition_ranks,
    division_columns,
    division_scopes,
)
from ktdeval_board.ranking.daily_summaries import NO_SERIES
from ktdeval_board.ranking.division_figures import benchmark_of, collect, medians, six_digits
from ktdeval_board.ranking.table import missing_baselines, require_baselines
from ktdeval_board.read_documents import read_own
from support.board.board_cards import changed
from support.board.board_ranks import (
    EMPTY,
    by_label,
    entry,
    figure,
    make_board,
    make_entry,
    make_series,
    metric,
    ranked_tables,
    shown,
    tables_of,
    two,
)

pytestmark = pytest.mark.slow

# -- figures


@given(
    st.lists(
        st.lists(
            st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False)), min_size=4, max_size=4
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_medians_and_quartiles_equal_the_statistics_module_exactly(rows) -> None:
    values = np.array(rows, dtype=float)[:, :, None]  # None becomes NaN
    middle, low, high, n = medians(values)
    for number, row in enumerate(not_empty(rows)):
        known = [value for value in row if value is not None]
        quarters = (
            statistics.quantiles(known, n=4, method="inclusive")
            if len(known) > 1
            else [math.nan] * 3
        )
        expected = [
            statistics.median(known) if known else math.nan,
            quarters[0],
            quarters[2],
            len(known),
        ]
        # nan equals nan
        np.testing.assert_array_equal(
            [part[number, 0] for part in (middle, low, high, n)], expected
        )


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18),
        min_size=1,
    )
)
@settings(deadline=None)
def test_rounding_is_to_six_significant_digits_in_the_shortest_decimals(values) -> None:
    for value, rounded in zip(values, six_digits(np.array(values)).tolist(), strict=True):
        assert rounded == pytest.approx(value, rel=6e-6, abs=1e-27)
        assert (
            len(f"{abs(rounded):.12e}".split("e")[0].rstrip("0").replace(".", "")) <= 7
            or abs(value) < 1e-17
        )

    exact = np.array([1 / 3, -2 / 3, 123456789.0, 1e-9 / 7, 0.0, 0.1, 2.5e-7, 999999.5])

    assert json.dumps(six_digits(exact).tolist()) == json.dumps(
        [float(f"{value:.6g}") for value in exact]
    )


@on_each_row(
    "value, rounded",
    (1.23456789e-17, 1.23457e-17),
    (1.23456789e-18, 1.23456789e-18),
    (1.23456789e27, 1.23457e27),
    (1.23456789e29, 1.23456789e29),
    (-123456.5, -123456.0),
    (0.0, 0.0),
)
def test_figures_beyond_exact_powers_of_ten_stay_as_they_are(value: float, rounded: float) -> None:
    """Powers of ten are exact up to the 22nd; halves are rounded to even."""
    assert six_digits(np.array([value])).tolist() == [rounded]


def test_no_zero_of_a_table_has_a_minus() -> None:
    zeros = np.array([[[-0.0], [-0.0], [-0.0]]])

    middle, low, high, _ = medians(zeros)

    shown_zeros = [each.tolist() for each in (six_digits(zeros[0]), middle, low, high)]

    assert "-" not in json.dumps(shown_zeros)


def figures_by_seeds(entries, columns):
    """The figures of entries by episode, over all windows of their division."""
    windows = tuple(window.name for window in entries[0].card.windows)
    return collect(entries, columns, benchmark_of(entries), lambda _: None, lambda _: windows)


def test_in_a_scope_of_one_episode_its_own_interval_is_shown() -> None:
    """Of two windows the second alone has a figure of selection."""
    interval = {"kind": "bootstrap", "low": -0.5, "high": 0.75}
    alphas = two(None, None) | {("W2", 0): metric(0.25, interval=interval)}

    tables = ranked_tables(make_board([entry("house/one", 0.1, 0.2, alphas=alphas)]))

    own = (0.25, -0.5, 0.75, "bootstrap", 1)

    assert shown(tables["all"], "house/one", "selection_alpha") == own
    assert shown(tables["W2"], "house/one", "selection_alpha") == own
    assert shown(tables["W1"], "house/one", "selection_alpha") == (None, None, None, None, 0)


@pytest.mark.exhaustive
def test_over_all_windows_a_table_agrees_with_the_card(forged) -> None:
    division = forged.rules.divisions[0]
    entries = forged.of_division(division)
    columns = division_columns(forged, division)
    compared: list[str] = []

    for group in not_empty(figures_by_seeds(entries, columns)):
        figures = group.over(division.window_names())
        for row, each in enumerate(group.entries):
            for column, name in enumerate(columns):
                stated = each.card.plain["metrics"].get(name)
                if name == "cost_usd":
                    stated = each.card.plain["cost"].get("per_episode")

                if stated is None:
                    continue

                compared.append(name)
                figure = figures[row, column]
                value = None if math.isnan(figure["value"]) else figure["value"]
                assert value == stated["value"], name
                assert figure["n"] == stated["n"]
                if value is None:
                    assert figure["reason"] == stated["reason"]

                interval = stated.get("interval")
                if interval is not None:
                    assert (figure["low"], figure["high"]) == (interval["low"], interval["high"])
                    assert figure["kind"] == interval["kind"]

    assert {"total_return", "sharpe", "cost_usd"} <= set(compared)


def test_figures_of_a_hand_made_card() -> None:
    one = entry("house/one", 0.05, -0.01, alphas=two(0.02, None))
    series = {one.card_id: make_series(one, {("W1", 0): [0.05], ("W2", 0): [-0.01]}, fees=0.004)}
    table = ranked_tables(make_board([one]), series)["all"]

    assert shown(table, "house/one", "total_return") == (
        pytest.approx(0.02),
        0.005,
        0.035,
        "interquartile",
        2,
    )

    for column, value in {
        "excess": 0.03,  # the benchmark earned 1 % and -3 %: 4 % and 2 % beyond it
        "gross_return": 0.024,
        "vs_random": 0.75,
        "cost_usd": 2.8,  # a million tokens read at 2 USD and a hundred thousand written at 8
        "tokens": 1_100_000,
        "decided": 1.0,
    }.items():
        assert shown(table, "house/one", column)[0] == pytest.approx(value), column

    assert shown(table, "house/one", "selection_alpha") == (0.02, None, None, None, 1)
    assert by_label(table)["house/one"]["reasons"] == {"sharpe": "no variance"}


def test_figures_of_one_window_are_of_its_episodes_alone() -> None:
    returns = {("W1", seed): value for seed, value in enumerate((0.01, 0.02, 0.09))} | {
        ("W2", seed): 0.5 for seed in range(3)
    }
    table = ranked_tables(make_board([make_entry(EMPTY, "house/one", returns)], seeds=(0, 1, 2)))[
        "W1"
    ]
    value, *_, n = shown(table, "house/one", "total_return")

    assert (value, n, shown(table, "house/one", "excess")[0]) == (0.02, 3, pytest.approx(0.01))


def test_without_series_and_price_the_figures_have_reasons() -> None:
    one = entry("house/one", 0.1, 0.1)
    idle = entry("house/idle", 0.0, 0.0)
    series = {idle.card_id: make_series(idle, {("W1", 0): [0.0], ("W2", 0): [0.0]}, rank=None)}
    rows = by_label(ranked_tables(make_board([one, idle]), series)["all"])
    reasons = rows["house/one"]["reasons"]

    assert reasons["gross_return"] == reasons["vs_random"] == NO_SERIES
    assert rows["house/idle"]["reasons"]["vs_random"] == "no order was filled"

    # it ends above zero, on money nobody had
    ruined = make_series(idle, {("W1", 0): [-1.5, -3.0], ("W2", 0): [0.02]}, fees=0.1)
    (row,) = (
        row
        for row in ranked_tables(make_board([idle]), {idle.card_id: ruined})["W1"]["rows"]
        if row["card"]
    )

    assert row["reasons"]["gross_return"] == "a level is not positive"


NO_PRICE = {"value": None, "reason": "no price of the model is known; give one"}


@pytest.mark.parametrize("known", ["house/first", "house/second"])
def test_a_cost_is_shown_next_to_a_card_without_a_price(known: str) -> None:
    """By hand: a million tokens read at 2 USD, and a hundred thousand written at 8."""
    labels = ("house/first", "house/second")
    costs = {label: {"cost": NO_PRICE} for label in labels if label != known}
    entries = [entry(label, 0.1, 0.1, **costs.get(label, {})) for label in labels]

    table = ranked_tables(make_board(entries))["all"]

    (unknown,) = costs
    cost = pytest.approx(2.8)
    reasons = {label: row["reasons"].get("cost_usd") for label, row in by_label(table).items()}

    assert shown(table, known, "cost_usd") == (cost, cost, cost, "interquartile", 2)
    assert shown(table, unknown, "cost_usd") == (None, None, None, None, 0)
    assert (reasons[known], reasons[unknown]) == (None, "no price of the model is known")
    assert shown(table, unknown, "tokens")[0] == 1_100_000


def test_without_a_price_of_a_further_model_a_card_has_no_cost_but_tokens() -> None:
    """The model `dark` was asked; the card's own has a price."""

    def ask(card: dict[str, Any]) -> None:
        card["further_models"] = [
            {
                "asked_as": "dark",
                "name": "acme/dark",
                "args": {},
                "tool_protocol": None,
                "sent_as": None,
                "price": None,
                "knowledge_cutoff": "unknown",
            }
        ]

        for episode in card["episodes"]:
            episode["roles"] = [{"role": "scout", "model": "dark", "calls": 1, "input_tokens": 5}]

    table = ranked_tables(make_board([changed(entry("house/team", 0.0, 0.0), ask)]))["all"]

    (label,) = [row["label"] for row in table["rows"] if row["card"]]

    assert shown(table, label, "cost_usd")[0] is None
    assert shown(table, label, "tokens")[0] == 1_100_000
    assert by_label(table)[label]["reasons"]["cost_usd"] == (
        "no price of a further model is known; give one with --price-table"
    )


def test_replies_without_token_counts_leave_cost_and_tokens_undefined() -> None:
    def uncount(card: dict[str, Any]) -> None:
        card["episodes"][0]["uncounted"] = 3

    one = changed(entry("house/one", 0.0, 0.0), uncount)

    tables = ranked_tables(make_board([one]))

    for column in ("cost_usd", "tokens"):
        assert shown(tables["W1"], "house/one", column)[0] is None

    reasons = by_label(tables["W1"])["house/one"]["reasons"]

    assert reasons["cost_usd"] == reasons["tokens"]
    assert "3 replies" in reasons["tokens"]
    assert shown(tables["all"], "house/one", "cost_usd")[::4] == (pytest.approx(2.8), 1)


@pytest.mark.parametrize(("limit", "planned"), [(None, 40), (10, 10), (60, 40)])
def test_steps_are_planned_up_to_the_limit_of_a_card(limit: int | None, planned: int) -> None:
    """Of each window 9 steps were decided, of two windows 18."""

    def cut(card: dict[str, Any]) -> None:
        card["limit"] = limit
        for episode in card["episodes"]:
            episode["decisions"] = {"model": 5, "model_after_retry": 4, "fallback": 1, "error": 0}

    tables = ranked_tables(make_board([changed(entry("house/one", 0.0, 0.0), cut)]))

    share, low, high, kind, n = shown(tables["all"], "house/one", "decided")

    assert (share, n) == (pytest.approx(9 / planned), 2 * planned)
    assert (low, high, kind) == (None, None, None)
    assert shown(tables["W2"], "house/one", "decided")[::4] == (pytest.approx(9 / planned), planned)


def test_window_without_episodes_has_no_figure_but_counts_planned_steps() -> None:
    one = make_entry(EMPTY, "house/one", {("W1", 0): 0.02})

    tables = ranked_tables(make_board([one]))

    row = by_label(tables["W2"])["house/one"]

    assert row["reasons"]["total_return"] == "no finished episode"
    assert shown(tables["W2"], "house/one", "decided")[::4] == (0.0, 40)
    assert shown(tables["all"], "house/one", "decided")[::4] == (0.5, 80)
    assert shown(tables["all"], "house/one", "total_return") == (0.02, None, None, None, 1)


def test_the_benchmark_of_the_best_confirmed_card_counts_for_all() -> None:
    other = {"base_day": "2024-01-01", "last_day": "2024-01-31"}
    other["metrics"] = dict.fromkeys(("total_return", "sharpe", "max_drawdown"), metric(-0.5))
    forged_reference = {"benchmark_buy_and_hold": dict.fromkeys(("W1", "W2"), other)}
    liar = entry("house/liar", 0.0, 0.0, tier="self-reported", reference=forged_reference)
    honest = entry("house/honest", 0.0, 0.0)
    table = ranked_tables(make_board([liar, honest]))["all"]
    rows = by_label(table)

    assert (
        figure(table, rows["house/liar"], "excess")
        == figure(table, rows["house/honest"], "excess")
        == pytest.approx(0.01)
    )
    assert figure(table, rows["benchmark (SYN300)"], "total_return") == pytest.approx(-0.01)


def test_a_submitter_can_add_no_column() -> None:
    odd = entry("house/odd", 0.0, 0.0, metrics={"my_metric": two(9.0, 9.0)})
    table = ranked_tables(make_board([odd]))["all"]

    assert "my_metric" not in table["columns"]
    assert table["columns"][0] == "total_return"
    assert set(table["columns"]) >= {
        "excess",
        "gross_return",
        "vs_random",
        "cost_usd",
        "decided",
        "tokens",
    }


# -- ranks


@given(st.lists(st.integers(0, 6), max_size=40), st.data(), st.sampled_from(["higher", "lower"]))
@settings(deadline=None)
def test_a_rank_is_one_more_than_how_many_are_better(values, data, better) -> None:
    eligible = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    ranks = competition_ranks(np.array(values, dtype=float), better, np.array(eligible, dtype=bool))

    assert len(ranks) == len(values)

    taking_part = [value for value, takes_part in zip(values, eligible, strict=True) if takes_part]

    for value, takes_part, rank in zip(values, eligible, ranks, strict=True):
        ahead = sum(other > value if better == "higher" else other < value for other in taking_part)
        assert rank == (ahead + 1 if takes_part else None)


def test_the_alpha_rank_is_shown_next_to_the_rank() -> None:
    lucky = entry("house/lucky", 0.3, 0.3, alphas=two(-0.1, -0.1))
    skilled = entry("house/skilled", 0.1, 0.1, alphas=two(0.05, 0.05))
    half = entry("house/half", 0.0, 0.0, alphas=two(0.9, None))
    rows = by_label(ranked_tables(make_board([lucky, skilled, half]))["all"])

    assert {
        name: (row["rank"], row["alpha_rank"]) for name, row in rows.items() if row["card"]
    } == {
        "house/lucky": (1, 2),
        "house/skilled": (2, 1),
        "house/half": (3, None),
    }


def test_without_selection_alpha_no_card_has_a_rank_by_it() -> None:
    def strip(card) -> None:
        del card["metrics"]["selection_alpha"]
        card["task"]["config"]["metrics"] = ["total_return"]

    one = changed(entry("house/one", 0.1, 0.1), strip)

    row = by_label(ranked_tables(make_board([one]))["all"])["house/one"]

    assert (row["rank"], row["alpha_rank"]) == (1, None)


def test_cards_are_ranked_by_the_share_of_steps_that_they_decided() -> None:
    """Of 80 planned steps one decided all, the other 78."""

    def fail(card) -> None:
        card["episodes"][0]["decisions"].update(model=37, fallback=2)

    whole = entry("house/whole", 0.0, 0.0)
    part = changed(entry("house/part", 0.1, 0.1), fail)

    table = ranked_tables(make_board([whole, part], rank_by="decided"))["all"]

    ranked = [row["label"] for row in table["rows"] if row["ranked"]]
    assert ranked == ["house/whole", "house/part"]
    assert shown(table, "house/part", "decided")[0] == pytest.approx(78 / 80)


def test_never_is_no_missing_figure_and_never_leads() -> None:
    """A track record that never suffices: of one window it is later than any number, and a median
    of both is never.
    """

    def track(name: str, *years: float | None):
        def change(card) -> None:
            card["metrics"]["sharpe"]["better"] = "lower"
            for episode, value in zip(
                card["episodes"], years * len(card["episodes"]), strict=False
            ):
                episode["metrics"]["sharpe"] = metric(
                    value, "never: the Sharpe ratio is not positive"
                )

        return changed(entry(f"house/{name}", 0.0, 0.0), change)

    tracks = [track("slow", 50.0, 60.0), track("quick", 40.0, 50.0)]
    tracks += [track("half", 1.0, None), track("never", None, None)]
    board = make_board(tracks, rank_by="sharpe")
    table = ranked_tables(board)["all"]
    rows = by_label(table)
    place = table["columns"].index("sharpe")

    assert {name: row["rank"] for name, row in rows.items() if row["card"]} == {
        "house/quick": 1,
        "house/slow": 2,
        "house/half": None,
        "house/never": None,
    }
    assert table["columns"][0] == table["rank_by"] == "sharpe"
    assert rows["house/slow"]["values"][place] == 55.0

    planned = len(board.entries[0].card.episodes)

    for name, times in (("house/half", planned // 2), ("house/never", planned)):
        assert rows[name]["values"][place] is None
        assert rows[name]["reasons"]["sharpe"] == f"never in {times} of {planned} episodes"
        assert rows[name]["n"][place] == planned


NOT_RANKED = "1 of 2 entrants are not ranked; their rows give the reason"


@on_each_row(
    "changes, division, why",
    ({"tier": "unchecked"}, {}, "not checked yet: the board has no verdict on it"),
    (
        {
            "rankable": {
                "value": False,
                "reasons": ["the model decided 93.1 % of 548 steps; 95 % are needed"],
            }
        },
        {},
        "the model decided 93.1 % of 548 steps; 95 % are needed",
    ),
    ({"rankable": {"value": False, "reasons": []}}, {}, "the card says that it may not be ranked"),
    (
        {"labels": ["synthetic", "placebo"]},
        {},
        "the market is a placebo, in which selection is impossible",
    ),
    (
        {
            "errata": [
                {
                    "card": "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
                    "date": "2026-02-03",
                    "effect": "unranked",
                    "what": "a late feed",
                }
            ]
        },
        {},
        "erratum of 2026-02-03: a late feed",
    ),
    (
        {
            "snapshot": {
                "id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
                "synthetic": False,
                "benchmark_name": "CSI300",
            }
        },
        {},
        "the market is real, but this board is for synthetic markets",
    ),
    (
        {"labels": ["mask not certified"]},
        {"certificate": "required"},
        "the division requires a certificate of the mask that the board has verified",
    ),
    (
        {"labels": ["certificate claimed"]},
        {"certificate": "required"},
        "the division requires a certificate of the mask that the board has verified",
    ),
    (
        {
            "certificate": {
                "value": {
                    "attackers": [{"kind": "model", "model": "acme/constant", "counts_for": []}],
                    "bound": {"joint": {}},
                }
            }
        },
        {"certificate": "required", "attackers": ["openai/o3"]},
        "no attacker that division main names (openai/o3) passed its control and bounds joint",
    ),
)
def test_who_is_not_ranked_is_listed_with_the_reason(changes, division, why) -> None:
    errata = [Erratum(**each) for each in changes.get("errata", ())]
    odd = entry("house/odd", 0.9, 0.9, **{**changes, "errata": errata})
    board = make_board([odd, entry("house/good", 0.0, 0.0)], **division)
    for scope, table in not_empty(ranked_tables(board).items()):
        rows = by_label(table)
        row = rows["house/odd"]
        assert rows["house/good"]["rank"] == 1, scope
        assert (row["rank"], row["alpha_rank"], row["ranked"]) == (None, None, False)
        assert row["why"] == [why]
        assert table["rows"][-1]["label"] == "house/odd"
        assert NOT_RANKED in table["notes"]


@pytest.mark.parametrize("division", [{}, {"certificate": "required"}])
def test_baselines_are_no_entrants_whether_they_may_be_ranked_or_not(division) -> None:
    good = entry("house/good", 0.0, 0.0)
    odd = entry("house/odd", 0.9, 0.9, tier="unchecked")
    board = make_board([odd, good, *with_baselines()[2:]], **division)

    assert NOT_RANKED in ranked_tables(board)["all"]["notes"]


def test_a_price_is_the_submitters_word_a_verified_certificate_the_boards() -> None:
    price = {
        "input": 1e-9,
        "output": 1e-9,
        "cache_read": None,
        "cache_write": None,
        "as_of": "2026-01-01",
        "source": "the list",
    }
    free = {**price, "input": 0.0, "output": 0.0}

    for declared, call in ((price, {}), (free, {}), (free, {"tool_protocol": "native"})):

        def change(card: dict[str, Any], declared: Any = declared, call: Any = call) -> None:
            card["cost"] = {
                "value": 0.0,
                "currency": "USD",
                "price": declared,
                "per_episode": {"value": 0.0, "n": 1, "undefined": {}},
                "return_per_usd": {"value": None, "n": 0, "undefined": {}, "reason": "free"},
            }
            card.update(call=call, labels=["synthetic", "certificate claimed"])

        odd = changed(entry("house/cheap", 0.0, 0.0), change)
        assert odd.labels == [
            "synthetic",
            "certificate claimed",
            "price by submitter",
        ]
        assert replace(odd, is_certified=True).labels[:2] == ["synthetic", "certificate verified"]


def test_notes_rank_and_withdrawn_cards_are_gone() -> None:
    noted = entry(
        "house/noted", 0.0, 0.0, errata=[Erratum("c" * 64, "2026-02-03", "note", "was renamed")]
    )
    gone = entry(
        "house/gone",
        0.9,
        0.9,
        errata=[Erratum("c" * 64, "2026-02-03", "withdrawn", "asked for it")],
    )
    rows = by_label(ranked_tables(make_board([noted, gone]))["all"])

    assert rows["house/noted"]["rank"] == 1
    assert "house/gone" not in rows


def test_figure_undefined_in_one_window_is_not_ranked_over_the_rest() -> None:
    # The median of what is defined would be 90 %.
    choosy = entry("house/choosy", 0.9, None)
    plain = entry("house/plain", 0.1, 0.1)
    tables = ranked_tables(make_board([choosy, plain]))
    row = by_label(tables["all"])["house/choosy"]

    assert row["why"] == ["total_return is defined in 1 of 2 episodes only"]
    assert by_label(tables["W1"])["house/choosy"]["rank"] == 1
    assert by_label(tables["W2"])["house/choosy"]["why"] == [
        "total_return is not defined: no variance"
    ]


@pytest.mark.parametrize(
    ("rank_by", "better", "message"),
    [
        (
            "total_retrun",
            "higher",
            "rank_by: 'total_retrun' is not a figure on its cards; did you mean 'total_return'",
        ),
        (
            "total_return",
            "neither",
            "total_return has no better direction; name another figure",
        ),
    ],
)
def test_a_board_that_cannot_rank_gives_a_reason(rank_by, better, message) -> None:
    one = changed(
        entry("house/one", 0.0, 0.0),
        lambda card: card["metrics"]["total_return"].update(better=better),
    )

    with pytest.raises(ConfigError) as error:
        ranked_tables(make_board([one], rank_by=rank_by))

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_order_of_files_changes_nothing(forged, forged_tables) -> None:
    shuffled = list(forged.entries)
    random.Random(5).shuffle(shuffled)
    tables = tables_of(replace(forged, entries=tuple(shuffled)))
    assert json.dumps(tables, sort_keys=True) == json.dumps(forged_tables, sort_keys=True)


def test_tables_of_a_forged_board_are_whole(forged, forged_tables) -> None:
    for division in not_empty(forged.rules.divisions):
        assert (
            list(forged_tables[division.id])
            == division_scopes(forged, division)
            == ["all", "W1", "W2", "W3"]
        )
        for table in forged_tables[division.id].values():
            width = len(table["columns"])
            for row in not_empty(table["rows"]):
                assert all(
                    len(row[name]) == width for name in ("values", "low", "high", "interval", "n")
                )
                missing = {
                    name
                    for name, value in zip(table["columns"], row["values"], strict=True)
                    if value is None
                }
                assert missing == set(row["reasons"])
                assert row["ranked"] == (row["rank"] is not None)
                assert row["ranked"] != bool(row["why"]) or row["baseline"]

            ranks = [row["rank"] for row in table["rows"] if row["ranked"]]
            assert ranks == sorted(ranks)
            json.dumps(table, allow_nan=False)


# -- rows beside


def with_baselines():
    """Two entrants, an equal-weight baseline between them, and a random trader of three seeds."""
    random_returns = {
        (window, seed): 0.01 * (seed + 1 + 3 * (window == "W2"))
        for window, seed in product(("W1", "W2"), range(3))
    }
    return [
        entry("house/best", 0.2, 0.2),
        entry("house/last", -0.2, -0.2),
        entry("builtin/equal_weight", 0.1, 0.1),
        make_entry(EMPTY, "builtin/random", random_returns),
    ]


def replace_tier(of: Any, tier: str) -> Any:
    """The verdict of an entry, of another tier."""
    return structs.replace(of.verdict, tier=tier)


def test_baselines_are_sorted_in_without_a_rank() -> None:
    table = ranked_tables(make_board(with_baselines()))["all"]
    assert [(row["label"], row["rank"], row["baseline"]) for row in table["rows"]] == [
        ("house/best", 1, None),
        ("builtin/equal_weight", None, "rule"),
        ("builtin/random", None, "random"),
        ("benchmark (SYN300)", None, "benchmark"),
        ("house/last", 2, None),
    ]
    assert table["missing_baselines"] == []


def test_the_benchmark_row_is_buying_and_holding_the_index() -> None:
    tables = ranked_tables(make_board(with_baselines()))
    label = "benchmark (SYN300)"
    row = by_label(tables["all"])[label]

    assert shown(tables["all"], label, "total_return")[:3] == pytest.approx((-0.01, -0.02, 0.0))

    values = {
        column: shown(tables["all"], label, column)[0]
        for column in ("gross_return", "excess", "selection_alpha")
    }

    assert values == {"gross_return": pytest.approx(-0.01), "excess": 0.0, "selection_alpha": None}
    assert (row["card"], row["reasons"]["vs_random"]) == (
        None,
        "buying and holding the index involves no decisions",
    )
    assert shown(tables["W2"], label, "total_return")[0] == -0.03

    no_index = {"benchmark": "none", "benchmark_name": "no index"}
    without = [
        changed(one, lambda card: card["snapshot"].update(no_index)) for one in with_baselines()
    ]
    rows = ranked_tables(make_board(without))["all"]["rows"]

    assert [row["baseline"] for row in rows] == [None, "rule", "random", None]


def test_random_traders_show_the_range_of_all_their_episodes() -> None:
    tables = ranked_tables(make_board(with_baselines()))
    label = "builtin/random"
    value, low, high, kind, n = shown(tables["all"], label, "total_return")

    # 1 to 6 %: the 5 % point lies a quarter of the way from the first to the second.
    assert (value, low, high) == pytest.approx((0.035, 0.0125, 0.0575))
    assert (kind, n) == ("5-95 % of episodes", 6)
    # in W1, where the benchmark earned 1 %
    assert shown(tables["W1"], label, "excess")[0] == pytest.approx(0.01)

    alone = [*with_baselines()[:3], make_entry(EMPTY, "builtin/random", {("W1", 0): 0.04})]
    assert shown(ranked_tables(make_board(alone))["all"], label, "total_return") == (
        pytest.approx(0.04),
        None,
        None,
        None,
        1,
    )


def test_random_traders_that_never_reach_a_figure_say_how_many() -> None:
    """Of six episodes five never do: the median is never, and its quantiles are not finite."""

    def track(card: dict[str, Any]) -> None:
        for number, episode in enumerate(card["episodes"]):
            value = 4.0 if number == 0 else None
            episode["metrics"]["sharpe"] = metric(value, "never: no skill")

    entries = with_baselines()
    entries[3] = changed(entries[3], track)

    table = ranked_tables(make_board(entries))["all"]

    row = by_label(table)["builtin/random"]

    assert shown(table, "builtin/random", "sharpe") == (None, None, None, None, 6)
    assert row["reasons"]["sharpe"] == "never in 5 of 6 episodes"


def test_a_reference_row_is_of_the_tier_of_its_card_and_has_no_place() -> None:
    entries = with_baselines()
    entries[3] = replace(entries[3], verdict=replace_tier(entries[3], "self-reported"))

    rows = by_label(ranked_tables(make_board(entries))["all"])

    benchmark = rows["benchmark (SYN300)"]
    random_row = rows["builtin/random"]

    assert (benchmark["tier"], random_row["tier"]) == ("re-executed", "self-reported")
    assert (benchmark["ranked"], benchmark["tied_with"], benchmark["alpha_tied_with"]) == (
        False,
        0,
        0,
    )
    assert benchmark["model"] == "SYN300 bought and held"
    assert benchmark["reasons"]["sharpe"] == "not computed for the benchmark"


def test_a_board_without_its_baselines_is_not_published() -> None:
    board = make_board([entry("house/one", 0.0, 0.0), entry("builtin/equal_weight", 0.0, 0.0)])
    table = ranked_tables(board)["all"]

    assert (
        missing_baselines(board, board.rules.divisions[0])
        == table["missing_baselines"]
        == ["builtin/random"]
    )
    assert any("ktdeval leaderboard baselines . --division main" in note for note in table["notes"])

    with pytest.raises(CardError, match=r"division main: baselines are missing \(builtin/random\)"):
        require_baselines(board)

    entries = with_baselines()
    entries[2] = replace(
        entries[2], errata=(Erratum("c" * 64, "2026-02-03", "withdrawn", "a bug"),)
    )
    board = make_board(entries)

    assert missing_baselines(board, board.rules.divisions[0]) == ["builtin/equal_weight"], (
        "a withdrawn one is missing"
    )


def test_without_submissions_no_baseline_is_missing() -> None:
    for entries in ([], [entry("builtin/equal_weight", 0.0, 0.0)]):
        require_baselines(make_board(entries))
        tables = ranked_tables(make_board(entries))
        assert {scope: table["missing_baselines"] for scope, table in tables.items()} == {
            "all": [],
            "W1": [],
            "W2": [],
        }

    for table in ranked_tables(make_board([])).values():
        assert table["rows"] == table["columns"] == []
        assert table["ties"]["return"] == {
            "groups": 0,
            "tested": 0,
            "days": 0,
            "p": {},
            "reason": "there are no submissions",
        }


# -- series that are not as they should be


def test_series_of_another_card_or_format_is_refused_on_one_line(tmp_path) -> None:
    one = entry("house/one", 0.0, 0.0)
    other = entry("house/other", 0.0, 0.0)
    whole = make_series(other, {("W1", 0): [0.0], ("W2", 0): [0.0]})

    with pytest.raises(
        CardError, match=f"series of card {one.card_id}: .*ktdeval leaderboard check --all"
    ):
        ranked_tables(make_board([one]), {one.card_id: whole})

    plain = to_plain(whole)
    short = json.loads(json.dumps(plain))
    short["episodes"][0]["nav"].append(1.0)
    path = tmp_path / "series.json"

    for broken in ({"card": one.card_id}, short, {**plain, "episodes": [3]}, []):
        path.write_text(json.dumps(broken))
        with pytest.raises(
            CardError, match=r"series\.json: .*ktdeval leaderboard check --all"
        ) as error:
            read_own(path, Series)

        assert "\n" not in str(error.value)


def test_a_nav_that_is_gone_takes_no_part_in_ties() -> None:
    entries = [entry(f"house/{name}", 0.0, 0.0) for name in "abc"]
    rng = np.random.default_rng(0)
    series = {
        each.card_id: make_series(
            each, {("W1", 0): rng.normal(0, 0.01, 40), ("W2", 0): rng.normal(0, 0.01, 40)}
        )
        for each in entries
    }
    series[entries[1].card_id].episodes[0].nav[7] = 0.0
    table = ranked_tables(make_board(entries), series)["all"]

    assert set(table["ties"]["return"]["p"]) == {entries[0].card_id, entries[2].card_id}
