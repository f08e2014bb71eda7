"""A model that remembers the market up to its cutoff, and one of equal skill at all times: what
cards, tables and decay say.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.testing import Terminal
from support.runs.run_support import card_of

CUTOFF = "2025-06-15"
TASK = "ama_tsla_bright"
WINDOWS = ("2025-03-03:2025-04-30", "2025-05-01:2025-07-31", "2025-08-01:2025-09-30")


def trader(
    gains: dict[str, float], knows: Callable[[str], float], chance: random.Random
) -> Callable[[ModelRequest], Reply]:
    """A model that knows the next day's move with this probability of a day, else guesses."""

    def reply(request: ModelRequest) -> Reply:
        day = str(request.messages[-1].content).partition("Day ")[2][:10]
        right = chance.random() < knows(day) or chance.random() < 0.5
        decision = {
            "stock_id": "TSLA",
            "decision": "BUY" if (gains.get(day, 0.0) > 0) == right else "SELL",
            "confidence": 0.5,
            "reason": "as I remember the days",
        }
        submitted = {"decisions": [decision], "overall_reason": "one decision a day"}

        return Reply("", (ToolCall("1", "submit_action", json.dumps(submitted)),))

    return reply


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cutoff")
    options: dict[str, Any] = {"data": "synthetic_arena", "windows": list(WINDOWS), "quiet": True}
    first = ktdeval.evaluate("builtin/hold", TASK, out=str(folder / "rule"), **options)
    market: Any = recorded_market(RunFolder.load(first.folder), load_plugins(), None, "")
    closes = (
        market.close[:, market.codes.index("TSLA")] * market.factor[:, market.codes.index("TSLA")]
    )
    gains = dict(zip(map(str, market.days[:-1]), closes[1:] / closes[:-1] - 1, strict=True))
    models = {"remembers": lambda day: float(day < CUTOFF), "skilled": lambda _: 0.3}

    for name, knows in models.items():
        model = trader(gains, knows, random.Random(1))
        model.__name__ = name
        ktdeval.evaluate(model, TASK, out=str(folder / name), knowledge_cutoff=CUTOFF, **options)

    return {name: folder / name for name in ("rule", *models)}


def test_memory_decays_and_skill_does_not(runs: dict[str, Path], terminal: Terminal) -> None:
    cards = terminal.report("compare", "cutoff", *runs.values())["cards"]
    rows = {(row["model"], row["figure"]): row for row in cards}

    for figure in ("daily_return", "daily_selection"):
        memory = rows["python/remembers", figure]
        skill = rows["python/skilled", figure]
        assert memory["low"] > 0
        assert skill["low"] < 0 < skill["high"]
        assert skill["mean_after"] > memory["mean_after"]
        assert [memory[f"days_{side}"] for side in ("before", "across", "after")] == [105, 0, 107]

    assert rows["builtin/hold", None]["reason"] == "none: nothing was trained"


def test_figures_of_both_sides_are_named_as_such_wherever_they_stand(
    runs: dict[str, Path], terminal: Terminal, tmp_path: Path
) -> None:
    note = "python/remembers: figures pool days on both sides of the cutoff 2025-06-15"
    placed = "windows before {}; across {}; after {}".format(*WINDOWS)
    days = f"days: 105 before, 0 across, 107 after; {placed}"
    paths = list(runs.values())

    for words in ("compare", "compare luck", "compare --factor model,window"):
        out = terminal.text(*words.split(), *paths)
        assert re.search(f"{note}.*{placed}", out), words
        assert "builtin/hold: figures" not in out

    _, out, err = terminal.call("paper", "table", "--like", "ktdfin-4", runs["remembers"])
    assert (note in err, note in out) == (True, False)

    out = terminal.out("card", "show", runs["remembers"], "--all", "--plain")
    assert "[synthetic] [spans cutoff]" in out
    assert f"2025-06-15 (given: --knowledge-cutoff); {days}" in " ".join(out.split())

    terminal.out("view", "report", *paths, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count(days) == 2
    assert "none: nothing was trained" in page


def test_one_side_alone_is_compared_and_nothing_else(
    runs: dict[str, Path], terminal: Terminal
) -> None:
    cards = [card_of(runs[name], TASK) for name in ("remembers", "skilled")]

    for side, window in (("before", WINDOWS[0]), ("after", WINDOWS[2])):
        report = terminal.report("compare", *runs.values(), "--side", side)
        assert [row["n"] for row in report["tests"]] == [1, 1, 1]
        notes = "\n".join(report["notes"])
        assert f"windows {side} the cutoff of every card that records one: {window}" in notes
        assert "both sides" not in notes
        episodes = chain.from_iterable(card["episodes"] for card in cards)
        own = [each for each in episodes if each["window"] == window]
        one, other = (each["metrics"]["total_return"]["value"] for each in own)
        assert report["tests"][-1]["shift"]["value"] == pytest.approx(one - other)


def test_a_card_follows_from_its_run_and_a_rule_was_not_trained(
    runs: dict[str, Path], terminal: Terminal
) -> None:
    sides = card_of(runs["remembers"], TASK)["knowledge_cutoff"]["windows"]
    assert sides[WINDOWS[0]] == {"before": 59, "across": 0, "after": 0}
    assert sides[WINDOWS[1]] == {"before": 46, "across": 0, "after": 46}

    terminal.out("card", "verify", runs["remembers"])

    assert stated(runs["rule"]) == ("none", "none")


def stated(run: Path) -> tuple[Any, Any]:
    """The cutoff in a manifest, and on a card."""
    manifest = json.loads((run / "manifest.json").read_text())
    return manifest["knowledge_cutoff"], card_of(run, TASK).get("knowledge_cutoff", "unknown")


def test_a_cutoff_is_a_month_or_a_word(terminal: Terminal, tmp_path: Path) -> None:
    for given in ("2025-07", "unknown", "none"):
        words = (
            f"--model builtin/hold --tasks {TASK} --data synthetic_arena --limit 2 --quiet"
            f" --out {tmp_path / given} --knowledge-cutoff {given}"
        )
        terminal.out(*words.split())

    _, placed = stated(tmp_path / "2025-07")
    assert list(placed["windows"].values()) == [{"before": 0, "across": 0, "after": 2}]
    assert stated(tmp_path / "unknown") == ("unknown", "unknown")
    assert stated(tmp_path / "none") == ("none", "none")
