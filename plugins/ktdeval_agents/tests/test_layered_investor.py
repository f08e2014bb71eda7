"""The investor with the layered memory of InvestorBench: what it remembers, and what it refuses."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ConfigError
from ktdeval.registry import load_plugins
from ktdeval.runner.records.episode_journal import unpack_lines
from ktdeval.testing import on_each_row
from ktdeval_agents import InvestorParams
from ktdeval_agents.layered_memory import make_investor
from ktdeval_agents.team import TeamAgent
from ktdeval_investorbench.finmem import FinmemAgent
from ktdeval_memory.params import MemoryParams
from support.runs.run_support import PLUGIN, SAME_MASK, episodes, ktdeval
from support.tasks.agent_sessions import Session, observation


def test_it_remembers_as_finmem_does_under_its_own_name() -> None:
    prompts: dict[str, list[Any]] = {}
    agents = {
        "investor": make_investor(InvestorParams(memory="layered", parameters="finmem")),
        "finmem": FinmemAgent(MemoryParams(parameters="finmem")),
    }

    for name, agent in agents.items():
        memory: Any = None
        prompts[name] = []
        for step in range(9):
            session = Session("rain [memory: M1]")
            session.conclusion = "Rain is bad."
            decision = agent.decide(observation(step, ("news", "It rained.")), session, memory)
            memory = decision.memory
            prompts[name] += [request.messages for request in session.asked]
            assert session.asked[-1].role == name

    assert prompts["investor"] == prompts["finmem"]
    assert "## Reflections" in prompts["investor"][-1][1].content


def test_it_remembers_decisions_unless_asked_for_layers() -> None:
    assert isinstance(make_investor(), TeamAgent)
    assert isinstance(load_plugins().make_agent("investor", {"sources": "a,b"}), TeamAgent)


@on_each_row(
    "args, problem",
    (
        {"parameters": "finmem"},
        "^parameters: has no effect with memory=decisions; leave it out, or set memory=layered$",
    ),
    ({"memory": "decisions", "seed": 3}, "^seed: has no effect with memory=decisions"),
    (
        {"memory": "layered", "sources": "a,b"},
        "^sources: has no effect with memory=layered; leave it out, or set memory=decisions$",
    ),
    ({"memory": "deep"}, "layered"),
)
def test_an_argument_of_the_other_memory_is_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_plugins().make_agent("investor", args)


@pytest.mark.slow
def test_a_run_of_it_verifies(tmp_path: Path) -> None:
    words = ("--plugin", PLUGIN, "--model", "test/member", "--agent", "investor", *SAME_MASK)
    task = ("--tasks", "market_news_blinded", "--data", "synthetic_us", "--limit", "4")
    args = ("--agent-args", "memory=layered,parameters=finmem")
    done = ktdeval(*words, *args, *task, "--out", tmp_path / "run", cwd=tmp_path)

    assert done.code == 0, done
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0

    for episode in episodes(tmp_path / "run"):
        steps = unpack_lines(episode / "transcript.jsonl.zst", dict[str, Any], "transcript")
        calls = chain.from_iterable(step["exchanges"] for step in steps)
        roles = {call["role"] for call in calls}
        assert "investor" in roles
        assert roles <= {"investor", "reflection"}
