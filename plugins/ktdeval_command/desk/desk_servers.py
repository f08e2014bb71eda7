"""Model bridge and tool server of one desk, each on its own port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ktdeval_command.desk.agent_desk import AgentDesk
from ktdeval_command.desk.bridge_server import BridgeServer
from ktdeval_command.desk.loopback_server import serving
from ktdeval_command.desk.tool_server import ToolServer


@dataclass(frozen=True, slots=True)
class DeskServers:
    """The two servers that an agent uses."""

    bridge: BridgeServer
    tools: ToolServer

    @property
    def denied(self) -> int:
        """Number of requests that the two servers have denied so far."""
        return self.bridge.denied + self.tools.denied


@contextmanager
def serve_desk(
    desk: AgentDesk, model: str, bridge_token: str, tools_token: str
) -> Iterator[DeskServers]:
    """Serve a desk until the block ends. `model` is the name of the run's model in listings. Raises
    StoreError if listening is not possible.
    """
    with ExitStack() as held:
        bridge = held.enter_context(serving(BridgeServer(desk.answer, bridge_token, model)))
        tools = held.enter_context(serving(ToolServer(desk.tools, desk.call, tools_token)))
        # The desk closes first, because the servers wait for answers in progress.
        held.callback(desk.close)
        yield DeskServers(bridge, tools)
