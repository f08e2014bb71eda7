"""FinMem: the agent with a layered memory, under its own name."""

from __future__ import annotations

from ktdeval_memory.agent import MemoryAgent
from ktdeval_memory.embedding import Embedder
from ktdeval_memory.params import MemoryParams


class FinmemAgent(MemoryAgent):
    """FinMem, the agent of the FinMem and InvestorBench papers."""

    def __init__(
        self, params: MemoryParams | None = None, embedder: Embedder | None = None
    ) -> None:
        super().__init__("finmem", params, embedder)
