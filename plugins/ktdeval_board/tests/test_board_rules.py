"""Rules of the check one by one: of each a document that breaks it, and the nearest one that keeps
it.

Cards are forged ones that keep every rule; a case changes one thing. So what a rule lets pass is as
fixed as what it refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.cards import NEVER_TRADED
from ktdeval.values import from_plain, to_plain
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.checking.cards import CardInputs, ListInputs, SubmissionInputs
from ktdeval_board.checking.rules import MAX_FINDINGS, Stage, findings_of
from ktdeval_board.document_types import RecordFile, Records
from ktdeval_board.read_documents import read_untrusted
from ktdeval_board.rules import Rules
from support.board.board_cards import changed
from support.board.board_forge import forge_board
from support.json_places import put_all
from support.tables import on_each_row

Plain = dict[str, Any]
Found = list[tuple[str, str]]
"""Rule and message of each finding."""

Find = Callable[..., Found]
"""Findings on a document of the board with other values at some places."""

NOTHING: Plain = {}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> LoadedBoard:
    """A board of one trading card with two windows and seeds 0 and 1, and one scoring card."""
    path = tmp_path_factory.mktemp("rules") / "board"
    return load_board(
        forge_board(path, 1, seeds=(0, 1), scoring=1, decisions=False, baselines=False)
    )


@pytest.fixture(scope="module")
def trading(small: LoadedBoard) -> BoardEntry:
    return next(entry for entry in small.entries if entry.is_trading)


@pytest.fixture(scope="module")
def scoring(small: LoadedBoard) -> BoardEntry:
    return next(entry for entry in small.entries if not entry.is_trading)


def changed_rules(board: LoadedBoard, change: Plain) -> Rules:
    """The board's rules with other values at some places."""
    plain = copy.deepcopy(to_plain(board.rules))
    put_all(plain, change)
    return from_plain(plain, Rules, "board.yaml")


def changed_card(entry: BoardEntry, change: Plain) -> Any:
    """The card of an entry with other values at some places."""
    return changed(entry, lambda plain: put_all(plain, change)).card


def found_at(stage: Stage, inputs: Any) -> Found:
    return [(finding.rule, finding.message) for finding in findings_of(stage, inputs)]


def found_of_card(
    board: LoadedBoard,
    entry: BoardEntry,
    change: Plain = NOTHING,
    of_rules: Plain = NOTHING,
    is_certified: bool = False,
) -> Found:
    rules = changed_rules(board, of_rules)
    card = changed_card(entry, change)
    return found_at(Stage.CARD, CardInputs("card.json", rules, card, is_certified))


@pytest.fixture(scope="module")
def of_card(small: LoadedBoard, trading: BoardEntry) -> Find:
    """Findings on the trading card."""
    return partial(found_of_card, small, trading)


@pytest.mark.sampled(25)
@on_each_row
def test_trading_card_rule_refuses_a_violation_and_accepts_its_neighbour(
    of_card: Find, change: Plain, of_rules: Plain, refused: list[str]
) -> None:
    assert sorted(rule for rule, _ in of_card(change, of_rules)) == refused


@on_each_row
def test_a_metric_has_a_short_name_and_that_of_the_rank_is_there(
    of_card: Find, trading: BoardEntry, metric: str, name: str, rank_by: str, refused: list[str]
) -> None:
    line = trading.card.plain["metrics"][metric]
    renamed = {f"metrics.{metric}": "(removed)", f"metrics.{name}": line}
    found = of_card(renamed, {"divisions.0.rank_by": rank_by})

    assert [rule for rule, _ in found] == refused


@pytest.mark.parametrize(("count", "refused"), [(200, []), (201, ["metric"])])
def test_a_card_has_at_most_200_metrics(
    of_card: Find, trading: BoardEntry, count: int, refused: list[str]
) -> None:
    metrics = trading.card.plain["metrics"]
    more = {f"metrics.m{index}": metrics["sharpe"] for index in range(count - len(metrics))}

    assert [rule for rule, _ in of_card(more)] == refused


@on_each_row
def test_a_card_says_of_its_models_and_versions_what_their_plugins_say(
    of_card: Find, change: Plain, words: str
) -> None:
    ((rule, message),) = of_card(change)
    assert rule == "provenance"
    assert message.startswith(words)


def test_a_remote_card_whose_settings_follow_from_its_parameters_passes(of_card: Find) -> None:
    args = {"service_tier": "flex", "extra_body": {"top_p": 0.1}}
    sent = {"api": "responses", "include": ["reasoning.encrypted_content"]}
    sent |= {"reasoning_summary": None, "omit": [], **args}

    assert of_card({"model": {"name": "openai/gpt-5", "args": args}, "sent_as": sent}) == []


@on_each_row
def test_scoring_card_rule_refuses_a_violation_and_accepts_its_neighbour(
    small: LoadedBoard, scoring: BoardEntry, change: Plain, of_rules: Plain, refused: list[str]
) -> None:
    keyed = changed(scoring, lambda card: card.update(mask_key="0" * 32))
    found = found_of_card(small, keyed, change, of_rules)
    assert sorted(rule for rule, _ in found) == refused


def test_a_board_without_divisions_has_no_task_to_compare_with(
    of_card: Find, trading: BoardEntry
) -> None:
    task = trading.card.task.name
    assert of_card(of_rules={"divisions": []}) == [
        ("task", f"task {task}: the board has no division for it")
    ]


def test_a_card_of_another_task_gets_only_the_finding_about_its_task(of_card: Find) -> None:
    change = {"task.name": "another", "metrics.total_return": "(removed)"}
    asked = {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]}
    assert [rule for rule, _ in of_card(change, asked)] == ["task"]


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ([NEVER_TRADED, "too few", "late"], "too few; late"),
        ([], "the card says that it can't be ranked"),
    ],
)
def test_coverage_names_the_reasons_that_count(
    of_card: Find, reasons: list[str], words: str
) -> None:
    found = of_card({"rankable": {"value": False, "reasons": reasons}})
    assert found == [("coverage", words)]


def test_unknown_parameters_of_a_call_are_named_in_order(of_card: Find) -> None:
    found = of_card({"call.luck": 1, "call.again": 1, "call.fortune": 1})
    named = [message.split(":")[0] for _, message in found]
    assert named == ["call.again", "call.fortune", "call.luck"]


def test_windows_are_lacking_or_too_many_or_have_other_days(
    of_card: Find, small: LoadedBoard, trading: BoardEntry
) -> None:
    again = "run again with --windows W1,W2"
    division = small.rules.divisions[0]
    first, second = trading.card.plain["windows"]
    eighth, ninth = ({**first, "name": name} for name in ("W8", "W9"))
    moved = {**second, "first": "2024-01-02"}
    days = f"{division.windows[1].first}…{second['last']}"
    missing = f"W2 missing for division {division.id}; {again}"

    for windows, messages in (
        ([second, first], []),
        ([first], [missing]),
        ([first, second, ninth], [f"W9 not in division {division.id}; {again}"]),
        ([first, ninth, eighth], [missing, f"W9, W8 not in division {division.id}; {again}"]),
        ([first, moved], [f"W2 is 2024-01-02…{second['last']}, but the division's is {days}"]),
    ):
        found = of_card({"windows": windows})
        assert found == [("windows", message) for message in messages]


@on_each_row
def test_seeds_are_lacking_or_too_many_or_in_another_order(
    of_card: Find, seeds: list[int], asked: list[int], messages: list[str]
) -> None:
    found = of_card({"seeds": seeds}, {"divisions.0.seeds": asked})
    assert found == [("seeds", message) for message in messages]


# -- the certificate of a trading card

ATTACKED: Plain = {
    "sha256": "c" * 64,
    "attackers": [{"kind": "model", "model": "a/b", "counts_for": ["asset", "date"]}],
    "bound": {"asset": 0.1, "date": 0.1},
}
CERTIFIED = {"labels": ["synthetic"], "certificate": {"value": ATTACKED}}


@on_each_row
def test_required_certificate_must_exist_cover_all_scores_and_be_verified(
    of_card: Find,
    fields: Plain,
    labels: list[str],
    of_rules: Plain,
    is_certified: bool,
    expected: str,
) -> None:
    change = {"labels": labels, "certificate": {"value": {**ATTACKED, **fields}}}
    found = of_card(change, of_rules, is_certified)
    assert [rule for rule, _ in found] == ["certificate"] * bool(expected)
    assert [message for _, message in found if expected not in message] == []


def test_a_required_certificate_is_missed(of_card: Find) -> None:
    required = {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]}
    ((rule, message),) = of_card(of_rules=required, is_certified=True)
    assert rule == "certificate"
    assert "requires a certificate of the mask" in message


# -- submissions


def found_of_submission(
    board: LoadedBoard,
    entry: BoardEntry,
    change: Plain = NOTHING,
    card: Plain = NOTHING,
    rules: Plain = NOTHING,
    today: str | None = None,
) -> Found:
    plain = to_plain(entry.submission)
    put_all(plain, {"submitted_on": "2026-07-01", **change})
    submission = from_plain(plain, type(entry.submission), "submission")
    made = {"knowledge_cutoff": "unknown", "provenance.created_at": "2026-06-30T23:59:59+00:00"}
    inputs = SubmissionInputs(
        "s",
        changed_rules(board, rules),
        entry.card_id,
        changed_card(entry, {**made, **card}),
        submission,
        today,
    )

    return found_at(Stage.SUBMISSION, inputs)


@pytest.fixture(scope="module")
def of_submission(small: LoadedBoard, trading: BoardEntry) -> Find:
    """Findings on the submission of the trading card."""
    return partial(found_of_submission, small, trading)


@on_each_row
def test_a_card_was_made_by_today_but_for_a_baseline(
    of_submission: Find, rules: Plain, expected: list[list[str]]
) -> None:
    tomorrow = {"provenance.created_at": "2026-07-02T00:00:00+00:00"}
    found = of_submission(card=tomorrow, rules=rules, today="2026-07-01")
    assert list(map(list, found)) == expected


@on_each_row
def test_unregistered_baseline_is_refused_only_if_the_board_draws_keys(
    of_card: Find, card: Plain, rules: Plain, is_found: bool
) -> None:
    words = "alder/model-1 is a baseline; the board runs it itself, under its own drawn key"
    assert (("registered", words) in of_card(card, rules)) == is_found


@on_each_row
def test_a_submission_is_about_its_very_card(
    of_submission: Find, change: Plain, field: str
) -> None:
    assert of_submission() == []
    ((rule, message),) = of_submission(change)
    assert (rule, message.split(":")[0]) == ("submission", field)


def recorded(cutoff: str | Plain) -> Plain:
    """Let a card record a cutoff."""
    if isinstance(cutoff, dict):
        cutoff = {"confidence": "given", "source": "a card", "windows": {}, **cutoff}

    return {"knowledge_cutoff": cutoff}


@on_each_row
def test_a_cutoff_precedes_release_and_submission_and_is_the_cards(
    of_submission: Find, model: Plain, card: str | Plain, expected: list[str]
) -> None:
    stated = {f"model.{name}": value for name, value in model.items()}
    found = of_submission(stated, recorded(card))
    assert [rule for rule, _ in found] == ["cutoff"] * len(expected)
    assert [
        word for word, (_, message) in zip(expected, found, strict=True) if word not in message
    ] == []


@on_each_row
def test_the_day_of_a_submission_is_between_the_first_day_and_today(
    of_submission: Find,
    change: Plain,
    opened: str,
    today: str | None,
    expected: list[str],
) -> None:
    change = {"model.cutoff_date": "unknown", **change}
    found = of_submission(change, rules={"opened_on": opened}, today=today)
    assert found == [("date", message) for message in expected]


# -- lists of records


@pytest.fixture(scope="module")
def listed(trading: BoardEntry) -> Records:
    """The list of the trading card's records."""
    return read_untrusted(trading.files.records, Records, 10**6)


def found_of_list(
    board: LoadedBoard,
    entry: BoardEntry,
    records: Records,
    has_folder: bool = False,
    card: Plain = NOTHING,
    rules: Plain = NOTHING,
) -> Found:
    its_card = changed_card(entry, card)
    of_rules = changed_rules(board, rules)
    inputs = ListInputs("l", of_rules, entry.card_id, its_card, records, has_folder)
    return found_at(Stage.LIST, inputs)


@pytest.fixture(scope="module")
def of_list(small: LoadedBoard, trading: BoardEntry) -> Find:
    """Findings on a list of records of the trading card."""
    return partial(found_of_list, small, trading)


def with_file(records: Records, path: str) -> Records:
    """A list of one file more."""
    return replace(records, files=(*records.files, RecordFile(path, "0" * 64, 1)))


def test_a_list_names_what_the_card_was_made_from_and_nothing_else(
    of_list: Find, listed: Records
) -> None:
    files = listed.files
    first = files[0]

    assert of_list(listed) == []

    twice = replace(listed, files=(*files, first))
    assert of_list(twice) == [("records", "files: a path appears twice")]

    lacking = replace(listed, files=files[1:])
    assert of_list(lacking) == [
        ("records", f"files: {first.path}, needed for the card, is missing"),
        ("records", f"files: {first.path} is missing"),
    ]

    other = replace(listed, files=(replace(first, sha256="0" * 64), *files[1:]))
    assert [rule for rule, _ in of_list(other)] == ["hash"]
    assert of_list(with_file(listed, "manifest.yaml")) == [
        ("records", "files: manifest.yaml is not a record of this card")
    ]
    assert [rule for rule, _ in of_list(replace(listed, card="0" * 64))] == ["records"]


def test_a_list_holds_a_certificate_or_a_canary_where_the_card_has_one(
    of_list: Find, listed: Records
) -> None:
    certificate = with_file(listed, "certificate.json")

    assert of_list(certificate) == [
        ("certificate", "files: certificate.json is not a record of this card")
    ]
    assert of_list(certificate, card=CERTIFIED) == []
    assert of_list(listed, card=CERTIFIED) == [("records", "files: certificate.json is missing")]


def test_records_list_needs_canary_answers_if_the_card_has_a_drift(
    of_list: Find, listed: Records
) -> None:
    drift = {"value": 0.25, "noise": 0.05, "excess": 0.2, "prompts": 4, "served_by_changed": False}
    canary = with_file(listed, "canary.json")

    assert of_list(canary, card={"drift": drift}) == []
    assert of_list(listed, card={"drift": drift}) == [("records", "files: canary.json is missing")]
    # A run whose answers tell no drift has them all the same.
    assert of_list(canary) == []


def test_records_are_stored_at_the_listed_places(
    of_list: Find, trading: BoardEntry, listed: Records
) -> None:
    folder = f"records/{trading.card_id[:12]}…"
    assert of_list(listed, has_folder=True) == [
        ("records", f"stored: elsewhere, but {folder}: that folder exists")
    ]

    here = replace(listed, stored="repository", url="")
    marks = [
        ("records", f"files: episodes/{each}/episode.json is missing")
        for each in sorted(map(attrgetter("id"), trading.card.episodes))
    ]
    gone = ("records", f"stored: repository, but {folder}: that folder does not exist")

    assert of_list(here, has_folder=True) == marks
    assert of_list(here) == [*marks, gone]


@on_each_row
def test_records_in_the_repository_are_no_larger_than_the_limits(
    of_list: Find,
    listed: Records,
    stored: str,
    sizes: list[int],
    limits: Plain,
    expected: list[str],
) -> None:
    padded = [*sizes, *[0] * (len(listed.files) - len(sizes))]
    files = tuple(
        replace(file, bytes=size) for file, size in zip(listed.files, padded, strict=True)
    )
    records = replace(listed, stored=stored, files=files)
    found = of_list(records, stored == "repository", rules=limits)
    messages = [message for rule, message in found if rule == "size"]

    assert len(messages) == len(expected)
    assert [
        word for word, message in zip(expected, messages, strict=True) if word not in message
    ] == []


@pytest.mark.parametrize("unknown", [20, 21])
def test_a_rule_reports_at_most_20_findings_on_a_document(of_card: Find, unknown: int) -> None:
    fields = {f"call.unknown_{index:02}": 1 for index in range(unknown)}
    assert len(of_card(fields)) == MAX_FINDINGS == 20
