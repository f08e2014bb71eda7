"""Random sessions on the terminal's endpoints, over HTTP: each next call follows from the answers to
all calls before it, so that whatever an answer gives away changes what comes after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from urllib.parse import urlencode

from ktdeval.values import sha256_hex
from ktdeval_qfinzero.access.server_rules import served as served_catalogue
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.timestamps import DAY, MINUTE, moment_text
from qfinzero_broker_play import thing
from qfinzero_fuzz import CONTRACTS, STOCKS, Maker
from qfinzero_server import Reply, Served
from qfinzero_world import at

OPENED = "2025-01-06T14:30:00Z"
DAYS_END = "2025-02-28"
"""Where clocks start, and where the data of days end; those of minutes end on 2025-01-10."""
LASTING = CONTRACTS[2]
"""Contract that expires on 2025-02-21, after the others."""
FREE_COMMANDS = ("PMB.spread.place", "PMB.option.exercise", "PMB.account.create")
PAGES = ("orders", "trades", "history")
_MOST_ROWS = 1000


@cache
def terminal_catalogue() -> Catalogue:
    """What `ktdeval paper qfinzero serve` serves."""
    return served_catalogue(catalogue())


@dataclass(frozen=True)
class Played:
    """A command as it was sent, and the clock around it."""

    name: str
    given: Any
    before_ns: int
    after_ns: int


class Player:
    """A client of one workspace. `seed`: what its calls follow from, with the answers so far."""

    def __init__(self, served: Served, workspace: str, seed: object, now_ns: int) -> None:
        self.served = served
        self.workspace = workspace
        self.now_ns = now_ns
        self.played: list[Played] = []
        self._heard = sha256_hex(str(seed))
        self._sessions: list[str] = []
        self._is_running = False
        self._frequency = ""

    # ---- calls

    def call(self, name: str, given: Any) -> Reply:
        """Call an operation of the catalogue, and hear the answer."""
        operation = terminal_catalogue().find(name)
        if operation.method == "GET":
            reply = self.served.get(_address(operation, given), self.workspace)
        else:
            reply = self.served.post(*_posted(operation, given), self.workspace)

        before_ns = self.now_ns
        self.hear(reply)
        if operation.changes:
            self.played.append(Played(name, given, before_ns, self.now_ns))

        return reply

    def hear(self, reply: Reply) -> Reply:
        """Take an answer into account."""
        self._heard = sha256_hex(self._heard + without_ids(reply))
        if reply.status < 400:
            self.now_ns = at(reply.body["as_of_ts"])

        return reply

    def branch(self, moment_ns: int, seed: object = "") -> tuple[Reply, Player]:
        """Branch at a moment: the answer, and a client of the branch."""
        given = {"as_of_ts": moment_text(moment_ns)}
        reply = self.served.post("/terminal/branches", given, self.workspace)

        assert reply.status == 201, reply.text
        assert reply.body["as_of_ts"] == given["as_of_ts"]

        branch = Player(self.served, reply.body["workspace_id"], seed, moment_ns)
        branch.look()

        return reply, branch

    def get(self, path: str) -> Reply:
        """Ask for a path."""
        return self.served.get(path, self.workspace)

    def preview(self, given: Any) -> Reply:
        """Preview an order."""
        return self.served.post("/terminal/preview", given, self.workspace)

    def look(self) -> None:
        """See which sessions there are."""
        shown = self.served.get("/v1/accounts", self.workspace).body
        self._sessions = []

        for number in range(1, 20):
            reply = self.served.get(f"/v1/sessions/sess-{number:06d}", self.workspace)
            if reply.status != 200:
                break

            self._sessions.append(reply.body["session_id"])
            self._frequency = reply.body["session"]["frequency"]

        running = [each["session_id"] for each in shown["accounts"] if each["session_id"]]
        self._is_running = bool(running)

    def drop(self) -> None:
        """Leave the workspace."""
        assert self.served.send("DELETE", f"/workspaces/{self.workspace}").status == 200

    # ---- what is played

    def turn(self, until_ns: int | None = None) -> Reply:
        """Make one call. `until_ns`: moment that steps don't go past; they may, where it is None."""
        random = Random(self._heard)
        if not self.played and not self._sessions:
            return self.call("PMB.account.create", {"account_type": random.choice(TYPES)})

        if not self._is_running:
            return self._begin(random, until_ns)

        lot = random.random()
        if lot < 0.3:
            return self._step(random, until_ns)

        if lot < 0.32:
            reply = self.call("PMB.session.stop", {"session_id": self._sessions[-1]})
            self._is_running = reply.status != 200
            return reply

        if lot < 0.38:
            given = {**self.both, "order_id": f"ord-{random.randint(1, 6):06d}"}
            return self.call("PMB.order.cancel", given)

        if lot < 0.44:
            name = random.choice(FREE_COMMANDS)
            return self.call(name, sendable(Maker(random), terminal_catalogue().find(name)))

        return self.call("PMB.order.place", self.order(random))

    def go_past(self, moment_ns: int) -> None:
        """Let time pass beyond a moment."""
        while self.now_ns <= moment_ns:
            if not self._is_running:
                begun = self._begin_at(self.now_ns, "1d", [LASTING])
                assert begun.status == 200, begun.text

            session = {"session_id": self._sessions[-1]}
            until = {**session, "until_ts": moment_text(moment_ns + 3 * DAY)}
            reply = self.call("PMB.session.step", until)
            assert reply.status == 200, reply.text
            self._is_running = reply.body["clock"]["status"] == "RUNNING"

    def order(self, random: Random) -> Any:
        """Arguments of an order: sensible ones mostly, any at all else."""
        if random.random() < 0.7:
            return {**self.both, "order": _sensible(random)}

        made = sendable(Maker(random), catalogue().find("PMB.order.place"))
        if not isinstance(made, dict):
            return made

        return {**made, **self.both}

    @property
    def both(self) -> dict[str, str]:
        """The first account and the last session."""
        session = self._sessions[-1] if self._sessions else "sess-000001"
        return {"account_id": "acct-000001", "session_id": session}

    def _begin(self, random: Random, until_ns: int | None) -> Reply:
        """Begin a session, at once or later."""
        start_ns = self.now_ns + random.choice((0, 0, 1, MINUTE, 5 * DAY // 4))
        if until_ns is not None:
            start_ns = min(start_ns, until_ns)

        frequency = random.choice(("1d", "1m"))
        options = list(CONTRACTS[: random.randint(1, 4)])
        if self.now_ns > at("2025-01-08"):  # before the minutes end, and the first contract
            frequency = "1d"
            options = [LASTING]

        return self._begin_at(start_ns, frequency, options)

    def _begin_at(self, start_ns: int, frequency: str, options: list[str]) -> Reply:
        given = {
            "account_id": "acct-000001",
            "frequency": frequency,
            "start_ts": moment_text(start_ns),
            "end_ts": DAYS_END,
            "universe": {"stocks": list(STOCKS), "options": options},
        }
        reply = self.call("PMB.session.create", given)

        if reply.status == 200:
            self._sessions.append(reply.body["session_id"])
            self._is_running = True
            self._frequency = frequency

        return reply

    def _step(self, random: Random, until_ns: int | None) -> Reply:
        session = {"session_id": self._sessions[-1]}
        if until_ns is None and random.random() < 0.5:
            reply = self.call(
                "PMB.session.step", {**session, "step": random.choice(STEPS[self._frequency])}
            )
        else:
            to_ns = self.now_ns + random.randint(1, random.choice((MINUTE, DAY // 8, 3 * DAY)))
            if until_ns is not None:
                to_ns = min(to_ns, until_ns)

            until = {**session, "until_ts": moment_text(to_ns)}
            reply = self.call("PMB.session.step", until)

        if reply.status == 200:
            self._is_running = reply.body["clock"]["status"] == "RUNNING"

        return reply


TYPES = ("MARGIN", "MARGIN", "MARGIN", "CASH")
STEPS = {"1m": (1, 2, 200, 900), "1d": (1, 1, 2)}
"""Ticks of a step, by the frequency of the session."""


def _sensible(random: Random) -> dict[str, Any]:
    """An order of something that sessions trade, at prices around its own."""
    symbol = random.choice((*STOCKS, *STOCKS, CONTRACTS[0]))
    kind = random.choice(("MARKET", "MARKET", "MARKET", "LIMIT", "STOP", "STOP_LIMIT"))
    around = {"A": 100, "B": 50, "C": 240}.get(symbol[0], 4)
    order: dict[str, Any] = {
        "instrument": thing(symbol),
        "side": random.choice(("BUY", "BUY", "BUY", "SELL")),
        "order_type": kind,
        "qty": random.choice((1, 7, 20, 50, 100, 2_000)),
        "time_in_force": random.choice(("DAY", "GTC")),
    }

    for name in ("limit", "stop"):
        if name.upper() in kind:
            order[f"{name}_price"] = round(around * random.choice((0.95, 0.99, 1.01, 1.05)), 2)

    return order


def sendable(maker: Maker, operation: Operation) -> Any:
    """Arguments that can be written as JSON, valid or not."""
    while True:
        given = maker.arguments(operation)
        try:
            text = json.dumps(given, allow_nan=False)
        except (ValueError, RecursionError):
            continue

        if len(text) < 10_000:
            return given


def _posted(operation: Operation, given: Any) -> tuple[str, Any]:
    """Path and body of a POST."""
    if not operation.path_parameters:
        return operation.path, given

    body = {key: value for key, value in given.items() if key not in operation.path_parameters}

    return operation.path.format(**given), body


def _address(operation: Operation, given: dict[str, Any]) -> str:
    query = {key: value for key, value in given.items() if key not in operation.path_parameters}
    return operation.path.format(**given) + (f"?{urlencode(query)}" if query else "")


def without_ids(reply: Reply) -> str:
    """Text of an answer without the id of a new workspace, which is drawn by chance."""
    if isinstance(reply.body, dict) and "workspace_id" in reply.body:
        return reply.text.replace(reply.body["workspace_id"], "?")

    return reply.text


# ---- what a client sees


def seen(get: Callable[[str], Reply]) -> list[str]:
    """All that a page shows of a workspace but prices: accounts with all that is theirs, sessions,
    and the log. `get`: asks for a path.
    """
    accounts = get("/v1/accounts")
    texts = [accounts.text]

    for account in accounts.body["accounts"]:
        path = f"/v1/accounts/{account['account_id']}"
        texts.append(get(f"{path}/positions").text)
        texts += [get(f"{path}/{name}?limit={_MOST_ROWS}").text for name in PAGES]

    texts += log_pages(get)

    return texts


def log_pages(get: Callable[[str], Reply]) -> list[str]:
    """All pages of the log."""
    texts: list[str] = []
    cursor = ""

    while True:
        page = get(f"/v1/log?limit={_MOST_ROWS}" + (f"&cursor={cursor}" if cursor else ""))
        texts.append(page.text)
        cursor = page.body["next_cursor"]
        if cursor is None:
            return texts


def replayed(played: Sequence[Played], workspace: Workspace, moment_ns: int) -> None:
    """Send the same commands to another workspace up to a moment, as a client would who does not
    want to go past it.
    """
    for each in played:
        if each.before_ns > moment_ns:
            break

        given = each.given
        if each.after_ns > moment_ns:
            if each.name != "PMB.session.step" or each.before_ns == moment_ns:
                break

            given = {"session_id": given["session_id"], "until_ts": moment_text(moment_ns)}

        terminal_catalogue().answer(workspace, each.name, given)

    if workspace.clock.as_of_ns < moment_ns:
        workspace.clock.advance(moment_ns)
        workspace.broker.synchronise()
