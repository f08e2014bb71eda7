"""`ktdeval table`: rows are systems and never names, and patterns of cohorts match systems,
whatever else is given.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from card_cases import derived_fields
from compare_cards import CardTerminal, make_card
from ktdeval.tasks.scoring import Score, ScoreDefinition
from ktdeval.values.jsonio import content_hash
from scoring_cases import TASK, score_spec, scoring_card

SELECTION = {
    "better": "higher",
    "formula": "selection_alpha/2: here",
    "headline": True,
    "range": [None, None],
    "source": "here",
    "unit": "fraction",
    "value": None,
    "n": 0,
    "undefined": {},
    "reason": "to be derived",
}


def rows_of(
    terminal: CardTerminal, name: str, cards: Sequence[Path], *words: str
) -> list[dict[str, str]]:
    """The rows of a table as CSV."""
    return list(
        csv.DictReader(
            io.StringIO(terminal.text("table", *cards, "--like", name, "--format", "csv", *words))
        )
    )


def tilted(model: str, exposure: float, **changes: Any) -> dict[str, Any]:
    """A card whose holdings have this exposure to one factor."""
    card = make_card({("A1", 0): 0.01}, model, **changes)
    for episode in card["episodes"]:
        detail = {
            "linked": {"selection": 0.02},
            "mean_exposures": {"SKEW": exposure},
            "exposure_days": {"SKEW": 5},
        }
        episode["metrics"]["selection_alpha"] = {"value": 0.02, "n": 5, "detail": detail}
    card["metrics"]["selection_alpha"] = copy.deepcopy(SELECTION)
    return card | derived_fields(card)


# ---- rows are systems


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"args": {"positions": 3}}, "house/one(positions=3)"),
        ({"agent": {"name": "vote", "args": {}}}, "house/one@vote"),
        ({"call": {"temperature": 0.0}}, "house/one{temperature=0.0}"),
    ],
)
def test_two_systems_of_one_name_never_look_like_two_masks_of_one(
    change: dict[str, Any], label: str, terminal: CardTerminal
) -> None:
    """Bright and blinded cards in one row would be read as an effect of the mask."""
    bright = make_card({("A1", 0): 0.10, ("A2", 0): 0.10}, mask="bright")
    blinded = make_card({("A1", 0): 0.02, ("A2", 0): 0.02}, **change)
    cards = terminal.cards(bright, blinded)
    modes = rows_of(terminal, "ktdfin-3", cards)
    assert len(modes) == 2
    assert [(float(row["bright"] or "nan"), row["blinded"]) for row in modes[:1]] == [(0.10, "")]
    assert (modes[1]["Model"], modes[1]["bright"], float(modes[1]["blinded"])) == (label, "", 0.02)
    masks = rows_of(terminal, "ktdfin-11", cards)
    assert [(row["Mask"], float(row["total_return"])) for row in masks] == [
        ("bright", 0.10),
        ("blinded", 0.02),
    ]
    assert masks[1]["Model"] == label != masks[0]["Model"]
    # As JSON, the same figures, and null for one that no card has.
    shown = terminal.report("table", *cards, "--like", "ktdfin-3")
    assert [column["name"] for column in shown["columns"]] == list(modes[0])[2:]
    assert [(row["Model"], row["bright"], row["blinded"]) for row in shown["rows"]] == [
        (modes[0]["Model"], 0.10, None),
        (label, None, 0.02),
    ]
    assert "give one" in terminal.refusal(
        "table", *cards, "--like", "ktdfin-3", "--json", "--format", "csv"
    )
    # One system under two masks is one row.
    alike = terminal.cards(bright, make_card({("A1", 0): 0.02, ("A2", 0): 0.02}))
    (row,) = rows_of(terminal, "ktdfin-3", alike)
    assert (row["Model"], float(row["bright"]), float(row["blinded"])) == ("house/one", 0.10, 0.02)


def suite_card(suite: str, overall: float, **changes: Any) -> dict[str, Any]:
    """A card of QFinZero's calling or planning with one score; `changes`: of its episodes."""
    task = {**TASK, "name": f"qfinzero_{suite}", "suite": suite}
    spec = score_spec(task=task["name"], task_hash=content_hash(task), **changes)
    points = ScoreDefinition("mean of the three", "points", (0.0, 100.0), "higher", "a test")
    return scoring_card(
        task=task,
        specs=[spec],
        definitions={"overall": points},
        scores={"overall": Score(overall, 20)},
    )


def test_calling_and_planning_of_two_systems_are_two_rows(terminal: CardTerminal) -> None:
    """One row of both would be a model that nobody ran."""
    calling = suite_card("calling", 80.0)
    planning = suite_card("planning", 20.0, model_args={"positions": 3})
    rows = rows_of(terminal, "qfinzero-2", terminal.cards(calling, planning))
    assert [(row["Model"], row["calling_overall"], row["planning_overall"]) for row in rows] == [
        ("builtin/momentum", "80.0", ""),
        ("builtin/momentum(positions=3)", "", "20.0"),
    ]
    (row,) = rows_of(terminal, "qfinzero-2", terminal.cards(calling, suite_card("planning", 20.0)))
    assert (row["Model"], row["calling_overall"], row["planning_overall"]) == (
        "builtin/momentum",
        "80.0",
        "20.0",
    )


def test_what_a_model_misses_is_shared_out_among_tools_parameters_and_times(
    terminal: CardTerminal,
) -> None:
    """By hand: 0.1, 0.3 and 0.1 are missing of 0.5 in all."""
    share = ScoreDefinition("a share", "fraction", (0.0, 1.0), "higher", "a test")
    points = ScoreDefinition("mean of the three", "points", (0.0, 100.0), "higher", "a test")
    task = {**TASK, "name": "qfinzero_calling", "suite": "calling"}

    def card(tm: float, pa: float, ta: float, model: str) -> dict[str, Any]:
        kinds = {"by_category": {"news_query": {"overall": 100 * tm, "n": 4}}}
        return scoring_card(
            task=task,
            specs=[score_spec(task=task["name"], task_hash=content_hash(task), model=model)],
            definitions={"overall": points, "tm": share, "pa": share, "ta": share},
            scores={
                "overall": Score(100 * (tm + pa + ta) / 3, 20, detail=kinds),
                "tm": Score(tm, 20),
                "pa": Score(pa, 20),
                "ta": Score(ta, 20),
            },
        )

    several = terminal.cards(card(0.9, 0.7, 0.9, "house/one"), card(1.0, 1.0, 1.0, "house/two"))
    best, other = rows_of(terminal, "qfinzero-errors", several)
    shares = [float(other[f"calling_lost_{part}"]) for part in ("tm", "pa", "ta")]
    assert shares == pytest.approx([0.2, 0.6, 0.2])
    assert (best["Model"], best["calling_lost_tm"]) == ("house/two", "")  # it misses nothing

    (row,) = rows_of(terminal, "qfinzero-kinds", several)
    assert (row["Suite"], row["Kind of task"]) == ("calling", "news_query")
    assert (float(row["house/one"]), float(row["house/two"])) == (90.0, 100.0)


# ---- patterns match systems


def test_a_pattern_means_the_same_among_any_other_cards(terminal: CardTerminal) -> None:
    """By hand: A is 1.0 and B is 0.2, so A - B is 0.8, with or without a second system of A's
    model.
    """
    one, other, third = terminal.cards(
        tilted("house/one", 1.0),
        tilted("house/two", 0.2),
        tilted("house/one", 5.0, args={"positions": 3}),
    )
    words = ("--cohort", "A=house/one()", "--cohort", "B=house/two")
    alone, beside = (
        rows_of(terminal, "ktdfin-8", cards, *words)
        for cards in ((one, other), (one, other, third))
    )
    assert [float(row["A - B"]) for row in (*alone, *beside)] == pytest.approx([0.8, 0.8])
    (every,) = rows_of(
        terminal,
        "ktdfin-8",
        (one, other, third),
        "--cohort",
        "A=house/one",
        "--cohort",
        "B=house/two",
    )
    assert float(every["A"]) == 3.0  # both systems of that model
    (tuned,) = rows_of(
        terminal, "ktdfin-8", (one, other, third), "--cohort", "A=house/one(positions=3),house/two"
    )
    assert float(tuned["A"]) == pytest.approx(2.6)


def test_every_pattern_matches_something(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/momentum", 1.0), tilted("house/reversal", 0.2))
    refusal = terminal.refusal(
        "table", *cards, "--like", "ktdfin-8", "--cohort", "A=house/momentum,house/reversl"
    )
    there = "there are house/momentum, house/reversal; did you mean 'house/reversal'"
    assert f"--cohort A: 'house/reversl' matches no system here; {there}" in refusal


def test_a_card_without_exposures_is_named_and_is_no_match(terminal: CardTerminal) -> None:
    cards = terminal.cards(tilted("house/one", 1.0), make_card({("A1", 0): 0.01}, "house/bare"))
    words = ("table", *cards, "--like", "ktdfin-8", "--cohort")
    code, shown, message = terminal.call(*words, "A=house/*")
    assert (code, "1.00" in shown) == (0, True)
    assert "house/bare: no exposures, so it stands in no mean" in message
    code, _, message = terminal.call(*words, "A=house/one,house/bare")
    assert (
        code,
        "--cohort A: 'house/bare' matches no system here; there are house/one" in message,
    ) == (2, True)


# ---- what a table says of its medians


def test_parts_that_do_not_add_up_are_noted(terminal: CardTerminal) -> None:
    """Returns of 1, 5 and 6 % are made of 1, 0 and 6 % and of 0, 5 and 0 %: the parts have medians
    1 and 0, the return 5.
    """
    several = parted({"A1": (0.01, 0.0), "A2": (0.0, 0.05), "A3": (0.06, 0.0)})
    cards = terminal.cards(several)
    code, written, message = terminal.call("table", *cards, "--like", "ktdfin-5", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(written))
    assert [float(row[name]) for name in ("common_return", "selection_alpha", "total_return")] == [
        0.01,
        0.0,
        0.05,
    ]
    note = (
        "parts of an episode add up to its return; medians over episodes, each of its own column,"
        " need not"
    )
    for form in ("text", "markdown", "latex"):
        assert note in terminal.text("table", *cards, "--like", "ktdfin-5", "--format", form)
    assert (code, message) == (0, f"ktdeval: warning: {note}\n")
    alone = terminal.cards(parted({"A1": (0.01, 0.02)}))
    assert note not in terminal.text("table", *alone, "--like", "ktdfin-5")
    assert "median over episodes" in terminal.text("table", *alone, "--like", "ktdfin-5")


def parted(parts: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A card whose returns are of two parts, by window."""
    card = make_card({(window, 0): sum(both) for window, both in parts.items()})
    for name, at in (("common_return", 0), ("selection_alpha", 1)):
        card["metrics"][name] = {**copy.deepcopy(SELECTION), "formula": f"{name}/1: here"}
        for episode in card["episodes"]:
            episode["metrics"][name] = {"value": parts[episode["window"]][at], "n": 5}
    return card | derived_fields(card)
