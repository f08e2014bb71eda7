"""Solution for a Harbor task. It plays the rule "hold on each day" over plain HTTP, and records its
actions as Harbor's agents do, in the Agent Trajectory Interchange Format (ATIF 1.7).

It runs in the agent's container, where ktdeval is not installed. The source of this module is the
whole script and uses only the standard library.
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


class Trajectory:
    """The actions so far, with each tool call as a step:
    https://www.harborframework.com/docs/agents/trajectory-format
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._steps: list[dict[str, Any]] = []
        self._episode = ""

    def begin(self, episode: str) -> None:
        """Note which episode is played."""
        self._episode = episode

    def add(self, tool: str, arguments: dict[str, Any], answer: dict[str, Any]) -> None:
        """Add a call with its answer. No model was called for it."""
        number = len(self._steps) + 1
        call_id = f"call_{number}"
        content = answer["text"]
        if answer["failure"]:
            content = f"{answer['failure']}: {content}"

        call = {"tool_call_id": call_id, "function_name": tool, "arguments": arguments}
        step = {
            "step_id": number,
            "source": "agent",
            "message": "",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": call_id, "content": content}]},
            "llm_call_count": 0,
        }
        self._steps.append(step)

    def write(self, folder: Path) -> None:
        """Write the steps so far to trajectory.json, if there are any. Raises OSError."""
        if not self._steps:
            return  # a trajectory has at least one step

        content = {
            "schema_version": "ATIF-v1.7",
            "session_id": self._episode,
            "agent": {"name": "ktdeval-solution", "version": self._version},
            "steps": self._steps,
            "notes": "The rule of the solution: hold on each day. No model was asked.",
            "final_metrics": {"total_steps": len(self._steps)},
        }
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (folder / "trajectory.json").write_text(text, encoding="utf-8")


class EpisodeClient:
    """Client for the tools of the episode that it plays."""

    def __init__(self, url: str, token: str, trajectory: Trajectory) -> None:
        self._url = url.rstrip("/")
        self._trajectory = trajectory
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def begin(self) -> dict[str, Any]:
        """Begin the episode. Return the text, the failure and the episode id from the answer."""
        begun = self.call("begin_episode", {})
        if begun.get("episode"):
            self._headers["Ktdeval-Episode"] = begun["episode"]
            self._trajectory.begin(begun["episode"])
        return begun

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the text and the failure from a tool's answer. Raises OSError if the market does
        not answer.
        """
        answer = self._answer(f"/tools/{tool}", json.dumps(arguments).encode())
        self._trajectory.add(tool, arguments, answer)
        return answer

    def submit_schema(self, tool: str) -> dict[str, Any]:
        """Return the JSON Schema of a submission. Raises ValueError if the tool is unknown."""
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
    """Return the smallest value that a submission schema allows: no orders, HOLD, a reason."""
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


def play(market: EpisodeClient, submit_tool: str) -> int:
    """Hold on each day until the episode is over, and return the number of days decided. Raises
    ValueError if a request was refused.
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
        while told["failure"] == "not_there":  # the market is still computing
            told = market.call("next_day", {})
        if told["failure"] == "episode_over":
            return days
        if told["failure"]:
            raise ValueError(f"next_day: {told['failure']}: {told['text']}")


def main() -> int:
    """Play, and return the exit status."""
    episode = json.loads(Path(__file__).with_name("episode.json").read_text(encoding="utf-8"))
    url = os.environ.get("KTDEVAL_TOOLS_URL", episode["url"])
    token_file = os.environ.get("KTDEVAL_TOKEN_FILE", episode["token_file"])
    token = Path(token_file).read_text(encoding="ascii").strip()
    logs = Path(os.environ.get("KTDEVAL_LOGS", "/logs/agent"))
    trajectory = Trajectory(episode["version"])
    try:
        try:
            days = play(EpisodeClient(url, token, trajectory), episode["submit_tool"])
        finally:
            trajectory.write(logs)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"solution: {error}\n")
        return 1

    sys.stdout.write(f"decided days: {days}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
