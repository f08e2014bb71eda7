"""Manifest of QFinZero: tool calling and planning over price, event and broker services that share
one clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Return the commands for the services."""
    return [
        Spec(
            "paper qfinzero",
            later("ktdeval_qfinzero.command:qfinzero"),
            "Serve QFinZero's services; their tools, items and broker logs.",
            groups=("papers",),
        ),
    ]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Return the tasks for calling and planning, with calls recorded, written as text or executed,
    and the tasks for chats and trading sessions from files.
    """
    from ktdeval.registry import task_maker, task_specs

    make_suite = task_maker(
        "ktdeval_qfinzero.suite.task:SuiteTask", "ktdeval_qfinzero.suite.config:SuiteConfig"
    )
    live_config = "ktdeval_qfinzero.live.tool_use_config:LiveConfig"
    make_chat = task_maker("ktdeval_qfinzero.chat.task:ChatTask", live_config)
    make_session = task_maker("ktdeval_qfinzero.session.trading_task:SessionTask", live_config)

    def make(name: str, config: Mapping[str, Any], where: str) -> Any:
        """Make a task of the suite. If the config has a conversation, make the task for a chat
        turn; if it has a trading session, make the task for this session.
        """
        if "conversation" in config:
            return make_chat(name, config, where)
        if "session" in config:
            return make_session(name, config, where)
        return make_suite(name, config, where)

    return task_specs(f"{__path__[0]}/qfinzero.yaml", make)


@hookimpl
def ktdeval_data() -> Sequence[Spec]:
    """Return the data providers for the services: a synthetic market, and the user's own files."""
    from ktdeval_qfinzero.data.providers import providers

    return providers()


@hookimpl
def ktdeval_agents() -> Sequence[Spec]:
    """Return the agent for a chat."""
    summary = "One loop for a chat: tools are called until a reply is text, which is the answer"
    return [
        Spec("chat", lambda *_: later("ktdeval_qfinzero.chat.agent:ChatAgent")()(), summary),
    ]


@hookimpl
def ktdeval_tables() -> Sequence[Spec]:
    """Return the paper's tables."""
    from ktdeval.registry import table_specs

    return table_specs(f"{__path__[0]}/tables.yaml")
