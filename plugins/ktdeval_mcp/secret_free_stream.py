"""The one exit of the server: secrets of the environment are taken out of every message to the
client, whether a result, a resource, a list or an error, and whoever made it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from ktdeval.secrets import hide_secrets, secrets_of


@asynccontextmanager
async def secret_free(write: Any) -> AsyncIterator[Any]:
    """Provide a stream whose messages are sent on to the stream `write` without secrets."""
    send, receive = anyio.create_memory_object_stream[SessionMessage](0)

    async def forward() -> None:
        async with write:
            async for message in receive:
                await write.send(_without_secrets(message))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forward)
        async with send:
            yield send


def _without_secrets(message: SessionMessage) -> SessionMessage:
    secrets = secrets_of(os.environ)
    content = message.message.model_dump(by_alias=True, exclude_unset=True)
    clean = type(message.message).model_validate(_hidden(content, secrets))
    return SessionMessage(clean, message.metadata)


def _hidden(value: Any, secrets: dict[str, str]) -> Any:
    """Return a JSON value with the secrets hidden in each text, names of fields included."""
    if isinstance(value, str):
        return hide_secrets(value, secrets)
    if isinstance(value, dict):
        return {_hidden(key, secrets): _hidden(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, secrets) for item in value]

    return value
