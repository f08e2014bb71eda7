"""`ktdeval roles` on a run of a team: a row for each role, their sum, and what is said where tokens were not counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from terminal import Terminal

PLUGIN = '''
from dataclasses import replace

from ktdeval.harness import Usage
from ktdeval.hookspecs import Spec, hookimpl
from run_plugin import Member


class Quiet(Member):
    """Counts no tokens of its submissions."""

    def reply(self, request):
        """Answer as a member of a team does."""
        reply = super().reply(request)
        return replace(reply, usage=Usage()) if request.tools else reply


@hookimpl
def ktdeval_models():
    """Offer the model."""
    return [Spec("test/quiet", lambda _: Quiet(), "counts no tokens of its submissions")]
'''
STEPS, SEEDS = 2, 2


def run_of(model: str, folder: Path) -> Path:
    plugin, out = folder / "quiet_plugin.py", folder / model.partition("/")[2]
    plugin.write_text(PLUGIN)
    words = ["--plugin", "run_plugin", "--plugin", str(plugin), "--model", model, "--agent", "deepfund", "--limit", str(STEPS)]
    words += ["--tasks", "deepfund_berkshire", "--data", "synthetic_deepfund", "--seeds", str(SEEDS), "--quiet"]
    assert main([*words, "--price", "input=3", "--price", "output=15", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("roles")


def cells(text: str) -> list[list[str]]:
    """Cells of a printed table, heads first."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_roles_stand_in_their_order_with_a_sum_of_every_column(folder: Path, terminal: Terminal) -> None:
    run = run_of("test/member", folder)
    told: dict[str, Any] = terminal.report("roles", run)
    assert terminal.text("roles", run, "--json").endswith("\n}\n")
    heads, *rows = cells(terminal.text("roles", run))
    assert heads == ["role", "calls", "failed", "empty", "input tokens", "output tokens", "USD"]
    names = [row[0] for row in rows]
    assert (names[0], names[-2:]) == ("planner", ["portfolio_manager", "all"]), "in the order of their first calls"
    assert sorted(names[:-1]) == sorted(told)
    assert told["portfolio_manager"]["calls"] == STEPS * SEEDS
    shown = ("calls", "failed", "empty", "input_tokens", "output_tokens")
    by_role = [[told[name][figure] for figure in shown] for name in names[:-1]]
    sums = [sum(column) for column in zip(*by_role, strict=True)]
    assert [[int(cell.replace(",", "")) for cell in row[1:-1]] for row in rows] == [*by_role, sums]
    usd = [(3 * role["input_tokens"] + 15 * role["output_tokens"]) / 1e6 for role in told.values()]
    assert [role["usd"] for role in told.values()] == pytest.approx(usd)
    assert float(rows[-1][-1].strip("$")) == pytest.approx(sum(usd), rel=0.01)
    assert sums[2] > 0, "some replies of this model are empty"
    assert {role["uncounted"] for role in told.values()} == {0}


def test_where_a_role_has_replies_without_counts_its_cost_and_that_of_all_are_not_known(folder: Path, terminal: Terminal) -> None:
    run = run_of("test/quiet", folder)
    told: dict[str, Any] = terminal.report("roles", run)
    assert {name: role["uncounted"] for name, role in told.items() if role["uncounted"]} == {"portfolio_manager": STEPS * SEEDS}
    assert {name for name, role in told.items() if role["usd"] is None} == {"portfolio_manager"}
    *rows, note = terminal.text("roles", run).splitlines()
    by_name = {row[0]: row[-1] for row in cells("\n".join(rows))}
    assert (by_name["portfolio_manager"], by_name["all"]) == ("-", "-")
    assert [name for name, cost in by_name.items() if cost == "-"] == ["portfolio_manager", "all"]
    assert note.endswith("their tokens and cost are not known")
    assert str(STEPS * SEEDS) in note
