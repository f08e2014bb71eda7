"""Files of a Harbor task: an episode of ktdeval that any Harbor agent can play.

The agent and the market run in two containers. They share only a folder with the token for the
market's tool server; the agent's container has neither ktdeval nor any market files. The market's
record is verified in a third container, which is built after the agent has ended.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval import __version__
from ktdeval.registry import Wheel
from ktdeval.values import JsonValue, content_hash

_PACKAGE = Path(__file__).parents[1]
_TEMPLATE = Path(__file__).with_name("harbor_template")
_IMAGE = "python:3.12-slim"
_PORT = 8765
_URL = f"http://market:{_PORT}"
_TOKEN_FILE = "/ktdeval/token"  # noqa: S105 - a path, not a token
_RUN = "/episode/run"
_WHEELS = "/opt/wheel"
_DATA = {"market": "/opt/ktdeval/data", "verifier": "/tests/data"}
_SECONDS_A_DAY = 600
_SHORTEST_S = 1800


@dataclass(frozen=True, kw_only=True)
class HarborEpisode:
    """The episode of a Harbor task."""

    task: str
    window: str
    rules: str  #: rules that an agent reads once
    submit_tool: str
    days: int
    run_options: Mapping[str, str]  #: options of `ktdeval run`, except for those set in this module
    card: Mapping[str, JsonValue]  #: expected values on the card, keyed by path
    reward: str | None  #: metric used as the reward; None: 1 for a verified card, otherwise 0

    @property
    def name(self) -> str:
        """Name of the task's folder and package. If a window is named by its days, the name does
        not reveal them.
        """
        window = content_hash(self.window)[:8] if ":" in self.window else self.window
        return re.sub(r"[^A-Za-z0-9_.]+", "-", f"{self.task}-{window}").strip("-.").lower()


@dataclass(frozen=True, kw_only=True)
class HarborContent:
    """Contents from which containers are built."""

    wheel: Wheel  #: wheel of ktdeval, which is not in any package index
    #: files of a snapshot, if there is one
    market_files: Mapping[str, bytes] = field(default_factory=dict)


def task_files(episode: HarborEpisode, content: HarborContent) -> dict[str, bytes]:
    """Return the files of a task, keyed by path. Deterministic: the same arguments give the same
    files.
    """
    files = {
        "task.toml": _task_toml(episode),
        "instruction.md": _fill_template(episode, "instruction.md"),
        "environment/Dockerfile": _fill_template(episode, "agent.Dockerfile"),
        "environment/docker-compose.yaml": _fill_template(episode, "docker-compose.yaml"),
        "environment/ktdeval-tools": _fill_template(episode, "ktdeval-tools.sh"),
        "environment/stdio_relay.py": _module("clients/stdio_relay.py"),
        "environment/market/Dockerfile": _image(content, "market.Dockerfile", "market"),
        "environment/market/play.sh": _play(episode, content),
        "environment/market/finish.sh": _fill_template(episode, "finish.sh"),
        "solution/solve.sh": _fill_template(episode, "solve.sh"),
        "solution/solve.py": _module("harbor/harbor_solve.py"),
        "solution/episode.json": _json(
            {
                "submit_tool": episode.submit_tool,
                "token_file": _TOKEN_FILE,
                "url": _URL,
                "version": __version__,
            }
        ),
        "tests/Dockerfile": _image(content, "verifier.Dockerfile", "verifier"),
        "tests/test.sh": _fill_template(episode, "test.sh"),
        "tests/verify.py": _module("harbor/harbor_verify.py"),
        "tests/expected.json": _json(_describe_expected(episode, content)),
    }
    whole = {path: text.encode() for path, text in files.items()}
    for folder in ("environment/market", "tests"):
        whole[f"{folder}/{content.wheel.name}"] = content.wheel.content
        for name, data in content.market_files.items():
            whole[f"{folder}/data/{name}"] = data
    return whole


def _task_toml(episode: HarborEpisode) -> str:
    text = _fill_template(episode, "task.toml")
    seconds = max(_SHORTEST_S, _SECONDS_A_DAY * episode.days)
    return text.replace("@AGENT_SECONDS@", f"{seconds}.0")


def _play(episode: HarborEpisode, content: HarborContent) -> str:
    """Return the script for the market's container."""
    options = dict(episode.run_options)
    if content.market_files:
        options["--data"] = _DATA["market"]

    words = []
    for name, value in options.items():
        words.append(f"    {name} {shlex.quote(value)} \\")
    return _fill_template(episode, "play.sh").replace("    @OPTIONS@", "\n".join(words))


def _describe_expected(episode: HarborEpisode, content: HarborContent) -> JsonValue:
    options: list[JsonValue] = []
    if content.market_files:
        options = ["--data", _DATA["verifier"]]
    return {
        "card": dict(episode.card),
        "reward": episode.reward,
        "run": _RUN,
        "verify_options": options,
    }


def _image(content: HarborContent, template: str, place: str) -> str:
    """Return a Dockerfile that installs ktdeval's wheel and checks its hash."""
    wheel = content.wheel
    install = (
        f"COPY {wheel.name} {_WHEELS}/\n"
        f'RUN pip install --no-cache-dir "ktdeval @ file://{_WHEELS}/{wheel.name}'
        f'#sha256={wheel.sha256}"'
    )
    lines = _read(template).replace("@INSTALL@", install).replace("@IMAGE@", _IMAGE).splitlines()
    if not content.market_files:
        lines = [line for line in lines if "@DATA@" not in line]
    return "\n".join(line.replace("@DATA@", _DATA[place]) for line in lines) + "\n"


def _fill_template(episode: HarborEpisode, template: str) -> str:
    """Return a template file, filled in for the episode."""
    words = {
        "@IMAGE@": _IMAGE,
        "@NAME@": episode.name,
        "@PORT@": str(_PORT),
        "@RULES@": episode.rules,
        "@RUN@": _RUN,
        "@SUBMIT@": episode.submit_tool,
        "@TASK@": episode.task,
        "@TOKEN_FILE@": _TOKEN_FILE,
        "@URL@": _URL,
        "@WINDOW@": episode.window,
    }
    pattern = re.compile("|".join(map(re.escape, words)))
    return pattern.sub(lambda found: words[found.group()], _read(template))


def _read(template: str) -> str:
    return (_TEMPLATE / f"{template}.txt").read_text(encoding="utf-8")


def _module(path: str) -> str:
    """Return the code of a module of this package, by its path in it."""
    return (_PACKAGE / path).read_text(encoding="utf-8")


def _json(value: JsonValue) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
