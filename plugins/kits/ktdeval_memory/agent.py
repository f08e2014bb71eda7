"""Agent with FinMem's layered memory. It stores documents, its own reasons and their outcomes,
recalls the best memories in each layer, and credits memories according to outcomes.
"""

from __future__ import annotations

from dataclasses import replace

from ktdeval.harness import Decision, Observation, StepSession
from ktdeval.values import JsonValue, from_plain, to_plain
from ktdeval_memory.agent_state import AgentRecord
from ktdeval_memory.embedding import Embedder, RemoteEmbedding, SessionEmbedder, make_embedder
from ktdeval_memory.memory_layers import LayeredMemory, parameter_set
from ktdeval_memory.memory_step import MemoryStep
from ktdeval_memory.params import MemoryParams


class MemoryAgent:
    """Two strict phases, as in `react`, with remembered texts after the state of the day. If no
    submission is valid, the agent holds (`fallback`) and remembers no reason, but forgets as on any
    other day. Source: Yu et al. 2024 (FinMem), Li et al. 2025 (InvestorBench).
    """

    def __init__(
        self, name: str, params: MemoryParams | None = None, embedder: Embedder | None = None
    ) -> None:
        self._name = name
        self._params = params or MemoryParams()
        self._rules = parameter_set(self._params.parameters)
        self._embed = embedder or make_embedder(self._params)

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError if the model call failed. Raises StoreError if
        `memory` does not belong to this agent.
        """
        record = AgentRecord()
        if memory is not None:
            record = from_plain(memory, AgentRecord, f"memory of the agent {self._name}")

        embed = self._embed
        if isinstance(embed, RemoteEmbedding):
            embed = SessionEmbedder(embed, session, record.vectors)

        remembered = LayeredMemory(
            self._rules, record.memory, self._params.seed, embed, session.withhold
        )
        step = MemoryStep(self._name, self._params, record, remembered, session)
        decision = step.decide(observation, is_first=memory is None)

        record.memory = remembered.to_json()
        record.step = observation.step
        record.vectors = {}
        if isinstance(embed, SessionEmbedder):
            record.vectors = embed.used

        return replace(decision, memory=to_plain(record))
