"""Agents that are programs: Claude Code, Codex, Gemini CLI, an own script.

ktdeval starts the program for each step within walls (`sandbox`, `program`). The program asks the
model bridge (`bridge_server`) as it would ask its provider, in one of the formats of `wire`; behind
the bridge stands the run's own model. The tool server (`tool_server`) gives it the tools of its
step, over the Model Context Protocol or plain HTTP; `stdio_relay` does so over stdio.

Agents that nobody here can start come as clients (`remote_agent`): the run waits for them at a port
(`remote_host`, `remote_server`).
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval_command.command_params import CommandParams
from ktdeval_command.remote_params import RemoteAgentParams


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the agent that is a program, and that of clients."""
    from ktdeval.values import maker

    return [
        Spec(
            "command",
            maker("ktdeval_command.command_agent:CommandAgent"),
            "A program of your own decides: Claude Code, Codex, Gemini CLI, any script",
            CommandParams,
        ),
        Spec(
            "remote",
            maker("ktdeval_command.remote_agent:RemoteAgent"),
            "Clients that connect over MCP or HTTP decide, many at once",
            RemoteAgentParams,
        ),
    ]


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the model of a run whose clients bring their own."""
    from ktdeval.values import maker

    return [
        Spec(
            "remote",
            maker("ktdeval_command.remote_agent:RemoteClients"),
            "Stands for programs and clients with a model of their own, and answers nothing",
            remote=False,
            decider="nobody",
        )
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that writes episodes for others to play."""
    from ktdeval.values import later

    return [
        Spec(
            "train harbor",
            later("ktdeval_command.harbor_command:harbor"),
            "Write episodes as tasks of Harbor.",
            groups=("train",),
        )
    ]
