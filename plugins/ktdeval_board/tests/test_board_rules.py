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
from ktdeval.testing import on_each_row
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
# Rows change cards, submissions and rules of the board by dotted place.
@on_each_row(
    "change, of_rules, refused",
    ({}, {}, []),
    # name
    ({"model.name": "a"}, {}, []),
    (
        {
            "model.name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        },
        {},
        [],
    ),
    (
        {
            "model.name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        },
        {},
        ["name"],
    ),
    ({"model.name": "-a"}, {}, ["name"]),
    ({"model.name": "a b"}, {}, []),
    ({"model.name": "a "}, {}, ["name"]),
    ({"model.name": "a<b"}, {}, ["name"]),
    ({"model.name": "аlpha"}, {}, ["name"]),
    (
        {
            "agent.name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        },
        {},
        ["name"],
    ),
    ({"agent.name": "é", "model.name": "é"}, {}, ["name", "name"]),
    # kind
    ({"task.config": {"trading": {}, "subject_config": {}}}, {}, []),
    ({"task.config": {"trading": {}}}, {}, []),
    ({"task.config": {"subject_config": {}}}, {}, ["kind"]),
    ({"task.config": {}}, {}, []),
    # task and its version, config and rule set
    ({"task.name": "another"}, {}, ["task"]),
    ({"task.version": "99"}, {}, ["task-version"]),
    (
        {"task.hash": "0000000000000000000000000000000000000000000000000000000000000000"},
        {},
        ["task-config"],
    ),
    ({"rules": "paper"}, {}, ["rules"]),
    (
        {"snapshot.id": "0000000000000000000000000000000000000000000000000000000000000000"},
        {},
        ["snapshot"],
    ),
    # synthetic
    (
        {"snapshot.synthetic": False, "snapshot.name": "plain", "snapshot.source": "plain"},
        {},
        ["synthetic"],
    ),
    (
        {"snapshot.synthetic": False, "snapshot.name": "plain", "snapshot.source": "plain"},
        {"market": "real"},
        [],
    ),
    ({}, {"market": "real"}, ["synthetic"]),
    (
        {"snapshot.synthetic": False, "snapshot.name": "Synthetic 2", "snapshot.source": "plain"},
        {"market": "real"},
        ["synthetic"],
    ),
    (
        {
            "snapshot.synthetic": False,
            "snapshot.name": "plain",
            "snapshot.source": "a SYNTHETIC one",
        },
        {"market": "real"},
        ["synthetic"],
    ),
    (
        {
            "snapshot.synthetic": False,
            "snapshot.name": "plain",
            "snapshot.source": "a SYNTHETIC one",
        },
        {},
        ["synthetic", "synthetic"],
    ),
    # placebo
    ({"snapshot.name": "Placebo 1"}, {}, ["placebo"]),
    ({"snapshot.source": "prices of a PLACEBO"}, {}, ["placebo"]),
    ({"labels": ["synthetic", "placebo"]}, {}, ["placebo"]),
    # limit and coverage
    ({"limit": 1}, {}, ["limit"]),
    (
        {
            "missing_episodes": [
                {"id": "00000000000000000000", "window": "W1", "seed": 7, "error": "stopped"}
            ]
        },
        {},
        ["coverage"],
    ),
    ({"rankable": {"value": False, "reasons": ["too few"]}}, {}, ["coverage"]),
    ({"rankable": {"value": False, "reasons": []}}, {}, ["coverage"]),
    (
        {
            "rankable": {
                "value": False,
                "reasons": ["the model never traded: none of its orders was filled in any episode"],
            }
        },
        {},
        [],
    ),
    (
        {
            "rankable": {
                "value": False,
                "reasons": [
                    "the model never traded: none of its orders was filled in any episode",
                    "too few",
                ],
            }
        },
        {},
        ["coverage"],
    ),
    ({"rankable": {"value": False, "reasons": ["cut"]}, "limit": 3}, {}, ["limit"]),
    (
        {"rankable": {"value": False, "reasons": ["placebo"]}, "labels": ["placebo"]},
        {},
        ["placebo"],
    ),
    # mask key
    ({"mask_key": "(removed)"}, {}, ["mask-key"]),
    # parameters of a call
    ({"call.temperature": 0.5}, {}, []),
    ({"call.luck": 5}, {}, ["call"]),
    ({"call.luck": 5, "call.again": 5}, {}, ["call", "call"]),
    # size: four episodes
    ({}, {"limits.episodes": 4}, []),
    ({}, {"limits.episodes": 3}, ["size"]),
    (
        {
            "missing_episodes": [
                {"id": "00000000000000000000", "window": "W1", "seed": 7, "error": "stopped"}
            ]
        },
        {"limits.episodes": 5},
        ["coverage"],
    ),
    (
        {
            "missing_episodes": [
                {"id": "00000000000000000000", "window": "W1", "seed": 7, "error": "stopped"}
            ]
        },
        {"limits.episodes": 4},
        ["coverage", "size"],
    ),
)
def test_trading_card_rule_refuses_a_violation_and_accepts_its_neighbour(
    of_card: Find, change: Plain, of_rules: Plain, refused: list[str]
) -> None:
    assert sorted(rule for rule, _ in of_card(change, of_rules)) == refused


@on_each_row(
    "metric, name, rank_by, refused",
    ("total_return", "return_in_total", "total_return", ["metric"]),
    ("total_return", "return_in_total", "sharpe", []),
    (
        "sharpe",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "total_return",
        [],
    ),
    (
        "sharpe",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "total_return",
        ["metric"],
    ),
    ("sharpe", "1a", "total_return", ["metric"]),
    ("sharpe", "a b", "total_return", ["metric"]),
)
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


@on_each_row(
    "change, words",
    (
        {"model": {"name": "openai/gpt-5", "args": {}}, "sent_as": None},
        "sent_as: is null, as for a local model, but openai/gpt-5 is remote",
    ),
    (
        {"model": {"name": "builtin/momentum", "args": {}}, "sent_as": {}},
        "sent_as: is given, but builtin/momentum is a local model",
    ),
    (
        {
            "model": {"name": "openai/gpt-5", "args": {}},
            "sent_as": {
                "api": "responses",
                "include": ["reasoning.encrypted_content"],
                "reasoning_summary": None,
                "service_tier": None,
                "omit": [],
                "not_sent": ["temperature"],
                "extra_body": {"top_p": 0.1},
            },
        },
        "sent_as: does not follow from the parameters of openai/gpt-5: extra_body.top_p",
    ),
    (
        {
            "model": {"name": "openai/gpt-5", "args": {}},
            "sent_as": {
                "api": "responses",
                "include": ["reasoning.encrypted_content"],
                "reasoning_summary": None,
                "service_tier": "flex",
                "omit": [],
                "not_sent": ["temperature"],
                "extra_body": {},
            },
        },
        "sent_as: does not follow from the parameters of openai/gpt-5: service_tier",
    ),
    (
        {
            "model": {"name": "openai/gpt-5", "args": {"service_tier": "flex"}},
            "sent_as": {
                "api": "responses",
                "include": ["reasoning.encrypted_content"],
                "reasoning_summary": None,
                "service_tier": None,
                "omit": [],
                "not_sent": ["temperature"],
                "extra_body": {},
            },
        },
        "sent_as: does not follow from the parameters of openai/gpt-5: service_tier",
    ),
    (
        {"provenance.suite_version": "9.1"},
        "provenance.suite_version: 9.1 is later than the installed",
    ),
)
def test_a_card_says_of_its_models_and_versions_what_their_plugins_say(
    of_card: Find, change: Plain, words: str
) -> None:
    ((rule, message),) = of_card(change)
    assert rule == "provenance"
    assert message.startswith(words)


def test_a_remote_card_whose_settings_follow_from_its_parameters_passes(of_card: Find) -> None:
    args = {"service_tier": "flex", "extra_body": {"top_p": 0.1}}
    sent = {"api": "responses", "include": ["reasoning.encrypted_content"]}
    sent |= {"reasoning_summary": None, "omit": [], "not_sent": ["temperature"], **args}

    assert of_card({"model": {"name": "openai/gpt-5", "args": args}, "sent_as": sent}) == []


@on_each_row(
    "change, of_rules, refused",
    ({}, {}, []),
    ({"task.config": {"trading": {}}}, {}, ["kind"]),
    ({"task.config": {"trading": {}, "subject_config": {}}}, {}, ["kind"]),
    ({"task.config": {}}, {}, []),
    ({"mask_key": "(removed)"}, {}, ["mask-key"]),
    ({"mask_key": "(removed)", "snapshot": None, "windows": []}, {}, ["snapshot", "windows"]),
    ({}, {"divisions.1.certificate": "required", "divisions.1.attackers": ["a/b"]}, []),
)
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


@on_each_row(
    "seeds, asked, messages",
    ([0, 1], [0, 1], []),
    ([0], [0, 1], ["1 missing; run again with --seeds 2"]),
    ([0, 1, 2, 3], [0, 1], ["2, 3 too many; run again with --seeds 2"]),
    (
        [0, 9],
        [0, 1],
        ["1 missing; run again with --seeds 2", "9 too many; run again with --seeds 2"],
    ),
    ([4], [4, 5, 6], ["5, 6 missing; run again with --seeds 3 --seed 4"]),
    ([1, 0], [0, 1], ["seeds 1, 0, the board requires 0, 1"]),
)
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


@on_each_row(
    "fields, labels, of_rules, is_certified, expected",
    (
        {},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "",
    ),
    (
        {},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        False,
        "is claimed, but this board has not verified it",
    ),
    ({}, ["synthetic"], {}, False, ""),
    (
        {},
        ["mask not certified"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "has too few probes",
    ),
    ({}, ["mask not certified"], {}, True, ""),
    (
        {},
        ["certificate claimed"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "",
    ),
    (
        {"attackers": [{"kind": "model", "model": "c/d", "counts_for": ["asset", "date"]}]},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "no attacker that division",
    ),
    (
        {"attackers": [{"kind": "model", "model": "c/d", "counts_for": ["asset", "date"]}]},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b", "c/d"]},
        True,
        "",
    ),
    (
        {"attackers": [{"kind": "rule", "model": "a/b", "counts_for": ["asset", "date"]}]},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "no attacker that division",
    ),
    (
        {"attackers": [{"kind": "model", "model": "a/b", "counts_for": ["asset"]}]},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "bounds date",
    ),
    (
        {
            "attackers": [{"kind": "model", "model": "a/b", "counts_for": ["asset"]}],
            "bound": {"asset": 0.1},
        },
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "",
    ),
    (
        {
            "attackers": [
                {"kind": "model", "model": "a/b", "counts_for": ["asset"]},
                {"kind": "model", "model": "c/d", "counts_for": ["asset", "date"]},
            ]
        },
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "bounds date",
    ),
    (
        {"attackers": [], "bound": {}},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "bounds anything",
    ),
    (
        {"attackers": "a/b", "bound": []},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "bounds anything",
    ),
    (
        {"attackers": ["a/b"], "bound": {}},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "bounds anything",
    ),
    (
        {"attackers": [{"kind": "model", "model": "a/b", "counts_for": None}], "bound": {}},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "anything",
    ),
    (
        {"bound": {}},
        ["synthetic"],
        {"divisions.0.certificate": "required", "divisions.0.attackers": ["a/b"]},
        True,
        "",
    ),
)
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


@on_each_row(
    "rules, expected",
    (
        {},
        [
            [
                "provenance",
                "created_at of the card: 2026-07-02 is in the future (today is 2026-07-01)",
            ]
        ],
    ),
    # the board runs it itself
    ({"baselines": [{"model": "alder/model-1"}]}, []),
)
def test_a_card_was_made_by_today_but_for_a_baseline(
    of_submission: Find, rules: Plain, expected: list[list[str]]
) -> None:
    tomorrow = {"provenance.created_at": "2026-07-02T00:00:00+00:00"}
    found = of_submission(card=tomorrow, rules=rules, today="2026-07-01")
    assert list(map(list, found)) == expected


@on_each_row(
    "card, rules, is_found",
    ({}, {"baselines": [{"model": "alder/model-1"}], "divisions.0.keys": "registered"}, True),
    (
        {"registration": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"baselines": [{"model": "alder/model-1"}], "divisions.0.keys": "registered"},
        False,
    ),
    (
        {"task.name": "other"},
        {"baselines": [{"model": "alder/model-1"}], "divisions.0.keys": "registered"},
        False,
    ),
    ({}, {"baselines": [{"model": "alder/model-1"}], "divisions.0.keys": "own"}, False),
    # an entrant
    ({}, {"divisions.0.keys": "registered"}, False),
)
def test_unregistered_baseline_is_refused_only_if_the_board_draws_keys(
    of_card: Find, card: Plain, rules: Plain, is_found: bool
) -> None:
    words = "alder/model-1 is a baseline; the board runs it itself, under its own drawn key"
    assert (("registered", words) in of_card(card, rules)) == is_found


@on_each_row(
    "change, field",
    ({"card": "0000000000000000000000000000000000000000000000000000000000000000"}, "card"),
    ({"model.name": "x/y"}, "model.name"),
    ({"agent.name": "other"}, "agent.name"),
)
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


@on_each_row(
    "model, card, expected",
    ({"cutoff_date": "2026-07-01"}, "unknown", []),
    ({"cutoff_date": "2026-07-02"}, "unknown", ["is after the submission"]),
    ({"cutoff_date": "2026-06-01", "released_on": "2026-06-01"}, "unknown", []),
    (
        {"cutoff_date": "2026-06-02", "released_on": "2026-06-01"},
        "unknown",
        ["is after the release"],
    ),
    (
        {"cutoff_date": "2026-07-02", "released_on": "2026-06-01"},
        "unknown",
        ["after the submission", "after the release"],
    ),
    ({"cutoff_date": "none", "released_on": "2026-06-01"}, "unknown", []),
    ({"cutoff_date": "unknown", "released_on": "2026-06-01"}, "unknown", []),
    ({"cutoff_date": "2024-03-31"}, {"date": "2024-03-31"}, []),
    ({"cutoff_date": "2024-03-31"}, {"date": "2024-03"}, []),
    (
        {"cutoff_date": "2024-03-31"},
        {"date": "2024-03-30"},
        ["is 2024-03-31, but the card says 2024-03-30"],
    ),
    (
        {"cutoff_date": "2024-03-31"},
        {"date": "2024-04"},
        ["is 2024-03-31, but the card says 2024-04"],
    ),
    ({"cutoff_date": "unknown"}, {"date": "2024-03"}, ["is unknown, but the card says 2024-03"]),
    ({"cutoff_date": "none"}, {"date": "2024-03"}, ["is none, but the card says 2024-03"]),
    ({"cutoff_date": "none"}, "none", []),
    ({"cutoff_date": "unknown"}, "none", ["but the card says that nothing was trained"]),
    ({"cutoff_date": "unknown"}, "unknown", []),
    ({"cutoff_date": "none"}, "unknown", []),
)
def test_a_cutoff_precedes_release_and_submission_and_is_the_cards(
    of_submission: Find, model: Plain, card: str | Plain, expected: list[str]
) -> None:
    stated = {f"model.{name}": value for name, value in model.items()}
    found = of_submission(stated, recorded(card))
    assert [rule for rule, _ in found] == ["cutoff"] * len(expected)
    assert [
        word for word, (_, message) in zip(expected, found, strict=True) if word not in message
    ] == []


@on_each_row(
    "change, opened, today, expected",
    ({"submitted_on": "2026-07-01"}, "2026-07-01", "2026-07-01", []),
    (
        {"submitted_on": "2026-07-01"},
        "2026-07-02",
        "2026-07-02",
        ["submitted_on: 2026-07-01 is before the board began (2026-07-02)"],
    ),
    ({"submitted_on": "2026-07-01"}, "", "2026-07-02", []),
    (
        {"submitted_on": "2026-07-02"},
        "",
        "2026-07-01",
        ["submitted_on: 2026-07-02 is in the future (today is 2026-07-01)"],
    ),
    ({"submitted_on": "2026-07-01", "model.released_on": "2026-07-01"}, "", "2026-07-01", []),
    (
        {"submitted_on": "2026-07-01", "model.released_on": "2026-07-02"},
        "",
        "2026-07-01",
        ["model.released_on: 2026-07-02 is in the future (today is 2026-07-01)"],
    ),
    ({"submitted_on": "2026-07-02", "model.released_on": "2026-07-03"}, "", None, []),
)
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


@on_each_row(
    "stored, sizes, limits, expected",
    ("repository", [1_000_000], {"limits.file_mb": 1}, []),
    (
        "repository",
        [1_000_001],
        {"limits.file_mb": 1},
        ["1,000,001 bytes; at most 1,000,000 are allowed"],
    ),
    ("elsewhere", [1_000_001], {"limits.file_mb": 1}, []),
    ("repository", [600_000, 400_000], {"limits.records_mb": 1}, []),
    (
        "repository",
        [600_000, 400_001],
        {"limits.records_mb": 1},
        ["the records have 1,000,001 bytes; at most 1,000,000"],
    ),
    ("elsewhere", [600_000, 400_001], {"limits.records_mb": 1}, []),
)
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
