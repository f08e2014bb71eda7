"""The audit: apply all rules to a log, and report the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ktdeval.cards import clean, count
from ktdeval.market import MarketSnapshot
from ktdeval.values import Finding, sort_by_level
from ktdeval_audit.decision_days import DatedLog, DatedText, date_log
from ktdeval_audit.findings import RULES, Rule
from ktdeval_audit.later_documents import later_documents
from ktdeval_audit.later_prices import LaterPrices
from ktdeval_audit.log_rules import CutoffFacts, cutoff_facts, cutoff_findings, same_bar
from ktdeval_audit.log_types import AgentLog, Role
from ktdeval_audit.run_days import later_run
from ktdeval_audit.text_rules import (
    Masked,
    hindsight,
    identities,
    join_declared,
    later_dates,
    mask_index,
)


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings for an audit."""

    day_field: str | None = None
    day_map: Path | None = None
    masked: Masked | None = None  #: what a mask is claimed to hide: names, dates or both
    cutoff: str | None = None  #: end of the model's training data: a date, `none` or `unknown`
    rules: tuple[Rule, ...] = tuple(RULES)


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """Result of an audit."""

    log: str
    kind: str
    files: int  #: number of logs that were read
    unread: tuple[str, ...]  #: the logs in a folder that can't be read, each with the reason
    market: str | None
    decisions: int
    texts: int
    #: number of texts by who wrote them: `prompt`, `tool`, `reply`
    texts_by_role: dict[Role, int]
    first_day: str
    last_day: str
    undated: int
    findings: tuple[Finding, ...]
    cutoffs: tuple[CutoffFacts, ...]
    rules: tuple[Rule, ...]  #: rules that were applied
    notes: tuple[str, ...]


def audit_log(log: AgentLog, market: MarketSnapshot | None, settings: AuditSettings) -> AuditReport:
    """Return what the rules find in a log.

    `market` has the bars and documents with which prices and news in the log are compared. If it is
    None, rules that need a market are skipped. Raises UsageError or DataError if no decision has a
    day, or if an option does not fit the log.
    """
    dated = date_log(log, settings.day_field, settings.day_map)
    chosen = [rule for rule in settings.rules if _can_run(rule, market, settings)]
    facts: tuple[CutoffFacts, ...] = ()
    if "cutoff" in chosen:
        facts = cutoff_facts(dated, settings.cutoff)

    found = [*cutoff_findings(facts)]
    found += _text_findings(dated, market, settings, chosen)
    if "later-run" in chosen:
        found += filter(None, [later_run(dated.texts)])
    if market is not None:
        found += _market_findings(dated, market, chosen)

    days = dated.days
    return AuditReport(
        log=clean(log.source),
        kind=log.kind,
        files=log.files,
        unread=tuple(clean(reason) for reason in log.unread),
        market=None if market is None else market.meta.name,
        decisions=len(days),
        texts=len(dated.texts),
        texts_by_role={
            role: sum(each.text.role == role for each in dated.texts) for role in get_args(Role)
        },
        first_day=str(days[0]),
        last_day=str(days[-1]),
        undated=len(dated.undated),
        findings=tuple(sort_by_level(join_declared(_without_repeats(found)))),
        cutoffs=facts,
        rules=tuple(chosen),
        notes=(*log.notes, *_notes(dated, market, settings)),
    )


def unseen_of(report: AuditReport) -> str:
    """Return the statement that a log lacks what tools showed the agent; empty if it has that."""
    if report.texts_by_role["tool"]:
        return ""
    if not report.texts_by_role["prompt"]:
        return "What the agent was shown is not in this log: it holds only replies"
    return (
        "What the agent was shown is not in this log beyond its prompts: it holds no tool results"
    )


def _can_run(rule: Rule, market: MarketSnapshot | None, settings: AuditSettings) -> bool:
    if rule == "identity":
        return settings.masked is not None
    if rule in ("price-after", "event-after", "same-bar"):
        return market is not None
    return True


def _text_findings(
    dated: DatedLog,
    market: MarketSnapshot | None,
    settings: AuditSettings,
    chosen: Sequence[Rule],
) -> Iterator[Finding]:
    index = None
    if settings.masked is not None and "identity" in chosen:
        index = mask_index(market, settings.masked)

    for text in dated.texts:
        if "date-after" in chosen:
            yield from later_dates(text)
        if index is not None:
            yield from identities(text, index)
        if "hindsight-words" in chosen:
            yield from hindsight(text)


def _market_findings(
    dated: DatedLog, market: MarketSnapshot, chosen: Sequence[Rule]
) -> Iterator[Finding]:
    if "event-after" in chosen:
        yield from later_documents(market, dated.texts)

    prices = LaterPrices(market)
    for texts in _by_decision(dated.texts):
        if "price-after" in chosen:
            yield from prices.findings(texts)
        if "same-bar" in chosen:
            yield from same_bar(market, texts[0].decision, texts)

    together = prices.over_the_log()
    if together is not None:
        yield _log_finding(*together)


def _log_finding(chance: float, hits: int, numbers: int, horizon: int) -> Finding:
    return Finding(
        rule="price-after",
        level="error",
        message=(
            f"over all decisions, {hits} of {numbers} numbers that were not known yet equal a "
            f"value of the next {horizon} trading days; probability of this by chance at most "
            f"{chance:.1g}"
        ),
        fix="find the data source that shows values of later days",
    )


def _by_decision(texts: Sequence[DatedText]) -> Iterator[list[DatedText]]:
    """Yield the texts for each decision on each day, in order."""
    groups: dict[tuple[int, object], list[DatedText]] = {}
    for dated in texts:
        groups.setdefault((id(dated.decision), dated.day), []).append(dated)
    yield from groups.values()


def _without_repeats(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, omitting each finding that repeats an earlier finding on the same day.
    Repeats occur because each request in a log repeats earlier messages.
    """
    seen = set()
    for finding in findings:
        key = (finding.path, finding.rule, finding.day, finding.examples, finding.message)
        if key not in seen:
            seen.add(key)
            yield finding


def _notes(
    dated: DatedLog, market: MarketSnapshot | None, settings: AuditSettings
) -> Iterator[str]:
    if dated.undated:
        first = clean(dated.undated[0].title)
        yield (
            f"not audited: {count(len(dated.undated), 'decision')} without a day, such as {first}; "
            "give their days with --day-field or --day-map."
        )

    if dated.by_folder:
        yield (
            f"{dated.by_folder} of {len(dated.days)} decisions name no day; they were given the "
            "day of their folder."
        )
    if market is None:
        yield "Prices, news and fills were not checked: name the market with --data."
    elif str(market.days[-1]) <= str(dated.days[0]):
        yield (
            f"The market ends on {market.days[-1]}, before the first decision, so no later price "
            "is known."
        )
    elif str(market.days[0]) > str(dated.days[-1]):
        yield f"The market begins on {market.days[0]}, after the last decision."

    if settings.masked is None:
        yield "Identities were not checked: name with --masked what the mask is claimed to hide."
