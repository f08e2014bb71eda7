"""Forward tests whose steps are killed at any moment: the record is that of a replay, and no call is
paid twice. `KTDEVAL_LIVE_KILLS` says how often a day; once by default.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.record import ANSWERED
from ktdeval.testing import is_met, wait_for
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.chain import Decided
from support.live.live_drops import Drops, begin_drops, ends, ledger, plugins, replayed
from support.live.live_kills import asking_processes, kill, stages
from support.providers.stub_provider import KEY, FaultPlan, Stub, running_stub, skip_without_sdks
from support.runs.run_support import Done, Running, error_line, ktdeval, start

skip_without_sdks()

DAYS = (
    "2024-05-31", "2024-06-03", "2024-06-04", "2024-06-05", "2024-06-06", "2024-06-07", "2024-06-10",
    "2024-06-11", "2024-06-12", "2024-06-13",
)  # fmt: skip
"""Sessions on which is decided."""
SPAN = {"first": "2024-06-03", "last": "2024-06-14"}
ENVIRONMENT = {"OPENAI_API_KEY": KEY, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PER_DAY = int(os.environ.get("KTDEVAL_LIVE_KILLS", "1"))


def asked(base_url: str, name: str = "asked", **options: Any) -> dict[str, Any]:
    """Return an entrant that asks a stub."""
    return {
        "name": name,
        "model": "openai/stub-model",
        "model_args": {"api": "chat"},
        "options": {"base_url": base_url, "price": {"input": 2, "output": 8}, **options},
    }


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def recorded_answers(drops: Drops) -> int:
    """Answers in the record of calls."""
    return sum(
        record.outcome == ANSWERED for record in read_calls(drops.path / "private" / "asked" / "us")
    )


def due_drops(folder: Path, *entrants: dict[str, Any], **fields: Any) -> Drops:
    """Begin a rehearsal whose first day is there to be decided on."""
    drops = begin_drops(folder, **SPAN, entrants=list(entrants), **fields)
    drops.drop(DAYS[0])
    drops.after_close(DAYS[0])

    return drops


def begun(drops: Drops) -> Running:
    """A step that has just begun."""
    return start(*drops.words, cwd=drops.path.parent, environment=ENVIRONMENT)


def stepped(drops: Drops) -> Done:
    """A step that has ended."""
    return ktdeval(*drops.words, cwd=drops.path.parent, environment=ENVIRONMENT)


def assert_decided_once(drops: Drops, stub: Stub) -> None:
    assert ends(drops.folder, "asked") == {DAYS[0]: "decided"}
    assert not stub.answered_twice


def public_decisions(drops: Drops) -> list[int]:
    """Numbers of the entries with a decision that were published."""
    last = max((one.seq for one in publications(drops.folder)), default=-1)
    return [
        link.seq
        for link in drops.folder.chain().entries
        if isinstance(link.body, Decided) and link.seq <= last
    ]


@pytest.mark.exhaustive
def test_kills_at_every_stage_leave_the_record_of_a_replay_and_pay_once(
    tmp_path: Path, port: int
) -> None:
    fields = {**SPAN, "entrants": [asked(f"http://127.0.0.1:{port}/v1")]}
    drops = begin_drops(tmp_path, **fields)
    with running_stub(port=port):
        replay = replayed(tmp_path, **fields)

    chance = random.Random(20240603)
    killed: list[str] = []
    with running_stub(port=port, latency_s=0.02) as stub:
        for day in DAYS:
            drops.drop(day)
            drops.after_close(day)
            moments = stages(drops, stub, day)
            for name in sorted(chance.sample(list(moments), PER_DAY), key=list(moments).index):
                reached = moments[name]()
                process = begun(drops)
                if is_met(reached, process.is_alive):
                    time.sleep(chance.uniform(0, 0.02))
                    if kill(process, with_children=chance.random() < 0.5):
                        killed.append(name)
                else:
                    assert process.wait().code == 0

            done = stepped(drops)
            assert done.code == 0, done

        drops.drop(SPAN["last"])
        drops.after_close(SPAN["last"])
        done = stepped(drops)
        assert done.code == 0, done

        again = sum(times - 1 for times in stub.answered_twice.values())
        lost = stub.answers - recorded_answers(drops)
        assert again <= lost <= len(killed)  # those that were on their way when their asker died

    assert len(killed) >= PER_DAY * len(DAYS) * 5 / 6, killed
    assert len(set(killed)) >= min(8, 5 * PER_DAY)
    assert [str(finding) for finding in verify_test(drops.folder, plugins()).findings] == []
    assert ledger(drops.folder, "asked") == ledger(replay, "asked")
    assert len(ledger(replay, "asked")) == len(DAYS)


# ---- two at once, and processes that are left behind


def test_second_step_at_the_same_time_is_refused_and_nothing_is_doubled(tmp_path: Path) -> None:
    with running_stub(hold_after=0) as stub:
        drops = due_drops(tmp_path, asked(stub.base_url))
        first = begun(drops)
        wait_for(lambda: stub.held == 1, first.is_alive)
        second = stepped(drops)
        assert second.code == 2
        assert "another process writes it; wait until it has ended" in error_line(second)
        stub.go_on()
        assert first.wait().code == 0

    assert_decided_once(drops, stub)


def test_asker_that_outlives_its_step_is_waited_for_and_not_paid_again(tmp_path: Path) -> None:
    with running_stub(hold_after=1) as stub:
        drops = due_drops(tmp_path, asked(stub.base_url))
        step = begun(drops)
        wait_for(lambda: stub.held == 1, step.is_alive)
        kill(step, with_children=False)
        again = begun(drops)
        wait_for(lambda: len(asking_processes(drops)) == 2, again.is_alive)
        assert stub.held == 1  # the second one waits for the first
        stub.go_on()
        assert again.wait().code == 0

    assert_decided_once(drops, stub)
    assert stub.counts["lost"] == 0


def test_asker_that_outlives_its_step_ends_at_its_deadline(tmp_path: Path) -> None:
    with running_stub(FaultPlan(faults=("silent",), every=1)) as stub:
        drops = due_drops(tmp_path, asked(stub.base_url), deadline_minutes=0.25)
        step = begun(drops)
        wait_for(lambda: bool(stub.requests), step.is_alive)
        kill(step, with_children=False)
        assert asking_processes(drops)
        wait_for(lambda: not asking_processes(drops))


@pytest.mark.exhaustive
def test_entrants_that_hang_or_fail_hold_nobody_up(tmp_path: Path) -> None:
    with running_stub(FaultPlan(faults=("silent",), every=1)) as silent:
        broken = running_stub(FaultPlan(faults=("server",), every=1))
        with broken as failing:
            entrants = [
                {"name": "momentum", "model": "builtin/momentum"},
                asked(silent.base_url, "hangs", timeout_s=600),
                asked(failing.base_url, "fails", max_retries=0),
            ]
            drops = due_drops(tmp_path, *entrants, deadline_minutes=2)
            step = begun(drops)

            # The decision of the third is public while the first still hangs.
            wait_for(lambda: bool(public_decisions(drops)), step.is_alive)
            assert step.is_alive()
            done = step.wait()

    assert done.code == 2
    assert "hangs/us 2024-05-31: deadline: took longer than 120 s" in done.out
    assert "fails/us 2024-05-31: failed: " in done.out
    assert "no decision was recorded for it" in done.out
    assert asking_processes(drops) == []

    drops.before_cutoff(DAYS[0], minutes=-1)
    stepped(drops)

    for name, end in (("momentum", "decided"), ("hangs", "deadline"), ("fails", "failed")):
        assert ends(drops.folder, name) == {DAYS[0]: end}


@pytest.mark.exhaustive
def test_interrupted_step_ends_those_it_asks(tmp_path: Path) -> None:
    with running_stub(hold_after=0) as stub:
        drops = due_drops(tmp_path, asked(stub.base_url))
        step = begun(drops)
        wait_for(lambda: stub.held == 1, step.is_alive)
        step.signal(signal.SIGINT)
        assert step.wait().code == 130
        assert asking_processes(drops) == []
        stub.go_on()
        assert stepped(drops).code == 0

    assert ends(drops.folder, "asked") == {DAYS[0]: "decided"}
