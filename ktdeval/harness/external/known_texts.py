"""Known texts of programs. A tool that is offered identically in each step of each episode, such as
a shell with a limit of 600000 ms, reveals nothing about the market, even if a mask finds a code in
its text.

A text is known by the hash of the entire text, fixed before any episode begins. A text that a
program generates during an episode is never known, and neither is part of a known text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.values.hashes import content_hash, sha256_hex


@dataclass(frozen=True)
class KnownTexts:
    """Tools and system-prompt lines that neither need nor get masking, by SHA-256."""

    tools: frozenset[str] = frozenset()  #: hashes of tools, as from `tool_hash`
    lines: frozenset[str] = frozenset()  #: hashes of lines in system prompts

    def has_tool(self, tool: ToolSpec) -> bool:
        """Return whether a tool is known, including its description and schema."""
        try:
            return bool(self.tools) and tool_hash(tool) in self.tools
        except ValueError:
            return False  # an unpaired surrogate

    def cleared_prompt(self, text: str, clear: Callable[[str], str]) -> str | None:
        """Return a system prompt with all lines cleared together, except known lines; None if no
        line is known, or if clearing changed the number of lines.
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
        if len(cleared) != len(lines):  # an identity that spans several lines was withheld
            return None
        for number, line in known.items():
            cleared[number] = line
        return "\n".join(cleared)


NOTHING_KNOWN = KnownTexts()


def tool_hash(tool: ToolSpec) -> str:
    """Return the SHA-256 of a tool's name, description and schema (without the schema dialect)."""
    schema = {name: value for name, value in tool.parameters.items() if name != "$schema"}
    return content_hash([tool.name, tool.description, schema])
