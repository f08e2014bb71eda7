"""Host of clients: one listener at which clients begin the episodes of a run and decide them day by
day.

A client that begins an episode holds it, under an id that only this client receives. It holds the
episode until the episode is over, until its time for a day is up, or until it leaves. Then the next
client gets the episode, at its current day.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import ConfigError, ProviderError, StoreError, os_reason
from ktdeval.harness import ExternalSession, ToolCall, ToolResult, ToolSpec, join_parts
from ktdeval.values import read_plain, user_path
from ktdeval_command.clients.remote_params import RemoteAgentParams
from ktdeval_command.clients.remote_server import (
    BEGIN,
    TOOLS_PATH,
    BegunEpisode,
    RemoteCaller,
    RemoteServer,
)
from ktdeval_command.desk.agent_desk import NEXT_DAY, AgentDesk
from ktdeval_command.desk.bridge_server import BridgeAnswers
from ktdeval_command.desk.loopback_server import serving

#: maximum time that a client waits for an episode or a day before it must ask again
LONGEST_ANSWER_S = 20.0
LINGER_S = 30.0  #: seconds for which a listener without an episode stays open
MODEL_NAME = "ktdeval"  #: name by which clients call the run's model
SLICE_S = 0.5  #: seconds between two checks whether the run should end
_MAX_HOLDERS = 100_000  # maximum number of remembered holder ids
_SHORTEST_TOKEN = 16

EPISODE_OVER = "The episode is over. Call begin_episode for another one, or end."
NO_EPISODE = "No episode waits now. Call begin_episode again later; if the run is over, end."
NOT_BEGUN = "You have no episode: call begin_episode first."
NOT_THERE = "The episode's next day is not there yet: call begin_episode again."
UNKNOWN = "There is no such episode: call begin_episode."
LOST = (
    "You hold this episode no longer: your time for a day was up, or you left it. Call"
    " begin_episode; you may get it again, at the day that it has come to."
)


class Clients:
    """State that the episodes of a listener share: the lock, and the time since a client was last
    present.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.holding = 0  #: number of clients that hold an episode
        self._seen_s = time.monotonic()

    def note_client(self) -> None:
        """Note that a client is present."""
        self._seen_s = time.monotonic()

    @property
    def absent_s(self) -> float:
        """Seconds without a client; 0 while a client holds an episode."""
        return 0.0 if self.holding else time.monotonic() - self._seen_s


class RemoteEpisode:
    """An episode that clients decide, one at a time. The run calls `decide` for each of its steps
    in turn.
    """

    def __init__(self, clients: Clients, seconds: float, wait_s: float) -> None:
        """`clients`: the shared state of the listener; `seconds`: limit for a day; `wait_s`: limit
        for the time without any client.
        """
        self._all = clients
        self._changed = clients.changed
        self.seconds = seconds  #: limit for a day
        self._wait_s = wait_s
        self._opening = ""
        self._clients = 0  # number of clients that held the episode during the current day
        self._is_open = False
        self._deadline = 0.0
        self.desk = AgentDesk({}, True, LONGEST_ANSWER_S, EPISODE_OVER)
        self.bridge = BridgeAnswers(self.desk.answer, MODEL_NAME)
        self.holder = ""  #: id of the client that holds the episode; empty if the episode is free

    # --- called by the run

    def decide(
        self, acting: ExternalSession, opening: str, day: str, check: Callable[[], None]
    ) -> tuple[bool, int]:
        """Let clients decide a step. Return whether the time ran out, and how many clients held the
        episode. `opening`: rules that a client receives once; `check`: raises if the run should
        end. Raises ProviderError if no client came.
        """
        with self._changed:
            self._opening = opening
            self._clients = 1 if self.holder else 0
            self._is_open = True
            self._deadline = time.monotonic() + self.seconds
        acting.when_over = self._notify
        self.desk.begin(acting, day, is_told=False)
        self._notify()
        try:
            is_late = self._wait(acting, check)
        finally:
            with self._changed:
                self._is_open = False
            self.desk.end()
        return is_late, self._clients

    def close(self) -> None:
        """End the episode."""
        self.desk.close()
        with self._changed:
            self._drop()

    def _wait(self, acting: ExternalSession, check: Callable[[], None]) -> bool:
        """Wait until the step is over. Return whether the time ran out before that."""
        with self._changed:
            while not acting.is_over:
                check()
                if self.holder and time.monotonic() >= self._deadline:
                    self._drop()
                    return True
                if self._all.absent_s >= self._wait_s:
                    raise ProviderError(
                        f"agent remote: no client connected for {self._wait_s:g} s; run the same "
                        "command again when a client is ready, or raise wait_s="
                    )
                self._changed.wait(SLICE_S)
        return False

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- called by clients; the first three with the lock held

    @property
    def waits(self) -> bool:
        """True if the episode waits for a client."""
        return self._is_open and not self.holder and not self.desk.is_closed

    def take(self, holder: str) -> None:
        """Assign the episode to a client."""
        self.holder = holder
        self._clients += 1
        self._deadline = time.monotonic() + self.seconds
        self._all.holding += 1

    def _drop(self) -> None:
        if self.holder:
            self.holder = ""
            self._all.holding -= 1
            self._all.note_client()

    def leave(self, holder: str) -> None:
        """Release the episode if the client holds it."""
        with self._changed:
            if self.holder == holder:
                self._drop()

    def describe_episode(self) -> str | None:
        """Return the rules and the day for a client that begins; None if the episode is over, or if
        its next day is not ready.
        """
        day = self.desk.take_day()
        return None if day is None else join_parts(self._opening, day)


class RemoteHost:
    """A listener and its open episodes."""

    def __init__(self, host: str, port: int, token_file: str) -> None:
        """Start listening. Raises ProviderError if listening is not possible. Raises ConfigError if
        the file has no token.
        """
        token = secrets.token_urlsafe(32)
        if token_file:
            token = kept_token(user_path(token_file), token)
        self.token_file = token_file
        self._clients = Clients()
        self._changed = self._clients.changed
        self._episodes: list[RemoteEpisode] = []
        self._held: dict[str, RemoteEpisode] = {}
        self._of_session: dict[str, str] = {}
        try:
            self.server = RemoteServer(self, token, (host, port))
        except StoreError as error:
            raise ProviderError(f"agent remote: {error}; choose another port=") from error

        self._running = serving(self.server)
        self._running.__enter__()
        words = f"the token in {token_file}" if token_file else f"the token {token}"
        sys.stderr.write(
            f"agents connect to {self.server.mcp_url} (MCP), or to {self.server.address}{TOOLS_PATH}"
            f" (HTTP), with {words}\n"
        )
        sys.stderr.flush()

    def close(self) -> None:
        """Stop listening."""
        self._running.__exit__(None, None, None)

    # --- called by the run

    def open(self, seconds: float, wait_s: float) -> RemoteEpisode:
        """Return a new episode."""
        episode = RemoteEpisode(self._clients, seconds, wait_s)
        with self._changed:
            self._clients.note_client()
            self._episodes.append(episode)
        return episode

    def end(self, episode: RemoteEpisode) -> None:
        """End an episode."""
        episode.close()
        with self._changed:
            self._episodes.remove(episode)

    @property
    def is_idle(self) -> bool:
        """True if no episode is open."""
        return not self._episodes

    # --- called by clients

    def begin(self, caller: RemoteCaller) -> BegunEpisode:
        """Assign an episode to a client: the episode that it already holds, or the first that
        waits.
        """
        holder = self._holder(caller)
        episode = self._held.get(holder)
        self._clients.note_client()
        if episode is None or episode.holder != holder or episode.desk.is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting() is not None, LONGEST_ANSWER_S)
                episode = self._waiting()
                if episode is None:
                    return BegunEpisode(ToolResult(NO_EPISODE, "no_episode"))
                holder = self._give(episode, caller)

        told = episode.describe_episode()
        if told is None and not episode.desk.is_closed:
            return BegunEpisode(ToolResult(NOT_THERE, "not_there"), holder)
        if told is None:
            return BegunEpisode(ToolResult(EPISODE_OVER, "episode_over"))
        return BegunEpisode(ToolResult(join_parts(f"Episode {holder} has begun.", told)), holder)

    def call(self, caller: RemoteCaller, call: ToolCall) -> ToolResult:
        """Answer a tool call."""
        if call.name == BEGIN.name:
            return self.begin(caller).result

        holder = self._holder(caller)
        if not holder:
            return ToolResult(NOT_BEGUN, "no_episode")
        episode = self._held.get(holder)
        if episode is None:
            return ToolResult(UNKNOWN, "unknown_episode")
        if episode.holder != holder and not episode.desk.is_closed:
            return ToolResult(LOST, "episode_lost")
        return episode.desk.call(call)

    def tools(self, caller: RemoteCaller) -> Sequence[ToolSpec]:
        """Return the tools of a client's episode. Without an episode, return the tools of all open
        episodes.
        """
        episode = self._held.get(self._holder(caller))
        with self._changed:
            if episode is None:
                self._changed.wait_for(lambda: any(self._tools()), LONGEST_ANSWER_S)
                specs = self._tools()
            else:
                specs = list(episode.desk.tools())

        named = {spec.name: spec for spec in (BEGIN, *specs, NEXT_DAY)}
        return list(named.values())

    def bridge(self, holder: str) -> BridgeAnswers | None:
        """Return the model bridge of the episode that a client holds; None if the client does not
        hold it.
        """
        episode = self._held.get(holder)
        if episode is None or episode.holder != holder:
            return None
        return episode.bridge

    def leave(self, session: str) -> None:
        """End a protocol session. Its episode then waits for another client."""
        with self._changed:
            holder = self._of_session.pop(session, "")
        episode = self._held.get(holder)
        if episode is not None:
            episode.leave(holder)
            with self._changed:
                self._changed.notify_all()

    def _holder(self, caller: RemoteCaller) -> str:
        """Return the episode id under which a client acts; empty if the client has not begun an
        episode.
        """
        if caller.episode is not None:
            return caller.episode
        return self._of_session.get(caller.session or "", "")

    def _waiting(self) -> RemoteEpisode | None:
        return next((episode for episode in self._episodes if episode.waits), None)

    def _give(self, episode: RemoteEpisode, caller: RemoteCaller) -> str:
        holder = secrets.token_hex(16)
        episode.take(holder)
        self._held[holder] = episode
        if len(self._held) > _MAX_HOLDERS:
            del self._held[next(iter(self._held))]
        if caller.session is not None:
            self._of_session[caller.session] = holder
            if len(self._of_session) > _MAX_HOLDERS:
                del self._of_session[next(iter(self._of_session))]
        self._changed.notify_all()
        return holder

    def _tools(self) -> list[ToolSpec]:
        specs: dict[str, ToolSpec] = {}
        for episode in self._episodes:
            for spec in episode.desk.tools():
                specs.setdefault(spec.name, spec)
        return list(specs.values())


@dataclass(frozen=True)
class OpenEpisode:
    """An episode with its listener."""

    host: RemoteHost
    episode: RemoteEpisode


class Hosts:
    """Listeners of this process, which all its episodes share. A listener without an episode is
    closed after some time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, int], RemoteHost] = {}

    def open(self, params: RemoteAgentParams) -> OpenEpisode:
        """Return a new episode at the listener for the host and port. Raises the errors of
        `RemoteHost`.
        """
        place = (params.host, params.port)
        with self._lock:
            host = self._hosts.get(place)
            if host is not None and host.token_file != params.token:
                if not host.is_idle:
                    raise ProviderError(
                        f"agent remote: port {params.port}: another run of this process listens there"
                        " with another token; choose another port="
                    )
                host.close()
                host = None
            if host is None:
                host = RemoteHost(params.host, params.port, params.token)
                self._hosts[place] = host
            return OpenEpisode(host, host.open(params.seconds, params.wait_s))

    def close(self, opened: OpenEpisode) -> None:
        """Close an episode. A listener without episodes is closed after some time."""
        opened.host.end(opened.episode)
        timer = threading.Timer(LINGER_S, self.close_idle)
        timer.daemon = True
        timer.start()

    def close_idle(self) -> None:
        """Close listeners without an episode."""
        with self._lock:
            for place, host in list(self._hosts.items()):
                if host.is_idle:
                    del self._hosts[place]
                    host.close()


HOSTS = Hosts()  #: listeners of this process


def kept_token(path: Path, made: str) -> str:
    """Return the token in a file. If the file does not exist, write the new token `made` to it,
    readable only by its user. Raises ConfigError if the file has no token, or can't be read or
    written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise ConfigError(
            f"token: {path}: {os_reason(error, 'give the path of a file in an existing folder')}"
        ) from error

    with os.fdopen(descriptor, "w") as file:
        file.write(f"{made}\n")
    return made


def _read_token(path: Path) -> str:
    try:
        token = read_plain(path, 4096).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"token: {path}: not a file of one line of text") from error
    if len(token) < _SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(
            f"token: {path}: expected a token of at least {_SHORTEST_TOKEN} characters in one line;"
            " delete the file to have one made"
        )
    return token
