"""`builtin/script` answers from a file, `builtin/trivial` with the least that a form allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import ktdeval
from ktdeval.api import Message, ModelError, ModelRequest, QATask, ToolSpec
from ktdeval.errors import ConfigError
from ktdeval.harness import smallest_value
from ktdeval.registry import Plugins
from ktdeval.testing import on_each_row
from ktdeval.values import loads_strict

FORM = ToolSpec(
    "submit_answer",
    "Submit.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string", "minLength": 1}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
ASKED = ModelRequest(
    (Message("system", "Answer."), Message("user", "What is 2 + 3?")),
    (FORM,),
    FORM.name,
    submit_tool=FORM.name,
    step=0,
)


def scripted(plugins: Plugins, folder: Path, text: str) -> Any:
    path = folder / "answers.yaml"
    path.write_text(text)
    return plugins.make_model("builtin/script", {"file": str(path)})


def later(request: ModelRequest, turns: int) -> ModelRequest:
    """The request after some turns of the model's."""
    said = (Message("assistant", "so"), Message("user", "Go on."))
    return replace(request, messages=(*request.messages, *said * turns))


def test_steps_come_before_patterns_before_answers_before_the_rest(
    plugins: Plugins, tmp_path: Path
) -> None:
    model = scripted(
        plugins,
        tmp_path,
        "steps: [{step: 1, replies: of the step}]\n"
        "patterns: [{pattern: '2 . 4', replies: of the pattern}]\n"
        "answers: [of the list, never]\n"
        "otherwise: of all others\n",
    )
    four = replace(ASKED, messages=(Message("user", "What is 2 + 4?"),))
    texts = [
        model.reply(request).content
        for request in (ASKED, four, replace(four, step=1), replace(ASKED, step=2))
    ]

    assert texts == ["of the list", "of the pattern", "of the step", "of all others"]


def test_each_conversation_turn_has_its_reply_and_the_last_repeats(
    plugins: Plugins, tmp_path: Path
) -> None:
    model = scripted(
        plugins,
        tmp_path,
        "otherwise:\n- call: get_market_context\n- just text\n"
        "- submit: {answer: '5'}\n  text: done\n",
    )
    asked = ("get_market_context", "{}")
    submitted = ("submit_answer", '{"answer":"5"}')
    expected = [
        ("", [asked]),
        ("just text", []),
        ("done", [submitted]),
        ("done", [submitted]),
        ("done", [submitted]),
    ]

    for turn, (text, calls) in enumerate(expected):
        reply = model.reply(later(ASKED, turn))
        assert reply.content == text
        assert [(call.name, call.arguments) for call in reply.tool_calls] == calls


def test_a_script_can_write_broken_arguments_and_let_a_call_fail(
    plugins: Plugins, tmp_path: Path
) -> None:
    model = scripted(plugins, tmp_path, "otherwise: [{raw: '{\"answer\": '}, {fail: timeout}]\n")
    (call,) = model.reply(ASKED).tool_calls

    assert (call.name, call.arguments) == ("submit_answer", '{"answer": ')

    with pytest.raises(ModelError) as caught:
        model.reply(later(ASKED, 1))

    assert caught.value.kind == "timeout"


def test_a_step_without_an_answer_is_a_failed_call_that_names_it(
    plugins: Plugins, tmp_path: Path
) -> None:
    model = scripted(plugins, tmp_path, "answers: [only the first]\n")
    with pytest.raises(ModelError, match="no answer for step 1; add it under steps") as caught:
        model.reply(replace(ASKED, step=1))

    assert caught.value.kind == "no_scripted_answer"


@on_each_row(
    "text, message",
    ("nothing: 1", "unknown field 'nothing'"),
    ("answers: [1]", "answers[0]: expected"),
    ("otherwise: {}", "otherwise[0]: is empty; give text, call, submit, raw or fail"),
    ("otherwise: ['']", "otherwise[0]: is empty"),
    ("answers: [[]]", "answers[0]: has no turn"),
    ("{}", "has no answer; give steps, patterns, answers or otherwise"),
    ("[1]", "expected a mapping of fields, was list"),
    ("a: [", "line 2, column 1: not YAML"),
    ("patterns: [{pattern: '(', replies: x}]", "patterns[0].pattern: not a regular expression"),
    ("steps: [{step: -1, replies: x}]", "steps[0].step: expected"),
    ("steps: [{step: 1}]", "steps[0]: field 'replies' is missing"),
    (
        "otherwise: {submit: {a: 1}, raw: x}",
        "otherwise[0]: submit can't be combined with call or raw",
    ),
    ("otherwise: {arguments: {a: 1}}", "otherwise[0]: arguments need a call"),
    ("otherwise: {fail: timeout, text: x}", "otherwise[0]: fail can't be combined with anything"),
    ("otherwise: {fail: Bad Kind}", "otherwise.fail: expected"),
    ("otherwise: {cal: x}", "otherwise: unknown field 'cal'; did you mean 'call'"),
)
def test_a_bad_script_is_refused_with_file_and_field(
    plugins: Plugins, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        scripted(plugins, tmp_path, text)

    assert str(caught.value).partition("answers.yaml: ")[2].startswith(message)
    assert "\n" not in str(caught.value)


def test_a_run_goes_on_only_with_the_script_that_it_began_with(
    plugins: Plugins, tmp_path: Path
) -> None:
    begun = scripted(plugins, tmp_path, "otherwise: one\n").traits.recorded_args
    (tmp_path / "answers.yaml").write_text("otherwise: other\n")
    args = {"file": str(tmp_path / "answers.yaml"), **begun}

    with pytest.raises(ConfigError, match="the script has changed since the run began"):
        plugins.make_model("builtin/script", args)

    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        plugins.make_model("builtin/script", {"file": str(tmp_path / "none.yaml")})


SAMPLES = [
    {"question": "What is 2 + 3?", "gold": "5"},
    {"question": "Which is larger?", "choices": ["4", "3"], "gold": "4"},
]


class Spoken(QATask):
    answers = "text"


def score(answer: str, sample: Any) -> bool:
    return bool(answer == sample["gold"])


def evaluated(task: Any, model: str, folder: Path, **options: Any) -> dict[str, Any]:
    (card,) = ktdeval.evaluate(
        model, task, out=str(folder / "run"), quiet=True, **options
    ).typed_cards
    plain: dict[str, Any] = card.plain
    return plain


def write_task(folder: Path, base: str) -> str:
    path = folder / "spoken_sums.py"
    path.write_text(
        "from ktdeval.api import QATask, hookimpl\n"
        f"SAMPLES = {SAMPLES!r}\n"
        f"class Sums(QATask):\n    answers = {base!r}\n"
        "@hookimpl\ndef ktdeval_tasks():\n"
        "    return [Sums(SAMPLES, lambda answer, sample: answer == sample['gold'],"
        " name='spoken_sums').spec()]\n"
    )
    return str(path)


@pytest.mark.parametrize(("answers", "accuracy"), [("text", 1.0), ("call", 0.0)])
def test_a_plain_text_answer_counts_where_a_task_says_so(
    answers: str, accuracy: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(__import__("sys").modules, "spoken_sums", raising=False)
    (tmp_path / "answers.yaml").write_text("answers: ['5', ' 4\n\n  ']\n")
    card = evaluated(
        "spoken_sums",
        "builtin/script",
        tmp_path,
        plugin=write_task(tmp_path, answers),
        model_args={"file": str(tmp_path / "answers.yaml")},
    )

    assert card["scores"]["accuracy"]["value"] == accuracy
    assert card["scores"]["unanswered"]["value"] == 1.0 - accuracy
    assert card["coverage"]["steps_decided"] == (2 if accuracy else 0)


def test_the_way_to_answer_is_part_of_a_tasks_identity() -> None:
    spoken = Spoken(SAMPLES, score, name="spoken")
    called = QATask(SAMPLES, score, name="spoken")

    assert spoken.describe()["answers"] == "text"
    assert "answers" not in called.describe()

    Spoken.answers = "spoken"  # type: ignore[assignment]

    try:
        with pytest.raises(ConfigError, match="answers: expected one of call, text, was 'spoken'"):
            Spoken(SAMPLES, score, name="spoken")
    finally:
        Spoken.answers = "text"


def test_the_trivial_model_answers_every_question_without_a_key(
    plugins: Plugins, tmp_path: Path
) -> None:
    model = plugins.make_model("builtin/trivial")
    (call,) = model.reply(ASKED).tool_calls

    assert (call.name, call.arguments) == ("submit_answer", '{"answer": "trivial"}')

    chosen = {"type": "object", "properties": {"answer": {"enum": ["b", "a"]}}}
    chosen["required"] = ["answer"]
    of_choices = replace(ASKED, tools=(replace(FORM, parameters=chosen),))
    (call,) = model.reply(of_choices).tool_calls

    assert loads_strict(call.arguments) == {"answer": "b"}
    assert model.reply(replace(ASKED, tool_choice=None, tools=(FORM, FORM))).tool_calls == ()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["deanon_probe", "qfinzero_planning", "blinded_fixed_candidate"])
def test_built_in_tasks_take_its_answer_as_valid(task: str, tmp_path: Path) -> None:
    windows = {} if task.startswith("qfinzero") else {"windows": "W1"}
    card = evaluated(task, "builtin/trivial", tmp_path, limit=2, **windows)
    assert card["failures"] == {}
    assert card["coverage"]["steps_decided"] == card["coverage"]["steps"]


SCHEMAS: Sequence[tuple[dict[str, Any], Any]] = [
    ({"const": 3}, 3),
    ({"type": "integer", "minimum": 2}, 2),
    ({"type": "number", "exclusiveMinimum": 1}, 1.5),
    ({"type": "number", "maximum": -2}, -2.0),
    ({"type": "string", "minLength": 10}, "trivial tr"),
    ({"type": "string", "maxLength": 3}, "tri"),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
    ({"type": ["string", "null"], "pattern": "^[0-9]{4}$"}, None),
    (
        {"anyOf": [{"type": "object", "required": ["a"], "properties": {"a": {"const": 1}}}]},
        {"a": 1},
    ),
]


@pytest.mark.parametrize(("schema", "value"), SCHEMAS)
def test_the_smallest_value_follows_its_schema(schema: dict[str, Any], value: Any) -> None:
    assert smallest_value(schema) == value
    Draft202012Validator(schema).validate(value)


def test_a_schema_with_a_rule_that_is_not_known_has_no_smallest_value() -> None:
    with pytest.raises(ValueError, match="no trivial value is known"):
        smallest_value({"type": "string", "pattern": "^[0-9]{4}$"})
