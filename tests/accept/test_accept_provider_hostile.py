"""A provider that answers as none should: each answer is a reply or a typed error of one line, and no episode ends by it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter_server import LOOK, SUBMIT, ask
from ktdeval.errors import KtdevalError, ModelError
from ktdeval.harness.messages import sound
from ktdeval.registry import load_plugins
from run_support import card_of
from stub_hostile import HOSTILE, VALUES, Spoilt, fields, with_value
from stub_provider import KEY, FaultPlan, Stub, running_stub
from stub_runs import TASK_APART, WIRES, apart, failed_attempts, finished, steps

pytest.importorskip("openai")
pytest.importorskip("anthropic")
pytest.importorskip("google.genai")

ADAPTERS = {"chat": {"api": "chat"}, "responses": {}, "anthropic": {}, "google": {}}
every_wire = pytest.mark.parametrize("wire", ADAPTERS)
AGAIN = ("bad_response", "connection", "timeout", "rate_limited", "overloaded", "server")


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with running_stub() as stub:
        yield stub


@pytest.fixture(autouse=True)
def _calm(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    yield
    stub.plan = FaultPlan()
    stub.requests.clear()


def _kept(good: bytes, answers: list[bytes]) -> Spoilt:
    answers.append(good)
    return Spoilt(good)


def outcome_of(wire: str, stub: Stub) -> str:
    """What comes of one attempt: `reply`, a kind of ModelError, or `stop`; anything else rises."""
    model = load_plugins().make_model(WIRES[wire].model, {"base_url": stub.base_url_of(wire), **ADAPTERS[wire]})
    try:
        sound(model.reply(ask(tools=(LOOK, SUBMIT), timeout_s=60.0)))
    except KtdevalError as error:
        line = str(error)
        assert len(line) < 1_000
        assert line.isprintable(), line
        assert KEY not in line
        return error.kind if isinstance(error, ModelError) else "stop"
    return "reply"


@every_wire
def test_every_hostile_answer_comes_to_a_reply_or_to_its_typed_error(stub: Stub, wire: str) -> None:
    assert len(HOSTILE) >= 80
    found = {}
    for name in HOSTILE:
        stub.plan = FaultPlan(faults=(name,), attempts=10**9)
        found[name] = outcome_of(wire, stub)
    wrong = {name: (found[name], outcome) for name, (outcome, _) in HOSTILE.items() if found[name] != outcome}
    assert wrong == {}


@every_wire
def test_no_value_at_any_field_of_an_answer_comes_to_anything_but_a_reply_or_a_bad_response(stub: Stub, wire: str) -> None:
    answers: list[bytes] = []
    stub.plan = FaultPlan(spoil=lambda good: _kept(good, answers))
    assert outcome_of(wire, stub) == "reply"
    places = list(fields(json.loads(answers[0])))
    outcomes = Counter[str]()
    for place in places:
        for name in (*VALUES, "absent", "deep"):
            stub.plan = FaultPlan(spoil=lambda good, at=(place, name): Spoilt(with_value(json.loads(good), *at)))
            outcomes[outcome_of(wire, stub)] += 1
    assert set(outcomes) <= {"reply", "bad_response", "server", "bad_request", "rate_limited", "timeout", "overloaded", "stop"}
    assert outcomes["bad_response"] > 20
    assert outcomes["reply"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["chat", "google"])
def test_no_hostile_answer_ends_an_episode_or_changes_what_was_decided(market: Path, stub: Stub, tmp_path: Path, wire: str) -> None:
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
    assert failed_attempts(folder) == expected
    assert steps(folder) == steps(calm)
    assert card_of(folder, TASK_APART)["failures"] == {}
