"""A model that remembers the market up to its cutoff, and one of equal skill at all times: what
cards, tables and decay say.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, recorded_market

CUTOFF = "2025-06-15"
TASK = "ama_tsla_bright"
WINDOWS = ("2025-03-03:2025-04-30", "2025-05-01:2025-07-31", "2025-08-01:2025-09-30")
Call = Callable[..., tuple[int, str, str]]


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


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: Any) -> tuple[int, str, str]:
        code = main(list(map(str, words)))
        return code, *capsys.readouterr()

    return run


@pytest.mark.exhaustive
def test_memory_decays_and_skill_does_not(runs: dict[str, Path], call: Call) -> None:
    code, out, err = call("compare", "cutoff", *runs.values(), "--json")
    assert (code, err) == (0, "")

    rows = {(row["model"], row["figure"]): row for row in json.loads(out)["cards"]}

    for figure in ("daily_return", "daily_selection"):
        memory = rows["python/remembers", figure]
        skill = rows["python/skilled", figure]
        assert memory["low"] > 0
        assert skill["low"] < 0 < skill["high"]
        assert skill["mean_after"] > memory["mean_after"]
        assert [memory[f"days_{side}"] for side in ("before", "across", "after")] == [105, 0, 107]

    assert rows["builtin/hold", None]["reason"] == "none: nothing was trained"


@pytest.mark.exhaustive
def test_figures_of_both_sides_are_named_as_such_wherever_they_stand(
    runs: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    note = (
        "python/remembers: figures pool days on both sides of the cutoff 2025-06-15 of its training"
        " data: windows before "
    )
    paths = list(runs.values())

    for words in (
        ("compare", *paths),
        ("compare", "luck", *paths),
        ("compare", "--factor", "model,window", *paths),
    ):
        code, out, err = call(*words)
        assert (code, err) == (0, "")
        assert f"{note}{WINDOWS[0]}; across {WINDOWS[1]}; after {WINDOWS[2]}" in out, words
        assert "builtin/hold: figures" not in out

    code, out, err = call("paper", "table", "--like", "ktdfin-4", runs["remembers"])

    assert (code, note in err, note in out) == (0, True, False)

    code, out, _ = call("card", "show", runs["remembers"], "--all", "--plain")
    assert "[synthetic] [spans cutoff]" in out

    placed = f"windows before {WINDOWS[0]}; across {WINDOWS[1]}; after {WINDOWS[2]}"
    assert (
        f"2025-06-15 (given: --knowledge-cutoff); days: 105 before, 0 across, 107 after; {placed}"
        in " ".join(out.split())
    )
    assert call("view", "report", *paths, "--out", tmp_path / "r.html")[0] == 0

    page = (tmp_path / "r.html").read_text()
    assert page.count(f"days: 105 before, 0 across, 107 after; {placed}") == 2
    assert "none: nothing was trained" in page


@pytest.mark.exhaustive
def test_one_side_alone_is_compared_and_nothing_else(runs: dict[str, Path], call: Call) -> None:
    cards = [
        json.loads((runs[name] / "cards" / f"{TASK}.json").read_text())
        for name in ("remembers", "skilled")
    ]

    for side, window in (("before", WINDOWS[0]), ("after", WINDOWS[2])):
        code, out, err = call("compare", *runs.values(), "--side", side, "--json")
        assert (code, err) == (0, "")
        report = json.loads(out)
        assert [row["n"] for row in report["tests"]] == [1, 1, 1]
        assert (
            f"windows {side} the cutoff of every card that records one: {window}" in report["notes"]
        )
        assert not [note for note in report["notes"] if "both sides" in note]
        episodes = chain.from_iterable(card["episodes"] for card in cards)
        one, other = (
            each["metrics"]["total_return"]["value"]
            for each in episodes
            if each["window"] == window
        )
        assert report["tests"][-1]["shift"]["value"] == pytest.approx(one - other)

    code, out, err = call("compare", "--factor", "model,window", *runs.values(), "--side", "after")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--pairs, --side and --against-first apply to paired tests" in err


@pytest.mark.exhaustive
def test_a_card_follows_from_its_run_and_a_rule_was_not_trained(
    runs: dict[str, Path], call: Call, tmp_path: Path
) -> None:
    card = json.loads((runs["remembers"] / "cards" / f"{TASK}.json").read_text())
    sides = card["knowledge_cutoff"]["windows"]

    assert sides[WINDOWS[0]] == {"before": 59, "across": 0, "after": 0}
    assert sides[WINDOWS[1]] == {"before": 46, "across": 0, "after": 46}
    assert call("card", "verify", runs["remembers"])[0] == 0

    for file in ("manifest.json", f"cards/{TASK}.json"):
        assert json.loads((runs["rule"] / file).read_text())["knowledge_cutoff"] == "none"

    words = (
        "--model",
        "builtin/hold",
        "--tasks",
        TASK,
        "--data",
        "synthetic_arena",
        "--limit",
        "2",
        "--quiet",
    )
    no_day = "--knowledge-cutoff: 'June 2024' is neither a day (2024-06-01) nor a month (2024-06)"

    for given, message in (("June 2024", no_day), ("2024-13", "is neither a day")):
        code, _, err = call(*words, "--out", tmp_path / "bad", "--knowledge-cutoff", given)
        assert (code, err.count("\n"), message in err, (tmp_path / "bad").exists()) == (
            2,
            1,
            True,
            False,
        ), err

    for given in ("2025-07", "unknown", "none"):
        assert call(*words, "--out", tmp_path / given, "--knowledge-cutoff", given)[0] == 0
        manifest = json.loads((tmp_path / given / "manifest.json").read_text())
        made = json.loads((tmp_path / given / "cards" / f"{TASK}.json").read_text()).get(
            "knowledge_cutoff", "unknown"
        )
        if given == "2025-07":
            assert list(made["windows"].values()) == [{"before": 0, "across": 0, "after": 2}]
        else:
            assert (manifest["knowledge_cutoff"], made) == (given, given)
