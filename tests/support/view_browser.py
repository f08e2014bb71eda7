"""A real browser to look at pages with: what a script in the page finds, what keys do, what is logged and asked of the network."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import subprocess
import time
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import aiohttp

from chromium import CHROMIUM, DRAWS, FLAGS

T = TypeVar("T")

_SPECIAL_KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Escape": 27, "Tab": 9}


class Browser:
    """One headless Chromium, spoken to by its debugging protocol; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        profile = self._folder / "profile"
        command = [str(CHROMIUM), *FLAGS, "--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = profile / "DevToolsActivePort"
        deadline = time.monotonic() + 240
        while not (port_file.exists() and len(port_file.read_text().split()) == 2):
            assert self._process.poll() is None, "the browser has ended"
            assert time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.02)
        port, path = port_file.read_text().split()
        self._run(self._connect(f"ws://127.0.0.1:{port}{path}"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run(self._disconnect())
        self._process.terminate()
        self._process.wait(240)
        self._loop.close()

    async def _connect(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(address, max_msg_size=0)
        self._reader = asyncio.create_task(self._read())

    async def _disconnect(self) -> None:
        self._reader.cancel()
        await self._socket.close()
        await self._session.close()

    async def _read(self) -> None:
        async for message in self._socket:
            value = json.loads(message.data)
            if "id" in value:
                self._answers.pop(value["id"]).set_result(value)
            else:
                self.events.append(value)

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(what, 240))

    async def _ask(self, method: str, session: str | None, parameters: dict[str, Any]) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = self._loop.create_future()
        await self._socket.send_json(
            {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        )
        value = await answer
        if "navigated" in value.get("error", {}).get("message", ""):
            raise LeftThePageError(value["error"]["message"])
        assert "error" not in value, (method, value["error"])
        return value["result"]

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        return self._run(self._ask(method, session, parameters))

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False, attempts: int = 20) -> Tab:
        """A tab of that size and colour scheme, once its page has loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.ask(f"{domain}.enable")
        tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.ask("Emulation.setEmulatedMedia", features=[scheme])
        tab.ask("Page.navigate", url=address)
        tab.wait_for("document.readyState === 'complete'")
        if not tab.value(DRAWS):
            assert attempts > 1, "the browser draws no frame"
            self.ask("Target.closeTarget", targetId=target)
            return self.open(address, width, height, dark, attempts - 1)
        return tab


class LeftThePageError(Exception):
    """The page went elsewhere while an expression in it was evaluated."""


class Tab:
    """One page in a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def ask(self, method: str, **parameters: Any) -> Any:
        return self._browser.ask(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """What an expression in the page is, as JSON; promises are waited for."""
        done = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + 240
        while not self._holds(condition):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.value(condition))
        except LeftThePageError:  # a link was followed while it was asked
            return False

    def press(self, *keys: str) -> None:
        """Press keys one after the other, as a keyboard does."""
        for key in keys:
            if key in _SPECIAL_KEYS:
                named = {"key": key, "code": key, "windowsVirtualKeyCode": _SPECIAL_KEYS[key]}
                self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **named)
            else:
                named = {"key": key}
                self.ask("Input.dispatchKeyEvent", type="keyDown", text=key, **named)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, selector: str) -> None:
        place = self.value(
            f"(() => {{ const part = document.querySelector({json.dumps(selector)}); part.scrollIntoView({{block: 'center'}});"
            " const box = part.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def text(self, selector: str) -> str:
        """The letters of an element as they are seen."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def screenshot(self, path: Path) -> Path:
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path

    def events(self, method: str) -> list[dict[str, Any]]:
        """Events of one kind that this tab has sent so far."""
        self.value("0")  # what was sent before this answer has been read
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]

    def troubles(self) -> list[str]:
        """Everything that went wrong in the page: exceptions, errors in its log, and requests other than for the page itself."""
        raised = [event["exceptionDetails"]["text"] for event in self.events("Runtime.exceptionThrown")]
        logged = [
            event["entry"]["text"] for event in self.events("Log.entryAdded") if event["entry"]["level"] in ("error", "warning")
        ]
        asked = [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
        return raised + logged + [url for url in asked if not url.startswith(("file:", "data:"))]
