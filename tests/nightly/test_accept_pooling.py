"""A planted signal that five desks see: a team that deals them out beats its one role where their
errors differ, and only there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from support.paths import REPOSITORY

SOURCES = {"sources": ["desk 1", "desk 2", "desk 3", "desk 4", "desk 5"]}
MARKETS: dict[str, dict[str, Any]] = {
    "": {},
    "same_view=true": {"same_view": True},
    "effect=0": {"effect": 0.0},
}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "team": ("trade", SOURCES), "one": ("investor", SOURCES), "shown-all": ("investor", {}),
}  # fmt: skip


def compared(first: Path, second: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Test of the total return of two runs."""
    capsys.readouterr()

    assert main(["compare", str(first), str(second), "--json"]) == 0

    (test,) = json.loads(capsys.readouterr().out)["tests"]
    assert (test["metric"], test["n"]) == ("total_return", 12)

    return test


@pytest.mark.parametrize("market", MARKETS)
def test_the_table_of_the_page(
    market: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (agent, args) in AGENTS.items():
        ktdeval.evaluate(
            "builtin/tally",
            "views_blinded",
            agent=agent,
            agent_args=args,
            data="synthetic_views",
            data_args=MARKETS[market],
            out=str(tmp_path / name),
            quiet=True,
        )

    cells = []
    for other in ("one", "shown-all"):
        test = compared(tmp_path / "team", tmp_path / other, capsys)
        low, value, high = (100 * test["shift"][bound] for bound in ("low", "value", "high"))
        must_differ = (market, other) == ("", "one")
        assert (low > 0) == must_differ, test
        assert (test["verdict"] != "tied") == must_differ
        assert low <= 0 <= high or must_differ
        if market == "same_view=true" or other == "shown-all":  # the same decisions
            assert all(pair["value"] == 0 for pair in test["differences"])

        cells.append("0" if low == high else f"{value:+.1f} ({low:+.1f} … {high:+.1f})")

    page = (REPOSITORY / "docs/agents.md").read_text(encoding="utf-8")

    assert f" | {' | '.join(cells)} |" in next(
        line for line in page.splitlines() if line.startswith(f"| `{market or '(none)'}`")
    )
