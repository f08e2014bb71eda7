"""Check of a board: its files, what a pull request changes, its cards, and their records executed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ktdeval.errors import CardError, DataError, KtdevalError, UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import content_hash
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import describe_any, open_snapshot
from ktdeval.typed import Value, encode_canonical
from ktdeval_board.checking.changes import changes_since
from ktdeval_board.checking.content import check_content, check_files
from ktdeval_board.checking.findings import Finding
from ktdeval_board.checking.records import (
    Evidence,
    RecordedCard,
    check_records,
    is_whole,
    make_verdict,
    settle,
    write_findings,
    write_own,
)
from ktdeval_board.checking.reruns import OwnRun, load_own_run, matching_run, rerun_baseline, with_rerun
from ktdeval_board.checking.rules import Stage, findings_of
from ktdeval_board.documents import Tier, Verdict
from ktdeval_board.entries import Candidate
from ktdeval_board.layout import BoardFolder
from ktdeval_board.market_document import Market
from ktdeval_board.reading import read_own
from ktdeval_board.rules import RULES_FILE, Division, Rules, SnapshotRule, load_errata, load_rules
from ktdeval_board.series import make_market, windows_of


@dataclass(frozen=True)
class CheckOptions:
    """Options of a check."""

    today: str  #: day of the check, YYYY-MM-DD
    since: str | None = None  #: revision to which the board's changes are proposed; None where they are not looked at
    every: bool = False  #: whether cards that have a verdict are executed again
    record: bool = True  #: whether verdicts and what is derived are written
    only: tuple[str, ...] = ()  #: cards whose records are executed, verdict or not; empty for all that have none
    data: str | None = None  #: where one of the board's markets is on this machine; None where the rules say it
    rerun: Path | None = None  #: a run folder of the maintainers, of the plan of submitted cards; None for none
    rerun_by: str = ""
    plugins: tuple[str, ...] = ()  #: further plugins to load, as given with --plugin


class Checked(Value, frozen=True, kw_only=False):
    """A card that passed the check: where it lies, how far its figures are confirmed, and why not further."""

    card_id: str = msgspec.field(name="card")
    where: str = msgspec.field(name="path")
    tier: Tier
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CheckReport:
    """Report of a check."""

    findings: tuple[Finding, ...]  #: what is refused, in the order of paths; empty when all is in order
    checked: tuple[Checked, ...]  #: cards whose records were looked at now
    skipped: int  #: how many cards have a verdict already
    notes: tuple[str, ...] = ()  #: what maintainers should know of the board, such as a market that can't be opened here


Tell = Callable[[str], None]  #: Called with a few words on each card before its records are looked at


def check_board(folder: Path, plugins: Plugins, options: CheckOptions, tell: Tell = lambda _: None) -> CheckReport:
    """Check a board.

    What a pull request changes comes first, for it may change the rules; then files, then the content of all cards; records only of
    cards in which nothing was found so far. Nothing of a submission is executed, and nothing is written but verdicts and what is
    derived from records. Returns everything that is refused, and how far the cards in order are confirmed. Raises ConfigError:
    there is no board here, or its own rules or errata are not valid; DataError: `data` is no market of the board; UsageError:
    `since` or a card of `only` is not there, or `rerun` fits no card; VerificationError: the records of `rerun` do not give its
    card; StoreError: a verdict can't be written.
    """
    changed = check_changes(folder, options.since) if options.since is not None else []
    if changed:  # which may be of the rules by which the rest would be judged
        return CheckReport(tuple(changed), (), 0, ("the content was not looked at, because of what is changed",))
    rules, errata = load_rules(folder), load_errata(folder)
    findings = check_files(folder, rules)
    refused_documents, candidates = check_content(folder, rules, errata, options.today, options.every)
    findings += refused_documents
    run = _Run(BoardFolder(folder), OpenedMarkets(rules, plugins, options.data), plugins, options, tell)
    refused = [finding.path for finding in findings]
    sound = [candidate for candidate in candidates if not any(candidate.card_id in path for path in refused)]
    run.check(sound, [*refused, *(candidate.card_id for candidate in candidates)])
    findings += [*run.findings, *run.write_markets()]
    return CheckReport(tuple(sorted(set(findings))), tuple(run.checked), run.skipped, tuple(dict.fromkeys(run.notes)))


def check_changes(folder: Path, since: str) -> list[Finding]:
    """Hold what a pull request changes against what a submission may change; errors as of `changes_since`."""
    return sorted({finding for change in changes_since(folder, since) for finding in findings_of(Stage.CHANGES, change)})


class _Run:
    """Looks at the records of sound cards.

    `findings, checked, skipped, notes`: as in `CheckReport`, so far.
    """

    def __init__(self, folder: BoardFolder, markets: OpenedMarkets, plugins: Plugins, options: CheckOptions, tell: Tell) -> None:
        self.findings, self.checked, self.skipped, self.notes = list[Finding](), list[Checked](), 0, list[str]()
        self._folder, self._markets, self._plugins, self._options, self._tell = folder, markets, plugins, options, tell
        self._rules = markets.rules  # with the markets where they are on this machine

    def check(self, candidates: Sequence[Candidate], names: Sequence[str]) -> None:
        """Look at the records of the cards that are to be checked."""
        options = self._options
        for card_id in options.only:
            if not any(card_id in name for name in names):
                near = near_matches(card_id, [candidate.card_id for candidate in candidates])
                raise UsageError(f"--card {card_id}: no such card on the board{near}")
        own = [] if options.rerun is None else load_own_run(options.rerun, self._rules, self._plugins)
        used = 0
        for candidate in candidates:
            assert candidate.records is not None  # a candidate of a check has a list of records
            facts = (candidate.division, candidate.files, candidate.card, candidate.records, options.plugins)
            recorded = RecordedCard(self._folder, self._rules, *facts)
            again = matching_run(recorded, own) if not options.only or candidate.card_id in options.only else None
            used += again is not None
            if again is None and not self._is_due(candidate):
                self.skipped += candidate.verdict is not None
                continue
            self._tell(f"{candidate.model} · {candidate.agent} · {candidate.division.id}")
            self._judge(candidate, recorded, again)
        if options.rerun is not None and not used:
            raise UsageError(f"--rerun {options.rerun}: no sound card on the board is of its division, model and agent")

    def _is_due(self, candidate: Candidate) -> bool:
        """Return whether a card's records are to be executed now."""
        options, verdict = self._options, _standing(candidate)
        if options.rerun is not None:
            return False
        if options.only:
            return candidate.card_id in options.only
        if candidate.is_withdrawn:  # maintainers have said all that there is to say
            return False
        if options.every or verdict is None or not is_whole(self._folder, candidate.card_id, verdict, candidate.is_trading):
            return True
        # What could not be executed then may be now: the market is here, or the task is installed.
        return not verdict.is_executed and _has_evidence(candidate) and not isinstance(self._market(candidate), str)

    def _judge(self, candidate: Candidate, recorded: RecordedCard, again: OwnRun | None) -> None:
        evidence = self._evidence(candidate, recorded)
        if evidence.findings:
            self.findings += evidence.findings
            return
        if again is not None:
            evidence = with_rerun(evidence, recorded, again, self._options.rerun_by, self._options.today)
        new = make_verdict(candidate.card_id, candidate.division.id, evidence, self._options.today, self._plugins)
        verdict = settle(_standing(candidate), new)
        notes = tuple(dict.fromkeys([*verdict.notes, *evidence.notes]))
        self.checked.append(Checked(candidate.card_id, candidate.where, verdict.tier, notes))
        if self._options.record:
            write_findings(self._folder, verdict, evidence)

    def _evidence(self, candidate: Candidate, recorded: RecordedCard) -> Evidence:
        """Return what the records show and, of a baseline, the board's own run of it: a name alone makes no baseline."""
        market = self._market(candidate)
        if isinstance(market, str):
            self.notes.append(market)
            return Evidence(notes=(market,))
        missing = missing_plugin(self._plugins, candidate.division, candidate.agent)
        if missing is not None:
            return Evidence(notes=(missing,))
        if not _has_evidence(candidate):
            return Evidence(notes=("its records are not in the repository, so that nothing could be executed again",))
        of_records = check_records(recorded) if recorded.records.stored == "repository" else None
        if candidate.baseline is None or not candidate.is_trading or (of_records and of_records.findings):
            return of_records or Evidence()
        return rerun_baseline(recorded, candidate.baseline, self._options.today, self._plugins)

    def _market(self, candidate: Candidate) -> MarketSnapshot | str | None:
        rule = self._rules.snapshot_of(candidate.division)
        return None if rule is None else self._markets.open(rule)

    def write_markets(self) -> Iterator[Finding]:
        """Write the markets that are not there as the rules now have them; windows that a market does not cover are findings."""
        for rule in self._rules.snapshots:
            path = self._folder.market(rule.name)
            if not self._options.record or _is_current(path, self._rules, rule):
                continue
            market = self._markets.open(rule)
            if isinstance(market, str):
                self.notes.append(market)
                continue
            try:
                write_own(path, encode_canonical(make_market(self._rules, rule, market)) + "\n")
            except DataError as error:
                yield Finding(RULES_FILE, "snapshot", f"snapshots: {rule.name}: {error}")


def _has_evidence(candidate: Candidate) -> bool:
    """Return whether there is anything to execute: records in the repository, or a baseline, which the board can run itself."""
    is_here = candidate.records is not None and candidate.records.stored == "repository"
    return is_here or (candidate.baseline is not None and candidate.is_trading)


def _standing(candidate: Candidate) -> Verdict | None:
    """Return the verdict on a card as one of its division; one from when the board had other divisions no longer counts."""
    verdict = candidate.verdict
    return verdict if verdict is not None and verdict.division == candidate.division.id else None


def _is_current(path: Path, rules: Rules, rule: SnapshotRule) -> bool:
    """Return whether the market that is there is of the rules' snapshot and windows."""
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
    """Opens each market of a board once, when it is asked for.

    `data`, if it is given, is a snapshot folder or data provider that goes before what the rules say of where one of their markets
    is; `rules` names it instead. Raises DataError: it can't be opened, or is no market of the board.
    """

    def __init__(self, rules: Rules, plugins: Plugins, data: str | None) -> None:
        self._plugins = plugins
        self._opened: dict[str, MarketSnapshot | str] = {}
        self.rules = rules if data is None else self._moved(rules, data)

    def _moved(self, rules: Rules, data: str) -> Rules:
        snapshot = open_snapshot(self._plugins, data, {})
        rule = next((rule for rule in rules.snapshots if rule.id == snapshot.id), None)
        if rule is None:
            wanted = ", ".join(f"{rule.name} ({rule.id[:12]})" for rule in rules.snapshots)
            raise DataError(f"--data {data} is snapshot {snapshot.id[:12]}, which is none of the board's: {wanted}")
        self._opened[rule.name] = snapshot
        return rules.with_market(msgspec.structs.replace(rule, data=data, data_args={}))

    def open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        """Return the market of a rule, or why the board can't open it, in words."""
        if rule.name not in self._opened:
            self._opened[rule.name] = self._open(rule)
        return self._opened[rule.name]

    def _open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        if not rule.data:
            return f"the board does not say where market {rule.name} is; name it with --data"
        try:
            snapshot = open_snapshot(self._plugins, rule.data, rule.data_args)
        except KtdevalError as error:
            return f"market {rule.name} can't be opened here: {error}"
        if snapshot.id != rule.id:
            other = f"{rule.data} is snapshot {snapshot.id[:12]}, the board's is {rule.id[:12]}"
            return f"market {rule.name} is another one here: {other}"
        return snapshot


def missing_plugin(plugins: Plugins, division: Division, agent: str) -> str | None:
    """Return why the episodes of a division can't be executed with what is installed here, in words; None where they can."""
    if agent not in plugins.specs("agents"):
        return f"agent {agent} is not installed where the check ran"
    try:
        installed = content_hash(describe_any(plugins.make_task(division.task), plugins))
    except KtdevalError as error:
        return f"task {division.task} can't be made where the check ran: {error}"
    return None if installed == division.hash else f"task {division.task} is another version where the check ran ({installed[:12]})"
