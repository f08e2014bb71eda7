"""Calls for work that another process has taken over: none is made, first or again, after a wait or
after a failure; what was on its way is recorded, since it is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktdeval.errors import FencedError, ModelError
from ktdeval.stores import open_store
from ktdeval_grid.coordination.claims import Claim, ClaimBoard
from support.providers.call_clients import Answer, RunClients, ScriptedModel, ask, reply_to

LEASE_S = 60.0


class Fenced:
    """An episode that a worker has claimed, and another may take over."""

    def __init__(self, folder: Path) -> None:
        self._place = folder
        board = ClaimBoard(open_store(folder), "", "one", LEASE_S)
        claim = board.claim("e")

        assert claim is not None

        self.claim: Claim = claim

    def take_over(self) -> None:
        """Take it over as a process does that knows that the first has ended."""
        other = ClaimBoard(open_store(self._place), "", "one", LEASE_S, previous_ended=True)
        assert other.claim("e") is not None


@pytest.fixture
def fenced(tmp_path: Path) -> Fenced:
    return Fenced(tmp_path / "grid")


def once_taken_over(fenced: Fenced, answer: Answer) -> Callable[[str, int], Answer]:
    """Answers of a server during whose first call the episode is taken over."""

    def answered(_text: str, attempt: int) -> Answer:
        if attempt == 1:
            fenced.take_over()

        return answer

    return answered


def test_a_call_that_failed_is_not_tried_again(run: RunClients, fenced: Fenced) -> None:
    model = ScriptedModel(once_taken_over(fenced, ModelError("server", "HTTP 503")))
    episode = run.client(model).for_episode("e", fence=fenced.claim.check)
    with pytest.raises(FencedError):
        episode.reply(ask("a"))

    assert model.asked == {"a": 1}


def test_a_call_under_way_is_recorded_and_the_next_one_is_not_made(
    run: RunClients, fenced: Fenced
) -> None:
    model = ScriptedModel(once_taken_over(fenced, reply_to("a")))
    episode = run.client(model, max_cost=1.0).for_episode("e", fence=fenced.claim.check)

    assert episode.reply(ask("a")) == reply_to("a")

    with pytest.raises(FencedError, match="another worker has taken e over from one"):
        episode.reply(ask("b"))

    assert run.stop.reason is None  # others of the run go on
    assert model.asked == {"a": 1}
    assert [record.outcome for record in run.records()] == ["answered"]


def test_a_call_that_waited_for_a_slot_is_not_made(run: RunClients, fenced: Fenced) -> None:
    """The provider asks for a pause; during the wait for its end the episode is taken over."""
    pause = ModelError("rate_limited", "HTTP 429", retry_after_s=0.6)
    model = ScriptedModel(lambda text, attempt: pause if attempt == 1 else reply_to(text))
    client = run.client(model, max_retries=0, max_failures=9)

    with pytest.raises(ModelError):  # of the check, whose failure does not stop the run
        client.for_episode("check").reply(ask("a"))

    def note(kind: str, *_: float) -> None:
        assert kind == "rate_limited"
        fenced.take_over()

    with pytest.raises(FencedError):
        client.for_episode("e", note, fenced.claim.check).reply(ask("a"))

    assert model.asked == {"a": 1}


def test_a_fixed_question_is_not_asked(run: RunClients, fenced: Fenced) -> None:
    model = ScriptedModel()
    client = run.client(model)
    fenced.take_over()

    with pytest.raises(FencedError):
        client.ask_fresh(ask("a"), "canary", fence=fenced.claim.check)

    assert model.asked == {}


def test_what_a_fenced_call_had_reserved_is_left_for_others(
    run: RunClients, fenced: Fenced
) -> None:
    model = ScriptedModel()
    client = run.client(model, max_cost=0.002)
    fenced.take_over()

    for _ in range(20):
        with pytest.raises(FencedError):
            client.for_episode("e", fence=fenced.claim.check).reply(ask("a"))

    assert client.for_episode("other").reply(ask("a")) == reply_to("a")
