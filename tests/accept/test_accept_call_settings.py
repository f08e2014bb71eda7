"""Whole runs whose provider refuses a call parameter."""

from __future__ import annotations

from pathlib import Path

from support.providers.stub_provider import KEY, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, finished, run
from support.runs.run_support import TASK, card_of, ktdeval

skip_without_sdks()

WINDOW = "2024-04-01:2024-04-15"


def test_an_unknown_model_that_refuses_the_default_temperature_is_run_without_one(
    market: Path, tmp_path: Path
) -> None:
    words = ("--tasks", TASK, "--windows", WINDOW, "--limit", 2)
    with running_stub(refuses=("temperature",)) as stub:
        first = finished(WIRES["responses"], stub, tmp_path / "run", market, *words)
        answers = stub.answers
        card = card_of(first)
        # the same command again asks nothing, and takes the run for the same
        finished(WIRES["responses"], stub, first, market, *words)
        assert stub.answers == answers

    assert card["call"]["temperature"] is None
    assert card["call"]["max_output_tokens"] == 4096
    path = first / "cards" / f"{TASK}.json"
    shown = " ".join(ktdeval("card", "show", path, "--all", cwd=tmp_path).out.split())
    assert "max_output_tokens 4096" in shown
    assert "left to the provider or to the agent's own program: temperature" in shown
    assert "temperature 0.7" not in shown


def test_a_temperature_that_the_user_named_is_refused_and_not_left_out(
    market: Path, tmp_path: Path
) -> None:
    words = ("--tasks", TASK, "--windows", WINDOW, "--temperature", 0.2)
    with running_stub(refuses=("temperature",)) as stub:
        done = run(WIRES["responses"], stub, tmp_path / "run", market, *words)

    assert done.code == 2
    assert "refuses 'temperature'" in done.err
    assert "omit=temperature" in done.err


def test_a_plan_times_a_server_on_this_machine_by_the_calls_of_its_check(
    market: Path, tmp_path: Path
) -> None:
    with running_stub(latency_s=0.2) as stub:
        words = (
            *("--model", "openai_compatible/stub-model", "--base-url", stub.base_url_of("chat")),
            *("--tasks", TASK, "--data", market, "--windows", WINDOW, "--canary", 0),
            *("--out", tmp_path / "run"),
        )
        key = {"OPENAI_COMPATIBLE_API_KEY": KEY}
        before = ktdeval("plan", *words, cwd=tmp_path, environment=key).out
        # the budget ends after the check, before the first step
        stopped = ktdeval("run", *words, "--max-tokens", 9000, cwd=tmp_path, environment=key)
        after = ktdeval("plan", *words, cwd=tmp_path, environment=key).out

    assert "2 / 8 / 30 s per call, as of hosted models" in before
    assert stopped.code == 3, stopped
    assert "s per call" not in after
    assert "written ones a second, from 2 calls so far, including those of the check" in after


def test_a_plan_warns_of_a_name_that_no_list_of_its_provider_has(
    market: Path, tmp_path: Path
) -> None:
    words = ("--tasks", TASK, "--data", market, "--windows", WINDOW)
    key = {"OPENAI_API_KEY": KEY}

    unlisted = ktdeval("plan", "--model", "openai/gpt-4-1", *words, cwd=tmp_path, environment=key)
    listed = ktdeval("plan", "--model", "openai/gpt-4.1", *words, cwd=tmp_path, environment=key)

    assert "openai/gpt-4-1 is in no list of openai's models" in unlisted.out
    assert "did you mean 'gpt-4.1'" in unlisted.out
    assert "is in no list" not in listed.out
