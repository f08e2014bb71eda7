"""Answers of tools. A command is run in a separate process; secrets in its output are redacted, and
the size of the output is limited. The process has no stdin, and its stdout is captured, so nothing
that it prints can reach the stream of the protocol.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from ktdeval.errors import KtdevalError, UsageError
from ktdeval.secrets import hide_secrets, secrets_of
from ktdeval.values import JsonValue
from ktdeval_mcp.folders import Folders

MAX_SECONDS = 600
MAX_CHARS = 40_000  #: maximum number of characters, both of the printed text and of the JSON
_LIST_SIZES = (1000, 300, 100, 30, 10, 3, 1)  #: list lengths that are tried until the JSON fits
_ERROR = "ktdeval: error: "


class ToolError(KtdevalError):
    """The command behind a tool gave no result."""


@dataclass(frozen=True)
class CommandOutput:
    """Output of a command."""

    exit_code: int
    printed: str
    messages: str  #: text on stderr


async def run_command(words: list[str], folders: Folders, scratch: str) -> CommandOutput:
    """Run `ktdeval` with these arguments, confined to the folders and to its temporary folder,
    `scratch`. Raises ToolError if the command gave no result.
    """
    called = shlex.join(["ktdeval", *words])
    confined = [sys.executable, "-P", "-m", "ktdeval_mcp.confined_command"]
    try:
        with anyio.fail_after(MAX_SECONDS):
            done = await anyio.run_process(
                [*confined, *map(str, folders.roots), "--", *words],
                check=False,
                stdin=subprocess.DEVNULL,
                cwd=folders.base,
                env={**os.environ, "TMPDIR": scratch},
            )
    except TimeoutError as error:
        raise ToolError(f"took over {MAX_SECONDS} s; run it in a terminal: {called}") from error
    except (OSError, ValueError) as error:
        raise ToolError(f"can't run {called!a}: {error}") from error

    output = CommandOutput(
        done.returncode, _decode_output(done.stdout), _decode_output(done.stderr)
    )
    # Exit code 1 with output is a negative verdict; without output it is a failure.
    if output.exit_code not in (0, 1) or not output.printed:
        raise ToolError(_reason(output))

    return output


def _decode_output(data: bytes) -> str:
    # hidden before a text is cut, since half a secret is not recognised
    text = data.decode("utf-8", "replace").strip()
    return hide_secrets(text, secrets_of(os.environ))


def _reason(output: CommandOutput) -> str:
    """Return why a command failed, in one line."""
    lines = output.messages.splitlines() or [f"stopped with exit code {output.exit_code}"]
    stated = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    return stated[-1] if stated else lines[-1].strip()


def bound_text(text: str) -> str:
    """Return a text cut to at most `MAX_CHARS` characters."""
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n… {len(text) - MAX_CHARS:,} more characters"


def bound_json(text: str) -> tuple[JsonValue, str]:
    """Return the value of a JSON text, shortened to `MAX_CHARS`, and a note on how it was
    shortened. The note is empty if the value is complete. Raises UsageError if the text is not
    JSON.
    """
    try:
        value: JsonValue = json.loads(text)
    except ValueError as error:
        raise UsageError("the command printed no JSON") from error

    if len(text) <= MAX_CHARS:
        return value, ""

    for size in _LIST_SIZES:
        shorter = _shorten_lists(value, size)
        if len(json.dumps(shorter)) <= MAX_CHARS:
            return shorter, f"lists are cut after {size} entries; `command` --json prints all"

    return None, "the result is too long; `command` --json prints it"


def _shorten_lists(value: JsonValue, size: int) -> JsonValue:
    if isinstance(value, Mapping):
        return {name: _shorten_lists(each, size) for name, each in value.items()}
    if isinstance(value, list):
        return [_shorten_lists(each, size) for each in value[:size]]
    return value


def as_content(words: list[str], exit_code: int, printed: str, as_json: str) -> dict[str, Any]:
    """Return the structured content of an answer. `as_json`: the output of the command with
    `--json`.
    """
    value, shortened = bound_json(as_json)
    return {
        "command": shlex.join(["ktdeval", *words]),
        "exit_code": exit_code,
        "printed": bound_text(printed),
        "result": value,
        "shortened": shortened,
    }


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "the same on a command line"},
        "exit_code": {"type": "integer", "description": "0, or 1 for a negative verdict"},
        "printed": {"type": "string", "description": "what the command prints"},
        "result": {"description": "what it prints with --json"},
        "shortened": {"type": "string", "description": "how `result` was cut; empty: it is whole"},
    },
    "required": ["command", "exit_code", "printed", "result", "shortened"],
}
