"""A provider that is down in the middle of a run: the run stops before the first step that it could
not ask about, says so in one line, and resumes to the records of a run without an outage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktdeval.harness import TranscriptEntry
from ktdeval.runner.records.run_folder import RunFolder
from support.grid.grid_runs import done_records, parts_of, worked, write_stub_plan
from support.providers.stub_provider import FaultPlan, Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import (
    WIRES,
    apart,
    environment_of,
    finished,
    run,
    steps,
    words_of,
)
from support.runs.outside_programs import Place, provider as simple_provider, said
from support.runs.run_support import Done, error_line, ktdeval

skip_without_sdks()

CHECKED = ("--canary", 0, "--tool-protocol", "native")
TRADING = ("--tasks", "stock_blind_open_research", "--windows", "2024-04-01:2024-04-15")

ENTRANTS: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "agent": ("server", (*apart(1, 3),)),
    "episodes at once": ("unavailable", (*apart(4, 2),)),
    "team": ("reset", (*TRADING, "--limit", 2, "--agent", "trade")),
    "votes": ("bad_gateway", (*TRADING, "--limit", 2, "--agent", "vote")),
    "memory": (
        "overloaded",
        ("--tasks", "investorbench_msft", "--data", "synthetic_investorbench", "--limit", 3, "--agent", "finmem"),
    ),
    "questions": ("rate_limited", ("--tasks", "qfinzero_calling", "--limit", 4)),
    "probes": ("gateway_timeout", ("--tasks", "deanon_probe", *TRADING[2:], "--limit", 4)),
}  # fmt: skip
"""How the provider fails, and the words of a run."""


@pytest.fixture
def provider(stub: Stub) -> Iterator[Stub]:
    """The stub, to be given a plan."""
    stub.requests.clear()
    stub.answered.clear()
    stub.counts.clear()
    yield stub
    stub.plan = FaultPlan()


def recorded(folder: Path) -> list[Any]:
    """Provenance of each recorded step, finished or not."""
    run_folder = RunFolder.load(folder)
    steps = []
    for spec in run_folder.manifest.specs:
        records, _ = run_folder.load_recorded(spec)
        steps += [record.provenance for record in records]

    return steps


def files(folder: Path) -> list[Mapping[str, str]]:
    """SHA-256 of the ledger (or answers) and the transcript of each episode."""
    run_folder = RunFolder.load(folder)
    return [run_folder.mark(spec).sha256 for spec in run_folder.manifest.specs]


def assert_stopped(done: Done, fault: str) -> None:
    """One line: what, where, a fix."""
    line = error_line(done)
    assert "attempts)" in line, fault
    assert "no decision was recorded for it" in line
    assert "run the same command again to resume" in line


@pytest.mark.slow
@pytest.mark.parametrize("entrant", ENTRANTS)
def test_an_outage_in_mid_run_leaves_no_decision_and_resumes_to_the_same_records(
    market: Path, provider: Stub, tmp_path: Path, entrant: str
) -> None:
    fault, words = ENTRANTS[entrant]
    words = (*words, *CHECKED, "--max-retries", 1)

    def command(out: Path) -> Done:
        given = list(words_of(WIRES["chat"], provider, "--out", out, *words))
        if entrant == "questions":
            at = given.index("--mask-key")  # no task needs a market
            del given[at : at + 2]
        elif "--data" not in given:
            given += ["--data", market]

        return ktdeval(*given, cwd=tmp_path, environment=environment_of(WIRES["chat"]))

    calm = tmp_path / "calm"
    done = command(calm)
    assert done.code == 0, done
    asked = len(provider.requests)
    first = asked // 2 + 1
    provider.requests.clear()
    provider.answered.clear()
    provider.plan = FaultPlan(by_number=dict.fromkeys(range(first, 10**5), fault))

    done = command(tmp_path / "run")

    assert_stopped(done, fault)
    assert "error" not in recorded(tmp_path / "run")

    provider.plan = FaultPlan()
    assert command(tmp_path / "run").code == 0

    assert files(tmp_path / "run") == files(calm)
    assert "error" not in recorded(calm)
    assert not provider.answered_twice  # nothing that was answered is paid for again


@pytest.mark.slow
def test_a_programs_call_in_an_outage_ends_its_step_unrecorded(
    market: Path, tmp_path: Path
) -> None:
    """The program itself goes on and submits, as if nothing had happened."""
    place = Place(tmp_path, market)
    is_down = [False]
    asked = []

    def reply(body: Any) -> Mapping[str, Any] | int:
        asked.append(body)
        is_down[0] = is_down[0] or len(asked) == 2
        return 503 if is_down[0] else said(body)

    with simple_provider(reply) as provider:
        words = (*provider.words, "--quiet")
        done = place.play("ask()\nsubmit()", *words, steps=3)
        assert done.code != 0
        assert "no decision was recorded for it" in error_line(done)
        assert recorded(place.run) == ["model"]

        is_down[0] = False
        assert place.again(*words, steps=3).code == 0

    assert recorded(place.run) == ["model"] * 3


@pytest.mark.slow
def test_a_grid_in_an_outage_fails_its_units_unrecorded_and_goes_on_later(
    market: Path, provider: Stub, tmp_path: Path
) -> None:
    options = {"limit": 2, "cache": "run", "canary": 0, "tool_protocol": "native", "max_retries": 0}
    plan = write_stub_plan(tmp_path, provider, market, apart(2, 2), options=options)
    provider.plan = FaultPlan(by_number=dict.fromkeys(range(4, 10**5), "server"))
    out = tmp_path / "grid"

    done = worked(plan, out, environment=environment_of(WIRES["chat"]))

    assert done.code != 0
    assert "no decision was recorded for it" in done.err + done.out
    assert len(done_records(out)) < 2

    provider.plan = FaultPlan()
    done = worked(plan, out, environment=environment_of(WIRES["chat"]))

    assert done.code == 0, done
    assert len(done_records(out)) == 2
    assert not provider.answered_twice
    for part in parts_of(out):
        assert "error" not in recorded(part)


@pytest.mark.slow
def test_a_run_whose_replies_are_streamed_has_the_records_of_one_whose_replies_come_whole(
    market: Path, provider: Stub, tmp_path: Path
) -> None:
    words = (*apart(1, 3), *CHECKED)
    whole = finished(WIRES["chat"], provider, tmp_path / "whole", market, *words)
    with running_stub(streams=True) as streaming:
        streamed = finished(WIRES["chat"], streaming, tmp_path / "streamed", market, *words)
        assert all(seen.body["stream"] for seen in streaming.requests)

    # the address is part of a run's identity, so the episodes have other ids
    assert steps(streamed) == steps(whole)
    assert [*contents_of(streamed)] == [*contents_of(whole)]


def contents_of(folder: Path) -> Iterator[list[TranscriptEntry]]:
    """Transcript of each episode."""
    run_folder = RunFolder.load(folder)
    for spec in run_folder.manifest.specs:
        yield run_folder.load_transcript(spec)


@pytest.mark.slow
def test_a_slow_server_resumes_with_another_time_limit_as_the_same_run(
    market: Path, provider: Stub, tmp_path: Path
) -> None:
    words = (*apart(1, 3), *CHECKED, "--max-retries", 0)
    calm = finished(WIRES["chat"], provider, tmp_path / "calm", market, *words)
    first = len(provider.requests) // 2 + 1
    provider.requests.clear()
    provider.answered.clear()
    provider.plan = FaultPlan(by_number=dict.fromkeys(range(first, 10**5), "silent"))
    hasty = (*words, "--first-timeout-s", 5)

    done = run(WIRES["chat"], provider, tmp_path / "run", market, *hasty)

    assert done.code != 0
    assert "--first-timeout-s" in done.err

    provider.plan = FaultPlan()
    finished(WIRES["chat"], provider, tmp_path / "run", market, *words, "--timeout-s", 900)

    assert files(tmp_path / "run") == files(calm)
    assert not provider.answered_twice
