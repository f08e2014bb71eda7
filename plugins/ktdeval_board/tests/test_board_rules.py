"""Rules of the check one by one: of each a document that breaks it, and the nearest one that keeps
it.

Cards are forged ones that keep every rule; a case changes one thing. So what a rule lets pass is as
fixed as what it refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
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

Plain = dict[str, Any]
Change = Callable[[Plain], object]


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


def nothing(plain: Plain) -> None:
    """Change nothing."""


def changed_rules(board: LoadedBoard, change: Change) -> Rules:
    """The board's rules with a change of their plain form."""
    plain = copy.deepcopy(to_plain(board.rules))
    change(plain)
    return from_plain(plain, Rules, "board.yaml")


def found_of_card(
    board: LoadedBoard,
    entry: BoardEntry,
    change: Change = nothing,
    of_rules: Change = nothing,
    is_certified: bool = False,
) -> list[tuple[str, str]]:
    """Rule and message of each finding on a changed card."""
    card = changed(entry, change).card
    inputs = CardInputs("card.json", changed_rules(board, of_rules), card, is_certified)
    return [(finding.rule, finding.message) for finding in findings_of(Stage.CARD, inputs)]


def divisions(**fields: Any) -> Change:
    """Set fields of the trading division."""
    return lambda rules: rules["divisions"][0].update(fields)


def part(part_name: str, /, **fields: Any) -> Change:
    """Set fields of a part of a card."""
    return lambda card: card[part_name].update(fields)


def whole(**fields: Any) -> Change:
    """Set fields of a card."""
    return lambda card: card.update(fields)


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change(plain: Plain) -> None:
        for each in changes:
            each(plain)

    return change


def config(*names: str) -> Change:
    """Give the task's config these parts alone, without that its hash shows it."""
    return lambda card: card["task"].update(config={name: {} for name in names})


def unrankable(*reasons: str, **fields: Any) -> Change:
    """Let a card say that it can't be ranked."""
    return whole(rankable={"value": False, "reasons": list(reasons)}, **fields)


def metrics(number: int) -> Change:
    """Give a card so many metrics."""

    def change(card: Plain) -> None:
        line = card["metrics"]["sharpe"]
        card["metrics"] |= {f"m{index}": line for index in range(number - len(card["metrics"]))}

    return change


def without_key(card: Plain) -> None:
    """Take the mask key away."""
    card.pop("mask_key", None)


def rename_metric(name: str, to: str) -> Change:
    """Call a metric otherwise."""
    return lambda card: card["metrics"].update({to: card["metrics"].pop(name)})


MISSING = whole(missing_episodes=[{"id": "0" * 20, "window": "W1", "seed": 7, "error": "stopped"}])
REAL = {"synthetic": False, "name": "plain", "source": "plain"}
A_REAL_BOARD = whole(market="real")


@pytest.mark.sampled(25)
@pytest.mark.parametrize(
    ("change", "of_rules", "refused"),
    [
        (nothing, nothing, []),
        # name
        (part("model", name="a"), nothing, []),
        (part("model", name="a" * 100), nothing, []),
        (part("model", name="a" * 101), nothing, ["name"]),
        (part("model", name="-a"), nothing, ["name"]),
        (part("model", name="a b"), nothing, []),
        (part("model", name="a "), nothing, ["name"]),
        (part("model", name="a<b"), nothing, ["name"]),
        (part("model", name="аlpha"), nothing, ["name"]),
        (part("agent", name="a" * 101), nothing, ["name"]),
        (both(part("agent", name="é"), part("model", name="é")), nothing, ["name", "name"]),
        # kind
        (config("trading", "subject_config"), nothing, []),
        (config("trading"), nothing, []),
        (config("subject_config"), nothing, ["kind"]),
        (config(), nothing, []),
        # task and its version, config and rule set
        (part("task", name="another"), nothing, ["task"]),
        (part("task", version="99"), nothing, ["task-version"]),
        (part("task", hash="0" * 64), nothing, ["task-config"]),
        (whole(rules="paper"), nothing, ["rules"]),
        (part("snapshot", id="0" * 64), nothing, ["snapshot"]),
        # synthetic
        (part("snapshot", **REAL), nothing, ["synthetic"]),
        (part("snapshot", **REAL), A_REAL_BOARD, []),
        (nothing, A_REAL_BOARD, ["synthetic"]),
        (part("snapshot", **{**REAL, "name": "Synthetic 2"}), A_REAL_BOARD, ["synthetic"]),
        (part("snapshot", **{**REAL, "source": "a SYNTHETIC one"}), A_REAL_BOARD, ["synthetic"]),
        (
            part("snapshot", **{**REAL, "source": "a SYNTHETIC one"}),
            nothing,
            ["synthetic", "synthetic"],
        ),
        # placebo
        (part("snapshot", name="Placebo 1"), nothing, ["placebo"]),
        (part("snapshot", source="prices of a PLACEBO"), nothing, ["placebo"]),
        (whole(labels=["synthetic", "placebo"]), nothing, ["placebo"]),
        # limit and coverage
        (whole(limit=1), nothing, ["limit"]),
        (MISSING, nothing, ["coverage"]),
        (unrankable("too few"), nothing, ["coverage"]),
        (unrankable(), nothing, ["coverage"]),
        (unrankable(NEVER_TRADED), nothing, []),
        (unrankable(NEVER_TRADED, "too few"), nothing, ["coverage"]),
        (unrankable("cut", limit=3), nothing, ["limit"]),
        (unrankable("placebo", labels=["placebo"]), nothing, ["placebo"]),
        # mask key
        (without_key, nothing, ["mask-key"]),
        # parameters of a call
        (part("call", temperature=0.5), nothing, []),
        (part("call", luck=5), nothing, ["call"]),
        (part("call", luck=5, again=5), nothing, ["call", "call"]),
        # metrics
        (rename_metric("total_return", "return_in_total"), nothing, ["metric"]),
        (rename_metric("total_return", "return_in_total"), divisions(rank_by="sharpe"), []),
        (rename_metric("sharpe", "a" * 64), nothing, []),
        (rename_metric("sharpe", "a" * 65), nothing, ["metric"]),
        (rename_metric("sharpe", "1a"), nothing, ["metric"]),
        (rename_metric("sharpe", "a b"), nothing, ["metric"]),
        (metrics(200), nothing, []),
        (metrics(201), nothing, ["metric"]),
        # size: four episodes
        (nothing, whole(limits={"episodes": 4}), []),
        (nothing, whole(limits={"episodes": 3}), ["size"]),
        (MISSING, whole(limits={"episodes": 5}), ["coverage"]),
        (MISSING, whole(limits={"episodes": 4}), ["coverage", "size"]),
    ],
)
def test_a_rule_on_trading_cards_refuses_what_breaks_it_and_its_neighbour_passes(
    small: LoadedBoard, trading: BoardEntry, change: Change, of_rules: Change, refused: list[str]
) -> None:
    assert sorted(rule for rule, _ in found_of_card(small, trading, change, of_rules)) == refused


def of_model(model: str, settings: Any = None, /, **args: Any) -> Change:
    """A model with its parameters and how its calls were put to a provider."""
    return whole(model={"name": model, "args": args}, sent_as=settings)


SENT = {
    "api": "responses",
    "include": ["reasoning.encrypted_content"],
    "reasoning_summary": None,
    "service_tier": None,
    "omit": [],
}
LATER = part("provenance", suite_version="9.1")
SYSTEMS: dict[str, tuple[Change, str]] = {
    "a remote model as one of this machine": (
        of_model("openai/gpt-5"),
        "sent_as: is null, as for a local model, but openai/gpt-5 is remote",
    ),
    "a model of this machine as a remote one": (
        of_model("builtin/momentum", {}),
        "sent_as: is given, but builtin/momentum is a local model",
    ),
    "a field of requests that no parameter names": (
        of_model("openai/gpt-5", {**SENT, "extra_body": {"top_p": 0.1}}),
        "sent_as: does not follow from the parameters of openai/gpt-5: extra_body.top_p",
    ),
    "a service tier that no parameter names": (
        of_model("openai/gpt-5", {**SENT, "service_tier": "flex", "extra_body": {}}),
        "sent_as: does not follow from the parameters of openai/gpt-5: service_tier",
    ),
    "a service tier that is not sent": (
        of_model("openai/gpt-5", {**SENT, "extra_body": {}}, service_tier="flex"),
        "sent_as: does not follow from the parameters of openai/gpt-5: service_tier",
    ),
    "a version that nobody knows": (
        LATER,
        "provenance.suite_version: 9.1 is later than the installed",
    ),
}


@pytest.mark.parametrize(("change", "words"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_card_says_of_its_models_and_versions_what_their_plugins_say(
    small: LoadedBoard, trading: BoardEntry, change: Change, words: str
) -> None:
    found = found_of_card(small, trading, change)
    assert [rule for rule, _ in found] == ["provenance"]
    assert found[0][1].startswith(words)


def test_a_remote_card_whose_settings_follow_from_its_parameters_passes(
    small: LoadedBoard, trading: BoardEntry
) -> None:
    sent = {**SENT, "service_tier": "flex", "extra_body": {"top_p": 0.1}}
    same = of_model("openai/gpt-5", sent, service_tier="flex", extra_body={"top_p": 0.1})
    assert found_of_card(small, trading, same) == []


def no_snapshot(card: Plain) -> None:
    without_key(card)
    card.update(snapshot=None, windows=[])


@pytest.mark.parametrize(
    ("change", "of_rules", "refused"),
    [
        (nothing, nothing, []),
        (config("trading"), nothing, ["kind"]),
        (config("trading", "subject_config"), nothing, ["kind"]),
        (config(), nothing, []),
        (without_key, nothing, ["mask-key"]),
        (no_snapshot, nothing, ["snapshot", "windows"]),
        (
            nothing,
            lambda rules: rules["divisions"][1].update(certificate="required", attackers=["a/b"]),
            [],
        ),
    ],
)
def test_a_rule_on_scoring_cards_refuses_what_breaks_it_and_its_neighbour_passes(
    small: LoadedBoard, scoring: BoardEntry, change: Change, of_rules: Change, refused: list[str]
) -> None:
    keyed = both(whole(mask_key="0" * 32), change)
    assert sorted(rule for rule, _ in found_of_card(small, scoring, keyed, of_rules)) == refused


def test_a_board_without_divisions_has_no_task_to_compare_with(
    small: LoadedBoard, trading: BoardEntry
) -> None:
    found = found_of_card(small, trading, of_rules=whole(divisions=[]))
    assert found == [("task", f"task {trading.card.task.name}: the board has no division for it")]


def test_a_card_of_another_task_gets_only_the_finding_about_its_task(
    small: LoadedBoard, trading: BoardEntry
) -> None:
    change = both(part("task", name="another"), rename_metric("total_return", "gain"))
    asked = divisions(certificate="required", attackers=["a/b"])
    assert [rule for rule, _ in found_of_card(small, trading, change, asked)] == ["task"]


def test_coverage_names_the_reasons_that_count(small: LoadedBoard, trading: BoardEntry) -> None:
    assert found_of_card(small, trading, unrankable(NEVER_TRADED, "too few", "late")) == [
        ("coverage", "too few; late")
    ]
    assert found_of_card(small, trading, unrankable()) == [
        ("coverage", "the card says that it can't be ranked")
    ]


def test_unknown_parameters_of_a_call_are_named_in_order(
    small: LoadedBoard, trading: BoardEntry
) -> None:
    found = found_of_card(small, trading, part("call", luck=1, again=1, fortune=1))
    assert [message.split(":")[0] for _, message in found] == [
        "call.again",
        "call.fortune",
        "call.luck",
    ]


def windows(*names: str) -> Change:
    """Let the card's windows be these, each with the days of its own; a name with a star has
    another first day.
    """

    def change(card: Plain) -> None:
        known = {window["name"]: window for window in card["windows"]}
        made = []
        for name in names:
            window = dict(known.get(name.rstrip("*"), {**card["windows"][0], "name": name}))
            if name.endswith("*"):
                window["first"] = "2024-01-02"

            made.append(window)

        card["windows"] = made

    return change


def test_windows_are_lacking_or_too_many_or_have_other_days(
    small: LoadedBoard, trading: BoardEntry
) -> None:
    again = "run again with --windows W1,W2"
    name = small.rules.divisions[0].id

    def findings(*names: str) -> list[tuple[str, str]]:
        return found_of_card(small, trading, windows(*names))

    assert findings("W1", "W2") == findings("W2", "W1") == []
    assert findings("W1") == [("windows", f"W2 missing for division {name}; {again}")]
    assert findings("W1", "W2", "W9") == [("windows", f"W9 not in division {name}; {again}")]
    assert findings("W1", "W9", "W8") == [
        ("windows", f"W2 missing for division {name}; {again}"),
        ("windows", f"W9, W8 not in division {name}; {again}"),
    ]

    first = small.rules.divisions[0].windows[1].first
    last = small.rules.divisions[0].windows[1].last

    assert findings("W1", "W2*") == [
        ("windows", f"W2 is 2024-01-02…{last}, but the division's is {first}…{last}")
    ]


@pytest.mark.parametrize(
    ("seeds", "asked", "messages"),
    [
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
    ],
)
def test_seeds_are_lacking_or_too_many_or_in_another_order(
    small: LoadedBoard, trading: BoardEntry, seeds: list[int], asked: list[int], messages: list[str]
) -> None:
    found = found_of_card(small, trading, whole(seeds=seeds), divisions(seeds=asked))
    assert found == [("seeds", message) for message in messages]


# -- the certificate of a trading card

ATTACKED: Plain = {
    "sha256": "c" * 64,
    "attackers": [{"kind": "model", "model": "a/b", "counts_for": ["asset", "date"]}],
    "bound": {"asset": 0.1, "date": 0.1},
}


def certified(**fields: Any) -> Change:
    """Give a card a certificate."""
    return lambda card: card.update(
        labels=["synthetic"], certificate={"value": {**ATTACKED, **fields}}
    )


REQUIRED = divisions(certificate="required", attackers=["a/b"])
OTHER_ATTACKER = {"kind": "model", "model": "c/d", "counts_for": ["asset", "date"]}
ONE_SCORE = {"kind": "model", "model": "a/b", "counts_for": ["asset"]}
RULE_ATTACKER = {"kind": "rule", "model": "a/b", "counts_for": ["asset", "date"]}


@pytest.mark.parametrize(
    ("change", "of_rules", "is_certified", "expected"),
    [
        (nothing, REQUIRED, True, "requires a certificate of the mask"),
        (nothing, nothing, False, ""),
        (certified(), REQUIRED, True, ""),
        (certified(), REQUIRED, False, "is claimed, but this board has not verified it"),
        (certified(), nothing, False, ""),
        (
            both(certified(), whole(labels=["mask not certified"])),
            REQUIRED,
            True,
            "has too few probes",
        ),
        (both(certified(), whole(labels=["mask not certified"])), nothing, True, ""),
        (both(certified(), whole(labels=["certificate claimed"])), REQUIRED, True, ""),
        (certified(attackers=[OTHER_ATTACKER]), REQUIRED, True, "no attacker that division"),
        (
            certified(attackers=[OTHER_ATTACKER]),
            divisions(certificate="required", attackers=["a/b", "c/d"]),
            True,
            "",
        ),
        (certified(attackers=[RULE_ATTACKER]), REQUIRED, True, "no attacker that division"),
        (certified(attackers=[ONE_SCORE]), REQUIRED, True, "bounds date"),
        (certified(attackers=[ONE_SCORE], bound={"asset": 0.1}), REQUIRED, True, ""),
        (certified(attackers=[ONE_SCORE, OTHER_ATTACKER]), REQUIRED, True, "bounds date"),
        (certified(attackers=[], bound={}), REQUIRED, True, "bounds anything"),
        (certified(attackers="a/b", bound=[]), REQUIRED, True, "bounds anything"),
        (certified(attackers=["a/b"], bound={}), REQUIRED, True, "bounds anything"),
        (
            certified(attackers=[{"kind": "model", "model": "a/b", "counts_for": None}], bound={}),
            REQUIRED,
            True,
            "anything",
        ),
        (certified(bound={}), REQUIRED, True, ""),
    ],
)
def test_a_required_certificate_is_there_bounds_every_score_and_is_verified(
    small: LoadedBoard,
    trading: BoardEntry,
    change: Change,
    of_rules: Change,
    is_certified: bool,
    expected: str,
) -> None:
    found = found_of_card(small, trading, change, of_rules, is_certified)
    assert [rule for rule, _ in found] == ["certificate"] * bool(expected)
    assert [message for _, message in found if expected not in message] == []


# -- submissions


MADE_AT = "2026-06-30T23:59:59+00:00"


def found_of_submission(
    board: LoadedBoard,
    entry: BoardEntry,
    change: Change = nothing,
    card: Change = nothing,
    rules: Change = nothing,
    today: str | None = None,
) -> list[tuple[str, str]]:
    """Rule and message of each finding on a changed submission."""
    plain = to_plain(entry.submission)
    plain["submitted_on"] = "2026-07-01"
    change(plain)
    submission = from_plain(plain, type(entry.submission), "submission")
    made = both(whole(knowledge_cutoff="unknown"), part("provenance", created_at=MADE_AT))
    its_card = changed(entry, both(made, card)).card
    inputs = SubmissionInputs(
        "s", changed_rules(board, rules), entry.card_id, its_card, submission, today
    )

    return [(finding.rule, finding.message) for finding in findings_of(Stage.SUBMISSION, inputs)]


TODAY = "2026-07-01"
TOMORROW = part("provenance", created_at="2026-07-02T00:00:00+00:00")
ITS_BASELINE = whole(baselines=[{"model": "alder/model-1"}])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            nothing,
            [
                (
                    "provenance",
                    f"created_at of the card: 2026-07-02 is in the future (today is {TODAY})",
                )
            ],
        ),
        (ITS_BASELINE, []),  # the board runs it itself
    ],
)
def test_a_card_was_made_by_today_but_for_a_baseline(
    small: LoadedBoard, trading: BoardEntry, rules: Change, expected: list[tuple[str, str]]
) -> None:
    found = found_of_submission(small, trading, card=TOMORROW, rules=rules, today=TODAY)
    assert found == expected


BY_THE_BOARD = (
    "registered",
    "alder/model-1 is a baseline; the board runs it itself, under its own drawn key",
)


@pytest.mark.parametrize(
    ("rules", "card", "is_found"),
    [
        (both(ITS_BASELINE, divisions(keys="registered")), nothing, True),
        (both(ITS_BASELINE, divisions(keys="registered")), whole(registration="a" * 64), False),
        (both(ITS_BASELINE, divisions(keys="registered")), part("task", name="other"), False),
        (both(ITS_BASELINE, divisions(keys="own")), nothing, False),
        (divisions(keys="registered"), nothing, False),
    ],
    ids=["unregistered", "registered", "no division", "own keys", "entrant"],
)
def test_an_unregistered_baseline_is_refused_only_where_the_board_draws_its_keys(
    small: LoadedBoard, trading: BoardEntry, rules: Change, card: Change, is_found: bool
) -> None:
    found = found_of_card(small, trading, card, rules)
    assert (BY_THE_BOARD in found) == is_found


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (whole(card="0" * 64), "card"),
        (part("model", name="x/y"), "model.name"),
        (part("agent", name="other"), "agent.name"),
    ],
)
def test_a_submission_is_about_its_very_card(
    small: LoadedBoard, trading: BoardEntry, change: Change, field: str
) -> None:
    assert found_of_submission(small, trading) == []
    ((rule, message),) = found_of_submission(small, trading, change)
    assert (rule, message.split(":")[0]) == ("submission", field)


def recorded(date: str) -> Change:
    """Let a card record a cutoff."""
    block = {"date": date, "confidence": "given", "source": "a card", "windows": {}}
    return whole(knowledge_cutoff=block)


@pytest.mark.parametrize(
    ("model", "card", "expected"),
    [
        ({"cutoff_date": "2026-07-01"}, nothing, []),
        ({"cutoff_date": "2026-07-02"}, nothing, ["is after the submission"]),
        ({"cutoff_date": "2026-06-01", "released_on": "2026-06-01"}, nothing, []),
        (
            {"cutoff_date": "2026-06-02", "released_on": "2026-06-01"},
            nothing,
            ["is after the release"],
        ),
        (
            {"cutoff_date": "2026-07-02", "released_on": "2026-06-01"},
            nothing,
            ["after the submission", "after the release"],
        ),
        ({"cutoff_date": "none", "released_on": "2026-06-01"}, nothing, []),
        ({"cutoff_date": "unknown", "released_on": "2026-06-01"}, nothing, []),
        ({"cutoff_date": "2024-03-31"}, recorded("2024-03-31"), []),
        ({"cutoff_date": "2024-03-31"}, recorded("2024-03"), []),
        (
            {"cutoff_date": "2024-03-31"},
            recorded("2024-03-30"),
            ["is 2024-03-31, but the card says 2024-03-30"],
        ),
        (
            {"cutoff_date": "2024-03-31"},
            recorded("2024-04"),
            ["is 2024-03-31, but the card says 2024-04"],
        ),
        (
            {"cutoff_date": "unknown"},
            recorded("2024-03"),
            ["is unknown, but the card says 2024-03"],
        ),
        ({"cutoff_date": "none"}, recorded("2024-03"), ["is none, but the card says 2024-03"]),
        ({"cutoff_date": "none"}, whole(knowledge_cutoff="none"), []),
        (
            {"cutoff_date": "unknown"},
            whole(knowledge_cutoff="none"),
            ["but the card says that nothing was trained"],
        ),
        ({"cutoff_date": "unknown"}, whole(knowledge_cutoff="unknown"), []),
        ({"cutoff_date": "none"}, whole(knowledge_cutoff="unknown"), []),
    ],
)
def test_a_cutoff_is_before_release_and_submission_and_the_one_that_the_card_records(
    small: LoadedBoard, trading: BoardEntry, model: Plain, card: Change, expected: list[str]
) -> None:
    found = found_of_submission(small, trading, part("model", **model), card)
    assert [rule for rule, _ in found] == ["cutoff"] * len(expected)
    assert [
        word for word, (_, message) in zip(expected, found, strict=True) if word not in message
    ] == []


@pytest.mark.parametrize(
    ("day", "released", "opened", "today", "expected"),
    [
        ("2026-07-01", "", "2026-07-01", "2026-07-01", []),
        (
            "2026-07-01",
            "",
            "2026-07-02",
            "2026-07-02",
            ["submitted_on: 2026-07-01 is before the board began (2026-07-02)"],
        ),
        ("2026-07-01", "", "", "2026-07-02", []),
        (
            "2026-07-02",
            "",
            "",
            "2026-07-01",
            ["submitted_on: 2026-07-02 is in the future (today is 2026-07-01)"],
        ),
        ("2026-07-01", "2026-07-01", "", "2026-07-01", []),
        (
            "2026-07-01",
            "2026-07-02",
            "",
            "2026-07-01",
            ["model.released_on: 2026-07-02 is in the future (today is 2026-07-01)"],
        ),
        ("2026-07-02", "2026-07-03", "", None, []),
    ],
)
def test_the_day_of_a_submission_is_between_the_first_day_and_today(
    small: LoadedBoard,
    trading: BoardEntry,
    day: str,
    released: str,
    opened: str,
    today: str | None,
    expected: list[str],
) -> None:
    release = {"released_on": released} if released else {}
    change = both(whole(submitted_on=day), part("model", cutoff_date="unknown", **release))
    found = found_of_submission(small, trading, change, rules=whole(opened_on=opened), today=today)
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
    card: Change = nothing,
    rules: Change = nothing,
) -> list[tuple[str, str]]:
    """Rule and message of each finding on a list of records."""
    its_card = changed(entry, card).card
    inputs = ListInputs(
        "l", changed_rules(board, rules), entry.card_id, its_card, records, has_folder
    )

    return [(finding.rule, finding.message) for finding in findings_of(Stage.LIST, inputs)]


def test_a_list_names_what_the_card_was_made_from_and_nothing_else(
    small: LoadedBoard, trading: BoardEntry, listed: Records
) -> None:
    files = listed.files
    first = files[0]

    assert found_of_list(small, trading, listed) == []

    twice = replace(listed, files=(*files, first))
    assert found_of_list(small, trading, twice) == [("records", "files: a path appears twice")]

    lacking = replace(listed, files=files[1:])
    assert found_of_list(small, trading, lacking) == [
        ("records", f"files: {first.path}, needed for the card, is missing"),
        ("records", f"files: {first.path} is missing"),
    ]

    other = replace(listed, files=(replace(first, sha256="0" * 64), *files[1:]))
    assert [rule for rule, _ in found_of_list(small, trading, other)] == ["hash"]

    more = replace(listed, files=(*files, RecordFile("manifest.yaml", "0" * 64, 1)))
    assert found_of_list(small, trading, more) == [
        ("records", "files: manifest.yaml is not a record of this card")
    ]
    assert [rule for rule, _ in found_of_list(small, trading, replace(listed, card="0" * 64))] == [
        "records"
    ]


def test_a_list_holds_a_certificate_or_a_canary_where_the_card_has_one(
    small: LoadedBoard, trading: BoardEntry, listed: Records
) -> None:
    certificate = replace(
        listed, files=(*listed.files, RecordFile("certificate.json", "0" * 64, 1))
    )

    assert found_of_list(small, trading, certificate) == [
        ("certificate", "files: certificate.json is not a record of this card")
    ]
    assert found_of_list(small, trading, certificate, card=certified()) == []
    assert found_of_list(small, trading, listed, card=certified()) == [
        ("records", "files: certificate.json is missing")
    ]


def test_a_list_holds_the_answers_to_fixed_questions_where_the_card_has_a_drift(
    small: LoadedBoard, trading: BoardEntry, listed: Records
) -> None:
    drift = {"value": 0.25, "noise": 0.05, "excess": 0.2, "prompts": 4, "served_by_changed": False}
    asked = whole(drift=drift)
    canary = replace(listed, files=(*listed.files, RecordFile("canary.json", "0" * 64, 1)))

    assert found_of_list(small, trading, canary, card=asked) == []
    assert found_of_list(small, trading, listed, card=asked) == [
        ("records", "files: canary.json is missing")
    ]
    # A run whose answers tell no drift has them all the same.
    assert found_of_list(small, trading, canary) == []


def test_records_are_stored_at_the_listed_places(
    small: LoadedBoard, trading: BoardEntry, listed: Records
) -> None:
    short = trading.card_id[:12]
    assert found_of_list(small, trading, listed, has_folder=True) == [
        ("records", f"stored: elsewhere, but records/{short}…: that folder exists")
    ]

    here = replace(listed, stored="repository", url="")
    marks = [
        ("records", f"files: episodes/{each}/episode.json is missing")
        for each in sorted(map(attrgetter("id"), trading.card.episodes))
    ]

    assert found_of_list(small, trading, here, has_folder=True) == marks
    assert found_of_list(small, trading, here) == [
        *marks, ("records", f"stored: repository, but records/{short}…: that folder does not exist"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "sizes", "limits", "expected"),
    [
        ("repository", [1_000_000], {"file_mb": 1}, []),
        (
            "repository",
            [1_000_001],
            {"file_mb": 1},
            ["1,000,001 bytes; at most 1,000,000 are allowed"],
        ),
        ("elsewhere", [1_000_001], {"file_mb": 1}, []),
        ("repository", [600_000, 400_000], {"records_mb": 1}, []),
        (
            "repository",
            [600_000, 400_001],
            {"records_mb": 1},
            ["the records have 1,000,001 bytes; at most 1,000,000"],
        ),
        ("elsewhere", [600_000, 400_001], {"records_mb": 1}, []),
    ],
)
def test_records_in_the_repository_are_no_larger_than_the_limits(
    small: LoadedBoard,
    trading: BoardEntry,
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
    found = found_of_list(
        small, trading, records, stored == "repository", rules=whole(limits=limits)
    )
    messages = [message for rule, message in found if rule == "size"]

    assert len(messages) == len(expected)
    assert [
        word for word, message in zip(expected, messages, strict=True) if word not in message
    ] == []


@pytest.mark.parametrize("unknown", [20, 21])
def test_a_rule_reports_at_most_20_findings_on_a_document(
    small: LoadedBoard, trading: BoardEntry, unknown: int
) -> None:
    fields = {f"unknown_{index:02}": 1 for index in range(unknown)}
    assert len(found_of_card(small, trading, part("call", **fields))) == MAX_FINDINGS == 20
