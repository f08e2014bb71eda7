"""Clients that connect: who holds an episode, what is refused, and what ends a day."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import BudgetError, ConfigError, ProviderError
from ktdeval.harness import ExternalSession, ToolCall, ToolResult, ToolSpec
from ktdeval.testing import free_port, wait_for
from ktdeval_command.clients import remote_host
from ktdeval_command.clients.remote_host import Hosts, RemoteHost, kept_token
from ktdeval_command.clients.remote_params import RemoteAgentParams
from remote_clients import HOLD, TOKEN, Client, token_file
from support.tasks.agent_sessions import PreparedSession
from tool_clients import INITIALIZE, Tools, request, told


class Step(PreparedSession):
    """A step with one tool, whose failures are counted."""

    tools = (ToolSpec("look", "Look.", {}),)
    tool_budget = 5

    def call_tool(self, call: ToolCall) -> ToolResult:
        return ToolResult(f"seen {call.arguments}")


class Run:
    """A run that lets clients decide an episode of some days."""

    def __init__(self, host: RemoteHost, days: int, seconds: float, wait_s: float) -> None:
        self.late: list[bool] = []
        self.clients: list[int] = []
        self.steps: list[ExternalSession] = []
        self.error: BaseException | None = None
        self.is_stopped = False
        self._host = host
        self._days = days
        self.episode = host.open(seconds, wait_s)
        self._thread = threading.Thread(target=self._decide)
        self._thread.start()

    def _check(self) -> None:
        if self.is_stopped:
            raise BudgetError("stopped")

    def _decide(self) -> None:
        try:
            for day in range(self._days):
                acting = ExternalSession(Step())  # type: ignore[arg-type]  # no model, no mask
                self.steps.append(acting)
                late, clients = self.episode.decide(
                    acting, "The rules.", f"Day {day}.", self._check
                )
                acting.close()
                self.late.append(late)
                self.clients.append(clients)
        except (ProviderError, BudgetError) as error:
            self.error = error
        finally:
            self._host.end(self.episode)

    def wait(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteHost]:
    monkeypatch.setattr(remote_host, "LONGEST_ANSWER_S", 0.2)
    monkeypatch.setattr(remote_host, "SLICE_S", 0.02)
    made = RemoteHost("127.0.0.1", 0, str(token_file(tmp_path)))
    yield made
    made.close()


@contextmanager
def running(
    host: RemoteHost, days: int = 2, seconds: float = 60.0, wait_s: float = 60.0
) -> Iterator[Run]:
    """Have a run wait for clients; it is stopped with the block."""
    run = Run(host, days, seconds, wait_s)
    try:
        yield run
    finally:
        run.is_stopped = True
        run.wait()


def client(host: RemoteHost, token: str = TOKEN) -> Client:
    return Client(host.server.server_address[1], token)


def waits_for_client(host: RemoteHost) -> Any:
    """A client that has begun an episode, and the answer that it got."""
    made = client(host)
    answer = made.begin()
    while answer["failure"] is not None:
        answer = made.begin()
    return made, answer


# ---- an episode


def test_a_client_decides_an_episode_day_by_day(host: RemoteHost) -> None:
    with running(host, days=3) as run:
        made, begun = waits_for_client(host)
        looked = made.call("look", id="S1")
        days = made.go_on(begun["text"])
        over = made.call("next_day")
        run.wait()

    assert begun["text"] == f"Episode {begun['episode']} has begun.\n\nThe rules.\n\nDay 0."
    assert looked == {"text": 'seen {"id": "S1"}', "failure": None}
    assert days[1:] == ["Day 1.", "Day 2."]
    assert over["failure"] == "episode_over"
    assert over["text"] == "The episode is over. Call begin_episode for another one, or end."
    assert (run.late, run.clients) == ([False] * 3, [1] * 3)
    assert [act.kind for act in run.steps[0].acts] == ["tool", "submit"]


def test_the_tools_are_listed_before_an_episode_is_begun(host: RemoteHost) -> None:
    with running(host):
        waits_for_client(host)
        before = client(host).send("GET", "/tools")["tools"]

    names = [tool["name"] for tool in before]
    assert names == ["begin_episode", "look", "submit_action", "next_day"]


# ---- what is refused


def test_a_client_without_the_token_is_refused(host: RemoteHost) -> None:
    with running(host) as run:
        answer = client(host, "another-token-of-16").call("begin_episode")
        assert run.steps[0].acts == ()

    assert (answer["status"], answer["failure"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("episode", "failure"), [(None, "no_episode"), ("0" * 32, "unknown_episode")]
)
def test_without_an_episode_nothing_is_done(
    host: RemoteHost, episode: str | None, failure: str
) -> None:
    with running(host) as run:
        waits_for_client(host)
        other = client(host)
        other.episode = episode
        answers = [other.call(name) for name in ("look", "submit_action", "next_day")]
        assert run.steps[0].acts == ()

    assert {answer["failure"] for answer in answers} == {failure}


def test_two_clients_do_not_get_one_episode(host: RemoteHost) -> None:
    with running(host):
        waits_for_client(host)
        second = client(host).begin()

    assert (second["failure"], second["episode"]) == ("no_episode", None)


def test_the_next_day_comes_after_a_submission(host: RemoteHost) -> None:
    with running(host):
        made, _ = waits_for_client(host)
        early = made.call("next_day")
        assert made.call("submit_action", **HOLD)["failure"] is None

        assert made.call("next_day") == {"text": "Day 1.", "failure": None}
    assert early["failure"] == "not_submitted"
    assert early["text"] == "This day is not decided: call submit_action first."


def test_a_second_submission_never_decides_the_next_day(host: RemoteHost) -> None:
    with running(host) as run:
        made, _ = waits_for_client(host)
        made.call("submit_action", **HOLD)
        twice = made.call("submit_action", **HOLD)
        blind = made.call("look")
        assert run.steps[1].acts == ()

    assert (twice["failure"], blind["failure"]) == ("day_over", "day_over")


# ---- clients that are slow, or leave


def test_a_client_that_is_late_loses_its_day_and_the_episode(host: RemoteHost) -> None:
    with running(host, seconds=0.1) as run:
        made, _ = waits_for_client(host)
        wait_for(lambda: run.late)
        run.episode.seconds = 60.0
        late = made.call("submit_action", **HOLD)
        other, begun = waits_for_client(host)
        other.call("submit_action", **HOLD)
        run.wait()

    assert late["failure"] == "episode_lost"
    assert begun["text"].endswith("The rules.\n\nDay 1.")
    assert run.late == [True, False]
    assert run.clients == [1, 1]
    assert run.steps[0].acts == ()


def test_a_client_may_have_its_day_again(host: RemoteHost) -> None:
    with running(host) as run:
        made, begun = waits_for_client(host)
        again = made.begin()
        made.go_on(again["text"])
        run.wait()

    assert again == begun
    assert run.clients == [1, 1]


def test_a_session_that_ends_leaves_its_episode_at_the_same_day(host: RemoteHost) -> None:
    tools = Tools(host.server)
    with running(host, days=1) as run:
        session = told(tools, request("initialize", INITIALIZE)).headers["mcp-session-id"]
        begin = request("tools/call", {"name": "begin_episode"})
        look = request("tools/call", {"name": "look"})
        wait_for(lambda: not told(tools, begin, Mcp_Session_Id=session).json()["result"]["isError"])
        told(tools, look, Mcp_Session_Id=session)
        host.server.end_session(session)

        other, begun = waits_for_client(host)
        other.call("submit_action", **HOLD)
        run.wait()

    assert begun["text"].endswith("Day 0.")
    assert (run.late, run.clients) == ([False], [2])
    assert [act.kind for act in run.steps[0].acts] == ["tool", "submit"]


def test_without_a_client_the_run_stops(host: RemoteHost) -> None:
    with running(host, wait_s=0.1) as run:
        run.wait()

    assert isinstance(run.error, ProviderError)
    assert str(run.error) == (
        "agent remote: no client connected for 0.1 s; run the same command again when a client is ready, or raise wait_s="
    )


def test_a_run_that_is_stopped_does_not_wait_for_clients(host: RemoteHost) -> None:
    with running(host, seconds=3600) as run:
        made, _ = waits_for_client(host)
        run.is_stopped = True
        run.wait()

    assert isinstance(run.error, BudgetError)
    assert made.call("look")["failure"] == "episode_over"


# ---- the token


def test_a_token_is_made_once_and_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"

    assert kept_token(path, "made-once-and-kept") == "made-once-and-kept"
    assert kept_token(path, "made-another-time") == "made-once-and-kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"two words of one line", b"\xff" * 20])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=f"token: {path}: "):
        kept_token(path, "made")


def test_a_place_that_is_taken_is_refused_with_what_to_change(
    host: RemoteHost, tmp_path: Path
) -> None:
    port = host.server.server_address[1]
    with pytest.raises(ProviderError) as caught:
        RemoteHost("127.0.0.1", port, str(tmp_path / "token"))

    assert str(caught.value) == (
        f"agent remote: the tool server can't listen on 127.0.0.1 port {port}: Address already in"
        " use; choose another port="
    )


def test_a_listener_is_shared_by_episodes_with_its_token(tmp_path: Path) -> None:
    token = str(token_file(tmp_path))
    port = free_port()
    hosts = Hosts()
    first = hosts.open(RemoteAgentParams(port=port, token=token))
    second = hosts.open(RemoteAgentParams(port=port, token=token))
    with pytest.raises(ProviderError, match=f"port {port}: another run of this process"):
        hosts.open(RemoteAgentParams(port=port, token=str(tmp_path / "other")))
    hosts.close(first)
    hosts.close(second)
    third = hosts.open(RemoteAgentParams(port=port, token=str(tmp_path / "other")))
    hosts.close(third)
    hosts.close_idle()

    assert first.host is second.host
    assert third.host is not first.host
