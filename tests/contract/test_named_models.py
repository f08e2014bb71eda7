"""Every model that README, documentation or help names has a price and a cutoff, so that an example
does what its page says.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval_models.remote.params import presets
from support.loops import not_empty
from support.paths import REPOSITORY

# Help texts are on the pages of docs/reference.
PAGES = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *REPOSITORY.glob("plugins/*/*.md"),
    *REPOSITORY.glob("tasks/*/*.md"),
]
PAID = sorted(name for name, preset in presets().items() if preset.needs_key)
NAME = re.compile(rf"(?<![\w./@-])({'|'.join(PAID)})/([a-z0-9][\w.:@/-]*\w)(?![-\w*?/…])")
DAY = date(2026, 11, 26)


def named_in(text: str) -> set[str]:
    """Models of paid providers that a text names."""
    return {match[0] for match in NAME.finditer(text)}


NO_MODEL = {"openai/gpt"}  # part of a name, on docs/leaderboard.md


def named() -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return sorted(not_empty(set().union(*map(named_in, texts)) - NO_MODEL))


def test_names_are_found_in_commands_and_sentences() -> None:
    text = (
        "`--model openai/gpt-4.1`, {model: xai/grok-4}, openrouter/openai/gpt-5.5, openai/MODEL,"
        " https://example.com/openai/docs, bedrock/us.anthropic.claude-opus-4-7, google/gemini-*"
    )

    assert named_in(text) == {
        "openai/gpt-4.1",
        "xai/grok-4",
        "openrouter/openai/gpt-5.5",
        "bedrock/us.anthropic.claude-opus-4-7",
    }


@pytest.mark.slow
def test_the_example_of_plan_prints_dollars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs/plan.md").read_text(encoding="utf-8")

    # as printed below the command, too
    assert re.search(r"^      cost, no cache, USD +[0-9]", page, re.MULTILINE)

    command = re.search(r"^    ktdeval (plan .*)$", page, re.MULTILINE)
    assert command is not None
    assert main([*shlex.split(command[1]), "--windows", "W1", "--json"]) == 0

    left = json.loads(capsys.readouterr().out)["left"]
    costs = [left[case]["cost_usd"] for case in ("low", "typical", "high")]

    assert costs[0] > 0
    assert costs == sorted(costs)
