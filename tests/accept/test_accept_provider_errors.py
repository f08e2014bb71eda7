"""No key, a wrong key or address, an account that runs out half way: one line that says what to set, and nothing is lost.

What the line says over each wire, also of unknown names and empty accounts, is shown by `test_adapters_every`, and that each stops
the command by `test_accept_provider_hostile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from run_support import Done, cards, error_line, finished_steps, ktdeval
from stub_provider import KEY, FaultPlan, Stub, running_stub, skip_without_sdks
from stub_runs import WIRES, answered, apart, environment_of, finished, run, steps, words_of

skip_without_sdks()

SHORT = (*apart(2, 2), "--canary", 0)
WRONG = "stub-wrong-key-00112233445566778899"


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    """One stub for all, at one address."""
    with running_stub() as stub:
        yield stub


@pytest.fixture(scope="module")
def calm(server: Stub, market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing goes wrong in."""
    return finished(WIRES["responses"], server, tmp_path_factory.mktemp("calm") / "run", market, *SHORT)


@pytest.fixture
def stub(server: Stub, calm: Path) -> Iterator[Stub]:
    """The stub, which has forgotten all runs before."""
    server.requests.clear()
    server.answered.clear()
    server.counts.clear()
    yield server
    server.plan = FaultPlan()


def attempt(wire: str, stub: Stub, market: Path, tmp_path: Path, *words: object, key: str = KEY) -> Done:
    """A run that is to fail."""
    command = words_of(WIRES[wire], stub, *SHORT, "--data", market, "--out", tmp_path / "run", *words)
    return ktdeval(*command, cwd=tmp_path, environment=environment_of(WIRES[wire], key))


def test_a_missing_key_is_found_before_anything_is_asked_or_made(stub: Stub, market: Path, tmp_path: Path) -> None:
    line = error_line(attempt("anthropic", stub, market, tmp_path, key=""))
    assert "no API key" in line
    assert "ANTHROPIC_API_KEY" in line
    assert not stub.requests
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wire", ["responses", "compatible"])
def test_a_key_that_is_refused_is_named_by_its_variable_and_never_shown(
    stub: Stub, market: Path, tmp_path: Path, wire: str
) -> None:
    done = attempt(wire, stub, market, tmp_path, key=WRONG)
    line = error_line(done)
    assert "the key is refused" in line
    assert f"set {WIRES[wire].variable}" in line
    assert WRONG not in done.out + done.err
    assert stub.counts == {"401 unauthorized": 1}  # and it is not asked again


def test_an_address_where_nobody_answers_is_named(stub: Stub, market: Path, tmp_path: Path) -> None:
    for wire, address in (("responses", "http://127.0.0.1:9"), ("anthropic", "http://no-such-host.invalid")):
        line = error_line(attempt(wire, stub, market, tmp_path, "--base-url", address, "--max-retries", 0))
        assert address in line
        assert "--base-url" in line


def test_a_parameter_that_the_model_does_not_take_is_named_with_the_way_to_leave_it_out(market: Path, tmp_path: Path) -> None:
    with running_stub(refuses=("temperature",)) as stub:
        line = error_line(attempt("google", stub, market, tmp_path))
        assert "omit=temperature" in line
        done = attempt("google", stub, market, tmp_path, "--model-args", "omit=temperature")
        assert done.code == 0, done


@pytest.mark.parametrize("fault", ["unauthorized", "no_quota"])
def test_a_provider_that_turns_the_run_away_half_way_stops_it_and_the_same_command_goes_on(
    stub: Stub, calm: Path, market: Path, tmp_path: Path, fault: str
) -> None:
    half = answered(calm) // 2
    stub.plan = FaultPlan(by_number=dict.fromkeys(range(half + 1, 10_000), fault))
    done = run(WIRES["responses"], stub, tmp_path / "run", market, *SHORT)
    assert "OPENAI_API_KEY" in error_line(done)
    assert finished_steps(tmp_path / "run") < 4
    assert answered(tmp_path / "run") == stub.answers == half
    stub.plan = FaultPlan()
    finished(WIRES["responses"], stub, tmp_path / "run", market, *SHORT)
    assert steps(tmp_path / "run") == steps(calm)  # no trouble with the account was scored as a decision
    assert cards(tmp_path / "run") == cards(calm)
    assert not stub.answered_twice
