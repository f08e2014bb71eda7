"""Submissions as strangers send them: one good one from a real run, and the means to make any bad
one of it.

What is here writes files by hand: it must be able to write what `ktdeval leaderboard submit` would
never.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ktdeval.cards import load_card
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate, open_snapshot
from ktdeval.values import encode_canonical, from_plain
from ktdeval_board.board_entries import Candidate
from ktdeval_board.checking.content import check_content, check_files
from ktdeval_board.checking.findings import Finding
from ktdeval_board.derived_documents import make_market
from ktdeval_board.errata import load_errata
from ktdeval_board.layout import BoardFolder
from ktdeval_board.rules import Rules, load_rules
from support.board.board_cards import rules_of, submission_of
from support.board.forged_board import Change, ForgedBoard, OriginalSubmission, Value

TASK = "blinded_open_research"
MODEL = "builtin/momentum"
TODAY = "2026-12-01"
WINDOWS = ("W1", "W2")
SEEDS = 2


@dataclass(frozen=True)
class Good:
    """A real run and what a board says of it."""

    run: Path
    card: Value
    rules: Value  #: the content of a board.yaml whose one division it is of
    market: str  #: the board's document of its market

    @property
    def division(self) -> Value:
        """The division that the card belongs to."""
        division: Value = self.rules["divisions"][0]
        return division


def make_good(folder: Path, **changes: Any) -> Good:
    """Run a keyless model for real on the embedded market: two windows, two seeds, a second of
    work.
    """
    config = {"model": MODEL, "windows": WINDOWS, "seeds": SEEDS, **changes}
    done = evaluate(
        RunConfig(tasks=(TASK,), out=str(folder), quiet=True, mask_key="0" * 32, **config),
        load_plugins(()),
    )
    card = load_card(done.cards[0]).plain
    rules = rules_of(card, "synthetic", name="practice", opened_on="2026-01-01")

    return Good(folder, card, rules, market_of(rules))


def market_of(rules: Value) -> str:
    """The document of the embedded market, as the check of a board of these rules writes it."""
    typed_rules = from_plain(rules, Rules, "rules")
    snapshot = open_snapshot(load_plugins(()), "synthetic", {})
    return encode_canonical(make_market(typed_rules, typed_rules.snapshots[0], snapshot))


def whole_submission(card: Value, card_id: str) -> Value:
    """A submission that has every field."""
    here = "https://example.org"
    return submission_of(
        card,
        card_id,
        submitter={
            "name": "A. Stranger",
            "organisation": "Strangers",
            "contact": "a@example.org",
            "url": f"{here}/strangers",
        },
        model={
            "name": card["model"]["name"],
            "cutoff_date": "2024-01-31",
            "cutoff_source": "the vendor's model card",
            "released_on": "2024-03-01",
            "open_weights": True,
            "url": f"{here}/model",
        },
        agent={"name": card["agent"]["name"], "strategy": "baseline", "url": f"{here}/agent"},
        attempts={"runs": 1, "note": "the only one"},
        submitted_on="2026-11-30",
        note="as it was run",
    )


class BadBoard(ForgedBoard):
    """A board in a folder, with submissions in any state of wrongness."""

    def __init__(self, folder: Path, good: Good) -> None:
        super().__init__(
            folder,
            OriginalSubmission(
                good.run, good.card, whole_submission(good.card, ""), good.division["id"]
            ),
        )
        self.good = good
        folder.mkdir(parents=True)
        self.set_rules(good.rules)
        (folder / "errata.yaml").write_text("errata: []\n")
        (folder / "README.md").write_text("# Practice\n")
        market = BoardFolder(folder).market(good.rules["snapshots"][0]["name"])
        market.parent.mkdir()
        market.write_text(good.market)

    def set_rules(self, rules: Value) -> None:
        """Write board.yaml."""
        (self.folder / "board.yaml").write_text(yaml.safe_dump(rules, sort_keys=False))

    def change_rules(self, change: Change) -> None:
        """Write a changed board.yaml."""
        rules = copy.deepcopy(self.good.rules)
        change(rules)
        self.set_rules(rules)

    def where(self, path: Path) -> str:
        """Return a path relative to the board, as in findings."""
        return path.relative_to(self.folder).as_posix()

    # -- checking
    # ------------------------------------------------------------------------------------------------------

    def look(
        self, today: str = TODAY, every: bool = False
    ) -> tuple[list[Finding], list[Candidate]]:
        """What the check finds of files and documents, and which cards nothing was found of."""
        rules = load_rules(self.folder)
        content_findings, sound = check_content(
            self.folder, rules, load_errata(self.folder), today, every
        )
        refused = {
            finding.path for finding in content_findings if not finding.path.startswith("verdicts/")
        }

        assert not [one for one in sound if _is_named(one, refused)]

        findings = sorted([*check_files(self.folder, rules), *content_findings])
        paths = {finding.path for finding in findings}

        return findings, [one for one in sound if not _is_named(one, paths)]

    def add_verdict(self, tier: str = "re-executed", **fields: Any) -> Path:
        """Write the board's verdict on the card that was added last."""
        return super().add_verdict(
            tier, **{"checked_on": TODAY, "episodes": 4, "steps": 172, **fields}
        )


def _is_named(candidate: Candidate, paths: set[str]) -> bool:
    """Whether one of the paths is of a candidate's files."""
    return any(candidate.card_id in path for path in paths)
