"""Agents that are programs: Claude Code, Codex, Gemini CLI, or your own script.

ktdeval starts the program for each step in a sandbox (`sandbox`, `program`). The program sends its
model calls to the model bridge (`bridge_server`) as if it were the provider, in one of the formats
in `wire`; the run's own model answers them. The tool server (`tool_server`) offers the step's tools
to the program, over the Model Context Protocol or plain HTTP; `stdio_relay` offers them over stdio.

Agents that ktdeval can't start connect as clients (`remote_agent`): the run waits for them on a
port (`remote_host`, `remote_server`).
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval_command.clients.remote_params import RemoteAgentParams
from ktdeval_command.command_params import CommandParams


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the agent that runs a program, and the agent for external clients."""
    from ktdeval.values import maker

    return [
        Spec(
            "command",
            maker("ktdeval_command.command_agent:CommandAgent"),
            "A program of your own decides: Claude Code, Codex, Gemini CLI, any script",
            CommandParams,
            decider="outside",
        ),
        Spec(
            "remote",
            maker("ktdeval_command.clients.remote_agent:RemoteAgent"),
            "Clients that connect over MCP or HTTP decide, many at once",
            RemoteAgentParams,
            decider="outside",
        ),
    ]


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the placeholder model for runs whose clients use their own models."""
    from ktdeval.values import maker

    return [
        Spec(
            "remote",
            maker("ktdeval_command.clients.remote_agent:RemoteClients"),
            "Placeholder for programs and clients that bring their own model; answers no calls",
            remote=False,
            decider="nobody",
        )
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that writes episodes for other programs to play."""
    from ktdeval.values import later

    return [
        Spec(
            "train harbor",
            later("ktdeval_command.harbor.harbor_command:harbor"),
            "Write episodes as tasks of Harbor.",
            groups=("train",),
        )
    ]
