"""Tie groups of a board: planted truths, `arch` on long series, the definition itself, and who
takes part.
"""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.stats.confidence_set import _StudentisedDifferences, tie_groups
from ktdeval.testing import not_empty
from ktdeval_board.ranking.daily_summaries import mean_by_day, same_days
from ktdeval_board.ranking.rows import place_cards, ranks_words
from ktdeval_board.ranking.table import MAX_TESTED
from ktdeval_compare.pairs.compared_cards import daily_table, load_entrants
from support.board.board_ranks import daily, make_board, make_entry, make_series, ranked_tables
from support.figures.compare_cards import make_card, save_run

LEVEL = 0.05


def noise(seed: int, days: int, agents: int) -> np.ndarray:
    """Agents whose returns share a market and differ by chance alone."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0003, 0.01, (days, 1)) + rng.normal(0, 0.006, (days, agents))


# -- planted truths


@pytest.mark.exhaustive
@pytest.mark.parametrize(("agents", "days"), [(2, 43), (6, 43), (20, 43), (6, 400)])
def test_equally_good_agents_are_one_group_as_often_as_the_level_states(
    agents: int, days: int
) -> None:
    samples = 150
    split = sum(
        max(tie_groups(noise(seed, days, agents), LEVEL, draws=400).group or ()) > 1
        for seed in range(samples)
    )

    # 5 % would be 7.5; 15 and more have a chance of 1 % then.
    assert split <= 14


def test_planted_classes_are_the_groups() -> None:
    classes = noise(1, 430, 9) + np.repeat([0.01, 0.005, 0.0], 3)
    assert tie_groups(classes, LEVEL).group == (1, 1, 1, 2, 2, 2, 3, 3, 3)

    worse = tie_groups(noise(2, 100, 5) - np.array([0, 0, 0, 0.02, 0]), LEVEL)
    assert worse.group == (1, 1, 1, 2, 1)
    assert worse.p[3] < LEVEL

    returns = noise(4, 90, 7) + np.linspace(0, 0.006, 7)
    straight = tie_groups(returns, LEVEL)
    turned = tie_groups(returns[:, ::-1], LEVEL)

    assert turned.group == straight.group[::-1], "the order of agents does not matter"


def test_agents_that_are_equal_or_differ_on_one_day_alone_are_tied() -> None:
    returns = noise(1, 43, 2)
    assert tie_groups(returns[:, [0, 1, 0, 0]] - [0, 0.05, 0, 0], LEVEL).group == (1, 2, 1, 1)
    assert tie_groups(returns[:, [0, 0]], LEVEL).group == (1, 1)

    # Most resamples miss the day and have no variance: nothing is shown by them.
    twice = np.repeat(noise(0, 43, 1), 2, axis=1)
    twice[7, 1] += 0.05

    assert tie_groups(twice, LEVEL).group == (1, 1)


# -- against arch, and against the definition


def arch_p(returns: np.ndarray, reps: int = 2000) -> np.ndarray:
    """p-values of `arch` itself, with the block length of the tie groups."""
    from arch.bootstrap import MCS  # slow to load

    block = max(2, round(len(returns) ** (1 / 3) / 2))
    test = MCS(
        -returns,
        size=LEVEL,
        reps=reps,
        block_size=block,
        method="R",
        bootstrap="stationary",
        seed=1,
    )
    test.compute()

    return np.array([float(test.pvalues["Pvalue"].loc[agent]) for agent in range(returns.shape[1])])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_on_long_series_p_values_are_those_of_arch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    returns = noise(seed, 3000, 5) + rng.normal(0, 0.0002, 5)
    ties = tie_groups(returns, LEVEL, draws=4000)
    assert np.allclose(ties.p, arch_p(returns), atol=0.04)


@pytest.mark.exhaustive
def test_on_long_series_groups_are_those_of_arch_applied_again_to_the_rest() -> None:
    returns = noise(3, 1000, 8) + np.repeat([0.003, 0.0015, 0.0, -0.0015], 2)
    groups = [0] * 8
    left = list(range(8))

    for number in itertools.count(1):
        p = arch_p(returns[:, left]) if len(left) > 1 else np.ones(len(left))
        for agent in [agent for agent, value in zip(left, p, strict=True) if value > LEVEL]:
            groups[agent] = number

        left = [agent for agent in left if not groups[agent]]
        if not left:
            break

    assert tie_groups(returns, LEVEL).group == tuple(groups)


def p_by_definition(contest: _StudentisedDifferences, agents: list[int]) -> dict[int, float]:
    """Eliminate the worst, and look at every pair of every set."""
    live = list(agents)
    p_of = {}
    p = 0.0

    while len(live) > 1:
        pairs = list(itertools.permutations(live, 2))
        largest, worst = max((contest.observed[one, other], one) for one, other in pairs)
        reach = np.max(
            [contest.resampled[contest.pair[one, other]] for one, other in pairs], axis=0
        )
        p = max(p, float((largest < reach).mean()))
        p_of[worst] = p
        live.remove(worst)

    return p_of | {live[0]: 1.0}


@pytest.mark.parametrize("agents", [2, 3, 7, 12])
def test_running_maxima_give_what_the_definition_gives(agents: int) -> None:
    returns = noise(agents, 60, agents) + np.random.default_rng(agents).normal(0, 0.002, agents)
    contest = _StudentisedDifferences(returns, 300)
    assert contest.p_values(range(agents)) == p_by_definition(contest, list(range(agents)))
    assert contest.p_values(range(1, agents)) == p_by_definition(contest, list(range(1, agents)))


def test_resampled_differences_have_their_own_standard_errors() -> None:
    days = 43
    block = 2
    blocks = 22
    draws = 50
    returns = noise(8, days, 3)
    contest = _StudentisedDifferences(returns, draws)
    gaps = returns[:, 2] - returns[:, 0]
    starts = np.random.default_rng(0).integers(0, days, (draws, blocks))

    for draw, of_draw in enumerate(not_empty(starts, draws)):
        means = [
            np.mean(np.take(gaps, range(start, start + block), mode="wrap")) for start in of_draw
        ]
        expected = abs(np.mean(means) - gaps.mean()) / (np.std(means, ddof=1) / np.sqrt(blocks))
        assert contest.resampled[contest.pair[0, 2], draw] == pytest.approx(expected)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(30, 80))
@settings(max_examples=40, deadline=None)
def test_groups_are_numbered_without_gaps_and_hold_the_best_first(
    seed: int, agents: int, days: int
) -> None:
    returns = noise(seed, days, agents) + np.random.default_rng(seed).normal(0, 0.004, agents)
    ties = tie_groups(returns, LEVEL, draws=200)

    assert sorted(set(ties.group)) == list(range(1, max(ties.group) + 1))
    assert ties.group[int(returns.mean(axis=0).argmax())] == 1
    assert all((group == 1) == (p > LEVEL) for group, p in zip(ties.group, ties.p, strict=True))


@pytest.mark.parametrize(
    ("returns", "reason"),
    [
        (np.zeros((0, 0)), "no agent has daily returns"),
        (noise(0, 43, 1), "there is only one agent"),
        (noise(0, 29, 3), "fewer than 30 days"),
        (
            noise(0, 43, 1) + np.array([0.0, 0.001]),
            "two agents differ by the same amount every day",
        ),
        (
            np.where(np.arange(86).reshape(43, 2) == 5, np.nan, noise(0, 43, 2)),
            "a return is missing",
        ),
    ],
)
def test_missing_tie_groups_have_a_reason(returns: np.ndarray, reason: str) -> None:
    ties = tie_groups(returns, LEVEL)
    assert (ties.group, ties.p, ties.reason) == (None, None, reason)


# -- days


def test_a_day_of_several_windows_and_seeds_counts_once() -> None:
    first = daily(["2024-01-02", "2024-01-03"], [0.01, 0.03])
    again = daily(["2024-01-02", "2024-01-03"], [0.03, 0.05])
    later = daily(["2024-01-03", "2024-01-04"], [0.10, 0.02])
    table = mean_by_day([[first, again, later]], "returns")

    assert table[:, 0] == pytest.approx([0.02, (0.03 + 0.05 + 0.10) / 3, 0.02])


def test_daily_returns_equal_those_of_compare(tmp_path) -> None:
    rng = np.random.default_rng(0)
    windows = {"A": ("2024-03-04", "2024-03-08"), "B": ("2024-03-06", "2024-03-10")}
    cells = list(itertools.product(windows, (0, 1)))
    returns = {cell: rng.normal(0, 0.01, 5) for cell in cells}
    card = make_card(dict.fromkeys(cells, 0.0), windows=windows)
    save_run(tmp_path, card, returns)
    theirs = daily_table(load_entrants([tmp_path]), cells)

    assert not isinstance(theirs, str)

    ours = []

    for window, seed in cells:
        days = np.datetime64(windows[window][0]) + np.arange(5)
        ours.append(daily([str(day) for day in days], returns[window, seed]))

    assert mean_by_day([ours], "returns")[:, 0] == pytest.approx(theirs.returns[:, 0], abs=2e-8)


def test_other_days_are_seen() -> None:
    one = daily(["2024-01-02", "2024-01-03"], [0, 0])
    other = daily(["2024-01-02", "2024-01-04"], [0, 0])

    assert same_days([one], [one])
    assert not same_days([one], [other])
    assert not same_days([one], [one, other])


# -- in tables


def skilled(names: int, rank_by: str = "total_return", **more):
    """A board of agents of falling skill, with series."""
    rng = np.random.default_rng(11)
    board = make_board([], rank_by=rank_by)
    series = {}
    entries = []

    for number in range(names):
        returns = {
            (window, 0): rng.normal(0.006 - 0.012 * number / max(names - 1, 1), 0.006, 40)
            for window in ("W1", "W2")
        }
        entry = make_entry(
            board,
            f"house/{number:02d}",
            {cell: float(np.prod(1 + days) - 1) for cell, days in returns.items()},
            **more,
        )
        entries.append(entry)
        series[entry.card_id] = make_series(entry, returns, selection=returns)

    return make_board(entries, rank_by=rank_by), series


def test_the_best_forty_by_rank_take_part() -> None:
    board, series = skilled(MAX_TESTED + 5)
    for table in not_empty(ranked_tables(board, series).values()):
        groups = {row["rank"]: row["tie"] for row in table["rows"] if row["ranked"]}
        assert [rank for rank, group in groups.items() if group is None] == list(range(41, 46))
        assert table["ties"]["return"]["tested"] == 40
        assert (
            "tie groups by return: 5 ranked without a tie group: the best 40 were tested"
            in table["notes"]
        )


def test_a_tie_group_shares_its_best_rank_also_where_others_stand_between() -> None:
    """Ranks 1 to 5 in groups A, none, A, B, A: ranks 1, 3 and 5 are tied at 1."""
    groups = [1, None, 1, 2, 1, None]
    ranks = [1, 2, 3, 4, 5, None]
    expected = [(1, 5, 2), (2, 2, 0), (1, 5, 2), (4, 4, 0), (1, 5, 2), (None, None, 0)]
    why: list[list[str]] = [[] for _ in ranks]
    shared = list(place_cards(why, (ranks, ranks), (groups, groups)))

    names = ("shared_rank", "worst_rank", "tied_with")
    assert [tuple(row[name] for name in names) for row in shared] == expected
    names = ("shared_alpha_rank", "worst_alpha_rank", "alpha_tied_with")
    assert [tuple(row[name] for name in names) for row in shared] == expected
    words = ["1, 3, 5", "2", "1, 3, 5", "4", "1, 3, 5", ""]
    assert [row["group_ranks"] for row in shared] == words
    assert [row["alpha_group_ranks"] for row in shared] == words


@given(
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(1, 3)), min_size=1, max_size=12)
)
def test_a_tie_group_has_the_places_that_its_cards_share(
    cards: list[tuple[int, int | None]],
) -> None:
    """Cards of equal figures share as many places as they are: counted in the sorted list."""
    figures = sorted((figure for figure, _ in cards), reverse=True)
    places = {
        figure: {place for place, other in enumerate(figures, 1) if other == figure}
        for figure in figures
    }
    ranks = [min(places[figure]) for figure, _ in cards]
    ties = [tie for _, tie in cards]
    rows = place_cards([[] for _ in cards], (ranks, ranks), (ties, ties))

    for row, (own, tie) in zip(rows, cards, strict=True):
        members = [figure for figure, other in cards if tie is not None and other == tie]
        shared = {place for figure in members for place in places[figure]} or {min(places[own])}

        assert (row["shared_rank"], row["worst_rank"]) == (min(shared), max(shared))
        assert row["group_ranks"] == ranks_words(shared)
        assert row["tied_with"] == max(0, len(members) - 1)


def test_forty_tied_cards_of_which_the_last_four_are_equal_have_the_places_to_forty() -> None:
    ranks = [*range(1, 37), 37, 37, 37, 37]
    ties = [1] * 40
    rows = list(place_cards([[] for _ in ranks], (ranks, ranks), (ties, ties)))
    assert {row["group_ranks"] for row in rows} == {"1–40"}


@pytest.mark.parametrize(
    ("ranks", "words"),
    [([], ""), ([3], "3"), ([1, 3], "1, 3"), ([2, 1, 3], "1–3"), ([1, 2, 2, 5], "1–2, 5")],
)
def test_a_dash_stands_only_between_ranks_that_follow_each_other(
    ranks: list[int], words: str
) -> None:
    assert ranks_words(ranks) == words


def test_without_series_of_the_same_days_a_card_is_ranked_without_a_group() -> None:
    board, series = skilled(5, alphas=True)
    missing, odd, bare = (board.entries[index].card_id for index in (1, 2, 3))
    del series[missing]
    series[odd].episodes[0].days[3] = "2024-01-06"
    series[bare].episodes[1] = msgspec.structs.replace(
        series[bare].episodes[1], selection_daily=None
    )
    table = ranked_tables(board, series)["all"]
    rows = {row["card"]: row for row in table["rows"]}

    for card, has in ((missing, (False, False)), (odd, (False, False)), (bare, (True, False))):
        assert rows[card]["ranked"]
        assert (rows[card]["tie"] is not None, rows[card]["alpha_tie"] is not None) == has

    assert (
        "tie groups by return: 2 ranked without a tie group: they have no daily series"
        in table["notes"]
    )


def test_a_rank_by_something_else_has_no_tie_groups_of_returns() -> None:
    table = ranked_tables(*skilled(4, rank_by="selection_alpha", alphas=True))["all"]
    assert table["ties"]["return"] == table["ties"]["alpha"]
    assert [row["tie"] for row in table["rows"]] == [row["alpha_tie"] for row in table["rows"]]

    table = ranked_tables(*skilled(4, rank_by="excess", alphas=True))["all"]
    assert (
        table["ties"]["return"]["reason"]
        == "ranks use excess, but tie groups compare mean daily returns"
    )
    assert ({row["tie"] for row in table["rows"]}, table["ties"]["alpha"]["tested"]) == ({None}, 4)


def test_baselines_and_unranked_cards_take_no_part() -> None:
    board, series = skilled(3)
    extra = make_entry(board, "builtin/equal_weight", {("W1", 0): 0.1, ("W2", 0): 0.1})
    unchecked = make_entry(board, "house/late", {("W1", 0): 0.1, ("W2", 0): 0.1}, tier="unchecked")
    returns = {(window, 0): np.full(40, 0.001) for window in ("W1", "W2")}
    series |= {
        entry.card_id: make_series(entry, returns, selection=returns)
        for entry in (extra, unchecked)
    }
    table = ranked_tables(make_board([*board.entries, extra, unchecked]), series)["all"]

    assert set(table["ties"]["return"]["p"]) == {entry.card_id for entry in board.entries}
