"""Bad submissions: all kinds of forgeries (`board_kinds`), and those that take a board with
other rules.

By name: what is done to a board, the rule that refuses it, and the file that is named.
"""

from __future__ import annotations

import os

from support.board import (
    board_file_kinds,  # noqa: F401 - it registers its kinds
    board_record_kinds,  # noqa: F401
    board_registration_kinds,  # noqa: F401
)
from support.board.board_bad import BadBoard
from support.board.board_card_kinds import only_window, second_attempt
from support.board.board_kinds import KINDS, Build, forge, verdict
from support.board.forged_board import setting

__all__ = ["CASES", "KINDS", "only_window", "second_attempt", "setting"]

#: Files that are named of kinds which only executing the records again can tell
_EXECUTED = ("ledger", "transcript", "mark")
_ASKED = (
    "no_certificate_where_one_is_asked_for",
    "certificate_that_rests_on_nothing",
    "certificate_that_nobody_verified",
)

CASES: dict[str, tuple[Build, str, str]] = {
    name: (kind.build, kind.rule, kind.named)
    for name, kind in KINDS.items()
    if kind.named not in _EXECUTED and kind.rule != "ledger" and name not in _ASKED
}


def case(name: str, rule: str, named: str, *steps: Build) -> None:
    """Note what is done to an empty board."""
    CASES[name] = (lambda board: [step(board) for step in steps]), rule, named


def rules(**fields: object) -> Build:
    return lambda board: board.change_rules(lambda value: value.update(fields))


def division(**fields: object) -> Build:
    return lambda board: board.change_rules(lambda value: value["divisions"][0].update(fields))


def truncated(pattern: str, size: int) -> Build:
    """Files of another size: holes, of which nothing is stored."""
    return lambda board: [os.truncate(path, size) for path in board.records_folder.rglob(pattern)]


LIMITS = {name: rules(limits={name: 1}) for name in ("card_mb", "file_mb", "records_mb")}
REAL = rules(market="real")
FALSE = setting("snapshot", "synthetic", to=False)
ASKED = division(certificate="required", attackers=["openai/gpt-4.1"])
OTHERS = division(certificate="required", attackers=["openai/o3"])
OWN = rules(baselines=[{"model": "builtin/momentum"}])
case("synthetic_passed_off_as_real", "synthetic", "card", REAL, forge(FALSE))
case("synthetic_on_a_real_board", "synthetic", "card", REAL, BadBoard.add)
case("more_episodes_than_are_taken", "size", "card", rules(limits={"episodes": 3}), BadBoard.add)
for name in _ASKED:
    case(name, KINDS[name].rule, KINDS[name].named, ASKED, KINDS[name].build)
UNVERIFIED = KINDS["certificate_that_nobody_verified"]
case(
    "certificate_of_attackers_that_the_board_does_not_name",
    UNVERIFIED.rule,
    UNVERIFIED.named,
    OTHERS,
    UNVERIFIED.build,
)
case("rank_by_a_metric_that_no_card_has", "metric", "card", division(rank_by="luck"), BadBoard.add)
case("manifest_larger_than_is_taken", "size", "records/manifest.json",
     BadBoard.add, LIMITS["file_mb"], truncated("manifest.json", 1_100_000))  # fmt: skip
case("ledgers_larger_together_than_is_taken", "size", "records",
     BadBoard.add, LIMITS["records_mb"], truncated("*.parquet", 600_000))  # fmt: skip
case(
    "more_folders_of_episodes_than_are_taken",
    "size",
    "records",
    BadBoard.add,
    rules(limits={"episodes": 4}),
    lambda board: (board.records_folder / "episodes" / ("c" * 20)).mkdir(),
)
case("baseline_under_a_name_of_its_own", "copy", "card",
     BadBoard.add, OWN, verdict(), forge(setting("model", "name", to="builtin/chaos")))  # fmt: skip
