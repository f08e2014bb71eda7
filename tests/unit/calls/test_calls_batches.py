"""Runs that ask in batches: over the wires of three vendors, at half price, each request once
whatever ends a process.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls import OtherServer
from ktdeval.calls.batches.batch_api import BatchTag, batches_of
from ktdeval.errors import BudgetError, ModelError, ProviderError, StoreError
from ktdeval.harness.chat_messages import as_remote
from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.events import CheckDelayed
from ktdeval.testing import Terminal
from support.providers.adapter_server import Prepared, PreparedServer, ask, prepared
from support.providers.batch_runs import BatchRun
from support.providers.repeat_plugin import BROKEN, PLUGIN, SAMPLES, WORDS
from support.providers.stub_batches import BatchPlan, Fate
from support.providers.stub_provider import KEY, Stub, skip_without_sdks
from support.providers.stub_runs import VARIABLES
from support.stores.forgotten_mirrors import mirrors_forgotten

skip_without_sdks()

WIRES = ["responses", "chat", "anthropic", "google"]
VENDORS = ["responses", "anthropic", "google"]
INPUT = 52
CACHED = 25
AGAIN = "run the same command again to send them again"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def run(stub: Stub, tmp_path: Path, request: pytest.FixtureRequest) -> BatchRun:
    """A run over the wire that the test names; OpenAI's Responses otherwise."""
    wire = getattr(request, "param", "responses")
    return BatchRun(stub, tmp_path / "run", wire)


def over(*wires: str) -> Any:
    return pytest.mark.parametrize("run", wires, indirect=True)


def answers(run: BatchRun) -> list[Any]:
    """What was answered, sample by sample, as the run's episode has it."""

    folder = RunFolder.load(run.folder)
    return [record.answer for record in folder.load_answers(folder.manifest.specs[0])]


# -- what a batch gives


@pytest.mark.sampled(1)
@over(*WIRES)
def test_samples_are_asked_in_one_batch_and_recorded_at_half_price(run: BatchRun) -> None:
    result = run.go()
    assert result.failed == ()
    assert [len(batch.items) for batch in run.stub.batches.created] == [SAMPLES]
    assert not run.stub.requests
    assert answers(run) == [{"answer": word} for word in WORDS]

    calls = run.calls
    assert Counter(call.outcome for call in calls) == {"batched": SAMPLES}
    assert [call.step for call in calls] == list(range(SAMPLES))

    first = calls[0]
    assert first.usage is not None

    tokens = first.usage
    assert (tokens.input_tokens, tokens.cache_read_tokens) == (INPUT, CACHED)

    # half of 2, 8 and 0.5 USD a million tokens; Google takes all of the last
    cached = 0.5 if run.wire == "google" else 0.25
    expected = ((INPUT - CACHED) * 1 + CACHED * cached + tokens.output_tokens * 4) / 1e6

    assert first.cost_usd == pytest.approx(expected, rel=1e-12)

    card = run.card
    assert card["scores"]["accuracy"]["value"] == 1
    assert card["provenance"]["calls"]["batched"] == SAMPLES

    price = {"input": 1, "output": 4, "cache_read": cached, "cache_write": None, "as_of": ""}
    assert card["cost"]["price"] == {**price, "source": "--price, by batch", "batch": True}

    paid = sum(call.cost_usd or 0 for call in calls)
    assert card["cost"]["value"] == pytest.approx(paid, rel=1e-12)
    assert card["provenance"]["calls"]["paid_usd"] == pytest.approx(paid, rel=1e-12)


@pytest.mark.slow
def test_a_batched_run_is_verified_scored_and_replayed(
    run: BatchRun, terminal: Terminal, tmp_path: Path
) -> None:
    run.go()
    options = ("--plugin", PLUGIN)

    assert "verified" in terminal.out("card", "verify", run.folder, *options)
    assert "repeat" in terminal.out("score", run.folder, *options)

    shown = terminal.out("card", "show", run.folder / "cards/repeat.json", "--all")
    assert "6 answered by the provider (6 by batch)" in shown
    assert "batch: 1 in, 4 out, 0.25 cache read USD a million tokens" in shown

    again = tmp_path / "again"
    terminal.out(
        "run", "--model", f"replay/{run.folder}", "--tasks", "repeat", *options, "--out", again
    )
    card = json.loads((again / "cards/repeat.json").read_text())

    assert card["scores"] == run.card["scores"]


def test_a_card_that_hides_its_batch_is_refused(run: BatchRun, terminal: Terminal) -> None:
    run.go()
    path = run.folder / "cards/repeat.json"
    card = run.card
    del card["cost"]["price"]["batch"]
    path.write_text(json.dumps(card))
    problem = terminal.error("card", "verify", run.folder, "--plugin", PLUGIN)

    assert "batched: are 6, though the price is that of ordinary calls" in problem


def test_progress_is_a_line_where_there_is_news(
    stub: Stub, terminal: Terminal, tmp_path: Path
) -> None:
    run = BatchRun(stub, tmp_path / "run", "responses")
    address = ("--base-url", run.stub.base_url, "--tool-protocol", "native", "--cache", "run")
    words = ("--tasks", "repeat", "--plugin", PLUGIN, "--batch", "--canary", 0, "--out", run.folder)
    code, _, err = terminal.call("run", "--model", "openai/stub-model", *address, *words)

    assert code == 0
    assert "batch: 6 of 6 done\n" in err


@over(*VENDORS)
def test_more_requests_than_a_batch_takes_go_in_several(
    run: BatchRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktdeval_models.remote.batch.common.AdapterBatches.max_requests", 4)
    run.go()

    assert [len(batch.items) for batch in run.stub.batches.created] == [4, 2]
    assert not run.stub.batches.paid_twice
    assert run.card["scores"]["accuracy"]["value"] == 1


# -- killed and resumed


@pytest.mark.slow
@over(*WIRES)
def test_killed_after_it_was_submitted_it_goes_on_with_the_same_batch(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(looks=2)
    run.killed()

    assert run.calls == []

    (batch,) = run.batches
    assert (batch["is_over"], batch["id"] is not None) == (False, True)

    result = run.go()
    assert result.failed == ()
    assert len(run.stub.batches.created) == 1
    assert run.stub.batches.lists == 0  # its id was recorded
    assert run.stub.batches.paid.total() == SAMPLES
    assert not run.stub.batches.paid_twice
    assert answers(run) == [{"answer": word} for word in WORDS]


@over(*WIRES)
def test_killed_before_it_learnt_of_its_batch_it_finds_it_at_the_provider(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(lost=1)
    run.killed()
    (batch,) = run.batches

    assert (batch["is_over"], batch["id"]) == (False, None)
    assert len(run.stub.batches.created) == 1

    run.go()
    assert len(run.stub.batches.created) == 1
    assert run.stub.batches.lists >= 1
    assert not run.stub.batches.paid_twice
    assert run.card["scores"]["accuracy"]["value"] == 1


@pytest.mark.slow
@over(*VENDORS)
def test_batch_with_a_lost_answer_is_looked_up_twice_before_resubmission(
    run: BatchRun,
) -> None:
    run.stub.batches.plan = BatchPlan(lost=1, lag=1)
    run.go()

    assert len(run.stub.batches.created) == 1
    assert run.clock.now >= 60  # for the provider's list to show it

    delays = [event for event in run.watch.events if isinstance(event, CheckDelayed)]
    assert ("batch", "no_batch_found_yet", 60.0) in [
        (event.check, event.kind, event.wait_s) for event in delays
    ]
    assert not run.stub.batches.paid_twice


@over(*VENDORS)
def test_a_batch_that_the_provider_never_took_is_submitted_again(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(refused=2)
    run.go()
    assert len(run.stub.batches.created) == 1
    assert run.stub.batches.paid.total() == SAMPLES


@over("anthropic")
def test_another_batch_of_the_same_time_and_size_is_not_taken_for_ours(run: BatchRun) -> None:
    other = BatchRun(run.stub, run.folder.with_name("other"), run.wire)
    other.go()
    # refused without a word of whether it was taken: it looks, and finds the other run's
    run.stub.batches.plan = BatchPlan(refused=1)
    run.go()
    theirs, ours = run.stub.batches.created

    assert theirs.items[0][0] != ours.items[0][0]

    (batch,) = run.batches
    assert (batch["id"], batch["others"]) == (ours.id, [theirs.id])
    assert run.card["scores"]["accuracy"]["value"] == 1


@over(*VENDORS)
def test_killed_while_results_are_recorded_it_records_each_once(run: BatchRun) -> None:
    run.go()
    path = run.folder / "batches.json"
    path.write_text(path.read_text().replace('"is_over": true', '"is_over": false'))
    (episode,) = (run.folder / "episodes").iterdir()

    for file in episode.iterdir():
        file.unlink()

    (run.folder / "cards/repeat.json").unlink()

    run.go()

    assert Counter(call.outcome for call in run.calls) == {"batched": SAMPLES, "cached": SAMPLES}

    calls = run.card["provenance"]["calls"]
    assert (calls["answered"], calls["repeated"], calls["unused"]) == (SAMPLES, SAMPLES, 0)
    assert len(run.stub.batches.created) == 1


@pytest.mark.slow
def test_a_run_begun_in_batches_goes_on_in_batches_only(run: BatchRun, tmp_path: Path) -> None:
    run.stub.batches.plan = BatchPlan(looks=9)
    run.killed()
    with pytest.raises(StoreError, match="was begun with --batch, and can't be resumed without it"):
        run.go(batch=False)

    one_by_one = BatchRun(run.stub, tmp_path / "direct", "responses")
    one_by_one.go(batch=False)
    with pytest.raises(StoreError, match="was begun without --batch, and can't be resumed with it"):
        one_by_one.go()


# -- what fails


def address_of(run: BatchRun, server: PreparedServer) -> str:
    path = "/v1" if run.wire in ("responses", "chat") else ""
    return f"{server.address}{path}"


@over(*VENDORS)
@pytest.mark.parametrize(
    ("answer", "words", "asked"),
    [
        (Prepared(b"<html>Log in to nginx</html>"), "an HTML page (Log in to nginx)", 1),
        (Prepared({"error": {"message": "no batches here"}}), "no batches here", 3),
        (Prepared({"error": {"message": "no batches here"}}, 500), "HTTP 500: no batches here", 3),
        (Prepared({"hello": 1}), '{"hello":1}', 3),
    ],
)
def test_a_server_without_batches_is_given_up_soon_with_its_words(
    run: BatchRun, answer: Prepared, words: str, asked: int
) -> None:
    with prepared(answer, reads=True) as server:
        result = run.go(base_url=address_of(run, server))

    assert words in str(result.stopped)
    assert "check the address (--base-url)" in str(result.stopped)
    delays = [event for event in run.watch.events if isinstance(event, CheckDelayed)]
    assert len([event for event in delays if words in event.problem]) == asked - 1


@over(*VENDORS)
@pytest.mark.parametrize("answer", [{"error": {"message": "no such batch"}}, {"status": None}])
def test_nobody_waits_for_a_batch_that_the_server_does_not_name(
    run: BatchRun, answer: dict[str, Any]
) -> None:
    with prepared(Prepared(answer), reads=True) as server:
        model = load_plugins().make_model(run.config().model, {"base_url": address_of(run, server)})
        batches = batches_of(as_remote(model))
        with pytest.raises(ModelError, match=r"no such batch|gives no"):
            batches.state("batch_1")


@over("responses", "anthropic")
def test_a_page_in_place_of_results_loses_none(run: BatchRun) -> None:
    tag = BatchTag("ktdeval-1", datetime(2026, 10, 1, tzinfo=UTC), 1)
    known = Prepared({"id": "batch_1", "status": "completed", "output_file_id": "file_1"})
    page = Prepared(b"<html>Log in</html>")
    answers = [known, page] if run.wire == "responses" else [page]
    with prepared(*answers, reads=True) as server:
        model = load_plugins().make_model(run.config().model, {"base_url": address_of(run, server)})
        batches = batches_of(as_remote(model))
        with pytest.raises(OtherServer, match="Log in"):
            batches.results("batch_1", tag, [ask()])


KINDS: dict[Fate, str] = {
    "bad_request": "bad_request",
    "server": "server",
    "expired": "batch_expired",
    "cancelled": "batch_cancelled",
    "missing": "bad_response",
    "malformed": "bad_response",
    "twice_differs": "bad_response",
}


# Gemini knows no single request that expired
FAILURES = [
    (wire, fate) for wire in WIRES for fate in KINDS if (wire, fate) != ("google", "expired")
]


@pytest.mark.sampled(10)
@pytest.mark.slow
@pytest.mark.parametrize(("run", "fate"), FAILURES, indirect=["run"])
def test_a_request_that_fails_is_no_decision_and_is_asked_again_on_resume(
    run: BatchRun, fate: Fate
) -> None:
    kind = KINDS[fate]
    run.stub.batches.plan = BatchPlan(fates={3: fate})
    (failed,) = run.go().failed

    assert f"1 of its requests came back from the batch without a reply ({kind} 1;" in failed.error
    assert AGAIN in str(failed.error)
    assert Counter(call.outcome for call in run.calls) == {"batched": SAMPLES - 1, kind: 1}

    held = [call.held_usd for call in run.calls if call.outcome == kind]
    assert (held[0] > 0) == (kind == "bad_response")  # it may have been billed
    assert not (run.folder / "cards/repeat.json").exists()

    run.stub.batches.plan = BatchPlan()
    assert run.go().failed == ()
    assert [len(batch.items) for batch in run.stub.batches.created] == [SAMPLES, 1]
    assert answers(run) == [{"answer": word} for word in WORDS]

    calls = run.card["provenance"]["calls"]
    assert (calls["answered"], calls["failed_attempts"]) == (SAMPLES, {kind: 1})

    lost = fate in ("missing", "malformed", "twice_differs")  # answered, and its answer is gone
    assert sum(run.stub.batches.paid_twice.values()) == (2 if lost else 0)


@pytest.mark.exhaustive
@over(*VENDORS)
def test_twice_refused_request_is_a_failed_call_of_its_sample(
    run: BatchRun, terminal: Terminal
) -> None:
    run.stub.batches.plan = BatchPlan(fates={3: "bad_request"})
    run.go()
    run.stub.batches.plan = BatchPlan(fates={0: "bad_request"})

    assert run.go().failed == ()
    assert answers(run)[3] is None
    assert run.card["decisions"]["error"] == 1
    assert run.card["failures"] == {"model_bad_request": 1}
    assert "verified" in terminal.out("card", "verify", run.folder, "--plugin", PLUGIN)


@over(*VENDORS)
def test_of_a_batch_that_expires_what_was_answered_is_kept(run: BatchRun) -> None:
    left: dict[int, Fate] = {4: "expired", 5: "expired"}
    run.stub.batches.plan = BatchPlan(fates=left, is_expired=True)
    (failed,) = run.go().failed
    # Gemini gives no results of such a batch
    lost = SAMPLES if run.wire == "google" else 2

    assert f"{lost} of its requests" in str(failed.error)
    assert f"(batch_expired {lost};" in str(failed.error)

    run.stub.batches.plan = BatchPlan()
    run.go()

    assert [len(batch.items) for batch in run.stub.batches.created] == [SAMPLES, lost]
    assert run.card["scores"]["accuracy"]["value"] == 1


@over(*VENDORS)
def test_a_result_that_comes_twice_counts_once_and_a_strangers_not_at_all(
    run: BatchRun, caplog: pytest.LogCaptureFixture
) -> None:
    run.stub.batches.plan = BatchPlan(fates={1: "twice"}, strays=2)
    assert run.go().failed == ()
    assert run.card["provenance"]["calls"]["answered"] == SAMPLES
    assert "has 2 results of requests that the batch does not have" in caplog.text


@over("responses", "google")
def test_batch_refused_as_a_whole_costs_nothing_and_stops_the_run(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(problem="Enqueued token limit reached.")
    result = run.go()

    assert isinstance(result.stopped, ProviderError)
    assert "refused a batch of 6 requests" in str(result.stopped)
    assert "Enqueued token limit reached." in str(result.stopped)
    assert run.calls == []

    run.stub.batches.plan = BatchPlan()
    assert run.go().failed == ()
    assert len(run.stub.batches.created) == 2
    assert run.stub.batches.paid.total() == SAMPLES


def test_requests_that_every_call_would_be_refused_with_stop_the_run(run: BatchRun) -> None:
    result = run.go(model="openai/unknown-model")
    assert isinstance(result.stopped, ProviderError)
    assert "there is no model 'unknown-model'" in str(result.stopped)
    assert Counter(call.outcome for call in run.calls) == {"refused": SAMPLES}


@pytest.mark.slow
@over(*VENDORS)
def test_batch_the_provider_rejects_stops_the_run_until_fixed(
    run: BatchRun,
) -> None:
    run.stub.batches.plan = BatchPlan(forbidden=1)
    result = run.go()

    assert isinstance(result.stopped, ProviderError)
    assert "the provider refuses the batch: " in str(result.stopped)
    assert "has too many batches" in str(result.stopped)
    assert run.stub.batches.created == []

    assert run.go().failed == ()
    assert run.clock.now == 0  # it did not look for what nobody took
    assert len(run.stub.batches.created) == 1


@over(*VENDORS)
def test_a_submission_that_is_refused_is_not_looked_for_on_resume(
    run: BatchRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "another-key-of-nobody-0123456789")

    result = run.go()

    assert isinstance(result.stopped, ProviderError)
    assert "another-key" not in str(result.stopped)

    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)

    assert run.go().failed == ()
    assert run.clock.now == 0  # it did not look for what nobody took
    assert len(run.stub.batches.created) == 1


def test_broken_sample_ends_its_episode_before_later_ones_are_asked(
    run: BatchRun,
) -> None:
    (failed,) = run.go(tasks=("repeat_broken",)).failed
    assert failed.is_defect
    assert "this sample is broken" in str(failed.error)
    assert [len(batch.items) for batch in run.stub.batches.created] == [BROKEN]
    assert Counter(call.outcome for call in run.calls) == {"batched": BROKEN}


# -- money


def max_usd(run: BatchRun) -> float:
    """What a batch may cost at most, as the refusal of too small a budget names it."""
    result = run.go(max_cost=1e-9)
    assert isinstance(result.stopped, BudgetError)
    return result.stopped.needed["max_cost"]


@pytest.mark.slow
def test_budget_below_the_batch_bound_stops_the_run_before_submission(
    run: BatchRun,
) -> None:
    needed = max_usd(run)
    assert run.stub.batches.created == []

    result = run.go(max_cost=needed * 0.999)
    assert isinstance(result.stopped, BudgetError)
    assert "the batch may cost up to" in str(result.stopped)
    assert run.stub.batches.created == []
    assert run.calls == []

    assert run.go(max_cost=needed).stopped is None
    assert run.card["cost"]["value"] < needed


def test_tokens_are_reserved_for_the_whole_batch(run: BatchRun) -> None:
    result = run.go(max_tokens=4096 * SAMPLES)
    assert isinstance(result.stopped, BudgetError)
    assert "the batch may take up to" in str(result.stopped)
    assert run.stub.batches.created == []


@pytest.mark.slow
def test_a_batch_under_way_is_taken_in_whatever_is_left_of_the_budget(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(looks=3)
    run.killed()
    assert run.go(max_cost=1e-9).failed == ()
    assert len(run.stub.batches.created) == 1


def test_max_hours_end_the_wait_and_the_batch_goes_on(run: BatchRun) -> None:
    run.stub.batches.plan = BatchPlan(looks=10_000)
    result = run.go(max_hours=1)

    assert isinstance(result.stopped, BudgetError)
    assert run.clock.now == pytest.approx(3600, rel=0.05)

    run.stub.batches.created[0].looks = 10_000
    assert run.go().failed == ()
    assert len(run.stub.batches.created) == 1


# -- refused before anything is paid


REFUSED = {
    "a task that trades": (
        ("--tasks", "market_blinded"),
        "an episode of market_blinded makes about 82 calls, each in a batch after the one before",
    ),
    "a task whose samples have tools": (
        ("--tasks", "repeat_with_clock"),
        "repeat_with_clock with the agent react makes 2 calls per sample",
    ),
    "another server": (
        ("--model", "openai_compatible/stub-model"),
        "openai_compatible/stub-model has no batch interface",
    ),
    "a model of this machine": (
        ("--model", "builtin/trivial"),
        "builtin/trivial has no batch interface",
    ),
    "a backend of its own": (
        ("--runner", "ray"),
        "makes one call at a time",
    ),
}


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("name", REFUSED)
def test_unbatchable_run_is_refused_in_one_line_before_any_call(
    stub: Stub, terminal: Terminal, tmp_path: Path, name: str, command: str
) -> None:
    words, expected = REFUSED[name]
    given = {"--model": "openai/stub-model", "--tasks": "repeat"}
    given |= dict(zip(words[::2], words[1::2], strict=True))

    if not given["--model"].startswith("builtin/"):
        given["--base-url"] = stub.base_url

    flat = [word for pair in given.items() for word in pair]
    line = terminal.error(command, *flat, "--plugin", PLUGIN, "--batch", "--out", tmp_path / "run")

    assert "--batch: " in line
    assert expected in line
    assert line.count("\n") <= 1
    assert not stub.requests
    assert not stub.batches.created


def test_plan_shows_half_of_the_price(stub: Stub, terminal: Terminal, tmp_path: Path) -> None:
    words = ("--model", "openai/stub-model", "--tasks", "repeat", "--plugin", PLUGIN)
    price = ("--price", "input=2,output=8", "--out", tmp_path / "run")
    plain = terminal.report("plan", *words, *price)
    batched = terminal.report("plan", *words, *price, "--batch")

    for scenario, amount in plain["left"].items():
        assert batched["left"][scenario]["calls"] == amount["calls"]
        half = amount["cost_usd"] / 2
        assert batched["left"][scenario]["cost_usd"] == pytest.approx(half, rel=1e-12)

    assert batched["price"]["batch"] is True
    assert [amount["hours"] for amount in batched["left"].values()] == [0.1, 1.0, 48.0]


# -- ids of requests


def test_a_request_is_known_by_its_place_under_its_batch_alone() -> None:
    tag = BatchTag("ktdeval-0123", datetime(2026, 1, 1, tzinfo=UTC), 12)

    assert [tag.index_of(tag.id_of(index)) for index in range(12)] == list(range(12))

    for foreign in ("ktdeval-0123-12", "ktdeval-0124-1", "ktdeval-0123-01", "1", "", "-1", None):
        assert tag.index_of(foreign) is None


# -- a run folder at a URL


@pytest.mark.exhaustive
def test_another_machine_goes_on_with_the_batch_of_a_run_at_a_url(
    run: BatchRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "memory://bucket/batched"
    run.stub.batches.plan = BatchPlan(looks=2)
    with mirrors_forgotten():
        monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "one"))
        run.killed(out=url)

    with mirrors_forgotten():
        monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "two"))
        result = run.go(out=url)

    assert result.failed == ()
    assert len(run.stub.batches.created) == 1
    assert run.stub.batches.lists == 0
