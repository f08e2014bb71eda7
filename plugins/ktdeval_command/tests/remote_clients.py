"""Clients of the agent `remote`, over plain HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bridge_clients import TOKEN
from ktdeval.testing import wait_for

Calls = Sequence[tuple[str, Any]]  #: tools with their arguments, the submission last
HOLD = {"overall_reason": "nothing to do", "orders": []}


def holding(_: str) -> Calls:
    """Submit no order, whatever the day."""
    return [("submit_action", HOLD)]


def token_file(folder: Path) -> Path:
    """A file with the clients' token."""
    path = folder / "token"
    path.write_text(f"{TOKEN}\n")
    return path


class Client:
    """Acts in the episode that it began."""

    def __init__(self, port: int, token: str = TOKEN) -> None:
        self.port = port
        self.token = token
        self.episode: str | None = None
        self.begun: Any = None  # answer to the latest beginning

    def send(self, method: str, path: str, value: Any = None) -> Any:
        """Answer to a request, with its `status` where it is not 200."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if self.episode is not None:
            headers["Ktdeval-Episode"] = self.episode
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(value), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        return answer if response.status == 200 else {"status": response.status, **answer}

    def call(self, tool: str, **arguments: Any) -> Any:
        """Text and failure of a tool's answer."""
        return self.send("POST", f"/tools/{tool}", arguments)

    def begin(self) -> Any:
        """Begin an episode; waits for the run to listen."""
        wait_for(self._has_begun)
        return self.begun

    def _has_begun(self) -> bool:
        try:
            self.begun = self.call("begin_episode")
        except ConnectionError:
            return False

        self.episode = self.begun.get("episode") or self.episode
        return True

    def go_on(self, day: str, calls: Callable[[str], Calls] = holding) -> list[str]:
        """Decide an episode to its end, by the calls of each day; return the days shown."""
        days = [day]
        while True:
            for name, arguments in calls(day):
                answer = self.call(name, **arguments)
            assert answer["failure"] is None, answer
            if "episode is over" in answer["text"]:
                return days
            day = self.call("next_day")["text"]
            days.append(day)
