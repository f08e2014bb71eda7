"""Divisions of fresh windows: each entrant is ranked over the windows later than its training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from msgspec import structs
from scipy.stats import norm

from ktdeval.errors import ConfigError
from ktdeval.testing import on_each_row
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.ranking.daily_summaries import facts_of
from ktdeval_board.ranking.fresh_windows import NOT_KNOWN, ONLY_A_BOUND, fresh_facts, known_until
from ktdeval_board.ranking.head_to_head import pair_tests, windows_of
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.rules import ModelCutoff, load_rules
from support.board.board_ranks import (
    STEPS,
    by_label,
    entry as make,
    figure,
    make_board,
    make_series,
    two,
)

# W1 is 2024-01-02 to 2024-02-26, W2 2024-03-01 to 2024-04-25.
BEFORE_BOTH = "2023-12-31"
BETWEEN = "2024-02-28"


INSIDE_W1 = "2024-01-15"

AFTER_BOTH = "2024-06"


def listed(match: str, cutoff: str) -> ModelCutoff:
    """An entry of the board's list."""
    return ModelCutoff(
        match=match, cutoff=cutoff, source="https://acme.example/models", as_of="2024-07-01"
    )


CUTOFFS = (
    listed("acme/early", BEFORE_BOTH),
    listed("acme/middle", BETWEEN),
    listed("acme/late", AFTER_BOTH),
    listed("acme/rule", "none"),
)


def declares(entry: BoardEntry, cutoff: str) -> BoardEntry:
    """The entry, whose submitter says another cutoff."""
    model = structs.replace(entry.submission.model, cutoff_date=cutoff)
    return replace(entry, submission=structs.replace(entry.submission, model=model))


def fresh_board(
    entries: Sequence[BoardEntry], cutoffs: Sequence[ModelCutoff] = CUTOFFS
) -> LoadedBoard:
    """A board whose one division ranks fresh windows by excess return."""
    board = make_board(entries, fresh=True, rank_by="excess")
    return replace(board, rules=structs.replace(board.rules, cutoffs=tuple(cutoffs)))


def tables(board: LoadedBoard, series: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(rank_division(board, board.rules.divisions[0], (series or {}).get))


# The benchmark returns +1 % in W1 and -3 % in W2.
EARLY = make("acme/early", 0.05, 0.01)
MIDDLE = make("acme/middle", 0.90, 0.02)
LATE = make("acme/late", 0.90, 0.90)
RULE = make("acme/rule", 0.02, 0.00)
BOARD = fresh_board([EARLY, MIDDLE, LATE, RULE])


def test_an_entrants_figures_are_over_its_fresh_windows_alone() -> None:
    table = tables(BOARD)["all"]
    rows = by_label(table)

    # Medians of the excess: (4 % + 4 %) / 2, then W2 alone, then (1 % + 3 %) / 2.
    assert figure(table, rows["acme/early"], "excess") == pytest.approx(0.04)
    assert figure(table, rows["acme/middle"], "excess") == pytest.approx(0.05)
    assert figure(table, rows["acme/rule"], "excess") == pytest.approx(0.02)
    assert figure(table, rows["acme/middle"], "excess", "n") == 1
    assert [rows[f"acme/{name}"]["rank"] for name in ("middle", "early", "rule")] == [1, 2, 3]


def test_who_has_no_fresh_window_is_listed_with_the_page_that_says_so() -> None:
    row = by_label(tables(BOARD)["all"])["acme/late"]

    assert row["rank"] is None
    assert row["why"] == [
        "no window is later than its training data, which end on 2024-06"
        " (https://acme.example/models (2024-07-01))"
    ]
    assert set(row["values"]) == {None}


def test_a_window_ranks_those_to_whom_it_is_new() -> None:
    rows = by_label(tables(BOARD)["W1"])

    assert rows["acme/middle"]["rank"] is None
    assert rows["acme/middle"]["why"][0].startswith("window W1 is not later than its training data")
    assert rows["acme/early"]["rank"] == 1
    assert rows["acme/rule"]["rank"] == 2


def test_a_window_that_holds_the_cutoff_is_not_fresh() -> None:
    board = fresh_board([EARLY], [listed("acme/early", INSIDE_W1)])
    facts = by_label(tables(board)["all"])["acme/early"]["fresh"]

    assert (facts["windows"], facts["of_windows"]) == (1, 2)
    assert (facts["days"], facts["of_days"]) == (STEPS, 2 * STEPS)


def test_days_of_all_divisions_stay_without_facts_on_fresh_windows() -> None:
    board = make_board([EARLY])

    assert by_label(tables(board)["all"])["acme/early"]["fresh"] is None


# -- whose word counts


def test_a_submitter_gains_no_window_by_a_claim() -> None:
    claimed = declares(MIDDLE, "2020-01-01")
    board = fresh_board([claimed])

    assert known_until(board.entries[0], board.rules).cutoff == BETWEEN


def test_a_later_date_of_the_submitter_counts() -> None:
    claimed = declares(EARLY, BETWEEN)
    board = fresh_board([claimed])
    known = known_until(board.entries[0], board.rules)

    assert known.cutoff == BETWEEN
    assert known.source == "the submitter: model card"


def test_a_model_on_no_list_has_no_rank_whatever_its_submitter_says() -> None:
    board = fresh_board([declares(EARLY, "none")], [])
    row = by_label(tables(board)["all"])["acme/early"]

    assert row["rank"] is None
    assert row["why"] == [NOT_KNOWN]
    assert row["fresh"]["cutoff"] == "unknown"


def test_a_lower_bound_of_the_list_makes_no_window_fresh() -> None:
    """Training data that end in 2025 or later may hold any later window."""
    entry = declares(make("moonshot/kimi-k2.6", 0.1, 0.1), "2020-01-01")
    row = by_label(tables(fresh_board([entry], []))["all"])["moonshot/kimi-k2.6"]

    assert row["rank"] is None
    assert row["why"] == [ONLY_A_BOUND]


def test_the_suites_own_list_counts_where_the_board_says_nothing() -> None:
    model = "openai/gpt-3.5-turbo"
    board = fresh_board([make(model, 0.1, 0.1)], [])
    known = known_until(board.entries[0], board.rules)

    # The submitter of this card says a later day than the vendor.
    assert known.cutoff == BEFORE_BOTH

    board = fresh_board([declares(make(model, 0.1, 0.1), "2021-01-01")], [])
    known = known_until(board.entries[0], board.rules)

    assert known.cutoff == "2021-09-01"
    assert known.source.startswith("https://")


def test_the_most_specific_entry_of_the_board_counts() -> None:
    board = fresh_board([EARLY], [listed("acme/*", BETWEEN), listed("acme/early", BEFORE_BOTH)])

    assert known_until(board.entries[0], board.rules).cutoff == BEFORE_BOTH


# -- what so few days can show


def test_the_selection_that_a_test_would_find_is_that_of_a_z_test_by_hand() -> None:
    selection = {"W1": [0.5, -0.5, 0.5], "W2": [0.01, -0.01, 0.02, 0.0]}
    series = make_series(
        MIDDLE,
        {(name, 0): [0.0] * len(days) for name, days in selection.items()},
        {(name, 0): days for name, days in selection.items()},
    )
    board = fresh_board([MIDDLE])
    (division,) = board.rules.divisions
    facts = fresh_facts(board.entries[0], division, board.rules, facts_of(series))

    # W2 alone is fresh.
    spread = np.std(selection["W2"], ddof=1)
    by_hand = (norm.ppf(0.975) + norm.ppf(0.8)) * spread * math.sqrt(4)
    assert facts["detectable"] == pytest.approx(by_hand, rel=1e-5)


def test_without_series_the_row_says_why_it_knows_no_power() -> None:
    facts = by_label(tables(BOARD)["all"])["acme/middle"]["fresh"]

    assert facts["detectable"] is None
    assert facts["detectable_reason"] == "the board has not executed its records"


# -- ties and pairs


def daily_series(entry: BoardEntry, seed: int) -> Any:
    """A card's series of 40 random days in each window."""
    stream = np.random.default_rng(seed)
    returns = {cell: stream.normal(0, 0.01, STEPS).tolist() for cell in two(0, 0)}
    return make_series(entry, returns, returns)


def test_tie_groups_are_of_the_windows_that_are_fresh_for_all_ranked() -> None:
    names = ("acme/early", "acme/middle", "acme/rule")
    entries = [make(name, 0.1, 0.1, alphas=True) for name in names]
    series = {entry.card_id: daily_series(entry, seed) for seed, entry in enumerate(entries)}
    board = make_board(entries, fresh=True, rank_by="selection_alpha")
    board = replace(board, rules=structs.replace(board.rules, cutoffs=CUTOFFS))

    ties = tables(board, series)["all"]["ties"]["alpha"]

    assert ties["days"] == STEPS
    assert ties["tested"] == 3


def test_pairs_are_tested_on_windows_that_are_fresh_for_both() -> None:
    board = fresh_board([EARLY, MIDDLE, RULE])
    early, middle, rule = board.entries
    tests = pair_tests(board.entries, windows_of(board, board.rules.divisions[0]))

    assert tests[early.card_id][rule.card_id]["total_return"].n == 2
    assert tests[early.card_id][middle.card_id]["total_return"].n == 1


# -- rules of the file


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    practice = Path("leaderboards/practice/board.yaml").read_text()
    path = tmp_path / "board.yaml"
    path.write_text(practice)
    return path


def rewritten(path: Path, division: dict[str, Any], **more: Any) -> Path:
    content = yaml.safe_load(path.read_text())
    content["divisions"][0] |= division
    path.write_text(yaml.safe_dump(content | more))
    return path.parent


@on_each_row(
    "division, more, words",
    ({"fresh": True}, {}, "rank_by: 'total_return' can't be compared between markets"),
    (
        {"fresh": True, "rank_by": "excess"},
        {
            "cutoffs": [
                {
                    "match": "a/b",
                    "cutoff": "2024-13",
                    "source": "https://a.example",
                    "as_of": "2024-01-01",
                }
            ]
        },
        "cutoffs: a/b: '2024-13' is neither a day",
    ),
    (
        {},
        {
            "cutoffs": [
                {
                    "match": "a/b",
                    "cutoff": "soon",
                    "source": "https://a.example",
                    "as_of": "2024-01-01",
                }
            ]
        },
        "cutoff",
    ),
    (
        {},
        {
            "cutoffs": [
                {"match": "a/b", "cutoff": "none", "source": "a rule", "as_of": "2024-01-01"},
                {"match": "a/b", "cutoff": "none", "source": "a rule", "as_of": "2024-01-01"},
            ]
        },
        "cutoffs: 'a/b' appears twice",
    ),
    (
        {},
        {"baselines": [{"model": "builtin/hold", "divisions": ["nowhere"]}]},
        "baselines: builtin/hold: divisions: no division 'nowhere'",
    ),
)
def test_rules_that_make_no_sense_are_named(
    rules_file: Path, division: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    folder = rewritten(rules_file, division, **more)

    with pytest.raises(ConfigError) as raised:
        load_rules(folder)

    assert words in str(raised.value)


def test_a_fresh_division_is_read(rules_file: Path) -> None:
    folder = rewritten(rules_file, {"fresh": True, "rank_by": "vs_random"})

    assert load_rules(folder).divisions[0].fresh
