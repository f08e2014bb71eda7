"""Self-test of a board. The forgeries are made from a submission in a copy of the board, and the
check must refuse each kind.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import yaml

from ktdeval.cards import TradingCard
from ktdeval.errors import KtdevalError, UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.values import Value as TypedValue, near_matches, temporary_folder, to_plain
from ktdeval_board.board_entries import BoardEntry, load_board, unset_to_none
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.rules import RULES_FILE, Rules, load_rules
from ktdeval_board.selftest.kinds import KINDS, ForgeryKind
from ktdeval_board.selftest.sample_board import (
    ForgedBoard,
    NotApplicableError,
    OriginalSubmission,
    Value,
)

_ERRATA = "errata.yaml"
_COPIED = ("certificates",)  #: Folders that a valid submission may need in addition to its records
_TASK = "blinded_open_research"
_MODEL = "builtin/momentum"
_DATA = "synthetic"
_WINDOWS = ("W1", "W2")
_SEEDS = 2
_DIVISION = "selftest"


class Tried(TypedValue, frozen=True, kw_only=True):
    """A kind of forgery, with the result of trying it."""

    kind: str
    rule: str  #: check rule that must refuse the forgery
    outcome: Literal["refused", "refused by another rule", "passed", "not applicable"]
    by: tuple[str, ...] = ()  #: rules by which the check refused it
    why: str = ""  #: the first finding, or why the kind is not applicable

    @property
    def is_failure(self) -> bool:
        """Return whether the check accepted this forgery, or refused it only under another rule."""
        return self.outcome in ("passed", "refused by another rule")


class SelfTest(TypedValue, frozen=True, kw_only=True):
    """Result of a self-test."""

    #: submission that was forged: its path on the board, or a description of the run made instead
    original: str
    tried: tuple[Tried, ...]

    @property
    def failures(self) -> tuple[Tried, ...]:
        """Forgeries that the check accepted, or refused only under another rule."""
        return tuple(tried for tried in self.tried if tried.is_failure)


def selftest(
    folder: Path,
    plugins: Plugins,
    options: CheckOptions,
    only: Sequence[str] = (),
    tell: Callable[[Tried], None] = lambda _: None,
    kinds: Mapping[str, ForgeryKind] = KINDS,
) -> SelfTest:
    """Try kinds of forgeries on copies of a board. The board itself is only read.

    `only` contains names of `kinds`; all kinds are tried if it is empty. Raises ConfigError if
    there is no board in `folder`. Raises UsageError if a kind is unknown, or if the check refuses
    the genuine submission, since refusals would then prove nothing.
    """
    for name in only:
        if name not in kinds:
            raise UsageError(f"--kind {name}: no such kind{near_matches(name, kinds)}")

    with temporary_folder("ktdeval-selftest-") as private:
        original, board, words = _original(folder, plugins, private)
        options = replace(options, record=False, every=False, only=(), since=None)
        forger = _Forger(board, original, plugins, options)
        forger.check_sound()
        tried = []

        for name in only or kinds:
            tried.append(forger.attempt(name, kinds[name]))
            tell(tried[-1])

    return SelfTest(original=words, tried=tuple(tried))


def _original(
    folder: Path, plugins: Plugins, private: Path
) -> tuple[OriginalSubmission, Path, str]:
    """Return a genuine submission from the board together with the board itself. If the board has
    no records, return a new submission and its board instead.
    """
    board = load_board(folder)
    stored = [entry for entry in board.entries if _can_be_forged(entry, folder)]
    if stored:
        # Prefer entrants, since the board runs baselines itself. Among entrants, prefer the card
        # with the most seeds, since some seeds can then be omitted.
        entry = min(
            stored,
            key=lambda each: (each.baseline is not None, -len(each.card.seeds), each.card_id),
        )
        assert entry.division is not None  # see `_can_be_forged`
        submission = json.loads(entry.files.submission.read_text(encoding="utf-8"))
        original = OriginalSubmission(
            board.folder.records(entry.card_id), _read_card(entry), submission, entry.division.id
        )

        return original, folder, board.folder.relative(entry.files.card)

    return _made_original(board.rules, plugins, private)


def _read_card(entry: BoardEntry) -> Value:
    card: Value = json.loads(entry.files.card.read_text(encoding="utf-8"))
    return card


def _can_be_forged(entry: BoardEntry, folder: Path) -> bool:
    records = folder / "records" / entry.card_id / "episodes"
    is_sound = (
        entry.division is not None
        and not entry.is_withdrawn
        and isinstance(entry.card, TradingCard)
    )
    return is_sound and unset_to_none(entry.card.mask_key) is not None and records.is_dir()


def _made_original(
    rules: Rules, plugins: Plugins, private: Path
) -> tuple[OriginalSubmission, Path, str]:
    """Run a model that needs no API key on the embedded market, and submit the run to a separate
    board with this board's limits.
    """
    config = RunConfig(
        model=_MODEL,
        tasks=(_TASK,),
        data=_DATA,
        windows=_WINDOWS,
        seeds=_SEEDS,
        out=str(private / "run"),
        quiet=True,
    )
    card_path = evaluate(config, plugins).cards[0]
    card: Value = json.loads(card_path.read_text())
    windows = []
    for window in card["windows"]:
        windows.append({name: window[name] for name in ("name", "first", "last")})

    division = {
        "id": _DIVISION,
        "task": card["task"]["name"],
        "version": card["task"]["version"],
        "hash": card["task"]["hash"],
        "snapshot": "embedded",
        "windows": windows,
        "seeds": card["seeds"],
    }
    board = private / "board"
    board.mkdir()
    content = {
        "name": rules.name,
        "title": rules.title,
        "market": "synthetic",
        "opened_on": rules.opened_on,
        "snapshots": [{"name": "embedded", "id": card["snapshot"]["id"], "data": _DATA}],
        "divisions": [division],
        "limits": to_plain(rules.limits),
    }
    (board / RULES_FILE).write_text(yaml.safe_dump(content, sort_keys=False))
    submission = {
        "schema_version": 1,
        "submitter": {"name": "self-test", "contact": "selftest@example.org"},
        "model": {"name": _MODEL, "cutoff_date": "none", "cutoff_source": "a fixed rule"},
        "agent": {"name": card["agent"]["name"]},
        "attempts": {"runs": 1},
        "submitted_on": card["provenance"]["created_at"][:10],
        "statement": True,
    }
    words = (
        f"a run of {_MODEL} on the embedded market, since the board has no trading card with "
        "records in the repository"
    )

    return OriginalSubmission(private / "run", card, submission, _DIVISION), board, words


def _without_drawn_keys(rules: Path) -> str:
    """Change a board's rules so that submitters choose the keys. Otherwise, each forgery would also
    violate the rule on registrations. Forgeries that involve keys let their board draw the keys.
    """
    content = yaml.safe_load(rules.read_text(encoding="utf-8"))
    for division in content["divisions"]:
        division["keys"] = "own"

    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


class _Forger:
    """Forges a submission in copies of its board and checks each copy."""

    def __init__(
        self, board: Path, original: OriginalSubmission, plugins: Plugins, options: CheckOptions
    ) -> None:
        self._board = board
        self._original = original
        self._plugins = plugins
        self._options = options

    def check_sound(self) -> None:
        """Raise UsageError if the check refuses the genuine submission, or can't execute its
        records.
        """
        with self._copy() as specimen:
            specimen.add()
            report = check_board(specimen.folder, self._plugins, self._options)

        if report.findings:
            raise UsageError(f"the genuine submission is itself refused: {report.findings[0]}")

        if not report.checked or report.checked[0].tier not in ("re-executed", "re-run"):
            notes = list(report.notes)
            for checked in report.checked:
                notes += checked.notes

            raise UsageError(
                "the records of the submission to forge can't be executed here: "
                f"{'; '.join(notes)}; see --data"
            )

    def attempt(self, name: str, kind: ForgeryKind) -> Tried:
        """Make a forgery and have the check judge it."""
        with self._copy() as specimen:
            try:
                kind.build(specimen)
            except NotApplicableError as error:
                return Tried(kind=name, rule=kind.rule, outcome="not applicable", why=str(error))
            except (LookupError, StopIteration, KtdevalError) as error:
                return Tried(
                    kind=name,
                    rule=kind.rule,
                    outcome="not applicable",
                    why=f"the card has no such field: {error}",
                )

            findings = check_board(specimen.folder, self._plugins, self._options).findings

        rules = tuple(dict.fromkeys(finding.rule for finding in findings))
        if kind.rule in rules:
            outcome: Literal["refused", "refused by another rule", "passed"] = "refused"
        elif rules:
            outcome = "refused by another rule"
        else:
            outcome = "passed"

        own = [finding for finding in findings if finding.rule == kind.rule] or list(findings)
        return Tried(
            kind=name, rule=kind.rule, outcome=outcome, by=rules, why=own[0].message if own else ""
        )

    @contextmanager
    def _copy(self) -> Iterator[ForgedBoard]:
        """Yield a board that has the rules of the board under test but no submission."""
        with temporary_folder("ktdeval-selftest-") as private:
            folder = private / "board"
            folder.mkdir()
            (folder / RULES_FILE).write_text(
                _without_drawn_keys(self._board / RULES_FILE), encoding="utf-8"
            )
            (folder / _ERRATA).write_text("errata: []\n")

            for name in _COPIED:
                if (self._board / name).is_dir():
                    shutil.copytree(self._board / name, folder / name)

            load_rules(folder)
            yield ForgedBoard(folder, self._original)
