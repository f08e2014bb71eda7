"""Divisions open book: who could know the market that a task hides is never ranked as blinded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from ktdeval.cards import could_know_reasons, unranked_reasons
from ktdeval.cards.fields.origin.fact_types import COULD_HAVE_BROUGHT, COULD_LOOK_UP, Decider
from ktdeval.errors import ConfigError
from ktdeval.harness import BROUGHT
from ktdeval.runner import DrawnKey, RegisteredSystem, Registrant, Registration
from ktdeval.runner.records.leaderboard_registration import RegisteredTask, RegisteredWindow
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_pretty, to_plain
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.open_book import WHAT_IT_IS, place_of, with_open_books
from ktdeval_board.ranking.column_texts import why_unranked
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.registrations import FiledRegistration, Registrations
from ktdeval_board.rules import OPEN_BOOK, OpenBook, Rules, load_rules
from support.board.board_ranks import WINDOWS, by_label, entry as made, make_board
from support.paths import REPOSITORY

# The windows begin on 2024-01-02 and on 2024-03-01.
BEFORE = "2024-01-01"
FIRST_DAY = "2024-01-02"
AFTER = "2024-06-01"
HASH = "5" * 64
PINNED = {"run": "python3 agent.py", "told": "1" * 64, BROUGHT: HASH}

RULE = [("builtin/momentum", "rule")]
MODEL = [("acme/model", "model")]
PROGRAM = [("acme/model", "model"), ("command", "sandboxed_program")]
LOOKS_UP = [("command", "program")]


def make(model: str, *returns: float, **facts: Any) -> BoardEntry:
    """An entry on a real market, with its returns in the two windows."""
    entry = made(model, *returns, **facts)
    snapshot = structs.replace(entry.trading.snapshot, synthetic=False)
    return replace(entry, card=structs.replace(entry.card, snapshot=snapshot))


def of(
    entry: BoardEntry, deciders: Sequence[tuple[str, Any]], args: Any = PINNED, **facts: Any
) -> BoardEntry:
    """The entry, with these deciders and this agent."""
    kinds = [Decider(name=name, kind=kind) for name, kind in deciders]
    agent = structs.replace(entry.card.agent, name="command", args=dict(args))
    card = structs.replace(entry.card, deciders=kinds, agent=agent, **facts)
    reasons = could_know_reasons(card)
    rankable = structs.replace(card.rankable, value=not reasons, reasons=reasons)
    return replace(entry, card=structs.replace(card, rankable=rankable))


def filed(
    drawn_on: str, registered_on: str = BEFORE, args: Any = PINNED, model: str = "acme/model"
) -> Registrations:
    """A board's one registration, with the day on which the board drew its key."""
    registration = Registration(
        board="tiny",
        division="another",
        task=RegisteredTask(name="blinded_open_research", version="1", hash="a" * 64),
        snapshot="b" * 64,
        windows=(RegisteredWindow(name="W0", first="2023-01-02", last="2023-02-01"),),
        seeds=(0,),
        rules="strict",
        system=RegisteredSystem(
            model=model, model_args={}, agent="command", agent_args=dict(args), call={}
        ),
        submitter=Registrant(name="A team", contact="team@example.org"),
        registered_on=registered_on,
    )
    key = DrawnKey(
        id=registration.id, registration=registration, mask_key="0" * 32, drawn_on=drawn_on
    )
    return Registrations((FiledRegistration("registrations/x.json", registration, key),))


def rules_of(market: str = "real") -> Rules:
    """Rules of a board with one division of two windows."""
    return make_board([], market=market).rules


def place(
    entry: BoardEntry, registrations: Registrations, market: str = "real"
) -> tuple[str, str | None]:
    """Id of the division in which a card is ranked, and the day of the registration that counts."""
    rules = rules_of(market)
    found = place_of(entry.card, rules.divisions[0], rules, registrations)
    return found.division.id, found.registered_before


# ---- where a card is ranked


@on_each_row(
    "deciders, division",
    (RULE, "main"),
    (MODEL, "main"),
    (PROGRAM, "main-open-book"),
    (LOOKS_UP, "main-open-book"),
    ([("groq/compound", "model_with_lookups")], "main-open-book"),
    ([("python/f", "plugin")], "main-open-book"),
    ([("remote", "remote_agent")], "main-open-book"),
    ([("replay/run", "file")], "main-open-book"),
    ([("human/page", "person")], "main"),  # the division says whether people are ranked
    ([*MODEL, ("quick/m", "model"), ("remote", "remote_agent")], "main-open-book"),
)
def test_who_could_know_the_market_is_in_the_division_open_book(
    deciders: Any, division: str
) -> None:
    entry = of(make("acme/model", 0.9, 0.9), deciders)

    assert place(entry, Registrations()) == (division, None)


def test_a_bright_task_ranks_all_together() -> None:
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)
    task = structs.replace(entry.card.task, mask="bright")
    bright = replace(entry, card=structs.replace(entry.card, task=task))

    assert place(bright, Registrations()) == ("main", None)


def test_a_card_from_before_the_field_is_placed_by_its_walls() -> None:
    """Even if it has a verdict and says that it may be ranked, as it said then."""
    entry = make("acme/model", 0.9, 0.9)
    episodes = [structs.replace(each, isolation={"bwrap": 40}) for each in entry.card.episodes]
    old = replace(entry, card=structs.replace(entry.card, episodes=episodes))

    assert not old.card.deciders
    assert old.card.rankable.value
    assert place(old, Registrations()) == ("main-open-book", None)


# ---- the exception: contents that the board registered before the windows


@on_each_row(
    "registrations, place_of_card",
    (filed(BEFORE), ("main", BEFORE)),
    (filed(FIRST_DAY), ("main-open-book", None)),
    (filed(AFTER), ("main-open-book", None)),
    # dated before by its submitter; the key was drawn after
    (filed(AFTER, registered_on="2023-01-01"), ("main-open-book", None)),
    # of other contents
    (filed(BEFORE, args={**PINNED, BROUGHT: "6" * 64}), ("main-open-book", None)),
    (filed(BEFORE, args={**PINNED, "run": "python3 other.py"}), ("main-open-book", None)),
    (filed(BEFORE, model="acme/other"), ("main-open-book", None)),
    (Registrations(), ("main-open-book", None)),
)
def test_a_program_is_ranked_as_blinded_only_after_its_contents_were_registered(
    registrations: Registrations, place_of_card: Any
) -> None:
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)

    assert place(entry, registrations) == place_of_card


def test_of_two_registrations_the_earlier_counts() -> None:
    both = Registrations((*filed(AFTER).filed, *filed(BEFORE).filed))
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)

    assert place(entry, both) == ("main", BEFORE)


def test_contents_that_no_hash_fixes_are_never_an_exception() -> None:
    loose = {name: value for name, value in PINNED.items() if name != BROUGHT}
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM, args=loose)

    assert place(entry, filed(BEFORE, args=loose)) == ("main-open-book", None)


def test_who_could_look_the_market_up_is_never_an_exception() -> None:
    entry = of(make("acme/model", 0.9, 0.9), [*PROGRAM, ("remote", "remote_agent")])

    assert place(entry, filed(BEFORE)) == ("main-open-book", None)


def test_days_of_a_generated_market_mean_nothing() -> None:
    """Its prices can be known before its days."""
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)

    assert place(entry, filed(BEFORE), market="synthetic") == ("main-open-book", None)


# ---- the tables


def placed_board(*entries: BoardEntry, registrations: Registrations) -> LoadedBoard:
    """A board of these entries, each in the division in which it is ranked, as it is read."""
    board = make_board(entries, market="real")
    rules = board.rules
    placed = []
    for entry in board.entries:
        found = place_of(entry.card, rules.divisions[0], rules, registrations)
        placed.append(
            replace(entry, division=found.division, registered_before=found.registered_before)
        )

    opened = with_open_books(rules, (each.division for each in placed))
    return replace(board, rules=opened, entries=tuple(placed), registrations=registrations)


def test_each_division_ranks_its_own() -> None:
    knows = of(make("acme/knows", 0.9, 0.9), PROGRAM)
    looks = of(make("acme/looks", 0.8, 0.8), LOOKS_UP)
    model = make("acme/model", 0.1, 0.1)
    board = placed_board(knows, looks, model, registrations=Registrations())

    blinded, opened = board.rules.divisions
    assert (opened.id, isinstance(opened, OpenBook)) == ("main-open-book", True)

    table = rank_division(board, blinded, {}.get)["all"]
    rows = by_label(table)
    assert (
        "2 entrants who could look the market up or could have brought the market: division"
        " main-open-book (open book)"
    ) in table["notes"]
    assert {label for label in rows if label.startswith("acme/")} == {"acme/model"}
    assert rows["acme/model"]["rank"] == 1

    rows = by_label(rank_division(board, opened, {}.get)["all"])
    assert [rows[name]["rank"] for name in ("acme/knows", "acme/looks")] == [1, 2]
    assert rows["acme/knows"]["knowledge"] == "could have brought the market"
    assert rows["acme/looks"]["knowledge"] == (
        "could look the market up, could have brought the market"
    )


def test_a_program_that_was_registered_before_is_ranked_as_blinded() -> None:
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)
    board = placed_board(entry, registrations=filed(BEFORE))

    (division,) = board.rules.divisions
    assert why_unranked(board.entries[0], board, division) == []
    assert not entry.card.rankable.value  # its card knows no board


def test_a_division_without_such_entrants_has_no_open_book() -> None:
    board = placed_board(make("acme/model", 0.1, 0.1), registrations=Registrations())

    assert [each.id for each in board.rules.divisions] == ["main"]


def test_an_entrant_with_another_reason_is_not_ranked_in_the_open_book_either() -> None:
    entry = of(make("acme/model", 0.9, 0.9), PROGRAM)
    reasons = ["every episode was cut after 3 steps", *entry.card.rankable.reasons]
    rankable = structs.replace(entry.card.rankable, reasons=reasons)
    cut = replace(entry, card=structs.replace(entry.card, rankable=rankable))
    board = placed_board(cut, registrations=Registrations())

    assert why_unranked(board.entries[0], board, board.rules.divisions[1]) == reasons[:1]


def test_a_card_that_nothing_can_show_who_decided_is_not_ranked_as_blinded() -> None:
    """Its records are elsewhere, and it omits the field."""
    board = make_board([make("acme/model", 0.9, 0.9, tier="self-reported")], market="real")

    assert why_unranked(board.entries[0], board, board.rules.divisions[0]) == [
        "its card does not say who decided, and its records are not here to show it; score the run"
        " again"
    ]


def test_no_division_takes_the_name_of_an_open_book(tmp_path: Any) -> None:
    rules = rules_of()
    taken = structs.replace(rules.divisions[0], id="main-open-book")
    (tmp_path / "board.yaml").write_text(
        dumps_pretty(to_plain(structs.replace(rules, divisions=(taken,))))
    )

    with pytest.raises(ConfigError, match="-open-book at the end of an id is reserved"):
        load_rules(tmp_path)


def test_the_windows_are_those_that_the_days_above_are_about() -> None:
    assert min(first for first, _ in WINDOWS.values()) == FIRST_DAY


# ---- one way of saying it


@pytest.mark.parametrize(
    "page",
    [
        "SECURITY.md",
        "docs/agents.md",
        "docs/cards.md",
        "docs/leaderboard.md",
        "docs/limits.md",
        "plugins/ktdeval_board/site/words.yaml",
    ],
)
def test_pages_say_it_in_the_words_of_cards(page: str) -> None:
    text = " ".join((REPOSITORY / page).read_text("utf-8").split())

    assert COULD_LOOK_UP in text
    assert COULD_HAVE_BROUGHT in text
    if page != "docs/limits.md":
        assert "open book" in text.lower()


def test_a_reason_on_a_card_and_the_sentence_of_a_division_say_it_in_these_words() -> None:
    (reason,) = unranked_reasons([Decider(name="command", kind="sandboxed_program")], [])

    assert COULD_HAVE_BROUGHT in reason
    assert "division open book" in reason
    assert WHAT_IT_IS.startswith("Open book: ")
    assert COULD_LOOK_UP in WHAT_IT_IS
    assert COULD_HAVE_BROUGHT in WHAT_IT_IS
    assert OPEN_BOOK == "-open-book"
