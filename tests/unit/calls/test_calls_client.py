"""The way to a remote model: what is answered is durable and paid once, what fails is tried again,
and a run ends whole.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter

import pytest

from ktdeval.calls.failures.http_errors import one_line
from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import request_key
from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import BudgetError, ModelError, ProviderError, StoreError
from ktdeval.harness.chat_messages import Opaque, Reply, ToolCall, Usage
from ktdeval.runner import RunConfig
from ktdeval.runner.models.model_connection import RemoteAccess, RunSignals
from ktdeval.task_api.events import CheckDelayed
from ktdeval.testing import wait_for
from support.providers.call_clients import (
    COST,
    PRICE,
    USAGE,
    Answer,
    ScriptedModel,
    ask,
    failing,
    reply_to,
)
from support.threads import in_threads

# --- cache and book


def test_reply_is_on_disk_before_use_and_never_requested_again(run):
    model = ScriptedModel()
    first = run.client(model).for_episode("e1").reply(ask("a"))

    assert [record.outcome for record in read_calls(run.folder)] == ["answered"]

    with CallDatabase(run.folder / "replies.sqlite") as other:
        assert getattr(other.entry(request_key(model, ask("a"))), "reply", None) == first

    # a cached reply needs no budget
    again = run.client(model, max_cost=0.0).for_episode("e2").reply(ask("a"))

    assert first == again == reply_to("a")
    assert model.asked == {"a": 1}

    paid, cached = run.records()
    assert (paid.episode, paid.outcome, paid.attempt, paid.usage, paid.served_by) == (
        "e1",
        "answered",
        1,
        USAGE,
        "model-1-2026",
    )
    assert (paid.cost_usd, paid.held_usd) == (pytest.approx(COST), 0.0)
    assert (cached.episode, cached.outcome, cached.cost_usd, cached.key) == (
        "e2",
        "cached",
        0.0,
        paid.key,
    )


def test_nothing_is_asked_that_the_disk_may_have_no_room_for(run, monkeypatch):
    model = ScriptedModel()
    run.client(model).for_episode("e1").reply(ask("a"))
    with monkeypatch.context() as patched:
        patched.setattr(
            "ktdeval.calls.records.call_log._ROOM_MB", 1 << 40
        )  # more than any disk has
        episode = run.client(model).for_episode("e1")
        assert episode.reply(ask("a")) == reply_to("a")  # what is known takes no room
        with pytest.raises(
            StoreError,
            match=r"calls\.sqlite: less than \d+ MB are free on its disk, .*; free space and run",
        ):
            episode.reply(ask("b"))

    run.client(model).for_episode("e1").reply(ask("b"))

    assert model.asked == {"a": 1, "b": 1}


ACCIDENTS = [
    {"finish_reason": "length"},
    {"finish_reason": "refusal"},
    {"finish_reason": "content_filter"},
    {"content": " "},
]


@pytest.mark.parametrize("changes", ACCIDENTS, ids=["length", "refusal", "content_filter", "empty"])
def test_unusable_reply_is_not_shared_but_a_resumed_run_does_not_pay_again(run, changes):
    reply = reply_to("a", **changes)
    model = ScriptedModel(lambda text, attempt: reply)
    episode = run.client(model).for_episode("e1")

    assert episode.reply(ask("a")) == episode.reply(ask("a")) == reply
    assert model.asked == {"a": 2}
    assert [(record.outcome, record.cost_usd) for record in run.records()] == [
        ("answered", pytest.approx(COST))
    ] * 2

    again = run.client(model)
    assert again.for_episode("e1").reply(ask("a")) == reply
    assert model.asked == {"a": 2}

    again.for_episode("e2").reply(ask("a"))  # another episode is no repetition
    assert model.asked == {"a": 3}


def test_fresh_question_bypasses_the_cache_but_is_recorded_for_resumption(
    run,
):
    model = ScriptedModel(lambda text, attempt: reply_to(f"{text}{attempt}"))
    client = run.client(model)

    assert client.for_episode("e1").reply(ask("a")) == reply_to("a1")
    assert client.ask_fresh(ask("a"), "canary") == reply_to("a2")
    assert client.for_episode("e1").reply(ask("a")) == reply_to("a1")
    assert run.client(model).ask_fresh(ask("a"), "canary") == reply_to("a2")

    booked = [(record.episode, record.outcome) for record in run.records()]
    assert booked == [
        ("e1", "answered"),
        ("canary", "answered"),
        ("e1", "cached"),
        ("canary", "cached"),
    ]


def test_call_without_price_or_token_count_has_no_cost_or_is_maybe_billed(run):
    run.client(ScriptedModel(), price=None).for_episode("e1").reply(ask("a"))
    run.client(ScriptedModel(lambda text, attempt: reply_to(text, usage=Usage()))).for_episode(
        "e1"
    ).reply(ask("b"))
    unpriced, uncounted = run.records()

    assert (unpriced.cost_usd, unpriced.held_usd, unpriced.usage) == (None, 0.0, USAGE)
    assert uncounted.cost_usd is None
    assert uncounted.held_usd > PRICE.cost(Usage(0, 100))


# --- the same question at the same time


@pytest.mark.parametrize(
    ("answer", "asked", "good"),
    [
        (lambda text, attempt: reply_to(text), 1, 8),
        (
            lambda text, attempt: (
                ModelError("bad_request", "no") if attempt == 1 else reply_to(text)
            ),
            2,
            7,
        ),
        (lambda text, attempt: reply_to(f"{text}{attempt}", finish_reason="length"), 8, 8),
    ],
    ids=[
        "an answer is for all",
        "a failure is the asker's own",
        "what is not kept is asked for by each",
    ],
)
def test_the_same_question_at_the_same_time_is_asked_as_often_as_it_takes(run, answer, asked, good):
    under_way = threading.Barrier(8)
    model = ScriptedModel(answer)
    client = run.client(model, concurrency=8)

    def call(number: int) -> Reply:
        under_way.wait(240)
        return client.for_episode(f"e{number}").reply(ask("a"))

    results = in_threads(8, call)

    assert sum(isinstance(result, Reply) for result in results) == good
    assert sum(isinstance(result, ModelError) for result in results) == 8 - good
    assert model.asked == {"a": asked}

    if asked == 8:
        assert len({result.content for result in results if isinstance(result, Reply)}) == 8
    else:
        assert Counter(record.outcome for record in run.records())["cached"] == 7 - (8 - good)


def test_a_key_echoed_in_a_reply_is_neither_passed_on_nor_recorded(run, monkeypatch):
    key = "sk-test-0123456789abcdef"
    spelt = json.dumps({"plain": key, "escaped": "(it)"}).replace(
        "(it)", "".join(f"\\u{ord(letter):04X}" for letter in key)
    )
    call = ToolCall(f"id {key}", key, spelt, Opaque("scripted", key))
    echo = Reply(
        f"You sent {key}.", (call,), "tool_calls", Usage(10, 5), f"their key {key}", served_by=key
    )
    model = ScriptedModel(lambda text, attempt: echo)
    monkeypatch.setattr(model, "secrets", lambda: (key,))
    reply = run.client(model).for_episode("e1").reply(ask("a"))

    assert reply.content == "You sent [key]."
    assert key not in repr(reply)
    assert json.loads(reply.tool_calls[0].arguments) == {"plain": "[key]", "escaped": "[key]"}

    run.close()
    assert not any(key.encode() in path.read_bytes() for path in run.folder.iterdir())
    assert key not in repr(run.records())


def test_a_placeholder_for_a_key_changes_no_reply_and_no_message(run, monkeypatch):
    model = ScriptedModel(lambda text, attempt: Reply("100 of asset_0001", usage=Usage(10, 5)))
    monkeypatch.setattr(model, "secrets", lambda: ("1", "a", "EMPTY"))

    assert run.client(model).for_episode("e1").reply(ask("a")).content == "100 of asset_0001"

    access = object.__new__(RemoteAccess)
    monkeypatch.setattr(access, "_remote", model, raising=False)

    assert (
        access.redact("a maximum of 100")
        == one_line("a maximum of 100", model.secrets())
        == "a maximum of 100"
    )


def test_a_reply_without_bounds_is_a_failed_attempt_that_is_made_again(run):
    model = ScriptedModel(
        lambda text, attempt: reply_to(text) if attempt > 1 else Reply(usage=Usage(10**40))
    )

    assert run.client(model).for_episode("e1").reply(ask("a")) == reply_to("a")
    assert [record.outcome for record in run.records()] == ["bad_response", "answered"]


def test_an_interrupt_ends_waits_for_a_slot_and_records_running_calls(run):
    questions = ["a", "a", "a", "b", "c"]

    def answer(text: str, attempt: int) -> Answer:
        # somebody who asks something else
        wait_for(lambda: client._limiter._queue._waiting)
        run.stop.interrupt()
        return reply_to(text)

    model = ScriptedModel(answer)
    client = run.client(model, concurrency=1)
    results = in_threads(5, lambda number: client.for_episode("e").reply(ask(questions[number])))

    assert {type(result) for result in results} == {Reply, KeyboardInterrupt}
    assert sum(model.asked.values()) == 1
    assert run.client(model).for_episode("e").reply(ask(next(iter(model.asked)))) in results
    assert sum(model.asked.values()) == 1

    client = run.client(model)
    run.stop.interrupt()

    for late in (
        lambda: client.for_episode("e1").reply(ask("d")),
        lambda: client.ask_fresh(ask("d"), "canary"),
    ):
        with pytest.raises(KeyboardInterrupt):
            late()

    assert model.asked["d"] == 0


def test_an_interrupt_or_the_end_of_hours_ends_every_wait_between_attempts(run):
    model = failing(ModelError("server", "down"))
    client = run.client(model, concurrency=4, backoff_s=600.0)

    def note(*words: object) -> None:
        run.notes.append(words)
        if len(run.notes) == 4:
            run.stop.interrupt()

    results = in_threads(
        4, lambda number: client.for_episode("e", note).reply(ask(f"question {number}"))
    )

    assert [type(result) for result in results] == [KeyboardInterrupt] * 4
    assert sum(model.asked.values()) == 4

    client = run.client(model, backoff_s=600.0)

    with pytest.raises(BudgetError, match="--max-hours"):
        client.for_episode("e", lambda *_: run.stop.limit_hours(0.0)).reply(ask("a"))


def test_a_run_stops_before_its_budget_and_resumes_when_it_is_raised(
    run,
):
    model = ScriptedModel()

    def play(max_cost: float) -> int:
        episode = run.client(model, max_cost=max_cost).for_episode("e1")
        questions = (ask(f"question {number}") for number in itertools.count())
        with pytest.raises(BudgetError, match="run the same command again") as caught:
            list(map(episode.reply, questions))

        assert run.stop.reason is caught.value

        return len(model.answered)

    made = play(0.02)

    assert 0.02 - 0.0011 <= made * COST <= 0.02
    assert play(0.04) > made
    assert set(model.asked.values()) == {1}

    client = run.client(model, concurrency=8, max_cost=0.07)  # side by side, too
    results = in_threads(
        8,
        lambda number: [
            client.for_episode("e").reply(ask(f"{number} {turn}")) for turn in itertools.count()
        ],
    )

    assert {type(result) for result in results} == {BudgetError}
    assert 0.07 - 0.0011 <= sum(record.cost_usd or 0.0 for record in run.records()) <= 0.07


# --- addresses that nobody answers, and replies of older runs


def test_address_that_never_answered_is_given_up_and_a_known_one_awaited(run):
    model = failing(ModelError("connection", "connection refused"))
    with pytest.raises(
        ProviderError,
        match=r"can't reach .*v1: connection refused; check the address \(--base-url\)",
    ):
        run.client(model, max_retries=50).for_episode("e").reply(ask("a"))

    assert model.asked == {"a": 3}

    named = failing(ModelError("connection", f"p/m: {model.endpoint} can't be reached: refused"))
    with pytest.raises(
        ProviderError, match=rf"^p/m: {model.endpoint} can't be reached: refused; check the address"
    ):
        run.client(named).for_episode("f").reply(ask("a"))

    model = ScriptedModel(
        lambda text, attempt: (
            ModelError("connection", "x") if text == "b" and attempt < 9 else reply_to(text)
        )
    )
    asker = run.client(model, max_retries=50).for_episode("e")
    asker.reply(ask("first"))

    assert asker.reply(ask("b")) == reply_to("b")


def test_cached_verdict_of_no_tool_calls_is_rechecked_after_a_server_fix(
    tmp_path,
):
    is_fixed = False

    def answer(text: str, _attempt: int) -> Answer:
        if not is_fixed:
            return Reply("I would rather not.", usage=Usage(10, 5))

        name, arguments = (
            ("look_up_level", {"place": "north"})
            if "Look up" in text
            else ("record_level", {"place": "north", "level": 41})
        )
        return Reply("", (ToolCall("1", name, json.dumps(arguments)),), "tool_calls", Usage(10, 5))

    model = ScriptedModel(answer)
    model.protocols = ("native", "text")
    config = RunConfig(
        model="scripted/model-1", tasks=("t",), cache=str(tmp_path / "replies.sqlite"), canary=0
    )

    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        with pytest.raises(
            ProviderError, match=r"called no tool in any of the protocols tried .*without the cache"
        ):
            RemoteAccess(model, config, PRICE, tmp_path / run, RunSignals(StopSignal()))

    is_fixed = True
    for run in ("two", "three"):  # in the folder that has the verdict, and in a new one
        (tmp_path / run).mkdir(exist_ok=True)
        access = RemoteAccess(model, config, PRICE, tmp_path / run, RunSignals(StopSignal()))
        assert access.protocol == "native"
        access.close()


class _NoSleep(StopSignal):
    """Waits without sleeping, and remembers how long it would have slept."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


def test_a_wait_of_a_check_before_the_episodes_is_an_event_with_its_cause(tmp_path):
    def answer(text: str, attempt: int) -> Answer:
        if attempt == 1:
            raise ModelError("server", "HTTP 503", retry_after_s=75.0)

        level = {"place": "north", "level": 41}
        if "Look up" in text:
            call = ToolCall("1", "look_up_level", json.dumps({"place": "north"}))
        else:
            call = ToolCall("1", "record_level", json.dumps(level))

        return Reply("", (call,), "tool_calls", Usage(10, 5))

    model = ScriptedModel(answer)
    model.protocols = ("native", "text")
    config = RunConfig(
        model="scripted/model-1", tasks=("t",), cache=str(tmp_path / "replies.sqlite"), canary=1
    )
    stop = _NoSleep()
    delayed: list[CheckDelayed] = []

    access = RemoteAccess(model, config, PRICE, tmp_path, RunSignals(stop, delayed.append))
    access.begin()
    access.close()

    assert {event.check for event in delayed} == {"check", "canary"}
    assert [event.wait_s for event in delayed] == stop.waits
    assert min(stop.waits) >= 75.0
    assert {(event.kind, event.attempt) for event in delayed} == {("server", 1)}
