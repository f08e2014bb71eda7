"""Calls of the broker terminal's page: branches that know nothing of what came after them, names of
workspaces, previews of orders, and what a server with a token gives to a browser.

KTDEVAL_TERMINAL_SESSIONS is the number of random sessions of each test that plays some.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, log_name
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.pmb.broker import verify
from qfinzero_fuzz import state
from qfinzero_poison import poison, small_world
from qfinzero_server import Reply, Served, serving
from qfinzero_terminal_play import (
    OPENED,
    Played,
    Player,
    log_pages,
    replayed,
    seen,
    terminal_catalogue,
    without_ids,
)
from qfinzero_world import at

SESSIONS = int(os.environ.get("KTDEVAL_TERMINAL_SESSIONS", "1"))
TOKEN = "a-token-of-some-length"
HTML = {"Accept": "text/html,*/*;q=0.8"}
BOTH = {"account_id": "acct-000001", "session_id": "sess-000001"}
SPAN = {
    "account_id": "acct-000001",
    "frequency": "1d",
    "start_ts": "2025-01-07",
    "end_ts": "2025-01-20",
    "universe": {"stocks": ["AVLN"]},
}

MARKET_ORDER = {
    "instrument": {"type": "STOCK", "symbol": "AVLN"},
    "side": "BUY",
    "order_type": "MARKET",
    "qty": 10,
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(terminal_catalogue(), dataset=small_world()) as server:
        yield server


@pytest.fixture(scope="module")
def twin() -> Iterator[Served]:
    """A server whose data each test replaces by others with another future."""
    with serving(terminal_catalogue(), dataset=small_world()) as server:
        yield server


@contextmanager
def player(served: Served, seed: object, opened: str = OPENED) -> Iterator[Player]:
    workspace = served.open(as_of_ts=opened)
    playing = Player(served, workspace, seed, at(opened))
    yield playing
    playing.drop()


def seen_by(client: Player) -> list[str]:
    return seen(client.get)


def workspace_of(client: Player) -> Workspace:
    return client.served.workspaces.find(client.workspace).workspace


def moments_of(played: list[Played], random: Random, most: int) -> list[int]:
    """Some of the moments at which commands begin and end, lie in between, or are next to these."""
    edges = {each.before_ns for each in played} | {each.after_ns for each in played}
    between = {(each.before_ns + each.after_ns) // 2 for each in played}
    beside = {edge + 1 for edge in edges} | {edge - 1 for edge in edges}
    first = min(edges)
    last = max(edges)
    lawful = [each for each in edges | between | beside if first <= each <= last]

    return [first, last, *random.sample(sorted(lawful), min(most, len(lawful)))]


# ---- branches


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SESSIONS + 1))
def test_a_branch_holds_what_the_same_commands_bring_about_up_to_its_moment(
    served: Served, seed: int
) -> None:
    random = Random(seed)
    with player(served, f"replay {seed}") as main:
        for _ in range(20):
            main.turn()

        assert len(main.played) == 20

        for moment_ns in moments_of(main.played, random, 3):
            _, branch = main.branch(moment_ns)
            other = Workspace(small_world(), at(OPENED))
            replayed(main.played, other, moment_ns)
            repeated = Player(served, served.workspaces.add(other), "", moment_ns)
            assert seen_by(branch) == seen_by(repeated)
            verify(workspace_of(branch).broker.log.to_lines(), small_world())

            earlier_ns = random.randint(at(OPENED), moment_ns)
            _, earlier = main.branch(earlier_ns)
            _, of_branch = branch.branch(earlier_ns)
            assert seen_by(earlier) == seen_by(of_branch)
            for client in (branch, repeated, earlier, of_branch):
                client.drop()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SESSIONS + 1))
def test_a_branch_never_shows_anything_after_its_moment(
    served: Served, twin: Served, seed: int
) -> None:
    """Two worlds are one up to a moment. In both, a client whose calls follow from all answers plays
    beyond it and branches back: up to the moment both are told the same, byte for byte.
    """
    random = Random(seed)
    last = ("2025-01-10T21:00:00Z", "2025-02-10")[seed % 2]
    known_ns = random.randint(at(OPENED), at(last))
    twin.workspaces.dataset = poison(small_world(), known_ns)

    with player(served, seed) as ours, player(twin, seed) as theirs:
        both = (ours, theirs)
        for _ in range(25):
            before_ns = ours.now_ns
            answers = [each.turn() for each in both]
            if max(each.now_ns for each in both) > known_ns:
                break

            assert_same(answers)
            assert ours.now_ns == theirs.now_ns >= before_ns

        for each in both:
            each.go_past(known_ns)
            for _ in range(3):
                each.turn()

        moments = [at(OPENED), known_ns, *moments_of(ours.played, random, 4)]
        for moment_ns in sorted({each for each in moments if each <= known_ns}):
            _check_branches(both, moment_ns, known_ns, random)


def assert_same(answers: list[Reply]) -> None:
    ours, theirs = (without_ids(each) for each in answers)
    assert ours == theirs


def _check_branches(
    parents: tuple[Player, Player], moment_ns: int, known_ns: int, random: Random
) -> None:
    """Branch in both worlds, play on up to the moment of the poison, and branch again."""
    seed = random.random()
    opened = [each.branch(moment_ns, seed) for each in parents]
    assert_same([reply for reply, _ in opened])
    branches = [branch for _, branch in opened]
    _check_all_seen(branches, seed)

    for _ in range(4):
        assert_same([each.turn(known_ns) for each in branches])

    earlier_ns = random.randint(at(OPENED), moment_ns)
    again = [each.branch(earlier_ns, seed) for each in branches]
    assert_same([reply for reply, _ in again])
    _check_all_seen([branch for _, branch in again], seed)

    for _, branch in (*opened, *again):
        branch.drop()


def _check_all_seen(branches: list[Player], seed: float) -> None:
    ours, theirs = branches
    assert seen_by(ours) == seen_by(theirs)
    assert_same([each.get("/terminal/lineage") for each in branches])
    assert_same([each.preview(each.order(Random(seed))) for each in branches])


def bought(served: Served, opened: str, until: str) -> Player:
    """A client that has bought ten shares, and let time pass."""
    client = Player(served, served.open(as_of_ts=opened), "", at(opened))
    client.call("PMB.account.create", {})
    client.call("PMB.session.create", SPAN)
    client.call("PMB.order.place", {**BOTH, "order": MARKET_ORDER})
    client.call("PMB.session.step", {"session_id": "sess-000001", "until_ts": until})

    return client


def test_the_other_future_would_be_seen(served: Served, twin: Served) -> None:
    twin.workspaces.dataset = poison(small_world(), at("2025-01-08"))
    both = [bought(each, OPENED, "2025-01-10T21:00:00Z") for each in (served, twin)]
    for moment, is_same in (("2025-01-08", True), ("2025-01-10", False)):
        branches = [each.branch(at(moment))[1] for each in both]
        ours, theirs = (seen_by(each) for each in branches)
        assert (ours == theirs) == is_same


def test_a_session_that_begins_after_the_moment_is_left_out_and_time_passes_to_it(
    served: Served,
) -> None:
    with player(served, "", "2025-01-06T21:00:00Z") as main:
        main.call("PMB.account.create", {})
        main.call("PMB.session.create", {**SPAN, "start_ts": "2025-01-15"})
        _, branch = main.branch(at("2025-01-10T15:00:00Z"))

        assert branch.get("/v1/accounts").body["as_of_ts"] == "2025-01-10T15:00:00Z"
        assert branch.get("/v1/sessions/sess-000001").status == 404
        begun = branch.call("PMB.session.create", {**SPAN, "start_ts": "2025-01-13"})
        assert begun.body["session"]["start_ts"] == "2025-01-13T00:00:00Z"


@pytest.mark.parametrize(
    ("as_of_ts", "status", "words"),
    [
        ("2025-01-10T21:00:00.000000001Z", 409, "the clock stands at 2025-01-10T21:00:00Z"),
        ("2025-02-01", 409, "a branch can't begin after it"),
        ("2025-01-06T14:29:59Z", 409, "the workspace was opened at 2025-01-06T14:30:00Z"),
        ("yesterday", 400, "expected a moment such as"),
        ("", 400, "give `as_of_ts` as"),
        (None, 400, "give `as_of_ts` as"),
    ],
)
def test_a_moment_that_a_branch_can_not_begin_at_is_refused_in_one_line(
    served: Served, as_of_ts: str | None, status: int, words: str
) -> None:
    client = bought(served, OPENED, "2025-01-10T21:00:00Z")
    before = len(served.workspaces)
    refused = served.post("/terminal/branches", {"as_of_ts": as_of_ts}, client.workspace)

    assert (refused.status, refused.error["field"]) == (status, "as_of_ts")
    assert words in refused.error["message"]
    assert "\n" not in refused.error["message"]
    assert len(served.workspaces) == before

    client.drop()


def test_calls_of_the_terminal_name_their_workspace_as_all_calls_do(served: Served) -> None:
    branch = {"as_of_ts": "2025-01-07"}
    for reply in (
        served.post("/terminal/branches", branch),
        served.get("/terminal/lineage"),
        served.post("/terminal/preview", {**BOTH, "order": MARKET_ORDER}),
    ):
        assert (reply.status, reply.error["field"]) == (400, "Qfinzero-Workspace")

    assert served.post("/terminal/branches", branch, "nobody").status == 404
    assert served.post("/terminal/branches", {**branch, "parent": "x"}, served.open()).status == 400


def test_branches_count_among_the_workspaces_of_a_server_and_leave_logs_as_those_do(
    tmp_path: Path,
) -> None:
    limits = WorkspaceLimits(most=2)
    with serving(terminal_catalogue(), limits, logs=tmp_path, dataset=small_world()) as server:
        client = bought(server, OPENED, "2025-01-08")
        given = {"as_of_ts": "2025-01-07"}
        branch = server.post("/terminal/branches", given, client.workspace).body["workspace_id"]
        (page,) = log_pages(lambda path: server.get(path, branch))
        assert (tmp_path / log_name(branch)).read_text().splitlines() == json.loads(page)["lines"]

        refused = server.post("/terminal/branches", given, client.workspace)
        assert (refused.status, refused.error["code"]) == (503, "unavailable")
        assert server.post("/workspaces").status == 503
        assert server.send("DELETE", f"/workspaces/{branch}").status == 200
        assert server.post("/terminal/branches", given, client.workspace).status == 201
        assert len(server.workspaces) == 2


# ---- lineages


def test_a_workspace_names_those_whose_commands_it_repeats_and_gives_no_id_away(
    served: Served,
) -> None:
    main = bought(served, OPENED, "2025-01-15")
    _, first = main.branch(at("2025-01-10"))
    first.call("PMB.session.step", {"session_id": "sess-000001", "until_ts": "2025-01-14"})
    _, second = first.branch(at("2025-01-13"))
    _, third = first.branch(at("2025-01-08"))  # before the first branch began: of `main` alone

    def named(client: Player) -> list[tuple[str, str]]:
        shown = client.get("/terminal/lineage")
        for other in (main, first, second, third):
            assert other.workspace not in shown.text

        assert shown.body["name"] == shown.body["lineage"][-1]["name"]
        assert shown.body["opened_ts"] == OPENED

        return [(each["name"], each["from_ts"][:10]) for each in shown.body["lineage"]]

    root = ("main", "2025-01-06")

    assert named(main) == [root]
    assert named(first) == [root, ("branch 1", "2025-01-10")]
    assert named(second) == [root, ("branch 1", "2025-01-10"), ("branch 2", "2025-01-13")]
    assert named(third) == [root, ("branch 3", "2025-01-08")]

    main.drop()
    assert named(first)[0] == root


# ---- previews


def test_a_preview_counts_as_the_broker_does(served: Served) -> None:
    """The last price is 101.61. With a basis point of slippage, to the next cent, ten shares cost
    1,016.30, and half a cent in fees. While the order works it ties up half of that and the fees.
    """
    with player(served, "", "2025-01-06T21:00:00Z") as client:
        client.call("PMB.account.create", {})
        client.call("PMB.session.create", SPAN)
        preview = client.preview({**BOTH, "order": MARKET_ORDER}).body

    untouched = {"cash": 100_000.0, "equity": 100_000.0, "buying_power": 200_000.0}

    assert preview == {
        "as_of_ts": "2025-01-07T00:00:00Z",
        "accepted": True,
        "reason": None,
        "idempotent": False,
        "price": 101.63,
        "value": 1_016.30,
        "fee": 0.005,
        "reserve": 508.155,
        "before": {**untouched, "reserved": 0.0},
        "placed": {**untouched, "reserved": 508.155},
        "filled": {
            "cash": 98_983.695,  # 100,000 - 1,016.30 - 0.005
            "equity": 99_999.795,  # with shares worth 1,016.10
            "buying_power": 198_983.49,  # twice what equity is above half of their worth
            "reserved": 0.0,
        },
    }


def test_an_order_beyond_the_means_is_previewed_with_the_reason_and_without_a_fill(
    served: Served,
) -> None:
    with player(served, "", "2025-01-06T21:00:00Z") as client:
        client.call("PMB.account.create", {})
        client.call("PMB.session.create", SPAN)
        preview = client.preview({**BOTH, "order": {**MARKET_ORDER, "qty": 5_000}}).body

    assert (preview["accepted"], preview["filled"], preview["reserve"]) == (False, None, 0.0)
    assert preview["reason"].startswith("INSUFFICIENT_BUYING_POWER: ")
    assert preview["placed"] == preview["before"]


class Previewer(Player):
    """A client that previews each order before placing it, and holds the broker to the preview."""

    previewed = 0

    def call(self, name: str, given: Any) -> Reply:
        """Call an operation."""
        if name != "PMB.order.place":
            return super().call(name, given)

        before = self._whole_state()
        preview = self.preview(given)
        again = self.preview(given)

        assert self._whole_state() == before
        assert preview.text == again.text

        placed = super().call(name, given)

        if placed.status != 200:
            assert (preview.status, preview.text) == (placed.status, placed.text)
            return placed

        self.previewed += 1
        order = placed.body["order"]

        assert preview.body["accepted"] == (order["status"] != "REJECTED")
        assert preview.body["reason"] == order["reason"]
        assert preview.body["idempotent"] == placed.body["idempotent"]

        (account,) = self.get("/v1/accounts").body["accounts"][:1]
        assert preview.body["placed"] == {key: account[key] for key in preview.body["placed"]}

        return placed

    def _whole_state(self) -> tuple[Any, ...]:
        workspace = workspace_of(self)
        return state(workspace), workspace.broker.log.to_lines()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SESSIONS + 1))
def test_a_preview_changes_nothing_and_says_what_placing_the_order_then_does(
    served: Served, seed: int
) -> None:
    client = Previewer(served, served.open(as_of_ts=OPENED), f"preview {seed}", at(OPENED))
    for _ in range(20):
        client.turn()

    assert client.previewed > 0

    client.drop()


# ---- the rest of the server


def test_agents_get_no_tools_of_the_terminal(served: Served) -> None:
    paths = served.get("/openapi.json").body["paths"]
    assert not [path for path in paths if path.startswith("/terminal")]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with serving(terminal_catalogue(), security=AccessRules(None, TOKEN)) as server:
        yield server


def status_of(served: Served, method: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("page", ["/", "/health", "/playground", "/terminal/"])
def test_a_browser_gets_pages_without_the_token(guarded: Served, page: str) -> None:
    assert status_of(guarded, "GET", page, **HTML) == 200


@pytest.mark.parametrize(
    "asset",
    [
        "/terminal/assets/terminal.js",
        "/terminal/assets/vendor/vega.min.js",
        "/playground/assets/kit.css",
    ],
)
def test_what_a_page_loads_needs_no_token(guarded: Served, asset: str) -> None:
    assert status_of(guarded, "GET", asset) == 200


@pytest.mark.parametrize(
    "path", ["/", "/health", "/workspaces", "/terminal/branches", "/terminal/assets/kit.js"]
)
def test_nothing_is_posted_without_the_token(guarded: Served, path: str) -> None:
    assert status_of(guarded, "POST", path, **HTML) == 401


def test_data_are_read_with_the_token_only(guarded: Served) -> None:
    assert status_of(guarded, "GET", "/terminal", **HTML) == 307

    data = (
        "/", "/health/report", "/health/calendar", "/playground/choices", "/playground/chats",
        "/terminal/lineage", "/terminal/assets/../lineage", "/terminal/assets/..%2Flineage",
        "/terminal/assets/vendor/../../lineage", "/v1/accounts", "/v1/log", "/openapi.json",
    )  # fmt: skip

    for path in data:
        headers = {} if path == "/" else HTML
        assert status_of(guarded, "GET", path, **headers) in (401, 404), path

    assert status_of(guarded, "GET", "/", Authorization=f"Bearer {TOKEN}") == 200
