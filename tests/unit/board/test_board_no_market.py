"""A board of questions about no market: begun, submitted to, checked, shown and exported without snapshot, window or mask."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import sums_plugin
from board_runs import TODAY, sums_board
from ktdeval.errors import ConfigError, UsageError
from ktdeval.registry import load_plugins
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.exchange.frame import load_frame
from ktdeval_board.init import NewBoard, init_board
from ktdeval_board.rules import load_rules
from ktdeval_board.site.build import build_site


def test_a_board_of_questions_about_no_market_has_no_snapshot_window_or_mask(tmp_path: Path) -> None:
    board = sums_board(tmp_path)
    extra = (sums_plugin.__file__,)
    new = NewBoard("qa", "Sums", ("sums",), "2026-03-01")
    for changes in ({"data": "placebo"}, {"windows": ("W1",)}, {"market": "real"}):
        with pytest.raises(UsageError, match=f"--{next(iter(changes))}: none of these tasks asks about a market; leave it out"):
            init_board(tmp_path / "other", dataclasses.replace(new, **changes), load_plugins(extra))
    (division,) = load_rules(board).divisions
    assert (division.snapshot, division.windows) == (None, ())
    assert not re.search("snapshot: |windows:", (board / "board.yaml").read_text())
    assert "--windows" not in (board / "README.md").read_text()
    report = check_board(board, load_plugins(extra), CheckOptions(today=TODAY, plugins=extra))
    assert [card.tier for card in report.checked] == ["re-executed"]
    build_site(board, tmp_path / "site", workers=1)
    data = json.loads((tmp_path / "site/data/board.json").read_text())
    assert (data["market"], data["snapshots"], data["divisions"][0]["windows"]) == (None, [], [])
    (row,) = json.loads((tmp_path / "site/data/division/sums/all.json").read_text())["rows"]
    assert row["ranked"]
    assert not (tmp_path / "site/market.html").exists()
    assert not re.search("snapshot|window|mask", json.dumps(row))
    facts = load_frame(board).iloc[0]
    assert facts[["mask", "snapshot", "market", "synthetic"]].isna().all()
    text = (board / "board.yaml").read_text()
    for changed, problem in (("    windows: [{name: W1, first: 2024-01-02, last: 2024-01-05}]", "windows without a snapshot"),
                             ("    snapshot: small", "no windows on its snapshot")):  # fmt: skip
        (board / "board.yaml").write_text(text.replace("    seeds: [0]", f"{changed}\n    seeds: [0]"))
        with pytest.raises(ConfigError, match=f"divisions: sums: {problem}; give both, or neither"):
            load_rules(board)
