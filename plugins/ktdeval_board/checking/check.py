"""Check a board: the changes in a pull request, the files, the cards, and the cards' records, which
are re-executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ktdeval.errors import CardError, DataError, KtdevalError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import describe_any, open_snapshot, unknown_model
from ktdeval.values import Finding, Value, content_hash, encode_canonical, near_matches
from ktdeval_board.board_entries import Candidate
from ktdeval_board.checking.board_reruns import (
    OwnRun,
    load_own_run,
    matching_run,
    rerun_baseline,
    with_rerun,
)
from ktdeval_board.checking.content import CheckContext, check_content, check_files
from ktdeval_board.checking.findings import FileMessage, make_finding
from ktdeval_board.checking.metric_definitions import definition_problems
from ktdeval_board.checking.pull_request_rules import changes_since
from ktdeval_board.checking.record_sandbox import CARD
from ktdeval_board.checking.records import (
    RecordedCard,
    RecordEvidence,
    check_records,
    is_whole,
    make_verdict,
    settle,
    write_findings,
    write_own,
)
from ktdeval_board.checking.rules import Stage, findings_of
from ktdeval_board.derived_documents import make_market, windows_of
from ktdeval_board.document_types import Tier, Verdict
from ktdeval_board.errata import load_errata
from ktdeval_board.layout import BoardFolder
from ktdeval_board.market_document import Market, description_problems
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import RULES_FILE, Division, Rules, SnapshotRule, load_rules


@dataclass(frozen=True)
class CheckOptions:
    """Options for a check."""

    today: str  #: day of the check, YYYY-MM-DD
    #: revision to compare the board's changes with; None if changes are not checked
    since: str | None = None
    every: bool = False  #: whether cards that already have a verdict are re-executed
    record: bool = True  #: whether verdicts and derived files are written
    execute: bool = True  #: whether records are executed; if not, the check ends before that stage
    #: cards whose records are executed, with or without a verdict; if empty, all cards without a
    #: verdict
    only: tuple[str, ...] = ()
    #: cards being submitted, which are ordered after all others whatever their dates
    submitted: tuple[str, ...] = ()
    #: snapshot folder or data provider for one of the board's markets; None for the one in
    #: board.yaml
    data: str | None = None
    #: folder of the maintainers' own run of submitted plans; None without one
    rerun: Path | None = None
    rerun_by: str = ""
    plugins: tuple[str, ...] = ()  #: additional plugins to load, as given with --plugin


class Checked(Value, frozen=True, kw_only=False):
    """A card that passed the check: its path, its tier, and why the tier is not higher."""

    card_id: str = msgspec.field(name="card")
    where: str = msgspec.field(name="path")
    tier: Tier
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CheckReport:
    """Result of a check."""

    #: reasons to reject files, ordered by path; empty if nothing is rejected
    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]  #: cards whose records were checked now
    skipped: int  #: number of cards that already had a verdict
    #: notes for maintainers, for example about a market that can't be opened here
    notes: tuple[str, ...] = ()


#: Called with a short text about each card before its records are checked
Tell = Callable[[str], None]


def check_board(
    folder: Path, plugins: Plugins, options: CheckOptions, tell: Tell = lambda _: None
) -> CheckReport:
    """Check a board.

    The changes in a pull request are checked first, since they may affect the rules. The files, the
    contents of all cards, and the records of cards without findings follow. No code from a
    submission is executed. Only verdicts and files derived from records are written.

    Raises ConfigError if there is no board in `folder`, or its own rules or errata are invalid;
    DataError if `data` is not one of the board's markets; UsageError if `since` or a card in `only`
    does not exist, or if `rerun` matches no card; VerificationError if the records of `rerun` do
    not reproduce its card; and StoreError if a verdict can't be written.
    """
    if options.since is not None:
        changed = check_changes(folder, options.since)
        # The other files must not be judged by changed rules.
        if changed:
            note = "the content was not checked, because some changed files are not allowed"
            return CheckReport(tuple(changed), (), 0, (note,))

    rules = load_rules(folder)
    errata = load_errata(folder)
    findings = check_files(folder, rules)
    given = CheckContext(options.submitted, plugins)
    refused_documents, candidates = check_content(
        folder, rules, errata, options.today, options.every, given
    )
    findings += refused_documents
    if not options.execute:
        return CheckReport(tuple(sorted(set(findings))), (), 0)

    markets = OpenedMarkets(rules, plugins, options.data)
    run = _RecordsChecker(BoardFolder(folder), markets, plugins, options, tell)
    refused = [finding.path for finding in findings]
    sound = []
    for candidate in candidates:
        if not any(candidate.card_id in path for path in refused):
            sound.append(candidate)

    run.check(sound, [*refused, *(candidate.card_id for candidate in candidates)])
    findings += [*run.findings, *run.write_markets()]

    return CheckReport(
        tuple(sorted(set(findings))),
        tuple(run.checked),
        run.skipped,
        tuple(dict.fromkeys(run.notes)),
    )


def check_changes(folder: Path, since: str) -> list[Finding]:
    """Check the changes in a pull request: a submission may only add files. Raises the same errors
    as `changes_since`.
    """
    findings = set[Finding]()
    for change in changes_since(folder, since):
        findings.update(findings_of(Stage.CHANGES, change))

    return sorted(findings)


class _RecordsChecker:
    """Checks the records of sound cards.

    `findings`, `checked`, `skipped` and `notes` are those of a `CheckReport`, collected so far.
    """

    def __init__(
        self,
        folder: BoardFolder,
        markets: OpenedMarkets,
        plugins: Plugins,
        options: CheckOptions,
        tell: Tell,
    ) -> None:
        self.findings: list[Finding] = []
        self.checked: list[Checked] = []
        self.skipped = 0
        self.notes: list[str] = []
        self._folder = folder
        self._markets = markets
        self._plugins = plugins
        self._options = options
        self._tell = tell
        self._rules = markets.rules  # with the paths of the markets on this machine

    def check(self, candidates: Sequence[Candidate], names: Sequence[str]) -> None:
        """Check the records of the cards that are due. `names` lists the cards and the rejected
        files; the names in `only` must be among them.
        """
        options = self._options
        for card_id in options.only:
            if not any(card_id in name for name in names):
                near = near_matches(card_id, [candidate.card_id for candidate in candidates])
                raise UsageError(f"--card {card_id}: no such card on the board{near}")

        own: list[OwnRun] = []
        if options.rerun is not None:
            own = load_own_run(options.rerun, self._rules, self._plugins)

        used = 0
        for candidate in candidates:
            recorded = self._find_records(candidate)
            again = None
            if not options.only or candidate.card_id in options.only:
                again = matching_run(recorded, own)

            if again is not None:
                used += 1
            elif not self._is_due(candidate):
                if candidate.verdict is not None:
                    self.skipped += 1

                continue

            self._tell(f"{candidate.model} · {candidate.agent} · {candidate.division.id}")
            self._judge(candidate, recorded, again)

        if options.rerun is not None and not used:
            raise UsageError(
                f"--rerun {options.rerun}: no valid card on the board has its division, model and"
                " agent"
            )

    def _find_records(self, candidate: Candidate) -> RecordedCard:
        assert candidate.records is not None  # a candidate in a check always has a list of records
        return RecordedCard(
            self._folder,
            self._rules,
            candidate.division,
            candidate.files,
            candidate.card,
            candidate.records,
            self._options.plugins,
        )

    def _is_due(self, candidate: Candidate) -> bool:
        """Return whether a card's records need to be executed now."""
        options = self._options
        verdict = _standing(candidate)
        if options.rerun is not None:
            return False
        if options.only:
            return candidate.card_id in options.only
        if candidate.is_withdrawn:  # its tier would not change
            return False
        if options.every or verdict is None:
            return True
        if not is_whole(self._folder, candidate.card_id, verdict, candidate.is_trading):
            return True
        if verdict.is_executed or not _has_evidence(candidate):
            return False

        # A card that could not be executed earlier may be executable now, if the market or the task
        # has become available on this machine.
        return not isinstance(self._market(candidate), str)

    def _judge(self, candidate: Candidate, recorded: RecordedCard, again: OwnRun | None) -> None:
        evidence = self._evidence(candidate, recorded)
        if evidence.findings:
            self.findings += evidence.findings
            return

        if again is not None:
            evidence = with_rerun(
                evidence, recorded, again, self._options.rerun_by, self._options.today
            )

        new = make_verdict(
            candidate.card_id, candidate.division.id, evidence, self._options.today, self._plugins
        )
        verdict = settle(_standing(candidate), new)
        notes = tuple(dict.fromkeys([*verdict.notes, *evidence.notes]))
        self.checked.append(Checked(candidate.card_id, candidate.where, verdict.tier, notes))

        if self._options.record:
            write_findings(self._folder, verdict, evidence)

    def _evidence(self, candidate: Candidate, recorded: RecordedCard) -> RecordEvidence:
        """Return the evidence from the records. For a baseline, also use the board's own run, since
        a baseline's name proves nothing.
        """
        market = self._market(candidate)
        if isinstance(market, str):
            self.notes.append(market)
            return RecordEvidence(notes=(market,))

        if market is not None:
            described = self._markets.document(candidate.division)
            faults = description_problems(candidate.card, described)
            refused = recorded.locate_faults(
                *((rule, FileMessage(CARD, message)) for rule, message in faults)
            )
            if refused:
                return RecordEvidence(refused)

        missing = missing_plugin(self._plugins, candidate.division, candidate.agent)
        if missing is not None:
            return RecordEvidence(notes=(missing,))

        definitions = definition_problems(candidate.card, self._plugins)
        refused = recorded.locate_faults(
            *(("metric", FileMessage(CARD, message)) for message in definitions)
        )
        if refused:
            return RecordEvidence(refused)
        unknown = unknown_model(candidate.card, self._plugins)
        if unknown is not None:
            return RecordEvidence(notes=(unknown,))
        if not _has_evidence(candidate):
            note = "its records are not in the repository, so nothing could be executed again"
            return RecordEvidence(notes=(note,))

        of_records = RecordEvidence()
        if recorded.records.stored == "repository":
            of_records = check_records(recorded)

        if candidate.baseline is None or not candidate.is_trading or of_records.findings:
            return of_records

        return rerun_baseline(recorded, candidate.baseline, self._options.today, self._plugins)

    def _market(self, candidate: Candidate) -> MarketSnapshot | str | None:
        rule = self._rules.snapshot_of(candidate.division)
        return None if rule is None else self._markets.open(rule)

    def write_markets(self) -> Iterator[Finding]:
        """Write the market documents that are missing or do not match the rules. Yield a finding
        for each market that does not cover a window.
        """
        for rule in self._rules.snapshots:
            path = self._folder.market(rule.name)
            if not self._options.record or _is_current(path, self._rules, rule):
                continue

            market = self._markets.open(rule)
            if isinstance(market, str):
                self.notes.append(market)
                continue

            try:
                write_own(path, encode_canonical(self._markets.describe(rule, market)) + "\n")
            except DataError as error:
                yield make_finding(RULES_FILE, "snapshot", f"snapshots: {rule.name}: {error}")


def _has_evidence(candidate: Candidate) -> bool:
    """Return whether there is anything to execute: records in the repository, or a baseline, which
    the board can run itself.
    """
    if candidate.records is not None and candidate.records.stored == "repository":
        return True

    return candidate.baseline is not None and candidate.is_trading


def _standing(candidate: Candidate) -> Verdict | None:
    """Return the verdict on a card in its current division. A verdict from another division of the
    board no longer counts.
    """
    verdict = candidate.verdict
    if verdict is None or verdict.division != candidate.division.id:
        return None

    return verdict


def _is_current(path: Path, rules: Rules, rule: SnapshotRule) -> bool:
    """Return whether a market's file matches the snapshot and windows in the rules."""
    if not path.is_file():
        return False

    try:
        market = read_own(path, Market)
    except CardError:
        return False

    windows = [(window.name, window.first, window.last) for window in market.windows]
    wanted = [(window.name, window.first, window.last) for window in windows_of(rules, rule)]
    return (market.snapshot.name, market.snapshot.id, windows) == (rule.name, rule.id, wanted)


class OpenedMarkets:
    """Opens each market of a board once, on first use.

    `data`: snapshot folder or data provider for one of the markets, which overrides its location in
    `rules`. Raises DataError if `data` can't be opened or is not one of the board's markets.
    """

    def __init__(self, rules: Rules, plugins: Plugins, data: str | None) -> None:
        self._plugins = plugins
        self._opened: dict[str, MarketSnapshot | str] = {}
        self._described: dict[str, Market] = {}
        self.rules = rules if data is None else self._move_rules(rules, data)

    def _move_rules(self, rules: Rules, data: str) -> Rules:
        snapshot = open_snapshot(self._plugins, data, {})
        rule = next((rule for rule in rules.snapshots if rule.id == snapshot.id), None)
        if rule is None:
            wanted = ", ".join(f"{rule.name} ({rule.id[:12]})" for rule in rules.snapshots)
            raise DataError(
                f"--data {data} is snapshot {snapshot.id[:12]}, which the board does not use: "
                f"{wanted}"
            )

        self._opened[rule.name] = snapshot
        return rules.with_market(msgspec.structs.replace(rule, data=data, data_args={}))

    def document(self, division: Division) -> Market:
        """Return the document that describes a division's market, which must already be open.
        Raises DataError if the market does not cover a window.
        """
        rule = self.rules.snapshot_of(division)
        assert rule is not None
        market = self.open(rule)
        assert not isinstance(market, str)
        return self.describe(rule, market)

    def describe(self, rule: SnapshotRule, market: MarketSnapshot) -> Market:
        """Return the document that describes an open market. Raises the same errors as
        `document`.
        """
        if rule.name not in self._described:
            self._described[rule.name] = make_market(self.rules, rule, market)

        return self._described[rule.name]

    def open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        """Return the market for a rule, or a message that says why the board can't open it."""
        if rule.name not in self._opened:
            self._opened[rule.name] = self._open(rule)

        return self._opened[rule.name]

    def _open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        if not rule.data:
            return (
                f"the board does not give the location of market {rule.name}; give it with --data"
            )

        try:
            snapshot = open_snapshot(self._plugins, rule.data, rule.data_args)
        except KtdevalError as error:
            return f"market {rule.name} can't be opened here: {error}"

        if snapshot.id != rule.id:
            other = f"{rule.data} is snapshot {snapshot.id[:12]}, but the board's is {rule.id[:12]}"
            return f"market {rule.name} differs from the board's: {other}"

        return snapshot


def missing_plugin(plugins: Plugins, division: Division, agent: str) -> str | None:
    """Return a message that says why the installed plugins can't execute a division's episodes;
    None if they can.
    """
    if agent not in plugins.specs("agents"):
        return f"agent {agent} is not installed where the check ran"

    try:
        installed = content_hash(describe_any(plugins.make_task(division.task), plugins))
    except KtdevalError as error:
        return f"task {division.task} can't be created where the check ran: {error}"

    if installed != division.hash:
        return (
            f"task {division.task} has a different version where the check ran ({installed[:12]})"
        )

    return None
