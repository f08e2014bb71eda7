"""A provider that fails in every way it can: each failure is counted under its own type, and
changes nothing that is the same.

No key, a wrong key or address, an account that runs out half way: one line that says what to set,
and nothing is lost. What the line says over each wire, also of unknown names and empty accounts, is
shown by `test_adapters_every`, and that each stops the command by `test_accept_provider_hostile`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.providers.stub_faults import KINDS, MISDEEDS, NOT_ON_WIRE
from support.providers.stub_provider import KEY, FaultPlan, Stub, skip_without_sdks
from support.providers.stub_runs import (
    TASK_APART,
    WIRES,
    answered,
    apart,
    book,
    environment_of,
    failed_attempts,
    finished,
    run,
    steps,
    untold,
    words_of,
)
from support.runs.run_support import Done, card_of, cards, error_line, finished_steps, ktdeval

skip_without_sdks()

STEPS = 3
EPISODES = 4
RUN = ("--canary", 0, "--tool-protocol", "native")
SHORT = (*apart(EPISODES, STEPS), *RUN)


@pytest.fixture
def failing(stub: Stub, calm: Path) -> Iterator[Stub]:
    """The stub, to be given a plan; it has forgotten all runs before."""
    assert not stub.answered_twice

    stub.requests.clear()
    stub.answered.clear()
    stub.counts.clear()
    yield stub
    stub.plan = FaultPlan()


# -- attempts that fail
# ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wire", ["responses", "google"])
def test_a_fault_at_every_first_attempt_changes_no_ledger_and_is_paid_once(
    market: Path, failing: Stub, calm: Path, tmp_path: Path, wire: str
) -> None:
    failing.plan = FaultPlan(faults=tuple(KINDS))
    words = (*apart(EPISODES, 2), *RUN, "--timeout-s", 0.5)
    folder = finished(WIRES[wire], failing, tmp_path / "run", market, *words)

    assert steps(folder) == {episode: records[:2] for episode, records in steps(calm).items()}
    assert not failing.answered_twice
    assert failing.answers == answered(folder) == len(failing.answered)

    expected: Counter[str] = Counter()
    for fault, kind in KINDS.items():
        assert failing.counts[fault] > 0  # each had its turn
        expected[kind] += failing.counts[fault]

    assert failed_attempts(folder) == expected

    card = card_of(folder, TASK_APART)
    assert card["failures"] == {}  # what a retry mended is no failure of the model
    assert card["provenance"]["calls"]["failed_attempts"] == dict(expected)


@pytest.mark.exhaustive
def test_after_its_last_attempt_a_run_stops_before_it_records_a_failure(
    market: Path, failing: Stub, calm: Path, tmp_path: Path
) -> None:
    failing.plan = FaultPlan(faults=("server",), attempts=2, phase="submission")
    words = (*SHORT, "--max-retries", 1)
    folder = tmp_path / "run"
    done = run(WIRES["chat"], failing, folder, market, *words)
    line = error_line(done)

    assert "server" in line
    assert "same command again" in line

    recorded = finished_steps(folder)
    assert recorded < STEPS * EPISODES

    failing.plan = FaultPlan()
    assert run(WIRES["chat"], failing, folder, market, *words).code == 0
    assert steps(folder) == steps(calm)
    assert not failing.answered_twice


@pytest.mark.exhaustive
def test_failures_below_the_threshold_are_holds_of_no_model(
    market: Path, failing: Stub, tmp_path: Path
) -> None:
    failing.plan = FaultPlan(
        faults=("malformed", "too_large"), every=3, attempts=100, phase="submission"
    )
    words = (*SHORT, "--max-retries", 0, "--max-failures", 1000)
    folder = finished(WIRES["chat"], failing, tmp_path / "run", market, *words)
    card = card_of(folder, TASK_APART)
    held = card["decisions"]["error"]

    assert held > 0
    assert card["failures"] == {
        f"model_{kind}": count for kind, count in failed_attempts(folder).items()
    }
    assert set(card["failures"]) == {"model_bad_request", "model_bad_response"}
    assert sum(card["failures"].values()) == held
    assert card["coverage"]["steps_decided"] == STEPS * EPISODES - held
    assert card["rankable"]["value"] is False

    for episode in steps(folder).values():
        assert all(not step["orders"] for step in episode if step["provenance"] == "error")


# -- answers of a model that misbehaves
# ------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", ["chat", "google"])
def test_a_misdeed_is_counted_and_the_decision_after_it_is_the_same(
    market: Path, failing: Stub, calm: Path, tmp_path: Path, wire: str
) -> None:
    failing.plan = FaultPlan(faults=tuple(MISDEEDS), unit="step", phase="submission")
    folder = finished(WIRES[wire], failing, tmp_path / "run", market, *SHORT)

    assert untold(steps(folder)) == untold(steps(calm))

    outcomes = {seen.outcome for seen in failing.requests}
    assert outcomes == {"answered", *MISDEEDS} - NOT_ON_WIRE.get(wire, set())
    assert not failing.answered_twice

    expected: Counter[str] = Counter()

    for seen in failing.requests:
        expected.update(MISDEEDS.get(seen.outcome, ()))

    counted = Counter(card_of(folder, TASK_APART)["failures"])
    if wire == "chat":  # its words may count as prose, or be taken off into a channel of their own
        refusals = failing.counts["refusal"]
        assert (
            counted["no_submission"] + counted["empty_reply"]
            == expected["no_submission"] + expected["empty_reply"] + refusals
        )
        for name in ("no_submission", "empty_reply"):
            del counted[name], expected[name]

    assert counted == expected
    decisions = card_of(folder, TASK_APART)["decisions"]
    assert decisions["model_after_retry"] == sum(decisions.values()) == STEPS * EPISODES


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_misdeeds_in_research_end_no_run_and_are_no_failures_of_a_provider(
    market: Path, failing: Stub, tmp_path: Path, wire: str
) -> None:
    failing.plan = FaultPlan(faults=tuple(MISDEEDS), unit="step", phase="research")
    folder = finished(WIRES[wire], failing, tmp_path / "run", market, *SHORT)
    card = card_of(folder, TASK_APART)

    assert card["coverage"]["steps_decided"] == STEPS * EPISODES
    assert failed_attempts(folder) == {}

    expected = {"unknown_tool", "truncated", "empty_reply"} | (
        {"content_filter"} if wire != "anthropic" else set()
    )

    assert expected <= set(card["failures"])
    # what it wrote goes back in a form that is taken
    assert not any(seen.outcome.startswith("4") for seen in failing.requests)


@pytest.mark.exhaustive
def test_an_incomplete_answer_is_never_cached(market: Path, failing: Stub, tmp_path: Path) -> None:
    misdeeds = ("truncated", "truncated_call", "empty", "refusal", "content_filter")
    failing.plan = FaultPlan(faults=misdeeds, unit="step", phase="submission")
    words = (*apart(len(misdeeds), 1), *RUN, "--cache", tmp_path / "replies.sqlite")
    first = finished(WIRES["chat"], failing, tmp_path / "one", market, *words)

    assert {fault: failing.counts[fault] for fault in misdeeds} == dict.fromkeys(misdeeds, 1)

    before = len(failing.requests)
    failing.plan = FaultPlan()
    second = finished(WIRES["chat"], failing, tmp_path / "two", market, *words)
    again = {seen.digest for seen in failing.requests[before:]}

    assert again == {seen.digest for seen in failing.requests[:before] if seen.outcome in misdeeds}
    assert untold(steps(second)) == untold(steps(first))
    assert card_of(second, TASK_APART)["failures"] == {}

    failing.answered.clear()


# -- money
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_budget_stops_the_run_before_it_is_exceeded_and_more_goes_on(
    market: Path, failing: Stub, calm: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    whole = sum(record.cost_usd or 0 for record in book(calm))
    budgets = [f"{whole * share:.4f}" for share in (0.5, 0.9)]

    for budget in budgets:
        done = run(WIRES["chat"], failing, folder, market, *SHORT, "--max-cost", budget)
        assert done.code == 3, done
        assert "\nresume  ktdeval " in f"\n{done.out}"
        line = error_line(done)
        assert f"{float(budget):g} USD" in line
        assert "same command again" in line
        spent = sum((record.cost_usd or 0) + record.held_usd for record in book(folder))
        assert 0 < spent <= float(budget)

    finished(WIRES["chat"], failing, folder, market, *SHORT, "--max-cost", f"{whole * 3:.4f}")

    assert steps(folder) == steps(calm)
    assert cards(folder) == cards(calm)
    assert not failing.answered_twice


# -- keys, addresses and accounts
# ------------------------------------------------------------------------------------

WRONG = "stub-wrong-key-00112233445566778899"


def attempt(
    wire: str, stub: Stub, market: Path, tmp_path: Path, *words: object, key: str = KEY
) -> Done:
    """A run that is to fail."""
    more = ("--canary", 0, "--data", market, "--out", tmp_path / "run", *words)
    command = words_of(WIRES[wire], stub, *apart(2, 2), *more)
    return ktdeval(*command, cwd=tmp_path, environment=environment_of(WIRES[wire], key))


def test_a_missing_key_is_found_before_anything_is_asked_or_made(
    failing: Stub, market: Path, tmp_path: Path
) -> None:
    line = error_line(attempt("anthropic", failing, market, tmp_path, key=""))
    assert "no API key" in line
    assert "ANTHROPIC_API_KEY" in line
    assert not failing.requests
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wire", ["responses", "compatible"])
def test_a_key_that_is_refused_is_named_by_its_variable_and_never_shown(
    failing: Stub, market: Path, tmp_path: Path, wire: str
) -> None:
    done = attempt(wire, failing, market, tmp_path, key=WRONG)
    line = error_line(done)

    assert "the key is refused" in line
    assert f"set {WIRES[wire].variable}" in line
    assert WRONG not in done.out + done.err
    assert failing.counts == {"401 unauthorized": 1}  # and it is not asked again


@pytest.mark.parametrize(
    ("wire", "address"),
    [("responses", "http://127.0.0.1:9"), ("anthropic", "http://no-such-host.invalid")],
)
def test_an_unreachable_address_is_named(
    wire: str, address: str, failing: Stub, market: Path, tmp_path: Path
) -> None:
    line = error_line(
        attempt(wire, failing, market, tmp_path, "--base-url", address, "--max-retries", 0)
    )

    assert address in line
    assert "--base-url" in line


@pytest.mark.parametrize("fault", ["unauthorized", "no_quota"])
def test_a_provider_that_refuses_half_way_stops_the_run_which_resumes(
    market: Path, failing: Stub, calm: Path, tmp_path: Path, fault: str
) -> None:
    folder = tmp_path / "run"
    half = answered(calm) // 2
    failing.plan = FaultPlan(by_number=dict.fromkeys(range(half + 1, 10_000), fault))

    assert "OPENAI_API_KEY" in error_line(run(WIRES["chat"], failing, folder, market, *SHORT))
    assert finished_steps(folder) < STEPS * EPISODES
    assert answered(folder) == failing.answers == half

    failing.plan = FaultPlan()
    finished(WIRES["chat"], failing, folder, market, *SHORT)

    assert steps(folder) == steps(calm)  # no trouble with the account was scored as a decision
    assert cards(folder) == cards(calm)
    assert not failing.answered_twice
