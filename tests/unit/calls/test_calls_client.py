"""The way to a remote model: what is answered is durable and paid once, what fails is tried again, and a run ends whole."""

from __future__ import annotations

import itertools
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.call_log import CallLog, read_calls
from ktdeval.calls.client import ClientSettings, ModelClient
from ktdeval.calls.database import CallDatabase
from ktdeval.calls.prices import Price
from ktdeval.calls.record import CacheEntry, CallRecord, request_key
from ktdeval.calls.stop import StopSignal
from ktdeval.config import RunConfig
from ktdeval.errors import BudgetError, ConfigError, ModelError, ProviderError, RunStop, StoreError
from ktdeval.harness.messages import CallParams, Message, ModelRequest, Reply, ToolProtocol, Usage
from ktdeval.jsonio import JsonValue
from ktdeval.runner.access import RemoteAccess

PRICE = Price(input=2.0, output=10.0)
USAGE = Usage(15, 80)
COST = 0.00083
"""US dollars of `USAGE` at `PRICE`."""

Answer = Reply | BaseException


class ScriptedModel:
    """A `RemoteModel` that answers by a function of the request and of how often it was asked the same; it counts all it does."""

    provider = "scripted"
    name = "model-1"
    endpoint = "http://localhost/v1"
    protocols: tuple[ToolProtocol, ...] = ("native",)
    price_table: Path | None = None

    def __init__(self, answer: Callable[[str, int], Answer] | None = None, latency_s: float = 0.0) -> None:
        self.answer = answer or (lambda text, attempt: reply_to(text))
        self.latency_s = latency_s
        self.lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0

    def connect(self) -> None:
        """It is always connected."""

    def settings(self) -> JsonValue:
        return {}

    def secrets(self) -> tuple[str, ...]:
        return ()

    def reply(self, request: ModelRequest) -> Reply:
        text = request.messages[-1].content
        with self.lock:
            self.asked[text] += 1
            attempt = self.asked[text]
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.latency_s:
                time.sleep(self.latency_s)
            answer = self.answer(text, attempt)
        finally:
            with self.lock:
                self.at_once -= 1
        if isinstance(answer, BaseException):
            raise answer
        with self.lock:
            self.answered[text] += 1
        return answer


def reply_to(text: str, **changes: Any) -> Reply:
    return replace(Reply(f"answer to {text}", usage=USAGE, served_by="model-1-2026"), **changes)


def ask(text: str, seed: int = 0) -> ModelRequest:
    return ModelRequest((Message("user", text),), params=CallParams(seed=seed, max_output_tokens=100))


class Place:
    """A run's folder, and gates opened in it one after another, as by one command after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop = StopSignal()
        self.notes: list[tuple[str, float, int, int]] = []
        self._open: list[Any] = []

    def client(self, model: ScriptedModel, price: Price | None = PRICE, **settings: Any) -> ModelClient:
        self.close()
        self.stop = StopSignal()
        cache = CallDatabase(self.folder / "replies.sqlite")
        log = CallLog(self.folder, cache)
        self._open = [log, cache]
        return ModelClient(model, ClientSettings(**{"backoff_s": 0.001, **settings}), price, log, self.stop)

    def note(self, kind: str, wait_s: float, attempt: int, attempts: int) -> None:
        self.notes.append((kind, wait_s, attempt, attempts))

    def close(self) -> None:
        while self._open:
            self._open.pop(0).close()

    def records(self) -> list[CallRecord]:
        """The book, all of it."""
        self.close()
        return list(read_calls(self.folder))

    def outcomes(self) -> list[str]:
        return [record.outcome for record in self.records()]


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.close()


def in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """What `work` returned or raised in each of so many threads."""
    results: list[object] = [None] * count

    def run(number: int) -> None:
        try:
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - what a call raised is what the test looks at
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads), "a call waits for ever"
    return results


def fail_then_answer(*failures: BaseException) -> Callable[[str, int], Answer]:
    return lambda text, attempt: failures[attempt - 1] if attempt <= len(failures) else reply_to(text)


# --- cache and book


def test_what_was_answered_is_never_asked_again(place):
    model = ScriptedModel()
    first = place.client(model).for_episode("e1").reply(ask("a"))
    again = place.client(model).for_episode("e2").reply(ask("a"))
    assert first == again == reply_to("a")
    assert model.asked == {"a": 1}
    paid, found = place.records()
    assert (paid.episode, paid.outcome, paid.attempt, paid.usage, paid.served_by) == ("e1", "answered", 1, USAGE, "model-1-2026")
    assert (paid.cost_usd, paid.held_usd) == (pytest.approx(COST), 0.0)
    assert (found.episode, found.outcome, found.cost_usd, found.key) == ("e2", "cached", 0.0, paid.key)
    with CallLog(place.folder) as log:
        spent = log.resume(PRICE).spent
        assert (spent.cost_usd, spent.input_tokens, spent.output_tokens) == (pytest.approx(COST), 15, 80)


def test_a_reply_is_on_disk_in_cache_and_book_before_anyone_sees_it(place):
    model = ScriptedModel()
    place.client(model).for_episode("e1").reply(ask("a"))
    assert [record.outcome for record in read_calls(place.folder)] == ["answered"]
    with CallDatabase(place.folder / "replies.sqlite") as other:
        entry = other.entry(request_key(model, ask("a")))
        assert entry is not None
        assert entry.reply == reply_to("a")


def test_questions_that_differ_in_their_seed_are_different_questions(place):
    model = ScriptedModel()
    episode = place.client(model).for_episode("e1")
    episode.reply(ask("a", seed=1))
    episode.reply(ask("a", seed=2))
    assert model.asked == {"a": 2}


@pytest.mark.parametrize(
    "reply",
    [
        reply_to("a", finish_reason="length"),
        reply_to("a", finish_reason="refusal"),
        reply_to("a", finish_reason="content_filter"),
        reply_to("a", content=" "),
    ],
    ids=["length", "refusal", "content_filter", "empty"],
)
def test_an_accident_of_one_call_is_handed_over_and_booked_but_not_kept(place, reply):
    model = ScriptedModel(lambda text, attempt: reply)
    episode = place.client(model).for_episode("e1")
    assert episode.reply(ask("a")) == episode.reply(ask("a")) == reply
    assert model.asked == {"a": 2}
    assert [(record.outcome, record.cost_usd) for record in place.records()] == [("answered", pytest.approx(COST))] * 2


def test_a_fresh_question_neither_reads_nor_writes_the_cache_but_is_booked(place):
    model = ScriptedModel(lambda text, attempt: reply_to(f"{text}{attempt}"))
    client = place.client(model)
    assert client.for_episode("e1").reply(ask("a")) == reply_to("a1")
    assert client.ask_fresh(ask("a"), "canary") == reply_to("a2")
    assert client.for_episode("e1").reply(ask("a")) == reply_to("a1")
    assert [(record.episode, record.outcome) for record in place.records()] == [
        ("e1", "answered"),
        ("canary", "answered"),
        ("e1", "cached"),
    ]


def test_a_model_without_a_known_price_is_booked_without_cost(place):
    place.client(ScriptedModel(), price=None).for_episode("e1").reply(ask("a"))
    (record,) = place.records()
    assert (record.cost_usd, record.held_usd, record.usage) == (None, 0.0, USAGE)


def test_a_reply_whose_tokens_were_not_counted_is_booked_as_possibly_billed(place):
    place.client(ScriptedModel(lambda text, attempt: reply_to(text, usage=Usage()))).for_episode("e1").reply(ask("a"))
    (record,) = place.records()
    assert record.cost_usd is None
    assert record.held_usd > PRICE.cost(Usage(0, 100))


# --- the same question at the same time


def test_the_same_question_at_the_same_time_is_asked_once(place):
    model = ScriptedModel(latency_s=0.02)
    client = place.client(model, concurrency=8)
    assert in_threads(8, lambda number: client.for_episode(f"e{number}").reply(ask("a"))) == [reply_to("a")] * 8
    assert model.asked == {"a": 1}
    assert Counter(place.outcomes()) == {"answered": 1, "cached": 7}


def test_whoever_waited_for_a_reply_that_failed_asks_in_its_turn(place):
    model = ScriptedModel(fail_then_answer(ModelError("bad_request", "no")), latency_s=0.02)
    client = place.client(model, concurrency=4)
    results = in_threads(4, lambda number: client.for_episode(f"e{number}").reply(ask("a")))
    assert sum(isinstance(result, ModelError) for result in results) == 1
    assert results.count(reply_to("a")) == 3
    assert model.asked == {"a": 2}


def test_whoever_waited_for_a_reply_that_is_not_kept_asks_for_one_of_its_own(place):
    model = ScriptedModel(lambda text, attempt: reply_to(f"{text}{attempt}", finish_reason="length"), latency_s=0.01)
    client = place.client(model, concurrency=3)
    results = in_threads(3, lambda number: client.for_episode(f"e{number}").reply(ask("a")))
    assert {result.content for result in results if isinstance(result, Reply)} == {f"answer to a{number}" for number in (1, 2, 3)}


# --- failures


@pytest.mark.parametrize("kind", ["timeout", "rate_limited", "overloaded", "server", "connection", "bad_response"])
def test_a_failure_that_may_pass_leaves_no_trace_in_the_reply_but_every_attempt_in_the_book(place, kind):
    script = fail_then_answer(*(ModelError(kind, "not now") for _ in range(3)))
    client = place.client(ScriptedModel(lambda text, attempt: reply_to(text) if text == "hello" else script(text, attempt)))
    client.for_episode("check").reply(ask("hello"))  # the address is right
    assert client.for_episode("e1", place.note).reply(ask("a")) == reply_to("a")
    records = place.records()[1:]
    assert [(record.outcome, record.attempt) for record in records] == [(kind, 1), (kind, 2), (kind, 3), ("answered", 4)]
    assert [(note[0], *note[2:]) for note in place.notes] == [(kind, 1, 13), (kind, 2, 13), (kind, 3, 13)]
    may_be_billed = kind in ("timeout", "bad_response")
    assert [record.held_usd > 0 for record in records] == [may_be_billed] * 3 + [False]
    assert [record.cost_usd for record in records] == [None] * 3 + [pytest.approx(COST)]


def test_a_refused_request_is_not_asked_again(place):
    model = ScriptedModel(lambda text, attempt: ModelError("bad_request", "the context is too long"))
    with pytest.raises(ModelError, match="the context is too long"):
        place.client(model).for_episode("e1").reply(ask("a"))
    assert model.asked == {"a": 1}
    assert place.outcomes() == ["bad_request"]


def test_a_failure_for_good_is_raised_with_its_kind_and_does_not_stop_the_run(place):
    client = place.client(ScriptedModel(lambda text, attempt: ModelError("server", "down")), max_retries=2)
    with pytest.raises(ModelError, match="down") as caught:
        client.for_episode("e1").reply(ask("a"))
    assert caught.value.kind == "server"
    assert not place.stop.is_set()
    assert place.outcomes() == ["server"] * 3


def test_too_many_calls_in_a_row_that_failed_for_good_stop_the_run_before_the_last_is_a_decision(place):
    model = ScriptedModel(lambda text, attempt: ModelError("timeout", "no answer within 120 s"))
    client = place.client(model, max_retries=0, max_failures=3)
    for text in "ab":
        with pytest.raises(ModelError):
            client.for_episode("e1").reply(ask(text))
    with pytest.raises(ProviderError) as caught:
        client.for_episode("e1").reply(ask("c"))
    assert str(caught.value).startswith("3 calls in a row failed for good, the last with timeout: no answer within 120 s;")
    assert "run the same command again to resume" in str(caught.value)
    assert place.stop.reason is caught.value
    with pytest.raises(ProviderError):  # nobody else asks any more
        client.for_episode("e2").reply(ask("d"))
    assert model.asked == {"a": 1, "b": 1, "c": 1}


def test_one_failure_is_enough_where_that_is_asked_for(place):
    client = place.client(ScriptedModel(lambda text, attempt: ModelError("bad_request", "too long")), max_failures=1)
    with pytest.raises(ProviderError, match=r"^a call failed for good with bad_request: too long; fix it"):
        client.for_episode("e1").reply(ask("a"))


def test_failures_of_calls_that_were_under_way_when_the_run_stopped_are_no_decisions_either(place):
    model = ScriptedModel(lambda text, attempt: ModelError("server", "down"), latency_s=0.02)
    client = place.client(model, max_retries=0, max_failures=3, concurrency=8)
    results = in_threads(8, lambda number: client.for_episode(f"e{number}").reply(ask(f"question {number}")))
    assert sum(isinstance(result, ModelError) for result in results) == 2
    assert sum(isinstance(result, RunStop) for result in results) == 6


def test_an_answer_ends_a_row_of_failures(place):
    model = ScriptedModel(lambda text, attempt: reply_to(text) if text == "good" else ModelError("server", "down"))
    episode = place.client(model, max_retries=0, max_failures=2).for_episode("e1")
    for _ in range(4):
        with pytest.raises(ModelError):
            episode.reply(ask("bad"))
        episode.reply(ask("good", seed=model.asked["good"]))
    assert not place.stop.is_set()


def test_a_refusal_of_every_call_stops_the_run_and_is_booked(place):
    error = ProviderError("scripted: the key is refused; set SCRIPTED_API_KEY")
    model = ScriptedModel(lambda text, attempt: error)
    with pytest.raises(ProviderError) as caught:
        place.client(model).for_episode("e1").reply(ask("a"))
    assert caught.value is place.stop.reason is error
    assert model.asked == {"a": 1}
    assert [(record.outcome, record.held_usd) for record in place.records()] == [("refused", 0.0)]


def test_a_defect_of_an_adapter_blocks_nobody(place):
    model = ScriptedModel(fail_then_answer(ZeroDivisionError(), ZeroDivisionError()))
    client = place.client(model, concurrency=1, max_tokens=5000)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            client.for_episode("e1").reply(ask("a"))
    assert client.for_episode("e1").reply(ask("a")) == reply_to("a")


def test_when_a_reply_can_not_be_recorded_nothing_more_is_paid(place):
    """A limit on the size of files stands for a full disk."""
    model = ScriptedModel()
    episode = place.client(model).for_episode("e1")
    episode.reply(ask("a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((place.folder / "calls.sqlite-wal").stat().st_size + 10, hard))
    try:
        for text in "bc":
            with pytest.raises(StoreError, match="run the same command again"):
                episode.reply(ask(text))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert model.asked == {"a": 1, "b": 1}
    assert episode.reply(ask("a")) == reply_to("a")  # what is known can still be had


def test_a_provider_that_wants_to_be_left_alone_for_too_long_fails_the_call_and_holds_back_no_other(place):
    model = ScriptedModel(lambda text, attempt: reply_to(text) if text == "b" else ModelError("rate_limited", "tomorrow", 86_400))
    episode = place.client(model).for_episode("e1", place.note)
    with pytest.raises(ModelError, match="tomorrow"):
        episode.reply(ask("a"))
    assert episode.reply(ask("b")) == reply_to("b")
    assert place.notes == []


def test_others_are_told_of_a_pause_that_the_provider_wants(place):
    model = ScriptedModel(lambda text, attempt: reply_to(text) if text == "b" else ModelError("rate_limited", "slow down", 1.0))
    client = place.client(model, concurrency=2, max_retries=0)
    with pytest.raises(ModelError):
        client.for_episode("e1").reply(ask("a"))
    assert client.for_episode("e2", place.note).reply(ask("b")) == reply_to("b")
    ((kind, wait_s, attempt, attempts),) = place.notes
    assert (kind, attempt, attempts) == ("rate_limited", 0, 1)
    assert 0.5 <= wait_s <= 1.0


def test_calls_that_were_refused_for_being_too_many_are_made_fewer_at_once_and_all_answered(place):
    class Crowded(ScriptedModel):
        """Takes three calls at once."""

        def reply(self, request: ModelRequest) -> Reply:
            with self.lock:
                is_too_many = self.at_once >= 3
            if is_too_many:
                raise ModelError("rate_limited", "too many")
            return super().reply(request)

    model = Crowded(latency_s=0.002)
    client = place.client(model, concurrency=12, max_retries=50)
    results = in_threads(12, lambda number: [client.for_episode("e").reply(ask(f"{number} {turn}")) for turn in range(10)])
    assert all(isinstance(result, list) for result in results)
    assert set(model.answered.values()) == {1}
    assert len(model.answered) == 120


# --- limits


def test_no_more_calls_are_made_at_once_than_asked_for(place):
    model = ScriptedModel(latency_s=0.002)
    client = place.client(model, concurrency=3)
    in_threads(9, lambda number: [client.for_episode("e").reply(ask(f"{number} {turn}")) for turn in range(4)])
    assert model.most_at_once == 3
    assert sum(model.answered.values()) == 36


def test_a_run_stops_before_the_call_that_could_exceed_its_budget_and_goes_on_when_it_is_raised(place):
    model = ScriptedModel()

    def play(max_cost: float) -> int:
        episode = place.client(model, max_cost=max_cost).for_episode("e1")
        questions = (ask(f"question {number}") for number in itertools.count())
        with pytest.raises(BudgetError, match="run the same command again") as caught:
            list(map(episode.reply, questions))
        assert place.stop.reason is caught.value
        return len(model.answered)

    made = play(0.02)
    assert 0.02 - 0.0011 <= made * COST <= 0.02
    assert play(0.04) > made
    assert set(model.asked.values()) == {1}
    with CallLog(place.folder) as log:
        assert log.resume(PRICE).spent.cost_usd <= 0.04


def test_side_by_side_too_a_run_never_spends_more_than_its_budget(place):
    model = ScriptedModel(latency_s=0.001)
    client = place.client(model, concurrency=8, max_cost=0.05)
    results = in_threads(8, lambda number: [client.for_episode("e").reply(ask(f"{number} {turn}")) for turn in range(30)])
    assert {type(result) for result in results} == {BudgetError}
    spent = sum(record.cost_usd or 0.0 for record in place.records())
    assert 0.05 - 0.0011 <= spent <= 0.05


def test_what_was_paid_before_a_price_was_known_counts_when_it_is(place):
    model = ScriptedModel()
    place.client(model, price=None).for_episode("e1").reply(ask("a"))
    with pytest.raises(BudgetError, match=r"0\.0008 spent"):
        place.client(model, max_cost=0.001).for_episode("e1").reply(ask("b"))


def test_a_limit_of_cost_needs_a_price(place):
    with pytest.raises(ConfigError, match="--price"):
        place.client(ScriptedModel(), price=None, max_cost=1.0)


def test_a_cached_reply_needs_no_budget(place):
    model = ScriptedModel()
    place.client(model).for_episode("e1").reply(ask("a"))
    assert place.client(model, max_cost=0.0).for_episode("e1").reply(ask("a")) == reply_to("a")


# --- the end of a run


def test_an_interrupt_ends_every_wait_between_attempts(place):
    model = ScriptedModel(lambda text, attempt: ModelError("server", "down"))
    client = place.client(model, concurrency=4, backoff_s=600.0)

    def interrupt_when_all_have_failed() -> None:
        while len(place.notes) < 4:
            time.sleep(0.001)
        place.stop.interrupt()

    threading.Thread(target=interrupt_when_all_have_failed, daemon=True).start()
    results = in_threads(4, lambda number: client.for_episode("e", place.note).reply(ask(f"question {number}")))
    assert [type(result) for result in results] == [KeyboardInterrupt] * 4
    assert sum(model.asked.values()) == 4


def test_an_interrupt_ends_every_wait_for_a_slot_and_what_is_under_way_is_kept(place):
    release, questions = threading.Event(), ["a", "a", "a", "b", "c"]

    def answer(text: str, attempt: int) -> Answer:
        assert release.wait(30)
        return reply_to(text)

    model = ScriptedModel(answer)
    client = place.client(model, concurrency=1)

    def work(number: int) -> Reply:
        if number < len(questions):
            return client.for_episode("e").reply(ask(questions[number]))
        while not model.asked:
            time.sleep(0.001)
        time.sleep(0.05)  # for the others to come to where they wait
        place.stop.interrupt()
        time.sleep(0.2)  # for those in the line to see it
        release.set()
        return reply_to("a")

    results = in_threads(6, work)
    assert {type(result) for result in results[:5]} == {Reply, KeyboardInterrupt}
    assert sum(model.asked.values()) == 1
    assert place.client(model).for_episode("e").reply(ask(next(iter(model.asked)))) in results
    assert sum(model.asked.values()) == 1


def test_the_hours_of_a_run_end_a_wait_between_attempts(place):
    client = place.client(ScriptedModel(lambda text, attempt: ModelError("server", "down")), backoff_s=600.0)
    place.stop.limit_hours(0.1 / 3600)
    with pytest.raises(BudgetError, match="--max-hours"):
        client.for_episode("e").reply(ask("a"))


def test_after_the_end_of_a_run_nothing_is_asked(place):
    model = ScriptedModel()
    client = place.client(model)
    place.stop.interrupt()
    with pytest.raises(KeyboardInterrupt):
        client.for_episode("e1").reply(ask("a"))
    with pytest.raises(KeyboardInterrupt):
        client.ask_fresh(ask("a"), "canary")
    assert not model.asked


def test_many_calls_through_many_threads_are_each_paid_and_booked_once(place):
    """Half of the first attempts fail, some questions are asked by several, and everything is answered, kept and booked once."""
    failing = [ModelError(kind, "not now") for kind in ("server", "connection", "overloaded", "rate_limited")]

    def answer(text: str, attempt: int) -> Answer:
        number = int(text)
        return failing[number % 4] if attempt == 1 and number % 2 else reply_to(text)

    model = ScriptedModel(answer)
    client = place.client(model, concurrency=20)
    results = in_threads(
        20, lambda number: [client.for_episode(f"e{number}").reply(ask(str(n))) for n in range(number, number + 30)]
    )
    assert results == [[reply_to(str(n)) for n in range(number, number + 30)] for number in range(20)]
    assert set(model.answered.values()) == {1}
    outcomes = Counter(place.outcomes())
    assert outcomes["answered"] == 49
    assert outcomes["cached"] == 600 - 49


# --- what no cache keeps, and addresses that nobody answers


@pytest.mark.parametrize("finish_reason", ["length", "refusal", "content_filter"])
def test_a_resumed_run_does_not_pay_again_for_a_reply_that_no_cache_keeps(place, finish_reason):
    model = ScriptedModel(lambda text, attempt: Reply("half an ans", finish_reason=finish_reason, usage=USAGE))
    place.client(model).for_episode("e1").reply(ask("a"))
    place.close()
    again = place.client(model)
    assert again.for_episode("e1").reply(ask("a")).finish_reason == finish_reason
    assert sum(model.asked.values()) == 1
    again.for_episode("e2").reply(ask("a"))  # another episode is no repetition
    assert sum(model.asked.values()) == 2


def test_a_resumed_run_does_not_ask_its_fixed_questions_again(place):
    model = ScriptedModel()
    first = place.client(model).ask_fresh(ask("a"), "canary")
    place.close()
    assert place.client(model).ask_fresh(ask("a"), "canary") == first
    assert sum(model.asked.values()) == 1


def test_an_address_that_never_answered_is_given_up_soon(place):
    model = ScriptedModel(lambda text, attempt: ModelError("connection", "connection refused"))
    with pytest.raises(ProviderError, match=r"can't reach .*v1: connection refused; check the address \(--base-url\)"):
        place.client(model, max_retries=50).for_episode("e").reply(ask("a"))
    assert sum(model.asked.values()) == 3


def test_an_address_that_has_answered_is_waited_for(place):
    failures = iter([ModelError("connection", "reset")] * 9)
    model = ScriptedModel(lambda text, attempt: reply_to(text) if text == "first" else next(failures, reply_to(text)))
    asker = place.client(model, max_retries=50).for_episode("e")
    asker.reply(ask("first"))
    assert asker.reply(ask("a")) == reply_to("a")


def test_a_failed_check_says_nothing_about_the_run(place):
    model = ScriptedModel(lambda text, attempt: ModelError("bad_request", "no tools here"))
    checker = place.client(model, max_failures=1).for_episode("check")
    for text in "abc":
        with pytest.raises(ModelError, match="no tools here"):
            checker.reply(ask(text))


def test_a_run_that_kept_its_replies_in_a_file_of_their_own_goes_on_from_it(tmp_path):
    model, stop = ScriptedModel(), StopSignal()
    key = request_key(model, ask("a"))
    with CallDatabase(tmp_path / "replies.sqlite") as cache:
        cache.put([CacheEntry(key, model.provider, model.name, reply_to("a"), "2026-01-31T00:00:00Z")])
    config = RunConfig(model="scripted/model-1", tasks=("blinded_open_research",), cache="run", tool_protocol="native")
    for _ in range(2):
        access = RemoteAccess(model, config, PRICE, tmp_path, stop)
        assert access.client.for_episode("e1").reply(ask("a")) == reply_to("a")
        assert access.client.for_episode("e1").reply(ask("b")) == reply_to("b")
        access.close()
    assert model.asked == {"b": 1}
    assert Counter(record.outcome for record in read_calls(tmp_path)) == {"cached": 3, "answered": 1}
