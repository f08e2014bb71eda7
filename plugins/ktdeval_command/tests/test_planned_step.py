"""Plans of programs: what a program sends of its own is in each call."""

from __future__ import annotations

import pytest

from ktdeval.calls import USUAL_TOKENS
from ktdeval.runner.rehearsals.conversation_size import TYPICAL, MeasuringModel
from ktdeval.testing import small_market
from ktdeval_command.planned_step import Measured, plan_decision
from support.tasks.ktdfin_play import PLUGINS, Play

MARKET = small_market()
RESEARCH_CALLS = 6


def played(measured: Measured | None, task: str = "blinded_open_research") -> MeasuringModel:
    model = MeasuringModel(TYPICAL, RESEARCH_CALLS)
    observation, session = Play(PLUGINS.make_task(task), model, MARKET).session(0)
    decision = plan_decision((observation.system, observation.user), session, None, measured)
    assert decision.provenance == "model"
    return model


def size(tokens: int, calls: int = 1) -> Measured:
    return Measured(version="1.2", date="2026-11-28", tokens_a_call=tokens, calls_a_step=calls)


# three turns of research and the submission; with the paper's protocol last words between them
@pytest.mark.parametrize(
    ("task", "of_react"), [("blinded_open_research", 4), ("blinded_open_research_paper", 5)]
)
@pytest.mark.parametrize("tokens", [0, 6_600, 17_700])
def test_each_planned_call_has_the_tokens_of_the_program(
    tokens: int, task: str, of_react: int
) -> None:
    bare, whole = played(size(0), task), played(size(tokens), task)
    assert whole.requests == bare.requests == 5  # the program's last words are a call
    assert played(None, task).requests == of_react
    more = whole.sent.tokens(USUAL_TOKENS) - bare.sent.tokens(USUAL_TOKENS)
    assert more == pytest.approx(tokens * bare.requests, rel=0.01, abs=1)


def test_calls_besides_those_for_tools_are_planned() -> None:
    assert played(size(100, calls=3)).requests == played(None).requests + 3
    without_research = "blinded_memory_only"
    assert played(None, without_research).requests == 1
    assert played(size(100), without_research).requests == 2  # its last words


def test_a_plan_says_what_it_knows_of_a_program() -> None:
    words = size(6_600).words("codex")
    assert words == "6,600 extra tokens per call, as measured with codex 1.2 on 2026-11-28"
