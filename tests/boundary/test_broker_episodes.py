"""Episodes of QFinZero's paper broker, to the ten-thousandth of a dollar: golden answers.

Through the door that agents take: `ktdeval data make qfinzero_files`, then `ktdeval paper qfinzero
serve` over the Model Context Protocol on stdin and stdout. `python
tests/boundary/test_broker_episodes.py` writes the answers anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from outside import command

FOLDER = Path(__file__).with_name("broker")
SCENES = ("scene", "minutes")
BEGIN = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "corners", "version": "1"},
}


def read_scene(name: str) -> dict[str, Any]:
    """Read a market and the calls on it."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    scene = dict(yaml.safe_load(text))
    like = scene.pop("like", None)
    if like is None:
        return scene
    return {**read_scene(like), **scene}


def answers_of(name: str, folder: Path) -> str:
    """Make the market, put the calls to a server of it, and return a line an answer."""
    scene = read_scene(name)
    for file, text in scene["tables"].items():
        (folder / file).write_text(text, encoding="utf-8")

    for file in ("ingest", "rules"):
        (folder / f"{file}.yaml").write_text(yaml.safe_dump(scene[file]), encoding="utf-8")

    done = command("data", "make", "qfinzero_files", "ingest.yaml", "--out", "market", cwd=folder)
    assert done.code == 0, done

    return _ask(scene["calls"], folder)


def _ask(calls: list[tuple[str, dict[str, Any]]], folder: Path) -> str:
    words = ["paper", "qfinzero", "serve", "--over", "stdio", "--data", "market"]
    words += ["--rules", "rules.yaml", "--logs", "logs"]
    with subprocess.Popen(
        [sys.executable, "-m", "ktdeval", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as server:
        to_server, from_server = server.stdin, server.stdout
        assert to_server is not None
        assert from_server is not None

        def send(**message: Any) -> None:
            to_server.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            to_server.flush()

        send(id=0, method="initialize", params=BEGIN)
        from_server.readline()
        send(method="notifications/initialized")
        lines = []

        for number, (tool, arguments) in enumerate(calls, 1):
            send(id=number, method="tools/call", params={"name": tool, "arguments": arguments})
            answer = json.loads(from_server.readline())
            assert answer["id"] == number, answer
            lines.append(_line(tool, answer["result"]))

        to_server.close()
        assert server.wait(60) == 0

    return "".join(lines)


def _line(tool: str, result: dict[str, Any]) -> str:
    content = result.get("structuredContent")
    if content is None:
        (part,) = result["content"]
        content = json.loads(part["text"])

    return json.dumps({"tool": tool, "answer": content}, sort_keys=True) + "\n"


@pytest.mark.slow
@pytest.mark.needs("ktdeval_qfinzero")
@pytest.mark.parametrize("name", SCENES)
def test_the_broker_answers_as_recorded(name: str, tmp_path: Path) -> None:
    expected = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = answers_of(name, tmp_path).splitlines()
    assert found == expected

    (log,) = (tmp_path / "logs").rglob("*.jsonl")
    done = command("paper", "qfinzero", "replay", log, "--data", "market", cwd=tmp_path)
    assert done.code == 0, done


if __name__ == "__main__":
    for each in SCENES:
        with TemporaryDirectory() as place:
            (FOLDER / f"{each}.jsonl").write_text(answers_of(each, Path(place)), encoding="utf-8")
