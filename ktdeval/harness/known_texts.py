"""Texts of programs that are known: a tool that is offered alike in each step of each episode, such
as a shell with a limit of 600000 ms, says nothing of the market, though a mask reads a code there.

What is known is known by the hash of the whole before any episode began. A text that a program makes
up in an episode is never among them, and no part of a known one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.values.hashes import content_hash, sha256_hex


@dataclass(frozen=True)
class KnownTexts:
    """Tools and lines of system prompts that neither need nor get a mask, by their SHA-256."""

    tools: frozenset[str] = frozenset()  #: as `tool_hash` gives it
    lines: frozenset[str] = frozenset()  #: of system prompts

    def has_tool(self, tool: ToolSpec) -> bool:
        """Whether a tool is known, with all its words."""
        try:
            return bool(self.tools) and tool_hash(tool) in self.tools
        except ValueError:
            return False  # half a surrogate pair

    def cleared_prompt(self, text: str, clear: Callable[[str], str]) -> str | None:
        """Return a system prompt whose lines are cleared together, but for those that are known;
        None where none is.
        """
        lines = text.split("\n")
        known = {}
        for number, line in enumerate(lines):
            if sha256_hex(line.encode("utf-8", "surrogatepass")) in self.lines:
                known[number] = line
        if not known:
            return None

        others = ["" if number in known else line for number, line in enumerate(lines)]
        cleared = clear("\n".join(others)).split("\n")
        if len(cleared) != len(lines):  # something over several lines was withheld
            return None
        for number, line in known.items():
            cleared[number] = line
        return "\n".join(cleared)


NOTHING_KNOWN = KnownTexts()


def tool_hash(tool: ToolSpec) -> str:
    """Return the SHA-256 of a tool: name, description and schema, whose dialect does not count."""
    schema = {name: value for name, value in tool.parameters.items() if name != "$schema"}
    return content_hash([tool.name, tool.description, schema])
