"""`ktdeval train export`: rows that trainers read, of decided steps alone, and none of a run in which
the audit finds something.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import Features, Json, List, Value
from jsonschema import Draft202012Validator

from export_runs import (
    GOLD,
    QUESTIONS,
    SEEN,
    export,
    metadata,
    rows,
    run,
    run_script,
    script,
    submission,
)
from forging import change_transcript, rehash
from ktdeval.harness import Reply
from ktdeval.market import save_snapshot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval_export.held_out_episodes import evaluation_use
from ktdeval_export.replayed_steps import traced_episodes
from ktdeval_export.training_rows import exclusion
from ktdfin_market import small_market
from loops import not_empty
from run_support import copy_run, episodes, error_line, ktdeval, store_market

NAME = "Velmora Quastin 3"
SECRET = "correct-horse-battery-staple"
WRITTEN = {
    small_market().codes[0]: "a security code",
    " ".join(small_market().codes[0][:6]): "a security code",
    NAME: "a company or industry name",
    "the crash of 2015-06-15": "a calendar date",
    f"the key {SECRET}": "the value of a secret variable",
    "the key AKIAIOSFODNN7EXAMPLE": "an access key",
}
"""What a scripted model writes into its reasons, and how it is found."""
MESSAGES = List(
    {
        "role": Value("string"),
        "content": Value("string"),
        "tool_calls": List(Json()),
        "tool_call_id": Value("string"),
        "name": Value("string"),
    }
)
"""As TRL's documentation declares conversations with tools."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two models under one mask key, and of a script."""
    folder = tmp_path_factory.mktemp("export")
    store_market(folder / "market")
    for name in ("momentum", "reversal"):
        run(folder, name, f"builtin/{name}", "--limit", 3)
    run_script(folder, "calm", [[SEEN, submission()]] * 2)
    return folder


def loaded(folder: Path, features: Features) -> Any:
    return datasets.load_dataset(
        "json",
        data_files=str(folder / "rows.jsonl"),
        features=features,
        split="train",
        cache_dir=str(folder / "datasets"),
    )


def check_conversation(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
    """Hold a conversation to what TRL's documentation says of tool calling."""
    schemas = {}
    for tool in not_empty(tools):
        assert tool["type"] == "function"
        assert tool["function"].keys() == {"name", "description", "parameters"}
        Draft202012Validator.check_schema(tool["function"]["parameters"])
        schemas[tool["function"]["name"]] = tool["function"]["parameters"]

    asked: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            assert call["type"] == "function"
            Draft202012Validator(schemas[function["name"]]).validate(function["arguments"])
            asked[call["id"]] = function["name"]
        if message["role"] == "tool":
            assert message["name"] == asked[message["tool_call_id"]]

    roles = [message["role"] for message in messages]
    assert roles[:2] == ["system", "user"]
    assert roles[-1] == "assistant"
    assert messages[-1]["tool_calls"][-1]["function"]["name"] == "submit_action"


def test_a_step_is_a_conversation_with_tools_as_trl_documents_it(runs: Path) -> None:
    assert export("momentum", cwd=runs).code == 0
    first = (runs / "rows.jsonl").read_bytes(), (runs / "rows.jsonl.metadata.json").read_bytes()
    table = loaded(runs, Features({"messages": MESSAGES, "tools": List(Json())}))
    assert len(table) == 3
    for row in table:
        check_conversation(row["messages"], row["tools"])

    about = metadata(runs)
    assert [entry["steps"] for entry in about["row_sources"]] == [[0], [1], [2]]
    assert (about["rows"], about["audit"]["steps"], about["left_out"]) == (3, 3, {})
    assert "2024-" not in str(about)  # no day of a masked run
    assert "5eed" not in str(about)  # nor its key

    assert export("momentum", cwd=runs).code == 0
    again = (runs / "rows.jsonl").read_bytes(), (runs / "rows.jsonl.metadata.json").read_bytes()
    assert again == first


def test_an_episode_is_one_conversation_and_openais_arguments_are_text(runs: Path) -> None:
    assert export("momentum", "--rows", "episode", "--dialect", "openai", cwd=runs).code == 0
    (row,) = rows(runs)
    messages = row["messages"]
    assert [message["role"] for message in messages].count("system") == 1
    submitted = [
        call["function"]["arguments"]
        for message in messages
        for call in message.get("tool_calls", ())
        if call["function"]["name"] == "submit_action"
    ]
    assert len(submitted) == 3
    assert all(isinstance(text, str) for text in submitted)
    assert not any("name" in message for message in messages)


def test_a_preference_is_between_runs_that_were_shown_the_same(runs: Path) -> None:
    preference = ("--format", "preference", "--by")
    assert export("momentum", "calm", *preference, "step_return", cwd=runs).code == 0
    table = loaded(
        runs,
        Features(
            {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES, "tools": List(Json())}
        ),
    )
    about = metadata(runs)
    # after the first step their accounts differ, and so do the prompts
    assert (len(table), about["pairs"]["another_prompt"]) == (1, 1)
    (row,), (entry,) = table, about["row_sources"]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    check_conversation([*row["prompt"], *row["chosen"]], row["tools"])
    check_conversation([*row["prompt"], *row["rejected"]], row["tools"])
    assert entry["value"] > entry["rejected_value"]
    # the run that traded nothing has a return of 0
    assert 0.0 in (entry["value"], entry["rejected_value"])

    export("momentum", "reversal", *preference, "max_drawdown", "--rows", "episode", cwd=runs)
    entry = metadata(runs)["row_sources"][0]
    assert metadata(runs)["measure"]["better"] == "lower"
    assert entry["value"] < entry["rejected_value"]

    tied = error_line(export("calm", "calm", *preference, "step_return", cwd=runs))
    assert "given twice" in tied
    again = run_script(runs, "calmer", [[SEEN, submission("I wait")]] * 2)
    tied = error_line(export("calm", again, *preference, "step_return", cwd=runs))
    assert "pairs with equal values: 2" in tied


def test_failed_steps_are_no_rows(runs: Path) -> None:
    broken = {"raw": '{"orders": '}
    answers = [
        [SEEN, submission()],
        {"fail": "timeout"},
        [SEEN, broken],
        [SEEN, broken, submission()],
    ]
    out = run_script(runs, "failing", answers)
    assert export(out, cwd=runs).code == 0
    about = metadata(runs)
    assert [entry["steps"] for entry in about["row_sources"]] == [[0]]
    assert about["left_out"] == {
        "a model call failed": 1,
        "no valid submission": 1,
        "decided after retries, or with a refused call": 1,
    }
    # what was refused is no row with --with-retries either: its arguments are no JSON
    assert export(out, "--with-retries", cwd=runs).code == 0
    assert metadata(runs)["left_out"]["arguments of a call are no JSON object"] == 1


def test_what_a_model_wrote_is_found_and_can_be_left_out(runs: Path) -> None:
    answers = [[SEEN, submission(reason)] for reason in ("calm", *WRITTEN, "calm")]
    out = run_script(runs, "written", answers)
    (runs / "rows.jsonl").unlink(missing_ok=True)
    done = export(out, cwd=runs, SOME_API_KEY=SECRET)
    line = error_line(done)
    findings = done.out.splitlines()
    assert len(findings) == len(WRITTEN)
    for step, found in enumerate(WRITTEN.values(), 1):
        assert findings[step - 1].startswith(f"finding {out}: ")
        assert f"step {step}: the reply to call 1 holds {found}" in findings[step - 1]

    assert findings[0].removeprefix("finding ") in line
    assert f"and {len(WRITTEN) - 1} more" in line
    assert not any(text in done.out + done.err for text in WRITTEN)
    assert not (runs / "rows.jsonl").exists()

    assert export(out, "--skip-leaks", cwd=runs, SOME_API_KEY=SECRET).code == 0
    last = len(answers) - 1
    assert [entry["steps"] for entry in metadata(runs)["row_sources"]] == [[0], [last]]
    assert metadata(runs)["audit"]["left_out"] == len(WRITTEN)
    assert not any(text in (runs / "rows.jsonl").read_text() for text in WRITTEN)


def test_a_reply_names_no_later_day_that_it_was_not_shown(runs: Path) -> None:
    later = [[SEEN, submission("it fell on 2024-02-28")], [SEEN, submission("till 2024年5月6日")]]
    out = run_script(runs, "later", later, task="bright_open_research")
    line = error_line(export(out, cwd=runs))
    assert "step 1: the reply to call 1 names 2024-05-06, after the step's day 2024-03-01" in line


def test_text_planted_in_a_transcript_is_found(runs: Path, tmp_path: Path) -> None:
    def plant(entries: list[Any]) -> None:
        message = entries[1]["exchanges"][0]["sent"][0]
        message["content"] += f"\n\nasset_0001 is {NAME}."

    planted = copy_run(runs / "calm", tmp_path / "planted")
    (episode,) = episodes(planted)
    change_transcript(episode, plant)
    rehash(episode)
    line = error_line(export(planted, "--skip-leaks", cwd=runs))
    assert "step 1: is not as recorded" in line
    assert "transcript" in line
    assert NAME not in line

    def reply(entries: list[Any]) -> None:
        entries[0]["exchanges"][0]["reply"]["content"] = f"This is {NAME}."

    replied = copy_run(runs / "calm", tmp_path / "replied")
    (episode,) = episodes(replied)
    change_transcript(episode, reply)
    rehash(episode)
    assert "step 0" in error_line(export(replied, cwd=runs))


SPELLED = (
    r"\u0056elmora Quastin 3",
    r"{\"note\": \"\\u0056elmora Quastin 3\"}",  # JSON in a text of JSON
    r"\\x56elmora Quastin 3 \\u{110000}",  # and no character at all
    "&#86;elmora Quastin 3",
    "&amp;#86;elmora Quastin 3",
)


def test_an_identity_in_another_spelling_or_spread_over_fields_is_found(runs: Path) -> None:
    """A trainer, or the model that it trains, reads all of these as the name."""
    answers: list[Any] = []
    for spelled in SPELLED:
        answers.append([SEEN, {"raw": f'{{"orders": [], "overall_reason": "{spelled}"}}'}])

    first, _, last = NAME.partition(" ")
    spread = [SEEN, {"text": f"I see {first}", **submission(f"{last}: nothing to do")}]
    answers.append(spread)
    out = run_script(runs, "spelled", answers)
    done = export(out, cwd=runs)
    findings = done.out.splitlines()
    assert [f"step {step}: " in line for step, line in enumerate(findings)] == [True] * 6
    assert all("holds a company or industry name" in line for line in findings)


def test_a_gold_answer_that_an_agent_shows_is_found(runs: Path) -> None:
    """The model's own answer is what a row is for; what it is shown must not have it."""
    answers = [{"submit": {"answer": sample}} for sample in (GOLD, "something else")]
    model = script(runs, "todo", answers)
    words = ("--model", "builtin/script", "--model-args", f"file={model}", "--tasks", "todo")
    for agent in ("react", "cribbing"):
        done = ktdeval(
            "run", *words, "--agent", agent, "--plugin", QUESTIONS, "--out", agent, cwd=runs
        )
        assert done.code == 0, done

    plugin = ("--plugin", QUESTIONS)
    refused = error_line(export("react", *plugin, cwd=runs))
    assert "todo evaluates with" in refused
    allowed = (*plugin, "--allow-evaluation-data")
    assert export("react", *allowed, "--where", "accuracy=1", cwd=runs).code == 0
    assert metadata(runs)["allowed"] == ["evaluation data"]
    assert [entry["steps"] for entry in metadata(runs)["row_sources"]] == [[0]]

    line = error_line(export("cribbing", *allowed, "--skip-leaks", cwd=runs))
    assert "step 0: a user message of call 0 shows the gold fact 'gold'" in line
    assert GOLD not in line


def test_days_that_a_task_evaluates_on_are_refused_on_a_real_market(tmp_path: Path) -> None:
    market = small_market()
    real = replace(market, meta=replace(market.meta, synthetic=False))
    save_snapshot(real, tmp_path / "market")
    earlier = ("--windows", "2023-12-01:2023-12-15")
    outside = run_script(tmp_path, "outside", [[SEEN, submission()]], *earlier)
    assert export(outside, cwd=tmp_path).code == 0
    assert metadata(tmp_path)["allowed"] == []

    inside = run_script(tmp_path, "inside", [[SEEN, submission()]])
    line = error_line(export(inside, cwd=tmp_path))
    assert "its days are in long, a window that blinded_open_research evaluates on" in line
    assert export(inside, "--allow-evaluation-data", cwd=tmp_path).code == 0
    assert metadata(tmp_path)["allowed"] == ["evaluation data"]
    assert "long" in metadata(tmp_path)["sources"][0]["evaluates"]


def test_an_episode_of_a_registered_run_is_evaluation_data(runs: Path) -> None:
    notes: list[str] = []
    (episode,) = traced_episodes(runs / "calm", load_plugins(), {}, notes)
    assert evaluation_use(episode) == ""
    registered = replace(episode, registration="ab" * 32)
    assert evaluation_use(registered) == "its run is registered with a leaderboard (abababababab)"


def test_a_step_with_an_empty_reply_is_no_row(runs: Path) -> None:
    """A role of a team may say nothing; nobody learns from that."""
    (episode,) = traced_episodes(runs / "calm", load_plugins(), {}, [])
    step = episode.steps[0]
    assert exclusion(step, with_retries=True) == ""
    silent = replace(step.calls[-1], reply=Reply(""))
    assert exclusion(replace(step, calls=(silent,)), with_retries=True) == "a reply is empty"
