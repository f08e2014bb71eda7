"""Submissions as strangers send them: one good one from a real run, and the means to make any bad one of it.

What is here writes files by hand: it must be able to write what `ktdeval leaderboard submit` would never.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from board_cards import card_of, put_card, put_json, put_records, rules_of, submission_of, verdict_of
from card_cases import renewed_card
from ktdeval.cards import load_card
from ktdeval.config import RunConfig
from ktdeval.registry import load_plugins
from ktdeval.runner import evaluate
from ktdeval_board.checking.content import check_content, check_files
from ktdeval_board.checking.findings import Finding
from ktdeval_board.entries import Candidate
from ktdeval_board.layout import CardFiles
from ktdeval_board.rules import load_errata, load_rules

TASK, MODEL, TODAY = "blinded_open_research", "builtin/momentum", "2026-12-01"
WINDOWS, SEEDS = ("W1", "W2"), 2
Value = dict[str, Any]
Change = Callable[[Value], object]


@dataclass(frozen=True)
class Good:
    """A real run and what a board says of it."""

    run: Path
    card: Value
    rules: Value  #: the content of a board.yaml whose one division it is of

    @property
    def division(self) -> Value:
        """The division that the card belongs to."""
        division: Value = self.rules["divisions"][0]
        return division


def make_good(folder: Path, **changes: Any) -> Good:
    """Run a keyless model for real on the embedded market: two windows, two seeds, a second of work."""
    config = {"model": MODEL, "windows": WINDOWS, "seeds": SEEDS, **changes}
    done = evaluate(RunConfig(tasks=(TASK,), out=str(folder), quiet=True, mask_key="0" * 32, **config), load_plugins(()))
    card = load_card(done.cards[0]).plain
    return Good(folder, card, rules_of(card, "synthetic", name="practice", opened_on="2026-01-01"))


def whole_submission(card: Value, card_id: str) -> Value:
    """A submission that has every field."""
    here = "https://example.org"
    return submission_of(
        card,
        card_id,
        submitter={"name": "A. Stranger", "organisation": "Strangers", "contact": "a@example.org", "url": f"{here}/strangers"},
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


class BadBoard:
    """A board in a folder, with submissions in any state of wrongness."""

    def __init__(self, folder: Path, good: Good) -> None:
        self.folder, self.good = folder, good
        self.card_id, self.card_folder = "", folder
        folder.mkdir(parents=True)
        self.set_rules(good.rules)
        (folder / "errata.yaml").write_text("errata: []\n")
        (folder / "README.md").write_text("# Practice\n")

    # -- writing -------------------------------------------------------------------------------------------------------

    def set_rules(self, rules: Value) -> None:
        """Write board.yaml."""
        (self.folder / "board.yaml").write_text(yaml.safe_dump(rules, sort_keys=False))

    def change_rules(self, change: Change) -> None:
        """Write a changed board.yaml."""
        rules = copy.deepcopy(self.good.rules)
        change(rules)
        self.set_rules(rules)

    def add(self, card: Value | None = None, run: Path | None = None, stored: str = "repository") -> str:
        """Add a submission of a card with the records of a run, all hashes as they should be; returns the card's id."""
        card, run = card or self.good.card, run or self.good.run
        files = put_card(self.folder, card)
        self.card_id, self.card_folder = files.card_id, files.card.parent
        put_json(files.submission, whole_submission(card, self.card_id))
        own = (episode["id"] for episode in card["episodes"])
        put_records(self.folder, files, run, stored, dict(zip((episode["id"] for episode in card_of(run)["episodes"]), own)))
        return self.card_id

    def forge(self, change: Change, renew: bool = True, **where: Any) -> str:
        """Add the good card with a change, all that follows from it renewed, so that it is valid in itself."""
        card = copy.deepcopy(self.good.card)
        change(card)
        return self.add(renewed_card(card) if renew else card, **where)

    def edit(self, path: Path, change: Change) -> None:
        """Change a document in place; no hash is renewed."""
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        put_json(path, value)

    # -- places --------------------------------------------------------------------------------------------------------

    @property
    def files(self) -> CardFiles:
        """The card that was added last, its submission and the list of its records."""
        return CardFiles(self.card_id, self.card_folder / f"{self.card_id}.json")

    @property
    def records_folder(self) -> Path:
        """Its records."""
        return self.folder / "records" / self.card_id

    def where(self, path: Path) -> str:
        """A path as findings say it."""
        return path.relative_to(self.folder).as_posix()

    # -- checking ------------------------------------------------------------------------------------------------------

    def look(self, today: str = TODAY, every: bool = False) -> tuple[list[Finding], list[Candidate]]:
        """What the check finds of files and documents, and which cards nothing was found of."""
        rules = load_rules(self.folder)
        content_findings, sound = check_content(self.folder, rules, load_errata(self.folder), today, every)
        refused = {finding.path for finding in content_findings if not finding.path.startswith("verdicts/")}
        assert not [one for one in sound if any(one.card_id in path for path in refused)]
        findings = sorted([*check_files(self.folder, rules), *content_findings])
        return findings, [one for one in sound if not any(one.card_id in finding.path for finding in findings)]

    def add_verdict(self, tier: str = "re-executed", **fields: Any) -> Path:
        """Write the board's verdict on the card that was added last."""
        path = self.folder / "verdicts" / f"{self.card_id}.json"
        put_json(path, verdict_of(self.card_id, "blinded", tier, **{"checked_on": TODAY, "episodes": 4, "steps": 172, **fields}))
        return path

    def withdraw(self, card_id: str) -> None:
        """Withdraw a card by an erratum."""
        entry = {"card": card_id, "date": "2026-11-01", "effect": "withdrawn", "what": "its submitter asked for it"}
        (self.folder / "errata.yaml").write_text(yaml.safe_dump({"errata": [entry]}))
