"""Health page and playground in a real browser: a chat with a stub model that is killed in the
middle and resumed, by keyboard alone, light and dark, on a laptop and on a telephone.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.testing import Terminal, wait_for
from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.pages.chat_store import ChatStore
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.chat.task import ChatTask
from support.pages.browser_pages import (
    Chromium,
    axe_violations,
    is_shown,
    needs_browser,
    page_troubles,
    press,
    scrolls_sideways,
    wait_until,
)
from support.qfinzero.chat_stub import ANSWER, ChatStub, chat_stub
from support.qfinzero.playground_server import PlaygroundServer, playground_server
from support.qfinzero.qfinzero_server import Served, serving
from support.runs.run_support import ktdeval

pytestmark = [needs_browser, pytest.mark.exhaustive]

TOKEN = "a-token-of-some-length"
QUESTION = "What did AVLN close at?"
IS_READY = "document.getElementById('chat').dataset.state === 'ready'"
IS_UNFINISHED = "document.getElementById('chat').dataset.state === 'unfinished'"
IS_DRAWN = "!document.getElementById('content').hasAttribute('aria-busy')"


@contextmanager
def opened(
    chromium: Chromium, server: PlaygroundServer | Served, width: int = 1280, scheme: str = "light"
) -> Iterator[Any]:
    """A page in which nothing may go wrong, and which may ask this server only."""
    troubles: list[str] = []
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on(
        "request",
        lambda request: request.url.startswith(server.address) or troubles.append(request.url),
    )
    yield tab
    context.close()

    assert troubles == []


def go(tab: Any, server: PlaygroundServer | Served, path: str) -> None:
    tab.goto(f"{server.address}{path}")
    wait_until(tab, IS_DRAWN)


def focused(tab: Any, key: str, selector: str) -> None:
    """Move through a page by a key until an element has the focus."""
    for _ in range(40):
        if tab.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
            return

        press(tab, key)

    pytest.fail(f"{selector} is not reached by {key}")


def records(run: Path) -> dict[str, bytes]:
    """Answers and transcripts of a run's episodes."""
    found = [*run.glob("episodes/*/*.zst")]
    assert found
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


def command(home: Path, *words: object) -> str:
    """Run `ktdeval WORDS` in a folder; return what it prints."""
    done = ktdeval(*words, cwd=home)
    assert done.code == 0, done.err
    return done.out


def model_of(stub: ChatStub) -> str:
    return f"openai_compatible/stub(base_url={stub.base_url})"


def test_chat_killed_midway_is_resumed_and_scores_as_on_the_command_line(
    chromium: Chromium, tmp_path: Path, terminal: Terminal
) -> None:
    with chat_stub(hold_at=2) as stub:
        words = ("--model", model_of(stub), "--watch", str(tmp_path))
        with playground_server(tmp_path, *words) as server, opened(chromium, server) as tab:
            go(tab, server, "/playground")
            focused(tab, "Tab", "form button")
            press(tab, "Enter")
            wait_until(tab, "document.activeElement.id === 'instruction'")
            tab.keyboard.type(QUESTION)
            press(tab, "Control+Enter")
            wait_until(tab, "document.querySelector('.call pre')")  # shown while it runs
            assert stub.held.wait(60)
            # the half of the answer that has come
            wait_until(tab, "document.getElementById('coming').innerText.includes('AVLN closed')")
            address = tab.evaluate("location.hash")
            tab.goto("about:blank")
            server.kill()
            stub.released.set()

        chat = address.removeprefix("#")
        folder = tmp_path / "ktdeval-chats" / chat
        assert not list(folder.glob("run/episodes/*/episode.json"))

        with playground_server(tmp_path, *words) as server:
            with opened(chromium, server, 390, "dark") as tab:
                _resume_in(tab, server, address)
                assert len(stub.questions) == 3  # the first reply was paid for once
                _keep_a_sample(tab)

            _end_while_it_answers(server, stub, chat)
            told = str(stub.questions[-1]["messages"])
            assert QUESTION in told
            assert "And the day before?" in told
            assert ANSWER.split()[0] in told

        # What came before the end is not asked again; then a turn whose run never began.
        terminal.out("run", "--config", folder / "run.yaml")
        assert len(stub.questions) == 5
        store = ChatStore(folder.parent, 9)
        assert store.add_turn(chat, "And at noon?") == 3
        store.keep_options(chat)
        terminal.out("run", "--config", folder / "run.yaml")
        assert len(stub.questions) == 7

        _check_as_the_command_line(terminal, folder, tmp_path / "other")
        assert len(stub.questions) == 13


def _resume_in(tab: Any, server: PlaygroundServer, address: str) -> None:
    go(tab, server, f"/playground{address}")
    wait_until(tab, IS_UNFINISHED)
    tab.focus("text=Resume")
    press(tab, "Enter")
    wait_until(tab, IS_READY)

    assert is_shown(tab, QUESTION)
    assert is_shown(tab, ANSWER)  # as text
    assert tab.title() == "Playground"
    assert tab.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert not scrolls_sideways(tab)
    assert axe_violations(tab) == []


def _keep_a_sample(tab: Any) -> None:
    tab.click("text=Make this a sample")
    tab.click("text=Keep the sample")
    wait_until(tab, "document.querySelector('#sample .command')")


def _end_while_it_answers(server: PlaygroundServer, stub: ChatStub, chat: str) -> None:
    """Send a signal to end while a reply is under way, of a provider that refuses to stream: it is
    waited for.
    """
    stub.streams = False
    stub.hold(at=4)
    server.json(f"/playground/chats/{chat}/turns", {"instruction": "And the day before?"})

    assert stub.held.wait(60)

    assert "refused: Unknown" in server.json(f"/playground/chats/{chat}")["coming"]
    server.process.terminate()
    wait_for(lambda: server.call("POST", f"/playground/chats/{chat}/resume", {})[0] == 503)
    stub.released.set()

    assert server.process.wait(60) == -signal.SIGTERM


def _check_as_the_command_line(terminal: Terminal, folder: Path, other: Path) -> None:
    """Run the same turns by the command line in another folder: the same records and cards."""
    cards = {path.name: json.loads(path.read_text()) for path in folder.glob("run/cards/*.json")}

    assert len(cards) == 3

    shutil.copytree(folder, other, ignore=shutil.ignore_patterns("run"))
    options = yaml.safe_load((other / "run.yaml").read_text())
    options["out"] = str(other / "run")
    (other / "run.yaml").write_text(yaml.safe_dump(options))
    terminal.out("run", "--config", other / "run.yaml")

    assert records(other / "run") == records(folder / "run")

    terminal.out("score", folder / "run")
    assert "verified" in terminal.out("card", "verify", folder / "run")

    for name, before in cards.items():
        scored = json.loads((folder / "run" / "cards" / name).read_text())
        by_command = json.loads((other / "run" / "cards" / name).read_text())
        for card in (before, scored, by_command):
            del card["provenance"]

        assert before == scored == by_command
        assert before["rankable"]["reasons"] == [ChatTask.traits.never_ranked]


def test_pages_are_readable_and_a_turn_becomes_a_sample(chromium: Chromium, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    script = "otherwise: [{call: upq_symbols_list, arguments: {}}, Done.]\n"
    (tmp_path / "talk.yaml").write_text(script)
    words = ("--model", "builtin/script(file=talk.yaml)", "--watch", "empty")

    with playground_server(tmp_path, *words) as server:
        for width, scheme in product((1280, 390), ("light", "dark")):
            with opened(chromium, server, width, scheme) as tab:
                for path in ("/", "/health", "/playground"):
                    go(tab, server, path)
                    assert page_troubles(tab) == []

        with opened(chromium, server) as tab:
            go(tab, server, "/health")
            tab.focus("summary:has-text('crypto')")
            press(tab, "Enter")
            labels = "[...document.querySelectorAll('svg.heat')].map(one => one.ariaLabel).join()"
            assert "1 days some instruments missing" in tab.evaluate(labels)
            assert is_shown(tab, "not a dataset")

            go(tab, server, "/playground")
            tab.click("button:has-text('Begin')")
            tab.fill("#instruction", "List the symbols.")
            tab.click("button:has-text('Send')")
            wait_until(tab, f"{IS_READY} && document.querySelector('.turn')")
            tab.click("text=Make this a sample")
            tab.click("text=Keep the sample")
            wait_until(tab, "document.querySelector('#sample .command')")
            assert axe_violations(tab) == []

    tasks = tmp_path / "ktdeval-chats" / "samples" / "my_planning.yaml"
    words = ("--model", "builtin/trivial", "--tasks", tasks, "--quiet")

    assert "my_planning" in command(tmp_path, "run", *words)


def test_pages_of_a_token_server_ask_for_the_token_and_do_not_expose_it(
    chromium: Chromium,
) -> None:
    with (
        serving(catalogue(), security=AccessRules(None, TOKEN)) as server,
        opened(chromium, server) as tab,
    ):
        go(tab, server, "/health")
        wait_until(tab, "document.activeElement.matches('input[type=password]')")
        tab.keyboard.type("a-token-of-somebody-else")
        press(tab, "Enter")
        wait_until(tab, "document.querySelector('[role=alert]')")
        assert axe_violations(tab) == []
        tab.keyboard.type(TOKEN)
        press(tab, "Enter")
        wait_until(tab, "document.body.innerText.includes('PMB.account.list')")
        tab.click("button:has-text('Check the whole dataset')")
        wait_until(tab, "document.querySelector('[aria-live]').innerText")
        assert TOKEN not in tab.url
        assert tab.evaluate("localStorage.length + sessionStorage.length") == 0
        go(tab, server, "/playground")  # which knows no token of another page
        assert tab.locator("input[type=password]").count() == 1
