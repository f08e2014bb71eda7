"""What a program costs as an agent: a call through the model bridge and the tool server beside the
built-in `react`, a step with and without walls, and many programs at once.

    python benchmarks/bench_command.py [--steps 10] [--window W1] [--programs 50]

A scripted model notes when it is asked. A turn is the time from one of its replies to the next: the
reply reaches the agent, a research tool is called, and the model is asked again with the result. So
the difference of two agents is one call of the bridge and one of the tool server. Both agents take
the same turns in one process, on the same days; the median turn counts. Programs keep their
connections open, as SDKs do. A step's cost is that of a program which only submits, beside `react`
with a model that holds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ktdeval.cli.main import main as ktdeval_main
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval_command.sandboxes.sandbox import SandboxError, open_sandbox

TASK = "blinded_open_research"
TURNS = 10  # calls of tools in a step: two fewer than the task allows

PLUGIN = f"""
import time
from ktdeval.harness import ModelTraits, Reply, ToolCall
from ktdeval.hookspecs import Spec, hookimpl

class Turns:
    traits = ModelTraits(is_free=True)

    def __init__(self):
        self.last = None

    def reply(self, request):
        now = time.perf_counter()
        turn = sum(message.role == "assistant" for message in request.messages)
        with open("turns", "a") as file:
            if 1 < turn <= {TURNS}:
                file.write(f"{{now - self.last}}\\n")
        if turn < {TURNS}:
            reply = called("get_market_context", "{{}}")
        elif turn == {TURNS}:
            reply = Reply("Enough.")
        else:
            reply = called("submit_action", '{{"orders": [], "overall_reason": "Nothing."}}')
        self.last = time.perf_counter()
        return reply

def called(name, arguments):
    return Reply(tool_calls=(ToolCall("call_1", name, arguments),), finish_reason="tool_calls")

@hookimpl
def ktdeval_models():
    return [Spec("bench/turns", lambda _name: Turns(), "calls tools, then holds")]
"""
HEAD = """
import http.client, json, os, sys
bridge = http.client.HTTPConnection(os.environ["OPENAI_BASE_URL"].split("/")[2])
tools = http.client.HTTPConnection(os.environ["KTDEVAL_TOOLS_URL"].split("/")[2])

def post(connection, path, key, body):
    connection.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + key})
    return json.load(connection.getresponse())

def tool(name, arguments):
    return post(tools, "/tools/" + name, os.environ["KTDEVAL_TOOLS_TOKEN"], arguments)
"""
CALLER = """
key = os.environ["KTDEVAL_TOOLS_TOKEN"]
tools.request("GET", "/tools", headers={"Authorization": "Bearer " + key})
offered = [{"type": "function", "function": each}
           for each in json.load(tools.getresponse())["tools"]]
messages = [{"role": "user", "content": sys.stdin.read()}]
over = False
while not over:
    body = {"model": "m", "messages": messages, "tools": offered}
    answer = post(bridge, "/v1/chat/completions", os.environ["OPENAI_API_KEY"], body)
    message = answer["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        messages.append({"role": "user", "content": "Submit now."})
    for call in message.get("tool_calls") or ():
        told = tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": told["text"]})
        over = call["function"]["name"] == "submit_action"
"""
HOLDER = """
tool("submit_action", {"orders": [], "overall_reason": "Nothing."})
"""


def play(*words: object) -> float:
    """Run `ktdeval WORDS` here, and return its seconds."""
    began = time.perf_counter()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = ktdeval_main([str(word) for word in words])
    if code != 0:
        sys.exit(f"a run failed:\n{said.getvalue()}")
    return time.perf_counter() - began


def agents() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the agents to compare, by name, with their words; {PROGRAM} is to be replaced."""
    yield "react", ("--agent", "react")
    for sandbox in ("none", "bwrap"):
        try:
            open_sandbox(sandbox)
        except SandboxError as error:
            print(f"  {sandbox:<14} skipped: {error}")
            continue
        words = ("--agent", "command", "--agent-args", f"sandbox={sandbox}")
        yield f"command, {sandbox}", words


def program(name: str, words: tuple[object, ...]) -> tuple[object, ...]:
    """Return an agent's words with its program."""
    if words[1] == "react":
        return words
    return (*words, "--agent-args", f"run=python3 {name}")


def turns(steps: int, window: str) -> None:
    """Print the median turn of each agent, and what bridge and tool server add to a call."""
    print(f"a turn: one call of the model and one of a tool ({steps} steps of {TURNS} turns)")
    base = 0.0
    for name, words in agents():
        Path("turns").write_text("")
        play(
            *("--model", "bench/turns", "--plugin", "turns.py", *program("caller.py", words)),
            *("--tasks", TASK, "--windows", window, "--limit", steps, "--out", f"turns {name}"),
        )
        found = [float(line) * 1000 for line in Path("turns").read_text().split()]
        median = statistics.median(found)
        base = base or median
        added = (median - base) / 2
        print(
            f"  {name:<14} {median:6.2f} ms {median / base:5.2f} x react   {added:+.2f} ms a call"
        )


def steps_cost(steps: int, window: str) -> None:
    """Print the milliseconds of a step in which nothing but a submission is made."""
    print(f"a step that only submits ({steps} steps against 1)")
    print(f"  {'python3 alone':<14} {bare_start():6.0f} ms")
    for name, words in agents():
        seconds = [
            play(
                *("--model", "builtin/hold", *program("holder.py", words), "--tasks", TASK),
                *("--windows", window, "--limit", limit, "--out", f"steps {limit} {name}"),
            )
            for limit in (1, steps + 1)
        ]
        print(f"  {name:<14} {(seconds[1] - seconds[0]) / steps * 1000:6.0f} ms")


def bare_start() -> float:
    """Return the milliseconds of an interpreter that imports what the programs do."""
    began = time.perf_counter()
    for _ in range(5):
        subprocess.run(["python3", "-c", "import http.client, json"], check=True)
    return (time.perf_counter() - began) / 5 * 1000


def at_once(programs: int, window: str) -> None:
    """Print how long many programs take at once, and how many of their steps were decided."""
    for name, words in agents():
        if words[1] == "react":
            continue
        out = Path(f"at once {name}")
        seconds = play(
            *("--model", "bench/turns", "--plugin", "turns.py", *program("caller.py", words)),
            *("--tasks", TASK, "--windows", window, "--limit", 1, "--out", out),
            *("--seeds", programs, "--concurrency", programs),
        )
        folder = RunFolder.load(out)
        decided = [folder.load_ledger(spec).steps[0].provenance for spec in folder.manifest.specs]
        print(
            f"{programs} programs at once, {name}: {seconds:.1f} s,"
            f" {decided.count('model')} of {len(decided)} decided"
        )


def main(words: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--window", default="W1")
    parser.add_argument("--programs", type=int, default=50)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("turns.py").write_text(PLUGIN)
        Path("caller.py").write_text(HEAD + CALLER)
        Path("holder.py").write_text(HEAD + HOLDER)
        turns(given.steps, given.window)
        steps_cost(given.steps, given.window)
        at_once(given.programs, given.window)


if __name__ == "__main__":
    main()
