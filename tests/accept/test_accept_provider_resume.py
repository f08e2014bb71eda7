"""Killed amid 20 concurrent episodes and started again: nothing that was answered is asked again,
and the cards are the same.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from ktdeval.runner.records.run_file_names import MARK
from ktdeval.testing import wait_for
from support.providers.stub_provider import running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, answered, apart, finished, start_run, steps
from support.runs.run_support import assert_same, episodes, finished_steps

skip_without_sdks()

STEPS = 4
EPISODES = 20
WORDS = (*apart(EPISODES, STEPS), "--canary", 0)


@pytest.fixture(scope="module")
def whole(market: Path, port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing interrupts; as many calls at once as there are episodes."""
    with running_stub(port=port, latency_s=0.02) as stub:
        folder = finished(
            WIRES["chat"], stub, tmp_path_factory.mktemp("whole") / "run", market, *WORDS
        )
        assert not stub.answered_twice
        assert stub.max_at_once > 1

    return folder


def ended(run: Path) -> int:
    """Episodes that are over."""
    return sum((folder / MARK).exists() for folder in episodes(run))


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", ["chat", "anthropic"])
def test_killed_while_all_episodes_wait_no_answered_request_is_asked_again(
    market: Path, port: int, whole: Path, tmp_path: Path, wire: str
) -> None:
    run = tmp_path / "run"
    with running_stub(port=port, hold_after=150) as stub:
        process = start_run(WIRES[wire], stub, run, market, *WORDS)
        # Whoever asks again has what it was given before on disk. On a busy machine some episodes
        # are over before others begin.
        wait_for(
            lambda: stub.answers >= 150 and stub.held + ended(run) == EPISODES, process.is_alive
        )
        held = EPISODES - ended(run)
        process.kill()
        before = stub.answers
        asked = len(stub.requests)
        assert before >= 150
        assert answered(run) == before
        assert 0 < finished_steps(run) < STEPS * EPISODES
        stub.go_on()
        finished(WIRES[wire], stub, run, market, *WORDS)
        assert not stub.answered_twice
        # those that were under way when it was killed, and nothing else, were asked in vain
        assert stub.counts["lost"] == held > 0
        digests = [seen.digest for seen in stub.requests]
        assert len(set(digests[:asked]) & set(digests[asked:])) == held
        assert answered(run) == stub.answers

    assert steps(run) == steps(whole)

    if wire == "chat":
        assert_same(run, whole)


def test_killed_at_any_moment_only_what_was_on_its_way_is_asked_again(
    market: Path, port: int, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    chance = random.Random(20240930)
    kills = 0

    # of 268, so that it is not over before
    with running_stub(port=port, latency_s=0.01, hold_after=250) as stub:
        for goal in (2, 130, 240):
            process = start_run(WIRES["chat"], stub, run, market, *WORDS)
            wait_for(lambda: stub.answers >= goal, process.is_alive)  # noqa: B023 - called before the next goal
            time.sleep(chance.uniform(0, 0.03))
            process.kill()
            kills += 1
            again = sum(times - 1 for times in stub.answered_twice.values())
            # answered, but killed before the answer was on disk
            in_flight = stub.answers - answered(run)
            assert in_flight <= kills * EPISODES
            assert again <= in_flight

        stub.go_on()
        finished(WIRES["chat"], stub, run, market, *WORDS)
        again = sum(times - 1 for times in stub.answered_twice.values())
        # each answer that reached the disk was paid once
        assert stub.answers == answered(run) + again
        assert again <= kills * EPISODES

    assert_same(run, whole)


def test_an_interrupted_run_waits_for_paid_calls_and_repeats_none(
    market: Path, port: int, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with running_stub(port=port, latency_s=0.05) as stub:
        process = start_run(WIRES["chat"], stub, run, market, *WORDS)
        wait_for(lambda: stub.answers >= 100, process.is_alive)
        process.signal(signal.SIGINT)
        done = process.wait()
        assert done.code == 130, done
        assert "same command again" in done.err
        assert answered(run) == stub.answers
        finished(WIRES["chat"], stub, run, market, *WORDS)
        assert not stub.answered_twice
        assert stub.counts["lost"] == 0

    assert_same(run, whole)
