"""`ktdeval view roles` on a run of a team: a row for each role, their sum, and what is said where tokens
were not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import RunFolder
from ktdeval.testing import Terminal
from ktdeval.values import dumps_canonical

PLUGIN = '''
from dataclasses import replace

from ktdeval.harness import Usage
from ktdeval.hookspecs import Spec, hookimpl
from support.runs.run_plugin import Member


class Quiet(Member):
    """Counts no tokens of its calls of tools."""

    def reply(self, request):
        """Answer as a member of a team does."""
        reply = super().reply(request)
        return replace(reply, usage=Usage()) if request.tool_choice else reply


@hookimpl
def ktdeval_models():
    """Offer the model."""
    return [Spec("test/quiet", lambda _: Quiet(), "counts no tokens of its submissions")]
'''
STEPS = 2
SEEDS = 2


def run_of(model: str, folder: Path) -> Path:
    plugin = folder / "quiet_plugin.py"
    out = folder / model.partition("/")[2]
    plugin.write_text(PLUGIN)
    words = [
        "--plugin",
        "support.runs.run_plugin",
        "--plugin",
        str(plugin),
        "--model",
        model,
        "--agent",
        "deepfund",
        "--limit",
        str(STEPS),
    ]
    words += [
        "--tasks",
        "deepfund_berkshire",
        "--data",
        "synthetic_deepfund",
        "--seeds",
        str(SEEDS),
        "--quiet",
    ]

    assert main([*words, "--price", "input=3", "--price", "output=15", "--out", str(out)]) == 0

    return out


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return run_of("test/member", folder)


def cells(text: str) -> list[list[str]]:
    """Cells of a printed table, heads first."""
    rows = []
    for line in text.splitlines():
        rows.append([cell.strip() for cell in line.split("  ") if cell.strip()])

    return rows


@pytest.mark.exhaustive
def test_roles_are_listed_in_order_with_a_sum_of_every_column(
    run: Path, terminal: Terminal
) -> None:
    report: dict[str, Any] = terminal.report("view", "roles", run)
    assert terminal.text("view", "roles", run, "--json").endswith("\n}\n")

    heads, *rows = cells(terminal.text("view", "roles", run))
    counted = ["role", "model", "calls", "failed", "empty", "turns", "silent"]
    counted += ["input tokens", "output tokens"]

    assert heads == [*counted, "reused prefix, %", "USD"]

    names = [row[0] for row in rows]
    assert names == [*in_order_of_first_calls(run), "all"]
    assert sorted(names[:-1]) == sorted(report)
    assert report["portfolio_manager"]["calls"] == STEPS * SEEDS

    shown = ("calls", "failed", "empty", "turns", "silent", "input_tokens", "output_tokens")
    by_role = []

    for name in names[:-1]:
        by_role.append([report[name][figure] for figure in shown])

    sums = [sum(column) for column in zip(*by_role, strict=True)]
    figures = [row[-9:-2] for row in rows]

    assert [[int(cell.replace(",", "")) for cell in row] for row in figures] == [*by_role, sums]

    usd = [
        (3 * role["input_tokens"] + 15 * role["output_tokens"]) / 1e6 for role in report.values()
    ]

    assert [role["usd"] for role in report.values()] == pytest.approx(usd)
    assert float(rows[-1][-1].strip("$")) == pytest.approx(sum(usd), rel=0.01)
    assert sums[2] > 0, "some replies of this model are empty"
    assert {role["uncounted"] for role in report.values()} == {0}


@pytest.mark.exhaustive
def test_the_reused_prefix_of_a_role_is_that_of_its_recorded_requests(
    run: Path, terminal: Terminal
) -> None:
    report: dict[str, Any] = terminal.report("view", "roles", run)
    store = RunFolder.load(run)
    characters = Counter[str]()
    in_step = Counter[str]()
    in_episode = Counter[str]()

    for spec in store.manifest.specs:
        of_episode: list[str] = []
        for entry in store.load_transcript(spec):
            of_step: list[str] = []
            for role, text in requests(entry):
                characters[role] += len(text)
                in_step[role] += longest(text, of_step)
                in_episode[role] += longest(text, of_episode)
                of_step.append(text)
                of_episode.append(text)

    for role, figures in report.items():
        assert figures["characters"] == characters[role]
        assert figures["reused_in_step_pct"] == pytest.approx(
            100 * in_step[role] / characters[role]
        )
        assert figures["reused_in_episode_pct"] == pytest.approx(
            100 * in_episode[role] / characters[role]
        )

    *_, total = cells(terminal.text("view", "roles", run))
    share = 100 * in_step.total() / characters.total()

    assert float(total[-2]) == pytest.approx(share, abs=0.05)
    assert 0 < in_step.total() < in_episode.total() < characters.total()


def in_order_of_first_calls(run: Path) -> list[str]:
    """Roles of a run in the order in which its episodes first asked in their names."""
    store = RunFolder.load(run)
    names: dict[str, None] = {}

    for spec in store.manifest.specs:
        for entry in store.load_transcript(spec):
            names.update(dict.fromkeys(role for role, _ in requests(entry)))

    return [*names]


def requests(entry: TranscriptEntry) -> Iterator[tuple[str, str]]:
    """Role and text of each request of a step."""
    messages: list[Any] = []
    schemas: dict[str, str] = {}
    for exchange in entry.exchanges:
        plain: dict[str, Any] = dict(exchange)
        messages = messages[: plain["kept"]] + plain["sent"]
        for name, schema in plain.get("schemas", {}).items():
            schemas[name] = f"{name} {dumps_canonical(schema)}"
        lines = [schemas.get(name, name) for name in plain["tools"]]
        lines += [dumps_canonical(message) for message in messages]
        yield plain["role"], "".join(line + "\n" for line in lines)


def longest(text: str, others: list[str]) -> int:
    """Length of the longest prefix that a text shares with any of the others."""
    lengths = [0]
    for other in others:
        pairs = zip(text, other, strict=False)
        lengths.append(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return max(lengths)


@pytest.mark.exhaustive
def test_cost_of_a_role_and_total_are_unknown_if_token_counts_are_missing(
    folder: Path, terminal: Terminal
) -> None:
    run = run_of("test/quiet", folder)
    report: dict[str, Any] = terminal.report("view", "roles", run)

    assert {name: role["uncounted"] for name, role in report.items() if role["uncounted"]} == {
        "planner": STEPS * SEEDS,
        "portfolio_manager": STEPS * SEEDS,
    }

    unknown = {"planner", "portfolio_manager"}
    assert {name for name, role in report.items() if role["usd"] is None} == unknown

    *rows, note = terminal.text("view", "roles", run).splitlines()
    by_name = {row[0]: row[-1] for row in cells("\n".join(rows))}

    assert (by_name["portfolio_manager"], by_name["all"]) == ("-", "-")
    assert [name for name, cost in by_name.items() if cost == "-"] == [
        "planner",
        "portfolio_manager",
        "all",
    ]
    assert note.endswith("their tokens and cost are unknown")
    assert str(2 * STEPS * SEEDS) in note
