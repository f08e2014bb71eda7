"""Calls that fail: what is tried again, after how long, what fails for good, and what stops a run
before a wrong decision.
"""

from __future__ import annotations

import json
import random
import resource
import threading
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls import Caller, ContentFiltered, http_error, json_reply, network_error
from ktdeval.calls.budget import max_request_tokens
from ktdeval.calls.failures.http_errors import one_line
from ktdeval.calls.failures.outages import OUTAGES
from ktdeval.calls.failures.retry import RETRYABLE, OtherServer, RetryPolicy
from ktdeval.errors import BudgetError, ModelError, ProviderError, RunStop, StoreError
from ktdeval.testing import on_each_row
from support.providers.call_clients import (
    COST,
    PRICE,
    Answer,
    ScriptedModel,
    ask,
    failing,
    reply_to,
)
from support.searching import examples
from support.threads import in_threads


@pytest.mark.parametrize(
    "kind",
    ["timeout", "rate_limited", "overloaded", "server", "connection", "sent", "bad_response"],
)
def test_transient_failure_leaves_no_trace_in_the_reply_but_is_recorded(run, kind):
    may_be_billed = kind in ("timeout", "bad_response", "sent")
    failure = ModelError(kind, "not now")
    if kind == "sent":
        failure = network_error(CALLER, "reset", was_sent=True)
        kind = "connection"

    model = ScriptedModel(
        lambda text, attempt: failure if text == "a" and attempt <= 3 else reply_to(text)
    )
    client = run.client(model)
    client.for_episode("check").reply(ask("hello"))  # the address is right

    assert client.for_episode("e1", run.note).reply(ask("a")) == reply_to("a")

    records = run.records()[1:]
    assert [(record.outcome, record.attempt) for record in records] == [
        (kind, 1),
        (kind, 2),
        (kind, 3),
        ("answered", 4),
    ]
    assert [(note[0], *note[2:]) for note in run.notes] == [
        (kind, 1, 13, str(failure)),
        (kind, 2, 13, str(failure)),
        (kind, 3, 13, str(failure)),
    ]
    assert [record.held_usd > 0 for record in records] == [may_be_billed] * 3 + [False]
    assert [record.cost_usd for record in records] == [None] * 3 + [pytest.approx(COST)]


@on_each_row(
    "limit, words",
    (3, "3 calls in a row failed for good, the last with bad_request: no answer; fix it"),
    (1, "a call failed for good with bad_request:"),
)
def test_too_many_consecutive_final_failures_stop_the_run(run, limit, words):
    model = failing(ModelError("bad_request", "no answer"), "good")
    client = run.client(model, max_retries=0, max_failures=limit)
    episode = client.for_episode("e1")

    for text in "abcd"[: limit - 1]:
        with pytest.raises(ModelError):
            episode.reply(ask(text))

        # that of a check, which may fail on purpose, says nothing about the run
        with pytest.raises(ModelError):
            client.for_episode("check").reply(ask("check"))

    episode.reply(ask("good"))  # an answer ends a row of failures
    for text in "efgh"[: limit - 1]:
        with pytest.raises(ModelError):
            episode.reply(ask(text))

    with pytest.raises(ProviderError) as caught:
        episode.reply(ask("z"))

    assert str(caught.value).startswith(words)
    assert "run the same command again to resume" in str(caught.value)
    assert run.stop.reason is caught.value

    with pytest.raises(ProviderError):  # nobody else asks any more
        client.for_episode("e2").reply(ask("y"))

    assert model.asked["y"] == 0


OUTAGE_ROWS = (
    (ModelError("timeout", "m: too slow"), "m: too slow (timeout, 3 attempts)", "--timeout-s"),
    (ModelError("rate_limited", "m: 429"), "m: 429 (rate_limited, 3 attempts)", "--concurrency"),
    (ModelError("overloaded", "m: 503"), "m: 503 (overloaded, 3 attempts)", "wait, then"),
    (ModelError("server", "m: 500"), "m: 500 (server, 3 attempts)", "repair the server"),
    (ModelError("connection", "m: off"), "m: off (connection, 3 attempts)", "check the network"),
    (OtherServer("m: a page"), "m: a page (bad_response, 3 attempts)", "--base-url"),
)


@on_each_row("error, words, advice", *OUTAGE_ROWS)
def test_an_outage_stops_the_run_at_its_first_call_and_names_what_to_do(run, error, words, advice):
    client = run.client(failing(error, "good"), max_retries=2, max_failures=1000)
    client.for_episode("e1").reply(ask("good"))  # the server works

    with pytest.raises(ProviderError) as caught:
        client.for_episode("e1").reply(ask("a"))

    line = str(caught.value)
    assert line.startswith(f"{words}; no decision was recorded for it: ")
    assert advice in line
    assert "run the same command again to resume" in line
    assert run.stop.reason is caught.value
    assert [record.outcome for record in run.records()[1:]] == [error.kind] * 3


def test_each_kind_that_is_tried_again_is_an_outage_or_a_reply_that_cannot_be_read():
    assert set(OUTAGES) == RETRYABLE - {"bad_response"}


@pytest.mark.parametrize("kind", ["bad_response", "bad_request", "context_exceeded", "a_plugins"])
def test_a_failure_of_the_model_or_the_request_is_a_typed_failure_of_its_step(run, kind):
    client = run.client(failing(ModelError(kind, "no"), "good"), max_retries=2)
    client.for_episode("e1").reply(ask("good"))

    with pytest.raises(ModelError) as caught:
        client.for_episode("e1").reply(ask("a"))

    assert caught.value.kind == kind
    assert not run.stop.is_set()


def test_the_first_time_out_is_one_line_at_once_that_names_the_option(run, caplog):
    late = ModelError("timeout", "m: no further part of a reply within 120 s (--timeout-s)")
    model = ScriptedModel(lambda text, attempt: late if attempt <= 3 else reply_to(text))
    client = run.client(model)

    for text in "ab":
        client.for_episode("e1").reply(ask(text))

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("m: no further part of a reply within 120 s (--timeout-s); each")
    assert "run the same command again with a longer limit (shown once)" in line


def test_a_refusal_of_every_call_stops_the_run_and_is_booked(run):
    error = ProviderError("scripted: the key is refused; set SCRIPTED_API_KEY")
    model = failing(error)
    with pytest.raises(ProviderError) as caught:
        run.client(model).for_episode("e1").reply(ask("a"))

    assert caught.value is run.stop.reason is error
    assert model.asked == {"a": 1}
    assert [(record.outcome, record.held_usd) for record in run.records()] == [("refused", 0.0)]


def test_a_defect_of_an_adapter_blocks_no_other_call(run):
    client = run.client(failing(ZeroDivisionError(), "b"), concurrency=1, max_tokens=5000)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            client.for_episode("e1").reply(ask("a"))

    assert client.for_episode("e1").reply(ask("b")) == reply_to("b")


def test_possible_cost_of_a_call_with_an_adapter_defect_stays_reserved(run):
    client = run.client(
        failing(ZeroDivisionError(), "b"), max_cost=1.5 * PRICE.most(*max_request_tokens(ask("a")))
    )

    with pytest.raises(ZeroDivisionError):
        client.for_episode("e1").reply(ask("a"))

    with pytest.raises(
        BudgetError, match=r"0\.\d+ spent \(0\.\d+ of it possibly\), the next call may cost"
    ):
        client.for_episode("e1").reply(ask("b"))


def test_when_a_reply_can_not_be_recorded_nothing_more_is_paid(run):
    """A limit on the size of files stands for a full disk."""
    model = ScriptedModel()
    episode = run.client(model).for_episode("e1")
    episode.reply(ask("a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((run.folder / "calls.sqlite-wal").stat().st_size + 10, hard)
    )

    try:
        for text in "bc":
            with pytest.raises(StoreError, match="run the same command again"):
                episode.reply(ask(text))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert model.asked == {"a": 1, "b": 1}
    assert episode.reply(ask("a")) == reply_to("a")  # what is known can still be had


def test_calls_run_concurrently_and_fewer_at_once_if_the_provider_refuses(run):
    """Some questions are asked by several; half of the first attempts fail; no more than three
    calls are taken at once.
    """
    kinds = ("server", "connection", "overloaded", "rate_limited")

    def answer(text: str, attempt: int) -> Answer:
        if model.at_once > 3:
            return ModelError("rate_limited", "too many")

        return (
            ModelError(kinds[int(text) % 4], "not now")
            if attempt == 1 and int(text) % 2
            else reply_to(text)
        )

    model = ScriptedModel(answer)
    client = run.client(model, concurrency=12, max_retries=1000)
    numbers = [range(number, number + 20) for number in range(16)]
    results = in_threads(
        16,
        lambda number: [
            client.for_episode(f"e{number}").reply(ask(str(n))) for n in numbers[number]
        ],
    )

    assert results == [[reply_to(str(n)) for n in part] for part in numbers]
    assert set(model.answered.values()) == {1}
    assert model.max_at_once <= 12

    outcomes = Counter(record.outcome for record in run.records())
    assert (outcomes["answered"], outcomes["cached"]) == (35, 320 - 35)


# ---- when an attempt is made again, and what errors of HTTP mean


class Attempts:
    """Attempts that fail as scheduled and then succeed; what was waited for between them."""

    def __init__(self, *failures: ModelError) -> None:
        self.failures = list(failures)
        self.made = 0
        self.waits: list[float] = []
        self.notes: list[tuple[str, float, int, int, str]] = []

    def __call__(self) -> str:
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)

        return "answer"

    def run(self, max_retries: int = 12, max_wait_s: float = 3600.0, seed: int = 0) -> str:
        policy = RetryPolicy(max_retries, max_wait_s, rng=random.Random(seed))
        return policy.run(self, self.waits.append, lambda *note: self.notes.append(note))


def failures(
    count: int, kind: str = "server", retry_after_s: float | None = None
) -> list[ModelError]:
    return [ModelError(kind, f"failure {number}", retry_after_s) for number in range(count)]


@on_each_row(
    "planned, max_retries, last, made",
    ([1, "bad_request"], 12, "failure 0", 1),
    ([1, "a_kind_of_a_plugin"], 12, "failure 0", 1),
    ([9], 3, "failure 3", 4),
    ([1], 0, "failure 0", 1),
    # more than may be waited
    ([5, "rate_limited", 86400.0], 12, "failure 0", 1),
)
def test_the_last_failure_rises_when_there_is_no_point_in_another_attempt(
    planned, max_retries, last, made
):
    planned = failures(*planned)
    attempts = Attempts(*planned)
    with pytest.raises(ModelError, match=last) as caught:
        attempts.run(max_retries)

    assert caught.value.kind == planned[0].kind
    assert (attempts.made, len(attempts.waits)) == (made, made - 1)


def test_waits_are_random_below_a_bound_that_doubles_up_to_the_cap():
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    played = [Attempts(*failures(len(bounds))) for _ in range(400)]
    for seed, attempts in enumerate(played):
        attempts.run(seed=seed)

    for bound, waits in zip(
        bounds, zip(*(attempts.waits for attempts in played), strict=True), strict=True
    ):
        assert 0 <= min(waits) < 0.05 * bound
        assert 0.95 * bound < max(waits) <= bound
        assert 0.45 * bound < sum(waits) / len(waits) < 0.55 * bound


def test_calls_that_got_the_same_retry_after_do_not_come_back_together():
    waits = []
    for seed in range(50):
        attempts = Attempts(*failures(1, "rate_limited", retry_after_s=20.0))
        attempts.run(seed=seed)
        waits += attempts.waits

    assert all(20.0 <= wait <= 21.0 for wait in waits)
    assert len(set(waits)) == 50


wishes = st.lists(st.none() | st.floats(0, 200), max_size=30)


@examples(60)
@given(wishes, st.integers(0, 15), st.floats(0, 500), st.integers(0, 1000))
def test_attempts_and_waits_never_exceed_their_limits(wanted, max_retries, max_wait_s, seed):
    attempts = Attempts(*(ModelError("rate_limited", "slow down", wish) for wish in wanted))
    try:
        attempts.run(max_retries, max_wait_s, seed)
    except ModelError:
        assert attempts.made <= 1 + max_retries

    assert attempts.made <= 1 + max_retries
    assert sum(attempts.waits) <= max_wait_s * (1 + 1e-12)
    assert all(wait >= (wish or 0.0) for wish, wait in zip(wanted, attempts.waits, strict=False))


# -- errors of HTTP, for adapters of other plugins


KEY = "mine-0123456789abcdef"
CALLER = Caller("mine", "m-1", "https://mine.example/v1", ("MINE_API_KEY",), (KEY,), {"e17": 402})


@on_each_row(
    "status, kind",
    (400, "bad_request"),
    (407, "bad_request"),
    (408, "timeout"),
    (409, "server"),
    (410, "bad_request"),
    (413, "bad_request"),
    (422, "bad_request"),
    (424, "bad_request"),
    (425, "server"),
    (426, "bad_request"),
    (428, "bad_request"),
    (429, "rate_limited"),
    (431, "bad_request"),
    (499, "bad_request"),
    (500, "server"),
    (502, "server"),
    (503, "overloaded"),
    (504, "server"),
    (528, "server"),
    (529, "overloaded"),
    (530, "server"),
    (599, "server"),
)
def test_a_status_is_a_failure_of_its_kind(status: int, kind: str) -> None:
    error = http_error(status, b"{}", {}, CALLER)
    assert isinstance(error, ModelError)
    assert error.kind == kind


def test_a_key_is_hidden_from_eight_letters_and_its_beginning_from_twelve() -> None:
    assert one_line("is short12 right", ("short12",)) == "is short12 right"
    assert one_line("is short123 right", ("short123",)) == "is [key] right"
    assert one_line("is abcdef...9 right", ("abcdef12345",)) == "is abcdef...9 right"
    assert one_line("is abcdef...9 right", ("abcdef123456",)) == "is [key] right"


def test_missing_response_is_a_timeout_a_connection_or_a_bad_response() -> None:
    assert network_error(CALLER, "", is_timeout=True).kind == "timeout"

    lost = network_error(CALLER, f"getaddrinfo failed for {KEY}")
    assert (lost.kind, "is the address right?" in str(lost), KEY in str(lost)) == (
        "connection",
        True,
        False,
    )

    for content in (b"", b"<html>", b"[1]", b'{"cut": '):
        with pytest.raises(ModelError) as caught:
            json_reply(content, CALLER)

        assert caught.value.kind == "bad_response"

    assert json_reply(b'{"a": 1}', CALLER) == {"a": 1}


def test_fixed_questions_that_fail_stop_a_run_that_has_no_answer_yet(run):
    client = run.client(failing(ModelError("timeout", "no answer")), max_retries=0)

    with pytest.raises(ProviderError):
        client.for_episode("canary").reply(ask("first"))

    assert isinstance(run.stop.reason, ProviderError)


FLAGGED = "the prompt was flagged"


@pytest.mark.parametrize(
    ("status", "error", "is_filtered"),
    [
        (400, {"code": "DataInspectionFailed.Text"}, True),  # a code with a part behind it
        (400, {"code": "DataInspection.Failed"}, False),
        (400, {"message": FLAGGED}, True),
        (422, {"message": FLAGGED}, True),
        (500, {"message": FLAGGED}, False),
        (429, {"message": FLAGGED}, False),
        (400, {"code": "unsupported_value", "message": FLAGGED}, False),
    ],
)
def test_moderation_is_known_by_its_code_or_unambiguous_words(
    status: int, error: dict[str, str], is_filtered: bool
) -> None:
    body = json.dumps({"error": error}).encode()

    made = http_error(status, body, {}, CALLER)

    assert isinstance(made, ContentFiltered) is is_filtered


@on_each_row("kind, holds", ("server", 0), ("bad_request", 2))
def test_failures_under_way_when_the_run_stopped_are_no_decisions_either(run, kind, holds):
    under_way = threading.Barrier(8)

    def fail(text: str, attempt: int) -> Answer:
        under_way.wait(240)
        return ModelError(kind, "down")

    client = run.client(ScriptedModel(fail), max_retries=0, max_failures=3, concurrency=8)
    results = in_threads(
        8, lambda number: client.for_episode(f"e{number}").reply(ask(f"question {number}"))
    )

    assert sum(isinstance(result, ModelError) for result in results) == holds
    assert sum(isinstance(result, RunStop) for result in results) == 8 - holds
