"""`ktdeval train export`: rows in the formats of trainers, made only from decided steps, and no
rows if the audit has findings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import Features, Json, List, Value
from jsonschema import Draft202012Validator

from ktdeval.market import save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.testing import not_empty, small_market
from ktdeval.values import file_sha256
from ktdeval_export.held_out_episodes import evaluation_use
from ktdeval_export.replayed_steps import TracedEpisode, traced_episodes
from support.runs.export_runs import (
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
from support.runs.forging import change_ledger, change_transcript, rehash
from support.runs.run_support import copy_run, episodes, error_line, ktdeval

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
def runs(desk: Path) -> Path:
    """Runs of two models and of a script, under one mask key."""
    for name in ("momentum", "reversal"):
        run(desk, name, f"builtin/{name}", "--limit", 3)

    run_script(desk, "calm", [[SEEN, submission()]] * 2)

    return desk


def loaded(folder: Path, features: Features) -> Any:
    return datasets.load_dataset(
        "json",
        data_files=str(folder / "rows.jsonl"),
        features=features,
        split="train",
        cache_dir=str(folder / "datasets"),
    )


def check_conversation(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
    """Check a conversation against TRL's documentation of tool calling."""
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_an_episode_is_one_conversation_and_openais_arguments_are_text(runs: Path) -> None:
    assert export("momentum", "--rows", "episode", "--dialect", "openai", cwd=runs).code == 0
    assert metadata(runs)["row_sources"] == [{"source": 0, "steps": [0, 1, 2]}]

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


@pytest.mark.slow
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


@pytest.mark.exhaustive
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
        "decided after retries or after a refused call": 1,
    }
    # refused steps are no rows with --with-retries either: their arguments are not JSON
    assert export(out, "--with-retries", cwd=runs).code == 0
    assert metadata(runs)["left_out"]["arguments of a call are not a JSON object"] == 1


@pytest.mark.exhaustive
def test_what_a_model_wrote_is_found_and_can_be_left_out(runs: Path) -> None:
    answers = [[SEEN, submission(reason)] for reason in ("calm", *WRITTEN, "calm")]
    out = run_script(runs, "written", answers)
    (runs / "rows.jsonl").unlink(missing_ok=True)
    done = export(out, cwd=runs, SOME_API_KEY=SECRET)
    line = error_line(done)
    findings = done.out.splitlines()

    assert len(findings) == len(WRITTEN)

    for step, found in enumerate(WRITTEN.values(), 1):
        assert findings[step - 1].startswith("warning [")
        assert f"] {out}: " in findings[step - 1]
        assert f"step {step}: the reply to call 1 holds {found}" in findings[step - 1]

    assert findings[0].partition("] ")[2] in line
    assert f"and {len(WRITTEN) - 1} more" in line
    assert not any(text in done.out + done.err for text in WRITTEN)
    assert not (runs / "rows.jsonl").exists()

    assert export(out, "--skip-leaks", cwd=runs, SOME_API_KEY=SECRET).code == 0

    last = len(answers) - 1
    assert [entry["steps"] for entry in metadata(runs)["row_sources"]] == [[0], [last]]
    assert metadata(runs)["audit"]["left_out"] == len(WRITTEN)
    assert not any(text in (runs / "rows.jsonl").read_text() for text in WRITTEN)


@pytest.mark.slow
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


def differing(runs: Path, folder: Path, change: Callable[[Path], None]) -> TracedEpisode:
    """The run `calm` with an episode whose records are inconsistent, although all hashes match."""
    copied = copy_run(runs / "calm", folder)
    (recorded,) = episodes(copied)
    change(recorded)
    rehash(recorded)
    (episode,) = traced_episodes(copied, load_plugins(), {}, [])

    return episode


def test_a_record_that_differs_from_its_replies_is_found(runs: Path, tmp_path: Path) -> None:
    """The second step records more cash than the replies give."""

    def richer(steps: list[Any]) -> None:
        steps[1]["cash_minor"] += 1
        steps[1]["nav_minor"] += 1

    episode = differing(runs, tmp_path / "richer", lambda folder: change_ledger(folder, richer))

    differences = [step.difference for step in episode.steps]

    assert differences == ["", "the replies do not give cash_minor of the records"]

    line = error_line(export(tmp_path / "richer", "--skip-leaks", cwd=runs))
    assert "step 1: is not as recorded: the replies do not give cash_minor of the records" in line
    assert line.endswith("; nothing was written")


def test_transcript_of_another_length_is_found_before_execution(runs: Path, tmp_path: Path) -> None:
    def shortened(entries: list[Any]) -> list[Any]:
        return entries[:1]

    episode = differing(runs, tmp_path / "run", lambda folder: change_transcript(folder, shortened))

    (step,) = episode.steps

    assert step.difference == "2 steps are recorded, 1 are in the transcript"
    assert (step.number, step.calls) == (0, ())


def test_replies_that_end_too_early_are_found(runs: Path, tmp_path: Path) -> None:
    def cut(entries: list[Any]) -> None:
        del entries[0]["exchanges"][-1]

    episode = differing(runs, tmp_path / "run", lambda folder: change_transcript(folder, cut))

    (step,) = episode.steps

    assert step.difference.startswith("can't be executed again: ")


def test_steps_beyond_the_window_are_found(runs: Path, tmp_path: Path) -> None:
    def lengthened(entries: list[Any]) -> list[Any]:
        return [*entries, entries[-1]]

    def change(folder: Path) -> None:
        change_ledger(folder, lambda steps: [*steps, {**steps[-1], "step": 2}])
        change_transcript(folder, lengthened)

    episode = differing(runs, tmp_path / "run", change)

    assert [step.number for step in episode.steps] == [0, 1, 2]
    assert episode.steps[-1].difference == "the window has no such day"


def test_a_step_has_the_calls_of_its_own_day(runs: Path) -> None:
    (episode,) = traced_episodes(runs / "calm", load_plugins(), {}, [])

    first, second = episode.steps

    assert [first.decided_on, second.decided_on] == ["2024-02-29", "2024-03-01"]
    assert [len(step.calls) for step in episode.steps] == [2, 2]
    assert [step.calls[-1].request.step for step in episode.steps] == [0, 1]
    assert (first.facts, first.question) == ({}, ())
    assert first.lens is second.lens
    assert first.lens.hides_assets


def test_unfinished_and_repeated_episodes_are_left_out_with_a_note(
    runs: Path, tmp_path: Path
) -> None:
    unfinished = copy_run(runs / "calm", tmp_path / "unfinished")
    (recorded,) = episodes(unfinished)
    (recorded / "episode.json").unlink()
    label = traced_label(runs)

    nothing = error_line(export(unfinished, cwd=runs))
    again = copy_run(runs / "calm", tmp_path / "again")
    done = export("calm", again, cwd=runs)

    assert f"no rows are left; {unfinished}: {label} is unfinished and left out" in nothing
    assert done.code == 0
    assert f"{again}: {label}" in done.err
    assert "was given twice and is used once" in done.err
    assert len(rows(runs)) == 2


def traced_label(runs: Path) -> str:
    (episode,) = traced_episodes(runs / "calm", load_plugins(), {}, [])
    return str(episode.spec.label)


# ---- what the command prints and refuses


def test_the_command_prints_what_it_wrote_and_left_out(runs: Path) -> None:
    answers = [[SEEN, submission()], [SEEN, submission(NAME)], {"fail": "timeout"}]
    out = run_script(runs, "printed", answers)

    done = export(out, "--skip-leaks", cwd=runs)

    assert done.out.splitlines() == [
        "rows    rows.jsonl (1 of chat, trl)",
        "about   rows.jsonl.metadata.json",
        "audit   3 steps; 1 left out, no finding in the others",
        "left out 1: a model call failed",
        "left out 1: the model wrote what the audit refuses",
    ]


def test_the_command_prints_pairs_that_are_none(runs: Path) -> None:
    words = ("--format", "preference", "--by", "step_return", "--dialect", "openai")

    done = export("momentum", "calm", *words, cwd=runs)

    assert done.out.splitlines() == [
        "rows    rows.jsonl (1 of preference, openai)",
        "about   rows.jsonl.metadata.json",
        "audit   5 steps, no finding",
        "left out 1: pairs with different prompts",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "preference"), "--format preference needs --by METRIC: a question's score"),
        (("--by", "step_return"), "--by goes with --format preference; --where chooses rows"),
        (
            ("--format", "preference", "--by", "sharpe", "--where", "step_return=0"),
            "--where and --by name one metric: step_return is not sharpe",
        ),
        (("--where", "step_return"), "--where 'step_return': expected METRIC=VALUE"),
        (("--where", "step_return=high"), "--where 'step_return=high': expected METRIC=VALUE"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    runs: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in error_line(export("calm", *words, cwd=runs))


@pytest.mark.parametrize(("bound", "steps"), [("0", [0, 1]), ("-0.5", [0, 1]), ("1e-9", [])])
def test_rows_are_at_least_as_good_as_the_bound(runs: Path, bound: str, steps: list[int]) -> None:
    """A run that traded nothing has a return of 0 on each day."""
    done = export("calm", "--where", f"step_return={bound}", cwd=runs)

    if not steps:
        assert "no rows are left; its figure is not good enough: 2" in error_line(done)
        return

    assert [entry["steps"] for entry in metadata(runs)["row_sources"]] == [[each] for each in steps]
    assert [entry["value"] for entry in metadata(runs)["row_sources"]] == [0.0, 0.0]
    assert metadata(runs)["measure"]["at_least"] == float(bound)


@pytest.mark.parametrize(("bound", "is_kept"), [("0", True), ("0.1", False)])
def test_an_episode_is_a_row_if_its_figure_is_good_enough(
    runs: Path, bound: str, is_kept: bool
) -> None:
    words = ("--rows", "episode", "--where", f"total_return={bound}")

    done = export("calm", *words, cwd=runs)

    if not is_kept:
        assert "no rows are left; its figure is not good enough: 2" in error_line(done)
        return

    (entry,) = metadata(runs)["row_sources"]

    assert (entry["steps"], entry["value"]) == ([0, 1], 0.0)


@pytest.mark.slow
def test_an_episode_with_a_step_that_is_no_row_is_none(runs: Path) -> None:
    out = run_script(runs, "partly", [[SEEN, submission()], {"fail": "timeout"}])

    line = error_line(export(out, "--rows", "episode", cwd=runs))

    assert "a model call failed: 1; a step of its episode can't be a row: 1" in line


def test_the_metadata_name_the_source_of_each_row(runs: Path) -> None:
    preference = ("--format", "preference", "--by", "step_return")
    assert export("momentum", "calm", *preference, cwd=runs).code == 0

    about = metadata(runs)

    models = [source["model"] for source in about["sources"]]

    assert models == ["builtin/momentum", "builtin/script"]

    (entry,) = about["row_sources"]
    assert sorted([entry["source"], entry["rejected_source"]]) == [0, 1]

    worse_is_calm = entry["rejected_source"] == 1
    assert (entry["value"] > 0) == worse_is_calm
    assert about["sources"][0] == {
        "episode": about["sources"][0]["episode"],
        "task": "blinded_open_research",
        "task_version": about["sources"][0]["task_version"],
        "window": "own days",
        "seed": 0,
        "mask": "blinded",
        "model": "builtin/momentum",
        "agent": "react",
        "snapshot": about["sources"][1]["snapshot"],
        "synthetic": True,
        "evaluates": "",
    }
    assert (about["rows_hold"], about["dialect"], about["format"]) == ("step", "trl", "preference")
    assert about["measure"] == {
        "name": "step_return",
        "formula": "step_return/1: NAV at the close of the fill day / NAV before it - 1",
        "better": "higher",
    }
    assert about["pairs"] == {"formed": 1, "tied": 0, "undefined": 0, "another_prompt": 1}
    assert about["sha256"] == file_sha256(runs / "rows.jsonl")


SPELLED = (
    r"\u0056elmora Quastin 3",
    r"{\"note\": \"\\u0056elmora Quastin 3\"}",  # JSON in a text of JSON
    r"\\x56elmora Quastin 3 \\u{110000}",  # and no character at all
    "&#86;elmora Quastin 3",
    "&amp;#86;elmora Quastin 3",
)


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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
