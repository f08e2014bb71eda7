"""The server of a person's page: one browser, one address, and no page of anybody else's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from ktdeval.errors import ProviderError
from ktdeval.harness import Message, ModelRequest, ToolSpec
from ktdeval_human.page import PageDesk
from ktdeval_human.person import Act
from ktdeval_human.shown import show_request
from support.raw_requests import answer_to, statuses

SUBMIT = ToolSpec(
    "submit_answer",
    "Submits.",
    {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
MOMENT = show_request(
    ModelRequest(
        (Message("user", "What is 2 + 3?"),), tools=(SUBMIT,), submit_tool="submit_answer", step=0
    )
)


class Browser:
    """Sends requests as the page's browser does, or as somebody else would."""

    def __init__(self, page: PageDesk) -> None:
        self.host = page.address.split("/")[2]
        self.token = page.address.rsplit("/", 1)[1]
        self.cookie = ""

    def send(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection(self.host, timeout=30)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def open(self) -> int:
        status, headers, _ = self.send("GET", f"/open/{self.token}")
        self.cookie = headers.get("Set-Cookie", "").partition(";")[0]
        return status

    def act(self, body: object, **changes: str) -> tuple[int, Any]:
        headers = {"Content_Type": "application/json", "Origin": f"http://{self.host}"} | changes
        status, _, text = self.send("POST", "/act", body, **headers)
        return status, json.loads(text)

    def state(self) -> Any:
        return json.loads(self.send("GET", "/state?seen=-1")[2])


class Asked:
    """A run that waits at a moment of a page."""

    def __init__(self, page: PageDesk) -> None:
        self.act: Act | None = None
        self.has_left = False
        self._page = page
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self.act = self._page.ask(MOMENT)
        except KeyboardInterrupt:
            self.has_left = True

    def done(self) -> Asked:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self


@pytest.fixture
def page() -> Iterator[PageDesk]:
    told: list[str] = []
    page = PageDesk(0, told.append)
    assert told == [f"human/page: open {page.address} in a browser of this machine (once)"]
    yield page
    page.close()


@pytest.fixture
def browser(page: PageDesk) -> Browser:
    browser = Browser(page)
    assert browser.open() == 303
    return browser


def version_of(browser: Browser) -> int:
    """Version of the moment, once the run waits at it."""
    state = browser.state()
    while state["moment"] is None:
        state = browser.state()
    return int(state["version"])


def test_the_token_opens_one_browser(page: PageDesk) -> None:
    first = Browser(page)
    other = Browser(page)

    assert (first.open(), other.open()) == (303, 403)
    assert first.send("GET", "/")[0] == 200
    assert other.send("GET", "/")[0] == 403


# ==== who is answered


@pytest.mark.parametrize("path", ["/", "/state?seen=0", "/kit.js", "/page.js", "/open/wrong"])
def test_nobody_else_is_answered(browser: Browser, path: str) -> None:
    for cookie in ("", "ktdeval_person=guess", "ktdeval_person"):
        browser.cookie = cookie
        assert browser.send("GET", path)[0] == 403


def test_the_cookie_is_for_this_page_alone(page: PageDesk) -> None:
    browser = Browser(page)

    _, headers, _ = browser.send("GET", f"/open/{browser.token}")

    _, _, attributes = headers["Set-Cookie"].partition(";")
    assert attributes == " HttpOnly; SameSite=Lax; Path=/"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "localhost", ""])
def test_another_name_that_leads_here_is_refused(browser: Browser, host: str) -> None:
    status, _, text = browser.send("GET", "/state?seen=0", Host=host)

    assert status == 421
    assert f"http://{browser.host}" in json.loads(text)["problem"]


def test_a_page_of_another_origin_sends_nothing(browser: Browser, page: PageDesk) -> None:
    asked = Asked(page)
    body = {"version": version_of(browser), "leave": True}

    assert browser.act(body, Origin="http://evil.example")[0] == 403
    assert browser.act(body, Content_Type="text/plain")[0] == 415
    assert browser.act(body)[0] == 200
    assert asked.done().has_left


def test_every_answer_forbids_other_sources(browser: Browser) -> None:
    for path in ("/", "/page.js", "/page.css", "/kit.js", "/kit.css", "/state?seen=-1", "/none"):
        policy = browser.send("GET", path)[1]["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy


def test_a_port_that_is_taken_is_a_line(page: PageDesk) -> None:
    port = int(page.address.split(":")[2].split("/")[0])

    with pytest.raises(ProviderError, match=f"port {port}: .*; choose another --model-args port=N"):
        PageDesk(port, lambda _: None)


# ==== what is sent


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"fields": {"answer": "five"}}, "answer: 'five' is not a number"),
        ({"fields": {}}, "answer: is missing; a whole number"),
        ({"fields": {"answer": 5}}, "the form was not sent as texts"),
        ({"fields": [], "rows": {}}, "the form was not sent as texts"),
        ({"rows": {"answer": "5"}}, "the form was not sent as texts"),
        ({"tool": "rm"}, "this tool is not on offer now"),
        ({"tool": None}, "this tool is not on offer now"),
        ({"text": " "}, "the answer is empty"),
    ],
)
def test_a_form_that_is_not_filled_is_told_and_the_run_waits_on(
    browser: Browser, page: PageDesk, sent: dict[str, Any], problem: str
) -> None:
    asked = Asked(page)
    version = version_of(browser)

    status, told = browser.act({"version": version, "tool": "submit_answer", **sent})
    assert (status, told["problem"]) == (422, problem)
    # of a field, where it is and what the page writes beside it
    assert problem == ": ".join([*told["place"], told["at_field"]])

    browser.act({"version": version, "leave": True})
    assert asked.done().act is None


def test_a_second_tab_does_not_decide_twice(browser: Browser, page: PageDesk) -> None:
    asked = Asked(page)
    sent = {"version": version_of(browser), "tool": "submit_answer", "fields": {"answer": "5"}}

    assert browser.act(sent)[0] == 200
    asked.done()
    status, answer = browser.act(sent)

    assert (status, answer["problem"]) == (
        409,
        "this step is over; the page shows the current one",
    )


@pytest.mark.parametrize("body", [[], "x", None, 1])
def test_a_message_that_is_no_object_is_refused(browser: Browser, body: object) -> None:
    headers = {"Content_Type": "application/json", "Origin": f"http://{browser.host}"}

    assert browser.send("POST", "/act", json.loads("null") if body is None else body, **headers)[
        0
    ] in (413, 422)


def test_a_long_message_is_refused_unread(browser: Browser) -> None:
    headers = {"Content_Type": "application/json", "Origin": f"http://{browser.host}"}

    assert browser.send("POST", "/act", None, Content_Length="99999999", **headers)[0] == 413


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Content-Length: 000000000000000300000000", 400),
        ("Content-Length: 300000000", 413),
        ("Content-Length: 1048577", 413),
        ("Content-Length: -1", 400),
        ("Content-Length: +5", 400),
        ("Content-Length: 5\r\nContent-Length: 5", 400),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked", 400),
    ],
)
def test_a_message_of_another_length_is_refused_before_it_is_read(
    lines: str, status: int, browser: Browser
) -> None:
    port = int(browser.host.partition(":")[2])
    head = (
        f"POST /act HTTP/1.1\r\nHost: {browser.host}\r\nOrigin: http://{browser.host}\r\n"
        f"Cookie: {browser.cookie}\r\nContent-Type: application/json\r\n{lines}\r\n\r\n"
    )

    # the body never comes: a server that waits for it would be silent
    assert statuses(answer_to(port, head.encode())) == [status]


def test_the_body_of_a_page_request_is_not_read_as_a_second_request(browser: Browser) -> None:
    port = int(browser.host.partition(":")[2])
    hidden = f"GET /state?seen=-1 HTTP/1.1\r\nHost: {browser.host}\r\n\r\n".encode()
    head = (
        f"GET / HTTP/1.1\r\nHost: {browser.host}\r\nCookie: {browser.cookie}\r\n"
        f"Content-Length: {len(hidden)}\r\n\r\n"
    )

    assert statuses(answer_to(port, head.encode() + hidden)) == [200]
