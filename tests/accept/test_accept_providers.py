"""Whole episodes over every wire format, with the official SDKs, and one ledger whichever wire
carried the decisions.
"""

from __future__ import annotations

import itertools
import json
from functools import reduce
from pathlib import Path

import pytest

from ktdeval.harness.chat_messages import USAGE_FIELDS
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import on_each_row, wait_for
from support.board.board_runs import tree
from support.providers.stub_neutral import FINGERPRINT, REASONING, SERVED_BY
from support.providers.stub_provider import KEY, Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import (
    WIRES,
    answered,
    book,
    environment_of,
    finished,
    start_run,
    steps,
    untold,
    without,
)
from support.runs.run_support import TASK, WINDOW, card_of, ktdeval

skip_without_sdks()

STEPS = 4
SEEDS = 2
EPISODES = ("--tasks", TASK, "--windows", WINDOW, "--limit", STEPS, "--seeds", SEEDS)
RECORDS = "record_level"  # tool of the second call of the check before a run
WHOLE = ("--model", "builtin/momentum", *EPISODES, "--quiet")  # what decides behind the stub
SHORT = (*EPISODES, "--concurrency", SEEDS, "--canary", 0)


@pytest.mark.exhaustive
def test_decisions_over_the_wire_match_the_model_behind_it(whole: Path, calm: Path) -> None:
    assert without(steps(calm), *USAGE_FIELDS) == without(steps(whole), *USAGE_FIELDS)
    decided = list(itertools.chain.from_iterable(steps(calm).values()))
    assert all(step["provenance"] == "model" for step in decided)
    assert any(step["orders"] for step in decided)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", sorted({*WIRES} - {"chat"}))
def test_the_ledger_is_the_same_whichever_wire_the_decisions_came_over(
    market: Path, stub: Stub, calm: Path, tmp_path: Path, wire: str
) -> None:
    before = len(stub.requests)
    run = finished(WIRES[wire], stub, tmp_path / "run", market, *SHORT)

    assert steps(run) == steps(calm)  # orders, fills, NAV, counts and tokens

    mine = stub.requests[before:]
    assert {seen.wire for seen in mine} == {WIRES[wire].name}
    # nothing in the requests that the real provider would refuse
    assert {seen.outcome for seen in mine} == {"answered"}

    theirs = [seen for seen in stub.requests[:before] if seen.wire == "chat"]
    # and nothing lost or added on the way
    assert {seen.digest for seen in mine} <= {seen.digest for seen in theirs}

    same = ("metrics", "episodes", "usage", "coverage", "decisions", "failures", "orders")
    mine_of, theirs_of = (card_of(folder) for folder in (run, calm))

    for episode in (*mine_of["episodes"], *theirs_of["episodes"]):
        del episode["id"]
        del episode["served"]  # each wire has its provider's own name of what answered

    for name in same:
        assert mine_of[name] == theirs_of[name], name


def test_every_answer_is_in_the_book_once_with_its_tokens_and_price(stub: Stub, calm: Path) -> None:
    records = book(calm)
    asked = [record for record in records if record.episode != "check"]
    usage = card_of(calm)["usage"]

    for name in USAGE_FIELDS:
        assert usage[name] == sum(getattr(record.usage, name) for record in asked)

    assert usage["cache_read_tokens"] > 0

    plain = usage["input_tokens"] - usage["cache_read_tokens"]
    cost = (plain * 2 + usage["cache_read_tokens"] * 0.5 + usage["output_tokens"] * 8) / 1e6

    assert card_of(calm)["cost"]["value"] == pytest.approx(cost)
    assert sum(record.cost_usd or 0 for record in asked) == pytest.approx(cost)
    assert {record.served_by for record in records} == {f"{SERVED_BY} / {FINGERPRINT}"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("protocol", "wire"),
    [("text", "responses"), ("json_schema", "anthropic"), ("json_schema", "google")],
)
def test_tools_in_text_give_the_same_decisions_and_the_card_says_so(
    market: Path, stub: Stub, calm: Path, tmp_path: Path, protocol: str, wire: str
) -> None:
    run = finished(WIRES[wire], stub, tmp_path / "run", market, *SHORT, "--tool-protocol", protocol)
    assert without(steps(run), *USAGE_FIELDS) == without(steps(calm), *USAGE_FIELDS)
    assert card_of(run)["call"]["tool_protocol"] == protocol
    assert card_of(calm)["call"]["tool_protocol"] == "native"


@on_each_row(
    "wire, behaviour, protocol",
    ("responses", {"tools": "ignored"}, "json_schema"),
    ("anthropic", {"tools": "refused", "json_schema": "refused"}, "text"),
)
def test_the_best_protocol_is_found_before_the_run_and_not_asked_for_again(
    market: Path, calm: Path, tmp_path: Path, wire: str, behaviour: dict[str, str], protocol: str
) -> None:
    with running_stub(**behaviour) as stub:
        run = finished(WIRES[wire], stub, tmp_path / "run", market, *SHORT)
        assert without(steps(run), *USAGE_FIELDS) == without(steps(calm), *USAGE_FIELDS)
        assert card_of(run)["call"]["tool_protocol"] == protocol
        answers = stub.answers
        finished(WIRES[wire], stub, run, market, *SHORT)
        assert stub.answers == answers


@pytest.mark.exhaustive
@on_each_row(
    "wire, words, fields, changed",
    (
        "responses",
        "--reasoning-effort high --max-output-tokens 999",
        {"reasoning.effort": "high", "max_output_tokens": 999},
        None,
    ),
    (
        "anthropic",
        "--reasoning-tokens 2048 --max-output-tokens 9999",
        {"thinking.type": "enabled", "thinking.budget_tokens": 2048, "max_tokens": 9999},
        "disabled",
    ),
    (
        "google",
        "--reasoning-tokens 2048 --temperature 0.25",
        {
            "generationConfig.thinkingConfig.thinkingBudget": 2048,
            "generationConfig.temperature": 0.25,
        },
        None,
    ),
)
def test_thoughts_have_a_channel_and_options_the_words_of_their_wire(
    market: Path,
    calm: Path,
    tmp_path: Path,
    wire: str,
    words: str,
    fields: dict[str, object],
    changed: str | None,
) -> None:
    """`changed`: how the second call of the check before the run thinks, which offers another tool
    than the first. Claude's thoughts stay out after such a change, and without them a turn with calls
    may not think.
    """
    with running_stub(reasoning=True) as stub:
        run = finished(WIRES[wire], stub, tmp_path / "run", market, *SHORT, *words.split())
        assert {seen.outcome for seen in stub.requests} == {"answered"}
        after_change = [seen for seen in stub.requests if RECORDS in json.dumps(seen.body)]
        others = [seen for seen in stub.requests if seen not in after_change]

        assert len(after_change) == 1
        assert {seen.body.get("thinking", {}).get("type") for seen in after_change} == {changed}

        for path, expected in fields.items():
            asked = others if path.startswith("thinking.") else stub.requests
            assert {
                str(reduce(lambda value, name: value[name], path.split("."), seen.body))
                for seen in asked
            } == {str(expected)}

    assert untold(steps(run)) == untold(steps(calm))

    usage = card_of(run)["usage"]
    assert (
        usage["output_tokens"] - usage["reasoning_tokens"]
        == card_of(calm)["usage"]["output_tokens"]
    )

    store = RunFolder.load(run)
    entries = itertools.chain.from_iterable(map(store.load_transcript, store.manifest.specs))
    exchanges = itertools.chain.from_iterable(entry.exchanges for entry in entries)
    replies = [exchange["reply"] for exchange in exchanges]
    # where thoughts have to be sent back, they come as signatures only
    shown = "" if wire == "anthropic" else REASONING

    assert {reply.get("reasoning", "") for reply in replies} == {shown}


@pytest.mark.exhaustive
def test_the_same_run_again_is_answered_from_the_cache_of_another_run(
    market: Path, calm: Path, stub: Stub, tmp_path: Path
) -> None:
    cache = tmp_path / "replies.sqlite"
    wire = WIRES["responses"]
    first = finished(wire, stub, tmp_path / "one", market, *SHORT, "--cache", cache)
    before = stub.answers
    second = finished(wire, stub, tmp_path / "two", market, *SHORT, "--cache", cache)

    assert stub.answers == before
    assert answered(second) == 0
    assert steps(first) == steps(second)

    texts = [json.dumps({**card_of(run), "provenance": None}) for run in (first, second)]
    # also what it cost: a card tells what the replies cost, whoever paid
    assert texts[0] == texts[1]


def test_a_recorded_run_replays_without_key_or_network(
    market: Path, calm: Path, tmp_path: Path
) -> None:
    assert_replays(calm, market, tmp_path, environment_of(WIRES["chat"], ""))


def assert_replays(run: Path, market: Path, folder: Path, environment: dict[str, str]) -> None:
    words = f"--model replay/{run} --data {market} --out again --quiet"
    done = ktdeval(*words.split(), *EPISODES, cwd=folder, environment=environment)

    assert done.code == 0, done
    assert steps(folder / "again") == steps(run)


@pytest.mark.exhaustive
def test_a_model_that_changes_during_a_run_is_seen_by_its_fixed_questions(
    market: Path, tmp_path: Path
) -> None:
    words = (*EPISODES, "--concurrency", SEEDS, "--canary", 4)
    with running_stub(hold_after=20) as stub:
        steady = tmp_path / "steady"
        process = start_run(WIRES["responses"], stub, tmp_path / "changed", market, *words)
        wait_for(lambda: stub.held >= SEEDS, process.is_alive)
        stub.mood = "another"
        stub.go_on()
        assert process.wait().code == 0
        finished(WIRES["responses"], stub, steady, market, *words)

    drift = {name: card_of(tmp_path / name)["drift"] for name in ("steady", "changed")}

    assert [drift["steady"][name] for name in ("value", "noise", "prompts")] == [0, 0, 4]
    assert drift["changed"]["value"] > 0.4
    assert drift["changed"]["noise"] == 0
    # only what is asked between the episodes tells of it
    assert untold(steps(tmp_path / "changed")) == untold(steps(steady))


def test_a_finished_run_verifies(calm: Path) -> None:
    for words in ("card verify --card-only", "card verify"):
        environment = {"OPENAI_API_KEY": ""}
        done = ktdeval(*words.split(), calm, cwd=calm.parent, environment=environment)
        assert done.code == 0, done
        assert KEY not in done.out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["azure", "bedrock", "invoked", "vertex", "vertex claude"])
def test_a_card_of_a_cloud_verifies_and_replays_without_its_credentials(
    market: Path, stub: Stub, tmp_path: Path, name: str
) -> None:
    wire = WIRES[name]
    run = finished(wire, stub, tmp_path / "run", market, *SHORT, "--knowledge-cutoff", "2024-06")
    nothing = {**environment_of(wire, ""), "GOOGLE_CLOUD_PROJECT": ""}
    verified = ktdeval("card", "verify", run, "--data", market, cwd=tmp_path, environment=nothing)

    assert (verified.code, "verified" in verified.out) == (0, True), verified

    assert_replays(run, market, tmp_path, nothing)

    for data in tree(run).values():
        assert KEY.encode() not in data
        assert b"stub-project" not in data
