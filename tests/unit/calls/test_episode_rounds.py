"""Rounds of episodes on threads: a round is sent when every episode waits, and ends for all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ktdeval.calls import EpisodeRounds, StopSignal
from ktdeval.calls.pending_call import WantedReply
from ktdeval.errors import BudgetError, RunStop
from ktdeval.harness.chat_messages import CallParams, ModelRequest


def wanted(episode: str, step: int) -> WantedReply:
    return WantedReply(episode, step, f"{episode}{step}", ModelRequest((), CallParams()))


def play(
    rounds: EpisodeRounds, calls: dict[str, int], send: Callable[[Sequence[WantedReply]], None]
) -> list[BaseException | None]:
    """Run episodes that make so many calls each; return what each of them raised."""
    stop = StopSignal()

    def episode(name: str) -> None:
        try:
            for step in range(calls[name]):
                rounds.ask([wanted(name, step)], send, stop.check)
        finally:
            rounds.leave()

    with ThreadPoolExecutor(len(calls)) as pool:
        with rounds.hold():
            futures = []
            for name in calls:
                rounds.join()
                futures.append(pool.submit(episode, name))

        return [future.exception() for future in futures]


def test_each_round_has_the_next_call_of_every_episode_that_runs() -> None:
    sent: list[set[Any]] = []

    def send(calls: Sequence[WantedReply]) -> None:
        sent.append({(each.episode, each.step) for each in calls})

    assert play(EpisodeRounds(), {"a": 3, "b": 1, "c": 2}, send) == [None] * 3
    assert sent == [{("a", 0), ("b", 0), ("c", 0)}, {("a", 1), ("c", 1)}, {("a", 2)}]


def test_what_stops_a_round_stops_each_of_its_episodes() -> None:
    problem: RunStop = BudgetError("too dear")

    def send(calls: Sequence[WantedReply]) -> None:
        raise problem

    assert play(EpisodeRounds(), {"a": 1, "b": 1}, send) == [problem] * 2


def test_an_episode_of_a_run_that_was_stopped_waits_no_longer() -> None:
    rounds = EpisodeRounds()
    stop = StopSignal()
    rounds.join(2)  # the other one never asks
    stop.interrupt()
    with pytest.raises(KeyboardInterrupt):
        rounds.ask([wanted("a", 0)], lambda _: None, stop.check)
