"""Solution of a task of Harbor: it plays the rule "hold on each day", over plain HTTP.

It runs in the agent's container, where ktdeval is not: the source of this module is the whole
script, with the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

REASON = "the rule of this solution holds on each day"
_LONGEST_S = 600


class Market:
    """The tools of the episode that this client plays."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def begin(self) -> dict[str, Any]:
        """Begin the episode; return its text, its failure, and its id."""
        begun = self.call("begin_episode", {})
        if begun.get("episode"):
            self._headers["Ktdeval-Episode"] = begun["episode"]
        return begun

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return text and failure of a tool's answer. Raises OSError: the market does not answer."""
        return self._answer(f"/tools/{tool}", json.dumps(arguments).encode())

    def submit_schema(self, tool: str) -> dict[str, Any]:
        """Return the JSON Schema of what is submitted. Raises ValueError: there is no such tool."""
        for offered in self._answer("/tools", None)["tools"]:
            if offered["name"] == tool:
                schema: dict[str, Any] = offered["parameters"]
                return schema
        raise ValueError(f"the episode has no tool {tool}")

    def _answer(self, path: str, body: bytes | None) -> dict[str, Any]:
        # The address is the one that the task's environment has.
        request = urllib.request.Request(self._url + path, body, self._headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=_LONGEST_S) as response:  # noqa: S310
            value: dict[str, Any] = json.load(response)
            return value


def smallest(schema: dict[str, Any]) -> Any:
    """Return the smallest value that a schema of a submission allows: no orders, HOLD, a reason."""
    if "enum" in schema:
        return "HOLD" if "HOLD" in schema["enum"] else schema["enum"][0]
    if "const" in schema:
        return schema["const"]

    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: smallest(fields[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest(schema["items"]) for _ in range(schema.get("minItems", 0))]
    if kind in ("number", "integer"):
        return schema.get("minimum", 0)
    if kind == "boolean":
        return False
    return REASON


def play(market: Market, submit_tool: str) -> int:
    """Hold on each day until the episode is over; return how many days were decided. Raises
    ValueError: something was refused.
    """
    begun = market.begin()
    if begun["failure"]:
        raise ValueError(f"begin_episode: {begun['failure']}: {begun['text']}")

    submission = smallest(market.submit_schema(submit_tool))
    days = 0
    while True:
        answer = market.call(submit_tool, submission)
        if answer["failure"] == "episode_over":
            return days
        if answer["failure"]:
            raise ValueError(f"{submit_tool}: {answer['failure']}: {answer['text']}")

        days += 1
        told = market.call("next_day", {})
        while told["failure"] == "not_there":  # the market computes
            told = market.call("next_day", {})
        if told["failure"] == "episode_over":
            return days
        if told["failure"]:
            raise ValueError(f"next_day: {told['failure']}: {told['text']}")


def main() -> int:
    """Play; returns the exit status."""
    episode = json.loads(Path(__file__).with_name("episode.json").read_text(encoding="utf-8"))
    url = os.environ.get("KTDEVAL_TOOLS_URL", episode["url"])
    token_file = os.environ.get("KTDEVAL_TOKEN_FILE", episode["token_file"])
    token = Path(token_file).read_text(encoding="ascii").strip()
    try:
        days = play(Market(url, token), episode["submit_tool"])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"solution: {error}\n")
        return 1

    sys.stdout.write(f"decided days: {days}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
