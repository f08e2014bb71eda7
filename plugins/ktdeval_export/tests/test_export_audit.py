"""Findings of the leak audit on hand-made steps: their place, their kind, and who wrote the
text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from export_steps import ASKED, MARKET, SYSTEM, model_call, traced
from ktdeval.harness import Message, Reply, ToolCall, ToolSpec
from ktdeval.masking import Lens, MaskConfig
from ktdeval_export.conversations import ModelCall
from ktdeval_export.leak_audit import Auditor, decoded_texts, make_finding
from ktdeval_export.replayed_steps import TracedStep
from ktdeval_export.runs_to_rows import AuditError
from support.figures.scoring_cases import record

SECRET = "correct-horse-battery-staple"
CODE = MARKET.codes[0]
WHERE = "run: W1, step 1"


def findings(step: TracedStep) -> list[tuple[str, bool]]:
    """The findings of a step, and whether the model wrote the text."""
    found = list(Auditor(MARKET, {"SOME_API_KEY": SECRET}).findings(step))
    assert {each.where for each in found} <= {step.where}
    return [(each.message, each.level == "warning") for each in found]


def masked(*calls: ModelCall, kind: Any = "blinded") -> TracedStep:
    """Step 1 under a mask; it is decided on 2024-01-03."""
    return replace(traced(1, *calls), lens=Lens(MaskConfig(kind), 0, MARKET, 1))


def replied(text: str, *calls: ToolCall) -> ModelCall:
    return model_call(Reply(text, calls))


# ---- what a model is shown


def test_a_finding_is_one_line() -> None:
    assert str(make_finding("secret", WHERE, "is odd", by_model=True)) == f"{WHERE}: is odd"


def test_a_step_that_its_replies_do_not_give_is_not_looked_into() -> None:
    step = replace(masked(replied(SECRET)), difference="nav_minor of the records")

    assert findings(step) == [("is not as recorded: nav_minor of the records", False)]


CODE_FOUND = f"a security code at characters 0…{len(CODE)}, which the mask hides"


@pytest.mark.parametrize(
    ("role", "by_model"), [("system", False), ("user", False), ("tool", False), ("assistant", True)]
)
def test_an_identity_in_a_message_is_found_with_its_place_and_writer(
    role: Any, by_model: bool
) -> None:
    step = masked(replied("I hold."), model_call(Reply("Yes."), ASKED, Message(role, CODE)))

    assert findings(step) == [(f"{role} message 1 of call 1 holds {CODE_FOUND}", by_model)]


@pytest.mark.parametrize(("role", "by_model"), [("user", False), ("assistant", True)])
def test_a_secret_in_a_message_is_found(role: Any, by_model: bool) -> None:
    step = masked(model_call(Reply("Yes."), Message(role, f"It is {SECRET}.")))

    expected = f"{role} message 0 of call 0 holds the value of a secret variable"
    assert findings(step) == [(expected, by_model)]


def test_what_a_tools_description_gives_away_is_found() -> None:
    tool = ToolSpec("get_bars", f"Shows {CODE}.", {"key": SECRET})

    found = findings(masked(model_call(Reply("Yes."), tools=(tool,))))

    of_tool = "the description of tool get_bars holds"

    assert [by_model for _, by_model in found] == [False, False]
    assert found[0][0].startswith(f"{of_tool} a security code at characters ")
    assert found[1][0] == f"{of_tool} the value of a secret variable"


@pytest.mark.parametrize(
    ("kind", "code", "day"),
    [
        ("bright", False, False),
        ("stock_blind", True, False),
        ("date_blind", False, True),
        ("blinded", True, True),
    ],
)
def test_only_what_the_mask_hides_is_an_identity(kind: str, code: bool, day: bool) -> None:
    of_code = masked(model_call(Reply("Yes."), SYSTEM, Message("user", CODE)), kind=kind)
    of_day = masked(model_call(Reply("Yes."), SYSTEM, Message("user", "2024-01-02")), kind=kind)

    assert len(findings(of_code)) == int(code)
    assert len(findings(of_day)) == int(day)


# ---- what a model wrote


def test_a_reply_has_one_finding_and_the_identity_comes_first() -> None:
    step = masked(replied("I hold."), replied(f"{SECRET}, {CODE}"))

    (found,) = findings(step)

    start = len(SECRET) + 2
    expected = f"a security code at characters {start}…{start + len(CODE)}, which the mask hides"

    assert found == (f"the reply to call 1 holds {expected}", True)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(SECRET),
        Reply("", (ToolCall("c1", SECRET, "{}"),)),
        Reply("", (ToolCall("c1", "a", SECRET),)),
        Reply("", (ToolCall("c1", "a", '{"' + SECRET + '": 1}'),)),
        Reply("", (ToolCall("c1", "a", '{"a": [1, {"b": "\\u0063' + SECRET[1:] + '"}]}'),)),
    ],
    ids=["text", "name of a tool", "no JSON", "key", "text of JSON"],
)
def test_a_secret_is_found_in_each_part_of_a_reply(reply: Reply) -> None:
    expected = "the reply to call 0 holds the value of a secret variable"

    assert findings(traced(1, model_call(reply))) == [(expected, True)]


@pytest.mark.parametrize(("layers", "is_found"), [(0, True), (1, True), (3, True), (5, False)])
def test_characters_spelled_by_number_are_read_three_times(layers: int, is_found: bool) -> None:
    spelled = SECRET
    if layers:
        spelled = "&" + "amp;" * (layers - 1) + f"#{ord(SECRET[0])};" + SECRET[1:]

    assert bool(findings(traced(1, replied(f"It is {spelled}.")))) == is_found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": {"b": ["c", 1, null]}}', ["a", "b", "c"]),
        ('"d"', ["d"]),
        ("1", []),
        ("{", []),
        ("[" * 100_000, []),
    ],
)
def test_the_texts_of_arguments_are_keys_and_values(arguments: str, expected: list[str]) -> None:
    assert list(decoded_texts(arguments)) == expected


# ---- later days


def dated(*calls: ModelCall) -> TracedStep:
    """Step 1, decided on 2024-01-03, under no mask."""
    return traced(1, *calls)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("2024-01-03", None),
        ("2024-01-02", None),
        ("2024-01-04", "2024-01-04"),
        ("2024-02-01, and before 2024-01-05", "2024-01-05"),
        ("2024/1/4", "2024-01-04"),
        ("2024 . 01 . 04", "2024-01-04"),
        ("2024年1月4日", "2024-01-04"),
        ("2024-02-30", None),
        ("12024-01-04", None),
        ("2024-01-040", None),
    ],
)
def test_a_reply_may_name_its_own_day_and_no_later_one(text: str, named: str | None) -> None:
    expected = []
    if named is not None:
        what = f"the reply to call 1 names {named}, after the step's day 2024-01-03"
        expected = [(what, True)]

    assert findings(dated(replied("I wait."), replied(text))) == expected


@pytest.mark.parametrize(
    ("role", "is_found"), [("user", False), ("tool", False), ("assistant", True)]
)
def test_a_later_day_that_the_model_was_shown_may_be_named(role: Any, is_found: bool) -> None:
    shown = Message(role, "Ends 2024-02-01.")
    call = model_call(Reply("Until 2024-02-01."), SYSTEM, shown)

    assert bool(findings(dated(call))) == is_found


# ---- gold answers


GOLD = "buy eleven shares tomorrow now"
SHORT = "abcdefghijklmnopqrstuvw"
"""A letter less than is searched for."""


def question(*calls: ModelCall, question: tuple[str, ...] = (), **facts: Any) -> TracedStep:
    step = traced(0, *calls)
    return replace(step, record=record(0, facts=facts), question=question)


def shown(text: str, *before: Message) -> ModelCall:
    return model_call(Reply("Yes."), SYSTEM, *before, Message("user", text))


@pytest.mark.parametrize(
    ("facts", "text", "is_found"),
    [
        ({"gold": GOLD}, f"Somebody says: {GOLD}.", True),
        ({"gold": GOLD}, "buy\neleven  shares tomorrow now", True),
        ({"gold": GOLD}, "buy eleven shares tomorrow", False),
        ({"gold": SHORT}, SHORT, False),
        ({"gold": f"{SHORT}x"}, f"{SHORT}x", True),
        ({"gold": f"{SHORT} "}, f"{SHORT} ", False),
        ({"gold": ["x", GOLD]}, GOLD, True),
        ({"gold": {"a": {"b": GOLD}}}, GOLD, True),
        ({"gold": list(range(10))}, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", False),
        ({"gold": list(range(12))}, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", True),
        ({"gold": {"name": "Velmora", "rank": 1}}, '{"name": "Velmora", "rank": 1}', True),
        ({"gold": 123456789012345678901234567890}, "123456789012345678901234567890", False),
    ],
)
def test_a_long_gold_answer_that_is_shown_is_found_whatever_its_spaces(
    facts: dict[str, Any], text: str, is_found: bool
) -> None:
    expected = [("a user message of call 1 shows the gold fact 'gold'", False)]

    found = findings(question(replied("I think."), shown(text), **facts))

    assert found == (expected if is_found else [])


@pytest.mark.parametrize(
    "written",
    [
        Message("assistant", GOLD),
        Message("assistant", "", (ToolCall("c1", "submit", f'{{"answer": "{GOLD}"}}'),)),
    ],
)
def test_a_gold_answer_may_be_shown_after_the_model_wrote_it(written: Message) -> None:
    echo = shown(f"You said {GOLD}.", written)
    before = model_call(Reply("Yes."), SYSTEM, Message("user", GOLD), written)

    assert findings(question(echo, gold=GOLD)) == []
    assert len(findings(question(before, gold=GOLD))) == 1


# ---- the error


def test_the_error_counts_the_findings_and_names_the_way_out() -> None:
    by_model = make_finding("secret", WHERE, "is odd", by_model=True)
    by_agent = make_finding("secret", WHERE, "is leaky", by_model=False)

    alone = AuditError([by_model])
    more = AuditError([by_model, by_agent, by_model])

    advice = "; leave such steps out with --skip-leaks"

    assert str(alone) == f"leak audit: {WHERE}: is odd; nothing was written{advice}"
    assert str(more) == f"leak audit: {WHERE}: is odd (and 2 more); nothing was written"
    assert more.findings == [by_model, by_agent, by_model]
