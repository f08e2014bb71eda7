"""Columns and labels of a ranking, and the table of a scoring task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from ktdeval.errors import ConfigError
from ktdeval.testing import on_each_row
from ktdeval.values import content_hash
from ktdeval_board.errata import Erratum
from ktdeval_board.ranking.column_texts import (
    default_columns,
    describe_metrics,
    division_scopes,
    system_labels,
)
from ktdeval_board.ranking.division_figures import score_figures
from ktdeval_board.ranking.head_to_head import pairs_index, windows_of
from ktdeval_board.rules import WindowRule
from support.board.board_cards import changed
from support.board.board_ranks import (
    by_label,
    entry,
    figure,
    make_board,
    make_verdict,
    ranked_tables,
    shown,
)
from support.figures.card_cases import typed
from support.figures.scoring_cases import DEFINITIONS, scoring_card

# -- scoring tasks


def scoring_board(better: str = "lower"):
    """Two cards of a scoring task, which share their window and seeds."""
    entries = []
    for number, model in enumerate(("house/leaky", "house/blind")):
        card = scoring_card(seeds=(0, 1)) | {"model": {"name": model, "args": {}}}
        card["scores"]["right_name"] |= {"better": better} | {
            "value": 0.2 - 0.1 * number,
            "interval": {"kind": "wilson", "low": 0.05, "high": 0.4},
        }
        submitted = entry(model, 0.0, 0.0).submission
        verdict = make_verdict(steps=4)
        entries.append(
            replace(
                entry(model, 0.0, 0.0),
                card_id=content_hash(card),
                card=typed(card),
                submission=submitted,
                verdict=verdict,
            )
        )

    (window,) = entries[0].card.windows

    return make_board(
        entries,
        rank_by="right_name",
        windows=(WindowRule(window.name, window.first, window.last),),
        seeds=(0, 1),
    )


def test_scores_are_ranked_over_all_answers_next_to_chance() -> None:
    board = scoring_board()
    tables = ranked_tables(board)

    assert list(tables) == division_scopes(board, board.rules.divisions[0]) == ["all"]

    table = tables["all"]
    assert table["columns"] == [
        "right_name",
        "distance",
        "unparsable_rate",
        "decided",
        "cost_usd",
        "tokens",
    ]

    # lower is better, and nobody is as low as chance
    ranks = [("chance", None, None), ("house/blind", 1, None), ("house/leaky", 2, None)]
    assert [(row["label"], row["rank"], row["alpha_rank"]) for row in table["rows"]] == ranks
    assert shown(table, "house/blind", "right_name")[:4] == (0.1, 0.05, 0.4, "wilson")
    assert shown(table, "house/blind", "distance")[3] is None
    assert shown(table, "house/blind", "decided")[0] == pytest.approx(38 / 40)
    assert shown(table, "house/blind", "tokens")[0] == 240
    assert table["ties"]["return"]["reason"] == "scores of a scoring task have no daily returns"
    assert table["missing_baselines"] == []

    row = by_label(table)["chance"]
    assert (row["baseline"], row["card"], figure(table, row, "right_name")) == (
        "benchmark",
        None,
        0.05,
    )
    assert row["reasons"]["distance"] == "not defined for chance"

    with pytest.raises(ConfigError, match="has no better direction"):
        ranked_tables(scoring_board("neither"))


def test_a_score_without_a_value_has_a_reason() -> None:
    board = scoring_board()
    none = {"value": None, "interval": None, "n": 0, "reason": "no probe has a valid answer"}
    first = changed(board.entries[0], lambda card: card["scores"]["right_name"].update(none))
    board = replace(board, entries=(first, *board.entries[1:]))
    figures = score_figures(board.entries[:1], ["right_name", "unknown"])

    assert figures["reason"].tolist() == [
        ["no probe has a valid answer", "unknown is not on the card"]
    ]

    row = by_label(ranked_tables(board)["all"])["house/leaky"]
    assert row["why"] == ["right_name is not defined: no probe has a valid answer"]


def scored(change):
    """The first entry of a scoring board with a changed card."""
    return changed(scoring_board().entries[0], change)


def figures_of(change, columns):
    """Figures of the first entry of a scoring board, whose card is changed."""
    return score_figures([changed(scoring_board().entries[0], change)], columns)


def test_chance_is_the_median_of_what_it_gives_on_the_samples_of_each_card() -> None:
    board = scoring_board()
    other = changed(
        board.entries[1], lambda card: card["scores"]["right_name"].update(baseline=0.15)
    )

    table = ranked_tables(replace(board, entries=(board.entries[0], other)))["all"]

    value, low, high, kind, n = shown(table, "chance", "right_name")

    assert (value, low, high) == pytest.approx((0.1, 0.075, 0.125))
    assert (kind, n) == ("interquartile", 2)
    assert by_label(table)["chance"]["model"] == "chance alone"


def test_without_a_figure_for_chance_there_is_no_row_of_it() -> None:
    board = scoring_board()

    def forget(card) -> None:
        for score in card["scores"].values():
            score["baseline"] = None

    entries = tuple(changed(each, forget) for each in board.entries)

    rows = by_label(ranked_tables(replace(board, entries=entries))["all"])

    assert list(rows) == ["house/blind", "house/leaky"]


COLUMNS = ["decided", "cost_usd", "tokens"]


def test_a_scoring_card_has_its_own_cost_and_the_median_of_its_tokens() -> None:
    """By hand: 38 of 40 samples answered; 400 and 200 tokens read, 40 and 40 written."""

    def use(card) -> None:
        card["cost"]["per_episode"] = {"value": 0.25, "n": 2, "undefined": {}}
        card["episodes"][0]["usage"]["input_tokens"] = 400

    figures = score_figures([scored(use)], COLUMNS)

    assert figures["value"].tolist() == [[38 / 40, 0.25, (440 + 240) / 2]]
    assert figures["n"].tolist() == [[40, 2, 2]]
    assert figures["reason"].tolist() == [[None, None, None]]
    assert not figures["planned"].any()


def test_a_scoring_card_says_why_it_has_no_cost_and_no_tokens() -> None:
    def bare(card) -> None:
        card["cost"] = {"value": None, "reason": "no price of the model is known"}
        card["coverage"]["steps_planned"] = 0
        card["episodes"] = []

    figures = figures_of(bare, ["decided", "cost_usd", "tokens"])

    assert np.isnan(figures["value"]).all()
    assert figures["n"].tolist() == [[0, 0, 0]]
    assert figures["reason"].tolist() == [
        ["no sample was planned", "no price of the model is known", "no finished episode"]
    ]


def test_uncounted_replies_of_a_scoring_card_leave_its_tokens_undefined() -> None:
    def uncount(card) -> None:
        card["episodes"][1]["uncounted"] = 1

    figures = figures_of(uncount, ["tokens"])

    assert np.isnan(figures["value"]).all()
    assert "1 reply" in figures["reason"][0, 0]


def test_scores_pair_no_windows() -> None:
    board = scoring_board()
    index = pairs_index(windows_of(board, board.rules.divisions[0]), ["a" * 64])
    assert (index["windows"], index["cards"]) == ([], [])


# -- labels and columns


def test_labels_name_only_the_differences_of_systems() -> None:
    entries = [
        entry("a/one", 0, 0),
        entry("a/two", 0, 0),
        entry("a/two", 0, 0, agent="planner"),
        entry("b/three", 0, 0),
        entry("b/three", 0, 0, call={"reasoning_effort": "high"}),
    ]

    assert list(system_labels(make_board(entries)).values()) == [
        "a/one",
        "a/two@react",
        "a/two@planner",
        "b/three",
        "b/three{reasoning_effort=high}",
    ]


def test_model_with_other_parameters_is_a_different_system() -> None:
    """Under one label a bright and a blinded card would read as an effect of the mask."""
    plain = entry("a/one", 0, 0)
    other = entry("a/one", 0, 0.1)
    model = structs.replace(other.card.model, args={"positions": 3})
    tuned = replace(other, card=structs.replace(other.card, model=model))

    assert list(system_labels(make_board([plain, tuned])).values()) == [
        "a/one",
        "a/one(positions=3)",
    ]


def test_different_systems_never_share_a_label() -> None:
    entries = [
        entry("a", 0, 0, agent="b"),
        entry("a", 0, 0, agent="c"),
        entry("a@b", 0, 0),
        entry("a@b", 0, 0.1),
    ]
    labels = list(system_labels(make_board(entries)).values())

    assert (len(set(labels)), labels[1]) == (4, "a@c")

    gone = entry(
        "a/one", 0, 0, errata=[Erratum("c" * 64, "2026-02-03", "withdrawn", "asked for it")]
    )
    again = entry("a/one", 0, 0.1)

    assert system_labels(make_board([gone, again])) == {
        gone.card_id: f"a/one #{gone.card_id[:8]}",
        again.card_id: "a/one",
    }


@pytest.mark.exhaustive
def test_every_column_is_described(forged, forged_tables) -> None:
    words = describe_metrics(forged)
    for tables in forged_tables.values():
        assert set(tables["all"]["columns"]) <= set(words)

    for name, each in words.items():
        assert set(each) == {
            "title",
            "unit",
            "better",
            "group",
            "headline",
            "formula",
            "source",
            "description",
        }, name
        assert each["better"] in {"higher", "lower", "neither"}
        assert all(
            each[field] for field in ("title", "unit", "group", "formula", "source", "description")
        )

    assert len({each["title"] for each in words.values()}) == len(words)

    shown = default_columns(
        forged_tables[forged.rules.divisions[0].id]["all"]["columns"], "total_return"
    )

    assert shown[:3] == ["total_return", "excess", "selection_alpha"]
    assert len(shown) < 10


@on_each_row(
    "columns, rank_by, chosen",
    # of a trading task
    (
        ["hhi", "total_return", "sharpe", "excess", "my_metric", "tokens"],
        "my_metric",
        ["total_return", "sharpe", "excess", "my_metric"],
    ),
    (
        ["hhi", "total_return", "sharpe", "excess", "my_metric", "tokens"],
        "total_return",
        ["total_return", "sharpe", "excess"],
    ),
    # of a scoring task: the first four scores
    (
        ["a", "b", "c", "d", "e", "f", "decided", "cost_usd", "tokens"],
        "f",
        ["f", "a", "b", "c", "d", "decided", "cost_usd"],
    ),
    (
        ["a", "b", "c", "d", "e", "f", "decided", "cost_usd", "tokens"],
        "b",
        ["b", "a", "c", "d", "decided", "cost_usd"],
    ),
    (
        ["a", "b", "c", "d", "e", "f", "decided", "cost_usd", "tokens"],
        "unknown",
        ["a", "b", "c", "d", "decided", "cost_usd"],
    ),
    (
        ["right_name", "distance", "unparsable_rate", "decided", "cost_usd", "tokens"],
        "right_name",
        ["right_name", "distance", "unparsable_rate", "decided", "cost_usd"],
    ),
    ([], "right_name", []),
)
def test_columns_that_are_shown_are_a_choice_with_the_figure_of_the_ranks(
    columns: list[str], rank_by: str, chosen: list[str]
) -> None:
    assert default_columns(columns, rank_by) == chosen


def test_scores_are_described_by_their_task() -> None:
    words = describe_metrics(scoring_board())
    assert words["right_name"]["group"] == "scores"
    assert words["distance"] == {
        "title": "Distance",
        "unit": "days",
        "better": "neither",
        "group": "scores",
        "headline": True,
        "formula": "mean distance of the day",
        "source": DEFINITIONS["distance"].source,
        "description": "mean distance of the day",
    }
