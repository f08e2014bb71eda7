"""Beside a ranking: pairs of cards over windows, pages of models, and the history of a board."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from ktdeval.runner import DrawnKey, Registration
from ktdeval.testing import on_each_row
from ktdeval.values import content_hash, from_plain, to_plain
from ktdeval_board.document_types import Rerun
from ktdeval_board.errata import Erratum, Excuse
from ktdeval_board.ranking.head_to_head import (
    FIELDS,
    MAX_PAIRED,
    pair_tests,
    paired_cards,
    pairs_index,
    windows_of,
)
from ktdeval_board.ranking.model_pages import (
    history,
    mask_effects,
    mean_exposures,
    model_pages,
)
from ktdeval_board.registrations import (
    FiledRegistration,
    Registrations,
    registrations_text,
)
from ktdeval_board.rules import WindowRule
from ktdeval_compare.masks.mask_effects import EffectsOptions as EffectOptions, effects
from ktdeval_compare.pairs.compare import CompareOptions, compare
from ktdeval_compare.pairs.compared_cards import EntrantCard
from support.board.board_cards import changed
from support.board.board_ranks import (
    EMPTY,
    WINDOWS,
    entry,
    make_board,
    make_entry,
    make_verdict,
    ranked_tables,
    two,
)
from support.figures.card_cases import typed
from support.figures.compare_cards import make_card

# -- pairs of windows

OVERLAPPING = {
    "W1": ("2024-04-01", "2024-06-05"),
    "W2": ("2024-05-27", "2024-07-25"),
    "W3": ("2024-07-25", "2024-09-25"),
    "W4": ("2024-09-09", "2024-11-15"),
    "W5": ("2024-10-21", "2024-12-13"),
    "W6": ("2024-12-06", "2025-02-14"),
}


def full_entry(card):
    """An entry of a valid card."""
    return replace(
        entry(card["model"]["name"], 0.0, 0.0),
        card_id=content_hash(card),
        card=typed(card),
        baseline=None,
    )


def rules_of(spans):
    """Rules of windows."""
    return tuple(WindowRule(name, *span) for name, span in spans.items())


def pair(first, second, windows=OVERLAPPING) -> tuple[dict, dict]:
    """The board's test of two cards, and what `ktdeval compare` says of them."""
    cards = []
    for number, figures in enumerate((first, second)):
        by_cell = {}
        for name, values in figures.items():
            by_cell |= {(name, seed): value for seed, value in enumerate(values)}

        cards.append(make_card(by_cell, f"house/{number}", windows))

    entrants = [
        EntrantCard(Path(f"{number}"), typed(card), f"{number}")
        for number, card in enumerate(cards)
    ]
    test = to_plain(compare(entrants, CompareOptions()).tests[0])
    entries = [full_entry(card) for card in cards]
    board = make_board(entries, windows=rules_of(windows))
    tests = pair_tests(entries, windows_of(board, board.rules.divisions[0]))
    one, other = (entry.card_id for entry in entries)
    there, here = (
        dict(zip(FIELDS, tests[a][b]["total_return"], strict=True))
        for a, b in ((one, other), (other, one))
    )
    turned = [
        None if here[name] is None else -here[name] for name in ("value", "high", "low", "effect")
    ]

    assert [there[name] for name in ("value", "low", "high", "effect")] == turned
    assert all(
        there[name] == here[name]
        for name in ("n", "nonzero", "p", "smallest", "confidence", "flip_p", "blocks", "method")
    )

    return there, test


APART = {name: OVERLAPPING[name] for name in ("W1", "W3")} | {
    "W7": ("2025-03-03", "2025-05-09"),
    "W8": ("2025-07-14", "2025-09-19"),
}


@pytest.mark.parametrize("windows", [OVERLAPPING, APART])
@pytest.mark.parametrize("kind", ["plain", "ties", "seeds", "shares"])
def test_tests_of_pairs_match_compare(windows, kind) -> None:
    rng = np.random.default_rng(len(kind))
    draws = {name: rng.normal(0.02, 0.05, 3 if kind == "seeds" else 1) for name in windows}
    if kind == "ties":
        draws = {
            name: np.array([0.01 if number < 2 else 0.02 * number])
            for number, name in enumerate(windows)
        }

    held = dict.fromkeys(windows, 0.0)
    if kind == "shares":  # 2/43 and 1/43 in turn, which differ in their last bits
        held = {name: 7 * number / 43 for number, name in enumerate(windows)}
        draws = {
            name: np.array([(7 * number + 2 - number % 2) / 43])
            for number, name in enumerate(windows)
        }

    ours, theirs = pair(
        {name: values.tolist() for name, values in draws.items()},
        {name: [held[name]] * len(values) for name, values in draws.items()},
        windows,
    )

    if kind == "shares":
        assert ours["method"] == "exact" if windows is APART else "simulated"
        assert theirs["wilcoxon"]["positive_ranks"] == sum(range(len(windows) + 1))
        assert len({row["value"] for row in theirs["differences"]}) == 2

    wilcoxon = theirs["wilcoxon"]
    shift = theirs["shift"]

    assert (ours["n"], ours["method"]) == (len(windows), wilcoxon["method"])

    for mine, other in (
        ("p", theirs["p"]),
        ("nonzero", wilcoxon["n_nonzero"]),
        ("smallest", wilcoxon["smallest_p"]),
        ("confidence", shift["confidence"]),
        ("effect", wilcoxon["rank_biserial"]),
        ("value", shift["value"]),
        ("low", shift["low"]),
        ("high", shift["high"]),
        ("flip_p", theirs["sign_flip"]["p"]),
        ("blocks", theirs["sign_flip"]["blocks"]),
    ):
        assert ours[mine] == (None if other is None else pytest.approx(other, rel=1e-5)), mine


@pytest.mark.slow
def test_a_pair_without_a_distribution_for_its_windows_has_a_reason() -> None:
    # the first does not differ
    values = {name: [0.01 * number] for number, name in enumerate(OVERLAPPING)}
    ours, _ = pair(values, {name: [0.0] for name in OVERLAPPING})

    assert (ours["p"], ours["smallest"]) == (None, None)
    assert "share days" in ours["reason"]
    # it is of all pairs, zeros included
    assert ours["shift_reason"].startswith("6 pairs: the highest possible level of an interval is")

    lacking, _ = pair({**values, "W2": [None]}, {name: [0.0] for name in OVERLAPPING})
    assert (lacking["p"], lacking["low"], lacking["n"]) == (None, None, 5)


def test_cards_without_a_common_seed_are_no_pair() -> None:
    one = make_entry(EMPTY, "house/one", two(0.1, 0.2))
    other = make_entry(EMPTY, "house/other", {("W1", 7): 0.1, ("W2", 7): 0.2})
    board = make_board([one, other])
    row = pair_tests([one, other], windows_of(board, board.rules.divisions[0]))[one.card_id][
        other.card_id
    ]["total_return"]

    assert (row[FIELDS.index("n")], row[FIELDS.index("reason")]) == (0, "no pair")


def test_baselines_and_the_best_are_paired_in_the_order_of_the_table() -> None:
    rows = [
        {"card": f"{number}", "baseline": "rule" if number > 44 else None, "rank": None}
        for number in range(50)
    ] + [{"card": None, "baseline": "x", "rank": None}]
    chosen = paired_cards(rows)

    assert chosen == [*map(str, range(35)), *map(str, range(45, 50))]
    assert len(chosen) == MAX_PAIRED


def row_of(card: str, rank: int | None, baseline: str | None = None) -> dict:
    """A row of a table, as far as pairing reads it."""
    return {"card": card, "rank": rank, "baseline": baseline}


@pytest.mark.parametrize(("sharing", "are_chosen"), [(2, True), (3, False)])
def test_cards_that_share_a_rank_are_paired_all_or_none(sharing: int, are_chosen: bool) -> None:
    """Two baselines and 36 cards leave two of forty places."""
    best = [row_of(f"{rank}", rank) for rank in range(1, 37)]
    shared = [row_of(f"tied {number}", 37) for number in range(sharing)]
    baselines = [row_of("rule", None, "rule"), row_of("random", None, "random")]

    chosen = paired_cards([*best, *shared, *baselines])

    expected = [row["card"] for row in best]
    expected += [row["card"] for row in shared if are_chosen]

    assert chosen == [*expected, "rule", "random"]


@pytest.mark.parametrize(
    ("limit", "last"), [(None, "2024-02-20"), (10, WINDOWS["W1"][1])], ids=["whole", "limited"]
)
def test_days_of_a_window_are_those_of_a_whole_run(limit: int | None, last: str) -> None:
    """Windows that share their last days only by the rule; a limited run says nothing of them."""

    def shorten(card) -> None:
        card["limit"] = limit
        card["episodes"][0]["last_day"] = "2024-02-20"

    spans = {"W1": WINDOWS["W1"], "W2": ("2024-02-21", "2024-04-25")}
    one = changed(entry("house/one", 0.0, 0.0), shorten)
    board = make_board([one], windows=rules_of(spans))
    division = board.rules.divisions[0]

    index = pairs_index(windows_of(board, division), [])

    assert index["overlap"] is (last > "2024-02-20")


def test_a_metric_that_one_card_lacks_is_no_pair() -> None:
    one = entry("house/one", 0.1, 0.2, metrics={"extra": two(0.1, 0.2)})
    other = entry("house/two", 0.0, 0.0)
    board = make_board([one, other])

    tests = pair_tests([one, other], windows_of(board, board.rules.divisions[0]))

    assert "extra" not in tests[one.card_id][other.card_id]
    assert "total_return" in tests[other.card_id][one.card_id]


def test_windows_without_overlap_count_in_full() -> None:
    board = make_board([entry("house/one", 0.0, 0.0)])
    index = pairs_index(windows_of(board, board.rules.divisions[0]), ["a"])

    assert (index["overlap"], index["effective_windows"], index["cards"]) == (False, 2.0, ["a"])
    assert index["windows"][1] == {"name": "W2", "first": "2024-03-01", "last": "2024-04-25"}

    empty = make_board([], windows=rules_of(OVERLAPPING))
    windows = windows_of(empty, empty.rules.divisions[0])

    # weekdays from May 27 to June 5
    assert windows.correlation[0, 1] == pytest.approx(8 / math.sqrt(48 * 44), abs=1e-6)
    assert pairs_index(windows, [])["overlap"]


# -- models


def masked(mask: str, figures, **changes):
    """An entry of one mask."""
    return full_entry(make_card(figures, windows=OVERLAPPING, mask=mask, **changes))


def mask_cards(masks=("bright", "stock_blind", "date_blind", "blinded"), **changes):
    """Cards of one agent under several masks, two seeds each."""
    rng = np.random.default_rng(4)
    cards = []

    for number, mask in enumerate(masks):
        figures = {
            cell: float(rng.normal(0.02 * number, 0.03)) for cell in product(OVERLAPPING, (0, 1))
        }
        cards.append(masked(mask, figures, **changes))

    return cards


@pytest.mark.slow
def test_mask_effects_match_the_effects_command() -> None:
    entries = mask_cards()
    entrants = [EntrantCard(Path(each.card_id), each.card) for each in entries]
    theirs = to_plain(effects(entrants, EffectOptions()).effects)
    ours = [row for row in mask_effects(entries) if row["metric"] == "total_return"]

    assert [row["effect"] for row in ours] == [row["effect"] for row in theirs]
    assert [row["effect"] for row in ours] == [
        "memory_premium",
        "stock_effect",
        "date_effect",
        "interaction",
    ]

    for mine, other in zip(ours, theirs, strict=True):
        for field in ("value", "low", "high"):
            assert mine[field] == pytest.approx(other[field], rel=1e-5)

        assert (mine["n"], mine["mode"], mine["left_out"]) == (6, "open_research", 0)


def test_a_strangers_card_leaves_the_mask_effects_of_a_submitter() -> None:
    bright, blinded = mask_cards(("bright", "blinded"))
    stranger = structs.replace(bright.submission.submitter, name="A stranger")
    submission = structs.replace(bright.submission, submitter=stranger)
    theirs = replace(bright, card_id="d" * 64, submission=submission)

    assert mask_effects([bright, blinded, theirs]) == mask_effects([bright, blinded]) != []


def test_mask_effects_need_cards_that_differ_in_their_mask_alone() -> None:
    bright, blinded = mask_cards(("bright", "blinded"))
    assert {row["effect"] for row in mask_effects([bright, blinded])} == {"memory_premium"}
    assert mask_effects([blinded]) == []

    cells = dict.fromkeys(product(OVERLAPPING, (0, 1)), 0.0)
    low = {"value": False, "reasons": ["the model decided 93.1 % of 548 steps; 95 % are needed"]}
    withdrawn = Erratum("c" * 64, "2026-01-01", "withdrawn", "x")
    pairs = {
        "another call": (masked("bright", cells, call={"temperature": 0.0}), blinded),
        "other prices": (
            bright,
            changed(blinded, lambda card: card["task"]["config"].update(rebase_prices=True)),
        ),
        "no verdict": (bright, replace(blinded, verdict=None)),
        "withdrawn": (bright, replace(blinded, errata=(withdrawn,))),
        "no rank": (changed(bright, lambda card: card.update(rankable=low)), blinded),
    }
    for why, pair in pairs.items():
        assert mask_effects(pair) == [], why

    second = replace(bright, card_id="d" * 64)
    assert mask_effects([bright, second, blinded]) == []  # neither of the two can be chosen


def shorten_w3(card) -> None:
    """Let a card's window W3 have one day, so that it does not mix with the others."""
    card["left_out"] = {"W3": "the lengths differ too much"}
    for episode in card["episodes"]:
        if episode["window"] == "W3":
            episode["last_day"] = episode["first_day"]


def test_mask_effects_pool_windows_and_omit_undefined_values() -> None:
    figures = {(window, 0): 0.01 for window in OVERLAPPING}
    undefined = [masked("bright", figures), masked("blinded", {**figures, ("W3", 0): None})]
    alone = [masked("bright", {**figures, ("W3", 0): 0.90}), masked("blinded", figures)]
    alone = [changed(entry, shorten_w3) for entry in alone]

    for entries, left_out in ((undefined, 1), (alone, 0)):
        row = next(row for row in mask_effects(entries) if row["metric"] == "total_return")
        assert (row["value"], row["n"], row["left_out"]) == (0.0, 5, left_out)


def test_a_model_s_page_has_attribution_and_exposures_of_its_cards(forged, forged_tables) -> None:
    cards = {each.card_id: each.card.plain for each in forged.entries}
    own = next(
        card
        for card in dict(model_pages(forged, forged_tables))["builtin/momentum"]["cards"]
        if card["mask"] == "blinded"
    )
    card = cards[own["card"]]
    lines = card["attribution"]["value"]["lines"]

    assert own["attribution"]["selection"]["value"] == pytest.approx(
        lines["selection"]["value"], rel=1e-5
    )
    assert set(own["attribution"]) == set(lines)

    given = [
        episode["metrics"]["selection_alpha"]["detail"]["mean_exposures"]["SKEW"]
        for episode in card["episodes"]
    ]

    assert own["exposures"]["SKEW"] == pytest.approx(statistics.median(given), rel=1e-5)
    assert own["of"] == sum(row["ranked"] for row in forged_tables[own["division"]]["all"]["rows"])


# -- history


def test_history_tells_what_happened_in_order() -> None:
    erratum = Erratum("c" * 64, "2026-03-01", "unranked", "a late feed", "the board")
    lost = Erratum("e" * 64, "2026-02-01", "withdrawn", "asked for it")
    first = entry("house/first", 0.1, 0.1, submitted_on="2026-01-01")
    second = entry("house/second", 0.2, 0.2, submitted_on="2026-01-05", errata=[erratum])
    rerun = Rerun(by="the board", on="2026-01-09", card="c" * 64, figures={})
    second = replace(second, verdict=make_verdict(checked_on="2026-01-05", rerun=rerun))
    board = make_board([second, first], errata=[erratum, lost])
    events = history(
        replace(
            board,
            errata=(
                Erratum(second.card_id, "2026-03-01", "unranked", "a late feed", "the board"),
                lost,
            ),
        ),
        {},
    )["events"]

    assert [(event["date"], event["kind"], event["model"]) for event in events] == [
        ("2026-01-01", "submitted", "house/first"),
        ("2026-01-02", "checked", "house/first"),
        ("2026-01-05", "submitted", "house/second"),
        ("2026-01-05", "checked", "house/second"),
        ("2026-01-09", "rerun", "house/second"),
        ("2026-02-01", "erratum", None),
        ("2026-03-01", "erratum", "house/second"),
    ]
    assert events[1]["text"] == "house/first was checked: re-executed; 80 steps were re-executed"
    assert events[-1]["text"] == "house/second: unranked: a late feed (the board)"
    assert events[-1]["division"] == "main"
    assert [event["system"] for event in events] == [event["model"] or "" for event in events]


def test_the_best_over_time_are_those_that_were_ahead_when_they_came() -> None:
    days = {
        "a": (0.1, "2026-01-03"),
        "b": (0.3, "2026-01-05"),
        "c": (0.2, "2026-01-07"),
        "d": (0.4, "2026-01-09"),
        "e": (0.2, "2026-01-03"),
        "f": (0.4, "2026-01-10"),
    }
    entries = [
        entry(f"house/{name}", value, value, submitted_on=day)
        for name, (value, day) in days.items()
    ]
    entries.append(entry("house/unchecked", 0.9, 0.9, submitted_on="2026-01-01", tier="unchecked"))
    board = make_board([*entries, entry("builtin/equal_weight", 0.8, 0.8)])
    best = history(board, {"main": ranked_tables(board)})["best"]

    assert [(each["date"], each["label"], each["value"]) for each in best] == [
        ("2026-01-03", "house/e", 0.2),
        ("2026-01-05", "house/b", 0.3),
        ("2026-01-09", "house/d", 0.4),
    ]


def filed(answer: str) -> FiledRegistration:
    """A registration that is open, drawn, or drawn and excused with or without a name."""
    plain = {
        "board": "tiny",
        "division": "main",
        "task": {"name": "t", "version": "1", "hash": "a" * 64},
        "snapshot": "b" * 64,
        "windows": [{"name": "W1", "first": "2024-01-02", "last": "2024-02-26"}],
        "seeds": [0],
        "rules": "strict",
        "system": {
            "model": "acme/one",
            "model_args": {},
            "agent": "react",
            "agent_args": {},
            "call": {},
        },
        "submitter": {"name": "A team", "contact": "team@example.com"},
        "registered_on": "2026-01-01",
    }
    registration = from_plain(plain, Registration, "registration")
    drawn = DrawnKey(
        id=registration.id,
        registration=registration,
        mask_key="a" * 32,
        drawn_on="2026-01-02",
    )
    excuse = Excuse(registration.id, "2026-01-03", "the market was withdrawn", answer)

    return FiledRegistration(
        "registrations/x.json",
        registration,
        None if answer == "open" else drawn,
        excuse if answer in ("", "the board") else None,
    )


@on_each_row(
    "answer, kinds, end",
    ("open", ["registered"], ""),
    ("drawn", ["registered", "drawn"], ""),
    ("", ["registered", "drawn", "excused"], "was excused: the market was withdrawn"),
    (
        "the board",
        ["registered", "drawn", "excused"],
        "was excused: the market was withdrawn (the board)",
    ),
)
def test_history_tells_what_became_of_a_registration(
    answer: str, kinds: list[str], end: str
) -> None:
    registration = filed(answer)
    board = replace(make_board([]), registrations=Registrations((registration,)))

    events = history(board, {})["events"]

    words = f"{registration.id[:12]} (acme/one with agent react)"

    assert [event["kind"] for event in events] == kinds
    assert [event["date"] for event in events] == ["2026-01-01", "2026-01-02", "2026-01-03"][
        : len(kinds)
    ]
    assert {event["division"] for event in events} == {"main"}
    assert {event["system"] for event in events} == {"acme/one with agent react"}

    texts = [event["text"] for event in events]
    assert texts[0] == f"{words} was registered by A team"
    assert texts[1:2] in ([], [f"the key of registration {words} was drawn"])
    assert texts[2:] == ([f"registration {words} {end}"] if end else [])


def test_a_check_that_ran_no_step_again_counts_none() -> None:
    one = entry("house/one", 0.1, 0.1)
    checked = replace(one, verdict=make_verdict("blinded", steps=0))
    unchecked = entry("house/two", 0.1, 0.1, tier="unchecked")

    events = history(make_board([checked, unchecked]), {})["events"]

    texts = [event["text"] for event in events if event["kind"] == "checked"]

    assert texts == ["house/one was checked: blinded"]


def test_a_card_of_no_division_has_events_and_a_page_without_a_place() -> None:
    one = entry("house/one", 0.1, 0.1)
    board = make_board([one])
    stray = replace(board, entries=(replace(board.entries[0], division=None),))

    events = history(stray, {"main": ranked_tables(board)})["events"]
    ((name, page),) = model_pages(stray, {"main": {"all": {"rows": []}}})

    assert {event["division"] for event in events} == {None}

    (card,) = page["cards"]
    assert (name, card["division"], card["of"]) == ("house/one", None, 0)
    assert (card["rank"], card["tie"], card["ranked"], card["why"]) == (None, None, None, None)


def test_a_page_counts_the_ranked_cards_of_the_division() -> None:
    entries = [entry("house/one", 0.1, 0.1), entry("house/two", 0.2, 0.2)]
    board = make_board([*entries, entry("house/odd", 0.3, 0.3, tier="unchecked")])

    pages = dict(model_pages(board, {"main": ranked_tables(board)}))

    shown = {}

    for name, page in pages.items():
        (card,) = page["cards"]
        shown[name] = (card["rank"], card["of"], card["ranked"], card["division"])

    assert shown == {
        "house/odd": (None, 2, False, "main"),
        "house/one": (2, 2, True, "main"),
        "house/two": (1, 2, True, "main"),
    }


@on_each_row(
    "details, expected",
    ([{"SIZE": 1.0, "BETA": 2}, {"SIZE": 2.0, "BETA": 4}], {"BETA": 3.0, "SIZE": 1.5}),
    ([{"SIZE": 1.0}, {"SIZE": None, "BETA": True}], {"SIZE": 1.0}),
    ([{"SIZE": "x"}, {"BETA": 0.5}], {"BETA": 0.5}),
    ([[1.0], None], {}),
)
def test_exposures_of_a_page_are_medians_of_the_figures_that_are_numbers(
    details: list, expected: dict
) -> None:
    def expose(card) -> None:
        for episode, exposures in zip(card["episodes"], details, strict=True):
            metric = episode["metrics"]["selection_alpha"]
            metric["detail"] = {"mean_exposures": exposures}

    one = changed(entry("house/one", 0.1, 0.1, alphas=two(0.1, 0.1)), expose)

    assert mean_exposures(one.card) == expected


@pytest.mark.parametrize("detail", [None, 3, {}])
def test_a_card_without_exposures_has_none_on_its_page(detail) -> None:
    def expose(card) -> None:
        for episode in card["episodes"]:
            episode["metrics"]["selection_alpha"]["detail"] = detail

    one = entry("house/one", 0.1, 0.1, alphas=two(0.1, 0.1))
    bare = changed(one, lambda card: [each["metrics"].clear() for each in card["episodes"]])

    assert mean_exposures(changed(one, expose).card) == {}
    assert mean_exposures(one.card) == mean_exposures(bare.card) == {}


def test_lines_of_an_attribution_have_the_ends_that_there_are() -> None:
    lines = {
        "style": {
            "value": 0.0123456789,
            "n": 2,
            "undefined": {},
            "quartiles": {"low": -0.5, "high": 0.25},
        },
        "trading": {"value": 0.5, "n": 1, "undefined": {}},
        "rest": {"value": None, "n": 0, "undefined": {}, "reason": "no steps"},
    }

    one = changed(
        entry("house/one", 0.1, 0.1),
        lambda card: card.update(attribution={"value": {"lines": lines}}),
    )
    board = make_board([one])

    ((_, page),) = model_pages(board, {"main": ranked_tables(board)})

    (card,) = page["cards"]

    assert card["attribution"] == {
        "style": {"value": 0.0123457, "low": -0.5, "high": 0.25, "n": 2},
        "trading": {"value": 0.5, "low": None, "high": None, "n": 1},
        "rest": {"value": None, "low": None, "high": None, "n": 0},
    }


def test_mask_effect_of_one_window_explains_its_missing_interval() -> None:
    """By hand: 5 % under bright, 2 % under blinded."""
    bright = masked("bright", {("W1", 0): 0.05})
    blinded = masked("blinded", {("W1", 0): 0.02})

    (row,) = [row for row in mask_effects([bright, blinded]) if row["metric"] == "total_return"]

    assert (row["value"], row["low"], row["high"], row["n"]) == (0.03, None, None, 1)
    assert row["reason"] == "a single window does not show how windows vary"
    assert (row["system"], row["agent"], row["place"]) == ("house/one", "react", 0)


# ==== scoring tasks, labels and columns


def test_registration_warning_names_submitter_model_and_key() -> None:
    drawn, waiting = filed("drawn"), filed("open")
    assert registrations_text([drawn, waiting]) == (
        "A team, acme/one, key aaaaaaaa…; A team, acme/one"
    )
    assert registrations_text([drawn] * 7).endswith("…; and 2 more")
