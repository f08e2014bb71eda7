"""A provider that answers as none should: each answer is a reply or a typed error of one line, and
no episode ends by it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.failures.outages import OUTAGES, is_outage
from ktdeval.errors import KtdevalError, ModelError
from ktdeval.harness import TranscriptEntry
from ktdeval.harness.chat_messages import Message, Model, ModelRequest, sound
from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from support.json_places import places
from support.providers.adapter_server import LOOK, SUBMIT, ask
from support.providers.stub_faults import ACCOUNT, KINDS, MISDEEDS, NOT_ON_WIRE, PROMPT
from support.providers.stub_hostile import HOSTILE, ODD, VALUES, Spoilt, closed_unsaid, with_odd
from support.providers.stub_neutral import Asked
from support.providers.stub_provider import KEY, FaultPlan, Stub, skip_without_sdks
from support.providers.stub_runs import (
    TASK_APART,
    WIRES,
    apart,
    contents,
    failed_attempts,
    finished,
    run,
    steps,
)
from support.runs.run_support import card_of, error_line, finished_steps, ktdeval
from support.searching import is_searching

skip_without_sdks()

ADAPTERS = {"chat": {"api": "chat"}, "responses": {}, "anthropic": {}, "google": {}}
PLUGINS = load_plugins()
every_wire = pytest.mark.parametrize("wire", ADAPTERS)
AGAIN = ("bad_response", "connection", "timeout", "rate_limited", "overloaded", "server")


@pytest.fixture(autouse=True)
def _calm(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)

    yield
    stub.plan = FaultPlan()
    stub.requests.clear()


def _recorded(good: bytes, answers: list[bytes]) -> Spoilt:
    answers.append(good)
    return Spoilt(good)


def model_at(wire: str, stub: Stub) -> Model:
    """A model with connections of its own."""
    return PLUGINS.make_model(
        WIRES[wire].model, {"base_url": stub.base_url_of(wire), **ADAPTERS[wire]}
    )


def is_own(model: Model) -> bool:
    """Whether one attempt ends as a reply or as a failure of the model or of this request, rather
    than as an outage.
    """
    try:
        model.reply(ask(tools=(LOOK, SUBMIT), timeout_s=60.0))
    except ModelError as error:
        return not is_outage(error)

    return True


def outcome_of(model: Model) -> str:
    """What comes of one attempt: `reply`, a kind of ModelError, or `stop`; anything else rises."""
    try:
        sound(model.reply(ask(tools=(LOOK, SUBMIT), timeout_s=60.0)))
    except KtdevalError as error:
        line = str(error)
        assert len(line) < 1_000
        assert line.isprintable(), line
        assert KEY not in line
        return error.kind if isinstance(error, ModelError) else "stop"

    return "reply"


@pytest.mark.exhaustive
@every_wire
def test_every_hostile_answer_comes_to_a_reply_or_to_its_typed_error(stub: Stub, wire: str) -> None:
    assert len(HOSTILE) >= 80

    found = {}
    for name in HOSTILE:
        stub.plan = FaultPlan(faults=(name,), attempts=10**9)
        # an answer may leave a connection behind that is of no use
        found[name] = outcome_of(model_at(wire, stub))

    assert found == {name: outcome for name, (outcome, _) in HOSTILE.items()}


@pytest.mark.exhaustive
@every_wire
def test_any_value_at_any_field_of_an_answer_comes_to_a_reply_or_an_error(
    stub: Stub, wire: str
) -> None:
    answers: list[bytes] = []
    model = model_at(wire, stub)
    stub.plan = FaultPlan(spoil=lambda good: _recorded(good, answers))

    assert outcome_of(model) == "reply"

    outcomes = Counter[str]()

    for place in places(json.loads(answers[0])):
        for name in VALUES:
            stub.plan = FaultPlan(
                spoil=lambda good, at=(place, name): Spoilt(with_odd(json.loads(good), *at))
            )
            outcomes[outcome_of(model)] += 1

    errors = "bad_response server bad_request rate_limited timeout overloaded stop"
    assert set(outcomes) <= {"reply", *errors.split()}
    assert outcomes["bad_response"] > 20
    assert outcomes["reply"] > 20


@pytest.mark.exhaustive
def test_no_hostile_answer_ends_an_episode_or_changes_what_was_decided(
    market: Path, stub: Stub, tmp_path: Path
) -> None:
    wire = "google"
    short = (*apart(9, 4), "--canary", 0, "--tool-protocol", "native")
    calm = finished(WIRES[wire], stub, tmp_path / "calm", market, *short)
    faults = tuple(name for name, (outcome, _) in HOSTILE.items() if outcome in AGAIN)

    assert len(faults) >= 80

    stub.counts.clear()
    stub.plan = FaultPlan(faults=faults)
    folder = finished(WIRES[wire], stub, tmp_path / "run", market, *short, "--max-failures", 1000)

    assert set(stub.counts) >= set(faults)  # each had its turn

    expected = Counter[str]()

    for name in faults:
        expected[HOSTILE[name][0]] += stub.counts[name]

    # on a connection that an answer had closed without saying so
    lost = failed_attempts(folder) - expected

    assert failed_attempts(folder) - lost == expected
    assert set(lost) <= {"connection"}
    assert lost.total() <= sum(stub.counts[name] for name in closed_unsaid())
    assert steps(folder) == steps(calm)
    assert card_of(folder, TASK_APART)["failures"] == {}


# A refusal for the context is missing: it is learnt, and holds for later steps
# (`tests/unit/calls/test_calls_context.py`).
_PROMPT = tuple(fault for fault in PROMPT if fault != "context")
LASTING = (
    *(name for name, (outcome, _) in HOSTILE.items() if outcome != "stop"),
    *KINDS,
    *_PROMPT,
    *MISDEEDS,
    *ODD,
)


def _ends(fault: str, wire: str) -> tuple[set[str], set[str]]:
    """Who decides a step whose submissions are all answered so, and what may be counted for it."""
    if fault in MISDEEDS:
        return {"fallback"}, MISDEEDS[fault] | ({"no_submission"} if fault == "refusal" else set())

    if fault == "prompt_filter" and wire != "google":
        return {"fallback"}, {"content_filter", "empty_reply"}

    if fault in ODD:
        counted = ODD[fault].elsewhere.get(wire, ODD[fault].counted)
    else:
        counted = f"model_{KINDS.get(fault) or PROMPT.get(fault) or HOSTILE[fault][0]}"

    if counted in ("model", "model_reply"):
        return {"model"}, set()

    return {"error" if counted.startswith("model_") else "fallback"}, {counted}


LASTING_WIRES = ("chat", "anthropic", "google")


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", LASTING_WIRES)
def test_every_lasting_fault_is_counted_for_its_step_and_the_run_goes_on(
    market: Path, stub: Stub, tmp_path: Path, wire: str
) -> None:
    """Each on one of the wires, and with `--hypothesis-profile search` on all. Outages stop the run
    instead (`tests/accept/test_accept_outage.py`).
    """
    chosen = LASTING if is_searching() else LASTING[LASTING_WIRES.index(wire) :: len(LASTING_WIRES)]
    chosen = tuple(fault for fault in chosen if _is_own_at(fault, wire, stub))
    stub.requests.clear()
    stub.plan = FaultPlan(faults=chosen, attempts=10**9, unit="step", phase="submission")
    words = (*apart(len(chosen) // 6, 8), "--canary", 0, "--tool-protocol", "native")
    words += ("--max-failures", 1000, "--max-retries", 2)
    done = run(WIRES[wire], stub, tmp_path / "run", market, *words)

    assert done.code == 0, done
    assert "Traceback" not in done.err

    store = RunFolder.load(tmp_path / "run")
    met = Counter[str]()

    for spec in store.manifest.specs:
        for record, entry in zip(
            store.load_ledger(spec).steps, store.load_transcript(spec), strict=True
        ):
            fault = stub.plan.taken.get(_unit(entry))
            if fault is None:
                assert (record.provenance, record.failures) == ("model", {})
                continue

            met[fault] += 1
            deciders, counted = _ends(fault, wire)
            assert record.provenance in deciders, (fault, record)
            assert set(record.failures) <= counted, (fault, record)
            assert bool(record.failures) == bool(counted), (fault, record)
            assert record.provenance == "model" or not record.orders

    assert set(chosen) - set(met) <= NOT_ON_WIRE.get(wire, set())
    assert len(LASTING) >= 199

    asked = len(stub.requests)
    assert run(WIRES[wire], stub, tmp_path / "run", market, *words).code == 0
    assert len(stub.requests) == asked

    checked = ktdeval("card", "verify", tmp_path / "run", cwd=tmp_path)
    assert checked.code == 0, checked
    assert not [path for path, data in contents(tmp_path / "run") if KEY.encode() in data]


def _is_own_at(fault: str, wire: str, stub: Stub) -> bool:
    """Whether a fault is no outage. Of unreadable replies, a page of HTML or plain text is one."""
    if fault in (*PROMPT, *MISDEEDS):
        return True
    if KINDS.get(fault) in OUTAGES or HOSTILE.get(fault, ("",))[0] in OUTAGES:
        return False

    stub.plan = FaultPlan(faults=(fault,), attempts=10**9)
    return is_own(model_at(wire, stub))


def _unit(entry: TranscriptEntry) -> str:
    """What the stub calls the submissions of a step."""
    sent: Any = entry.exchanges[0]["sent"]
    messages = (Message(one["role"], one["content"]) for one in sent[:2])
    asked = Asked("", "", ModelRequest(tuple(messages)))

    return f"{asked.step} submission"


STOPS = (*(name for name, (outcome, _) in HOSTILE.items() if outcome == "stop"), *ACCOUNT)


def test_a_permanent_failure_stops_the_run_unrecorded_and_it_resumes(
    market: Path, stub: Stub, tmp_path: Path
) -> None:
    words = (*apart(1, 2), "--canary", 0, "--tool-protocol", "native")
    for place, wire in enumerate(ADAPTERS):
        for fault in STOPS[place :: len(ADAPTERS)]:
            stub.plan = FaultPlan(faults=(fault,), attempts=10**9, phase="submission")
            done = run(WIRES[wire], stub, tmp_path / wire, market, *words)
            assert "--" in error_line(done) or WIRES[wire].variable in error_line(done), (
                fault,
                done,
            )
            assert KEY not in done.out + done.err
            assert finished_steps(tmp_path / wire) == 0, fault

        stub.plan = FaultPlan()
        folder = finished(WIRES[wire], stub, tmp_path / wire, market, *words)
        assert card_of(folder, TASK_APART)["failures"] == {}
