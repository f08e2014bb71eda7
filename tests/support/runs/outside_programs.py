"""Programs of one file that decide as an agent `command`, the runs that start them, and a provider
on loopback that keeps what it is asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.testing import AnsweringHandler, running_server
from support.runs.run_support import SAME_MASK, TASK, WINDOW, Done, episodes, ktdeval
from support.runs.transcripts import read_transcript

HEAD = """
import http.client, json, os, re, sys, time, urllib.error, urllib.request

BRIDGE = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
KEY = os.environ["OPENAI_API_KEY"]
TOOLS = os.environ["KTDEVAL_TOOLS_URL"].removesuffix("/mcp")
TOKEN = os.environ["KTDEVAL_TOOLS_TOKEN"]
HOLD = {"orders": [], "overall_reason": "Nothing looks worth the fees."}

def post(url, body, key):
    sent = urllib.request.Request(url, json.dumps(body).encode(), {
        "Authorization": "Bearer " + key, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(sent, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)

def tool(name, **arguments):
    return post(f"{TOOLS}/tools/{name}", arguments, TOKEN)

def submit(decision=HOLD):
    return tool("submit_action", **decision)

def ask(text="What now?", **more):
    body = {"model": "any", "messages": [{"role": "user", "content": text}], **more}
    return post(BRIDGE + "/v1/chat/completions", body, KEY)

def words(answer):
    return answer["choices"][0]["message"]["content"] or ""

"""
"""First lines of each program: how it asks the model bridge and the tool server."""

PROGRAM = "trader.py"
OUTSIDE_PLUGIN = Path(__file__).with_name("outside_plugin.py")
_PATIENT = ("--canary", 0, "--tool-protocol", "native", "--max-retries", 0, "--cache", "run")
ANSWER = "Hold: nothing looks worth the fees."


@dataclass
class Provider:
    """A provider of Chat Completions that keeps the bodies of its requests, and how it answers: a
    message, or a status.
    """

    reply: Callable[[Any], Mapping[str, Any] | int]
    bodies: list[Any] = field(default_factory=list)
    base_url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def words(self) -> tuple[object, ...]:
        """Words of a command that ask it."""
        return ("--model", "openai_compatible/m", "--base-url", self.base_url, *_PATIENT)

    @property
    def text(self) -> str:
        """All that it was asked."""
        return json.dumps(self.bodies, ensure_ascii=False)


def said(_body: Any) -> Mapping[str, Any]:
    """Answer each request alike."""
    return {"role": "assistant", "content": ANSWER}


class _Handler(AnsweringHandler):
    """Answers as the provider of its server does."""

    provider: Provider

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # who asked was killed
            self._answer()

    def _answer(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        with self.provider.lock:
            self.provider.bodies.append(body)
        message = self.provider.reply(body)
        if isinstance(message, int):
            self.answer(b'{"error": {"message": "no"}}', message)
            return

        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        content = json.dumps({**whole, "choices": [choice], "usage": usage}).encode()
        self.answer(content, headers={"Content-Type": "application/json"})


@contextmanager
def provider(reply: Callable[[Any], Mapping[str, Any] | int] = said) -> Iterator[Provider]:
    """Run a provider on a free port."""
    made = Provider(reply)
    handler = type("Handler", (_Handler,), {"provider": made})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    made.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with running_server(server):
        yield made


@dataclass(frozen=True)
class Place:
    """A folder that commands are started in, with a market."""

    folder: Path
    market: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def write(self, body: str, head: str = HEAD) -> None:
        """Write the program."""
        (self.folder / PROGRAM).write_text(head + dedent(body))

    def command(self, *words: object, steps: int = 1, **arguments: object) -> list[object]:
        """Words of a run of the program for some steps; `arguments` of the agent."""
        given = {"run": f"python3 {PROGRAM}", "sandbox": "none", **arguments}
        pairs = [f"{name}={value}" for name, value in given.items()]
        model = () if "--model" in words else ("--model", "builtin/hold")
        agent = [word for pair in pairs for word in ("--agent-args", pair)]
        task = ("--tasks", TASK, "--windows", WINDOW, "--limit", steps, *SAME_MASK)
        out = ("--data", self.market, "--out", self.run)
        return ["--agent", "command", *agent, *model, *task, *out, *words]

    def play(self, body: str, *words: object, steps: int = 1, **arguments: object) -> Done:
        """Run a program with these statements after `HEAD`."""
        self.write(body)
        return self.again(*words, steps=steps, **arguments)

    def again(self, *words: object, steps: int = 1, **arguments: object) -> Done:
        """Run the program that is there, as `command` says."""
        given = self.command(*words, steps=steps, **arguments)
        return ktdeval(*given, cwd=self.folder, environment=KEYS)

    @property
    def steps(self) -> Sequence[Any]:
        """Steps in the ledger of the one episode."""
        (episode,) = episodes(self.run)
        return load_ledger(episode / "ledger.parquet").steps

    @property
    def entries(self) -> list[Any]:
        """Entries of the transcript of the one episode."""
        (episode,) = episodes(self.run)
        return read_transcript(episode)

    @property
    def acts(self) -> list[dict[str, Any]]:
        """Acts of its first step."""
        acts: list[dict[str, Any]] = self.entries[0]["external"]["acts"]
        return acts

    @property
    def report(self) -> dict[str, Any]:
        """What was seen of the program in its first step."""
        report: dict[str, Any] = self.entries[0]["external"]["report"]
        return report

    def verified(self) -> Done:
        """Verify the card."""
        words = ("--plugin", OUTSIDE_PLUGIN)
        return ktdeval("card", "verify", self.run, *words, cwd=self.folder)


def given_more_time(
    place: Place,
    body: str,
    is_cut: Callable[[Place, Done], bool],
    **arguments: Any,
) -> tuple[Place, Done]:
    """Run a program that has to be stopped by its time for a step, with more of it each time, until
    it got as far as it should: how long that takes is up to the machine. Return the folder of the
    last run, and what came of it. `is_cut`: whether it was stopped before.
    """
    for seconds in (1, 8, 64):
        there = Place(place.folder / f"{seconds}s", place.market)
        there.folder.mkdir()
        done = there.play(body, seconds=seconds, **arguments)
        if not is_cut(there, done):
            break

    return there, done


def did_nothing(_place: Place, done: Done) -> bool:
    """Whether a run ended since its program was stopped before it did anything."""
    return "before it did anything" in done.err


KEYS = {"OPENAI_COMPATIBLE_API_KEY": "sk-of-this-test-only"}


TRADER = r"""
def listed():
    asked = urllib.request.Request(TOOLS + "/tools", headers={"Authorization": "Bearer " + TOKEN})
    return json.load(urllib.request.urlopen(asked))["tools"]

def decide(text):
    offered = [{"type": "function", "function": {
        "name": each["name"], "description": each["description"], "parameters": each["parameters"],
    }} for each in listed()]
    messages = [{"role": "user", "content": text}]
    while True:
        message = ask_all(messages, offered)
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            messages.append({"role": "user", "content": "Submit now."})
        for call in calls:
            name = call["function"]["name"]
            told = tool(name, **json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": told["text"]})
            if name == "submit_action" and told["failure"] is None:
                return

def ask_all(messages, offered):
    body = {"model": "any", "messages": messages, "tools": offered}
    return post(BRIDGE + "/v1/chat/completions", body, KEY)["choices"][0]["message"]

text = sys.stdin.read()
decide(text)
while "next_day" in text and "episode is over" not in (day := tool("next_day")["text"]):
    decide(day)
"""
"""A loop as programs have it: the model calls tools until a submission of it is accepted."""
