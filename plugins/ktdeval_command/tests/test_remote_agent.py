"""Whole runs that clients decide: records, figures, cards, and what is left after a kill."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.harness import ExternalRecord, smallest_value
from ktdeval.runner import RunFolder
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.testing import free_port, wait_for
from ktdeval_command.clients.remote_host import HOSTS
from remote_clients import (
    HOLD,
    TOKEN,
    Calls,
    Client,
    holding,
    token_file,
)
from support.command.literal_player import RESEARCH_CALLS, play, told
from support.runs.run_support import (
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    Done,
    episodes,
    error_line,
    ktdeval,
    start,
)

ONE = ("--tasks", TASK, "--windows", WINDOW, "--limit", "3", *SAME_MASK)
REMOTE = ("--model", "remote/me", "--agent", "remote")
LABEL = "not isolated"


@pytest.fixture(scope="module")
def folder(desk: Path) -> Path:
    token_file(desk)
    return desk


@pytest.fixture(scope="module")
def momentum(folder: Path) -> Path:
    """Run of a built-in model, whose decisions clients repeat."""
    words = ("--model", "builtin/momentum")
    done = ktdeval(*words, *ONE, "--data", "market", "--out", "momentum", cwd=folder)
    assert done.code == 0, done
    return folder / "momentum"


def entries_of(run: Path) -> list[Any]:
    """Steps of the transcript of a run's one episode."""
    opened = RunFolder.load(run)
    (spec,) = opened.manifest.specs
    return list(opened.load_transcript(spec))


def submissions(run: Path) -> list[Any]:
    """Accepted submissions of a client in a run's one episode, step by step."""
    steps = []
    for entry in entries_of(run):
        assert isinstance(entry.external, ExternalRecord)
        steps.append(json.loads(entry.external.acts[-1].arguments))
    return steps


def called(run: Path) -> list[Calls]:
    """Calls of a model in a run's one episode, step by step."""
    steps = []
    for entry in entries_of(run):
        calls = []
        for exchange in entry.exchanges:
            for call in exchange["reply"].get("tool_calls", ()):  # type: ignore[union-attr, call-overload]
                calls.append((call["name"], json.loads(call["arguments"])))
        steps.append(calls)
    return steps


def repeated(run: Path) -> Callable[[str], Calls]:
    """Calls of a run by the step that a day's text names."""
    known = called(run)

    def calls(day: str) -> Calls:
        step = re.search(r"\(step (\d+)\)", day)
        assert step is not None, day
        return known[int(step[1])]

    return calls


def words_of(
    port: int, out: str, *further: str, seconds: float = 30.0, wait_s: float = 30.0
) -> tuple[str, ...]:
    args = {"port": port, "token": "token", "seconds": seconds, "wait_s": wait_s}
    return (*REMOTE, "--agent-args", json.dumps(args), "--data", "market", "--out", out, *further)


@contextmanager
def playing(play: Callable[[], object]) -> Iterator[None]:
    """A client on a thread, while the run waits for it; then its listener is closed."""
    with ThreadPoolExecutor(1) as pool:
        played = pool.submit(play)
        try:
            yield
        finally:
            HOSTS.close_idle()
        played.result(60)


def run_with(
    client: Callable[[int], object], folder: Path, out: str, *further: str, seconds: float = 30.0
) -> Done:
    """Run to the end with a client that gets the port."""
    port = free_port()
    with playing(lambda: client(port)):
        return ktdeval(*words_of(port, out, *further, seconds=seconds), cwd=folder)


def an_episode(calls: Callable[[str], Calls] = holding) -> Callable[[int], object]:
    """A client that decides one episode."""

    def play(port: int) -> object:
        client = Client(port)
        return client.go_on(client.begin()["text"], calls)

    return play


def card_of(run: Path) -> Any:
    return json.loads((run / "cards" / f"{TASK}.json").read_text())


def assert_verified(run: Path) -> None:
    done = ktdeval("card", "verify", run / "cards" / f"{TASK}.json", cwd=run.parent)
    assert done.code == 0, done


def assert_return_of(run: Path, other: Path) -> None:
    """The client's run has the return of the run whose decisions it repeated."""
    mine, theirs = (card_of(each)["metrics"]["total_return"]["value"] for each in (run, other))
    assert mine == theirs
    assert_verified(run)


# ---- a run


@pytest.mark.slow
def test_a_client_that_follows_the_rules_to_the_letter_decides_each_day(folder: Path) -> None:
    def follow(port: int) -> None:
        client = Client(port)
        procedure = told(client.begin()["text"])
        play(procedure, lambda name, given: client.call(name, **given)["text"], HOLD)

    done = run_with(follow, folder, "literal", *ONE)
    assert done.code == 0, done
    (episode,) = episodes(folder / "literal")
    steps = load_ledger(episode / "ledger.parquet").steps
    assert [step.provenance for step in steps] == ["model"] * 3
    assert [step.tool_calls for step in steps] == [RESEARCH_CALLS] * 3


@pytest.fixture(scope="module")
def played(folder: Path, momentum: Path) -> Path:
    """Run of a client with the decisions of a built-in model, over plain HTTP."""
    done = run_with(an_episode(repeated(momentum)), folder, "played", *ONE)
    assert done.code == 0, done
    assert "with the token in token\n" in done.err
    assert TOKEN not in done.err + done.out
    return folder / "played"


@pytest.mark.slow
def test_the_figures_are_those_of_react_with_the_same_decisions(
    played: Path, momentum: Path
) -> None:
    mine, theirs = card_of(played), card_of(momentum)

    assert mine["metrics"]["total_return"]["value"] != 0
    for name, metric in theirs["metrics"].items():
        assert mine["metrics"][name]["value"] == metric["value"], name
    assert submissions(played) == [calls[-1][1] for calls in called(momentum)]


def test_the_card_verifies_without_a_client(played: Path, folder: Path) -> None:
    done = ktdeval("card", "verify", played / "cards" / f"{TASK}.json", cwd=folder)

    assert done.code == 0, done
    assert "verified (episodes: 1, steps executed again: 3" in done.out


def test_the_card_says_that_nothing_kept_the_client_from_looking_things_up(played: Path) -> None:
    card = card_of(played)

    assert LABEL in card["labels"]
    assert card["deciders"] == [{"name": "remote", "kind": "remote_agent", "steps": 3}]
    assert (
        "remote could look the market up: an agent elsewhere, not seen"
        in card["rankable"]["reasons"]
    )


# ---- the official client


@pytest.mark.exhaustive
def test_the_official_client_plays_an_episode(folder: Path, momentum: Path) -> None:
    anyio = pytest.importorskip("anyio", reason="needs the package anyio")
    mcp = pytest.importorskip("mcp", reason="needs the package mcp")
    httpx2 = pytest.importorskip("httpx2", reason="needs the package httpx2")
    from mcp.client.streamable_http import streamable_http_client

    calls = repeated(momentum)
    listed: list[str] = []

    async def play(port: int) -> None:
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                break
            except OSError:
                await anyio.sleep(0.05)

        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http_client,
            mcp.Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            assert "Call begin_episode" in client.instructions
            listed.extend(tool.name for tool in (await client.list_tools()).tools)
            day = (await client.call_tool("begin_episode", {})).content[0].text
            while True:
                for name, arguments in calls(day):
                    answer = await client.call_tool(name, arguments)
                assert not answer.is_error, answer
                if "The episode is over" in answer.content[0].text:
                    return
                day = (await client.call_tool("next_day", {})).content[0].text

    done = run_with(lambda port: anyio.run(play, port), folder, "mcp", *ONE)

    assert done.code == 0, done
    assert (listed[0], listed[-1]) == ("begin_episode", "next_day")
    assert {"submit_action", "portfolio_state"} <= set(listed)
    assert_return_of(folder / "mcp", momentum)


# ---- many clients


@pytest.mark.exhaustive
def test_fifty_clients_at_once_decide_an_episode_each(folder: Path) -> None:
    words = ("--tasks", TASK, "--windows", WINDOW, "--limit", "2", "--seeds", "50")
    meet = threading.Barrier(50, timeout=120)

    def fifty(port: int) -> set[str]:
        def play(_: int) -> str:
            client = Client(port)
            begun = client.begin()
            while begun["failure"] is not None:
                begun = client.begin()
            meet.wait()
            assert len(client.go_on(begun["text"])) == 2
            return str(client.episode)

        with ThreadPoolExecutor(50) as pool:
            return set(pool.map(play, range(50)))

    done = run_with(fifty, folder, "fifty", *words, "--concurrency", "50", "--quiet")

    assert done.code == 0, done
    card = card_of(folder / "fifty")
    assert len(card["episodes"]) == 50
    steps = 2 * len(card["episodes"])
    assert card["deciders"] == [{"name": "remote", "kind": "remote_agent", "steps": steps}]
    assert_verified(folder / "fifty")


# ---- days without a decision


@pytest.mark.exhaustive
def test_a_day_without_a_submission_in_time_is_held_and_counted(folder: Path) -> None:
    def late(port: int) -> None:
        client = Client(port)
        client.begin()
        wait_for(lambda: client.call("next_day")["failure"] == "episode_lost")
        an_episode()(port)

    done = run_with(late, folder, "late", *ONE, seconds=1.0)

    assert done.code == 0, done
    opened = RunFolder.load(folder / "late")
    (spec,) = opened.manifest.specs
    steps = opened.load_ledger(spec).steps
    assert [step.provenance for step in steps] == ["fallback", "model", "model"]
    assert steps[0].failures == {"remote_timed_out": 1}
    assert_verified(folder / "late")


# ---- runs that stop


@pytest.mark.slow
def test_same_command_resumes_at_the_first_unrecorded_day_after_a_kill(
    folder: Path, momentum: Path
) -> None:
    port = free_port()
    words = words_of(port, "killed", *ONE, "--plugin", str(PLUGIN))
    running = start(*words, cwd=folder, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "1"})
    client = Client(port)
    begun = client.begin()
    with pytest.raises((ConnectionError, OSError)):
        client.go_on(begun["text"], repeated(momentum))
    assert running.wait().code == -signal.SIGKILL

    days: list[str] = []

    def rest(port: int) -> None:
        client = Client(port)
        days.extend(client.go_on(client.begin()["text"], repeated(momentum)))

    with playing(lambda: rest(port)):
        done = ktdeval(*words, cwd=folder)

    assert done.code == 0, done
    assert len(days) == 1
    assert "(step 2)" in days[0]
    assert_return_of(folder / "killed", momentum)


def test_an_interrupt_does_not_wait_for_clients(folder: Path) -> None:
    port = free_port()
    words = words_of(port, "interrupted", *ONE, "--seeds", "2", "--concurrency", "2")
    running = start(*words, cwd=folder)
    assert Client(port).begin()["failure"] is None
    running.signal(signal.SIGINT)
    done = running.wait()

    assert done.code == 130, done
    assert "run the same command again to resume" in done.err


# ---- models


def test_nobody_is_asked_where_an_agent_of_ours_would_ask_a_client(folder: Path) -> None:
    done = ktdeval("--model", "remote/me", *ONE, "--data", "market", "--out", "react", cwd=folder)

    assert "use --agent remote" in error_line(done)


@pytest.mark.slow
def test_a_plan_needs_no_client(folder: Path) -> None:
    done = ktdeval("plan", *REMOTE, *ONE, "--data", "market", cwd=folder)

    assert done.code == 0, done
    assert "agents connect" not in done.err


@pytest.mark.slow
def test_a_client_asks_the_runs_model_through_the_bridge(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"otherwise": "hold, I think"}))
    said: list[Any] = []

    def play(port: int) -> None:
        client = Client(port)
        day = client.begin()["text"]
        asked = {"model": "any", "messages": [{"role": "user", "content": "Which day is it?"}]}
        for episode in (client.episode, "0" * 32):
            path = f"/bridge/{episode}/v1/chat/completions"
            said.append(client.send("POST", path, asked))
        said.append(client.send("GET", f"/bridge/{client.episode}/v1/models"))
        client.go_on(day)

    port = free_port()
    words = words_of(port, "bridge", *ONE)[2:]
    model = ("--model", "builtin/script", "--model-args", f"file={script}")
    with playing(lambda: play(port)):
        done = ktdeval(*model, *words, cwd=folder)

    assert done.code == 0, done
    assert said[0]["choices"][0]["message"]["content"] == "hold, I think"
    assert said[1]["status"] == 404
    assert [each["id"] for each in said[2]["data"]] == ["ktdeval"]
    first, *others = entries_of(folder / "bridge")
    assert [exchange["role"] for exchange in first.exchanges] == ["bridge"]
    assert not any(entry.exchanges for entry in others)
    assert_verified(folder / "bridge")


@pytest.mark.slow
def test_clients_with_their_own_model_are_told_that_there_is_none(folder: Path) -> None:
    said: list[Any] = []

    def play(port: int) -> None:
        client = Client(port)
        day = client.begin()["text"]
        asked = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}
        path = f"/bridge/{client.episode}/v1/chat/completions"
        said.append(client.send("POST", path, asked))
        client.go_on(day)

    done = run_with(play, folder, "own", *ONE)

    assert done.code == 0, done
    assert "clients and programs bring their own" in said[0]["error"]["message"]
    assert_verified(folder / "own")


# ---- questions


@pytest.mark.slow
def test_answers_of_a_client_are_scored(folder: Path) -> None:
    def play(port: int) -> None:
        client = Client(port)
        client.begin()
        tools = client.send("GET", "/tools")["tools"]
        (submit,) = [tool for tool in tools if tool["name"].startswith("submit")]
        answer = smallest_value(submit["parameters"])
        client.go_on("", lambda _: [(submit["name"], answer)])

    words = ("--tasks", "deanon_probe", "--windows", WINDOW, "--limit", "2", "--data", "market")
    port = free_port()
    with playing(lambda: play(port)):
        done = ktdeval(*words_of(port, "questions", *words), cwd=folder)

    assert done.code == 0, done
    opened = RunFolder.load(folder / "questions")
    (spec,) = opened.manifest.specs
    records = opened.load_answers(spec)
    assert [record.provenance for record in records] == ["model", "model"]
    assert all(record.answer and record.scores for record in records)
    done = ktdeval("card", "verify", "questions", cwd=folder)
    assert done.code == 0, done
