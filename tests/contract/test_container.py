"""The container's recipe: no root, no secret, nothing from the network but packages, a pinned base by
a variable; and everything that it copies is there. CI builds it where a builder works.
"""

from __future__ import annotations

import json
import re
import shlex
from fnmatch import fnmatch

import pytest

from support.paths import REPOSITORY

RECIPE = (REPOSITORY / "Containerfile").read_text(encoding="utf-8")
IGNORED = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
KNOWN = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
SECRET = re.compile(r"(?i)(api_?key|token|secret|password|credential)\w*\s*=")


def steps() -> list[tuple[str, str]]:
    """Instructions with their words, continued lines joined, comments left out."""
    plain = re.sub(r"^\s*#.*\n", "", RECIPE, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line for line in plain.splitlines() if line.strip()]
    return [tuple(line.split(maxsplit=1)) for line in lines]  # type: ignore[misc]


def words_of(name: str) -> list[str]:
    return [words for instruction, words in steps() if instruction == name]


def is_sent(path: str) -> bool:
    """Whether a path of the repository is sent to the builder: the last rule that fits decides."""
    sent = True
    for line in IGNORED:
        rule = line.removeprefix("!")
        if line and not line.startswith("#") and fnmatch(path, rule):
            sent = line.startswith("!")

    return sent


def test_only_known_instructions_are_used() -> None:
    """ADD, which can fetch from the network, is none of them."""
    assert {name for name, _ in steps()} <= KNOWN


def test_the_base_is_one_variable_and_its_default_has_a_version() -> None:
    first, words = steps()[0]
    assert (first, words.partition("=")[0]) == ("ARG", "BASE")
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim(@sha256:[0-9a-f]{64})?", words[5:])
    assert [line.split()[0] for line in words_of("FROM")] == ["${BASE}", "${BASE}"]


def test_it_runs_the_demo_as_a_user_without_rights() -> None:
    (user,) = words_of("USER")
    assert int(user) >= 1000
    assert f"--uid {user} " in " ".join(words_of("RUN"))
    assert json.loads(words_of("ENTRYPOINT")[-1]) == ["ktdeval"]
    assert json.loads(words_of("CMD")[-1]) == ["demo"]

    names = [name for name, _ in steps()]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_what_is_copied_is_there_and_is_sent_to_the_builder() -> None:
    copied = []
    for line in words_of("COPY"):
        *sources, _ = [word for word in shlex.split(line) if not word.startswith("--")]
        if "--from=" not in line:
            copied += sources

    assert {"pyproject.toml", "ktdeval", "tasks", "plugins"} <= set(copied)
    for source in copied:
        assert (REPOSITORY / source).exists(), source
        assert is_sent(source), source


@pytest.mark.parametrize("path", [".git", ".env", "tests", "ktdeval-runs", "ktdeval/.env", "a.pem"])
def test_history_tests_runs_and_keys_are_not_sent(path: str) -> None:
    assert not is_sent(path)


def test_no_secret_is_in_it() -> None:
    plain = "\n".join(f"{name} {words}" for name, words in steps())
    assert not SECRET.search(plain)
    assert "--no-cache-dir" in plain
