"""Check of a test's beginning: plan, sessions, markets, systems, and entrants that joined later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ktdeval.errors import KtdevalError
from ktdeval.runner import as_first_recorded
from ktdeval.values import Finding, content_hash, dumps_pretty, read_plain, to_plain
from ktdeval_live.checks.chain_coverage import begun_files
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.market_sessions import Schedule, plan_schedule
from ktdeval_live.plan import check_plan
from ktdeval_live.record.chain import Begun, Entry as Link, Joined, RecordChain
from ktdeval_live.record.findings import make_finding
from ktdeval_live.record.folder import PLAN

_RULES = {PLAN: "plan", "schedules": "schedule", "base": "base"}


def beginning_findings(checked: CheckedFolder) -> Iterator[Finding]:
    """Compare plan, sessions, markets and systems with the chain's first entry and with
    each other.
    """
    first = checked.chain.entries[0].body
    if not isinstance(first, Begun):
        yield make_finding("begun", "", "the chain does not begin with its plan")
        return

    plan = checked.folder.begun_plan
    text = read_plain(checked.folder.path / PLAN)
    if first.plan != plan.id or text != dumps_pretty(to_plain(plan)).encode():
        yield make_finding("plan", "", "plan.json is not the plan that the chain began with")
        return
    try:
        check_plan(checked.folder.plan, PLAN)
    except KtdevalError as error:
        yield make_finding("plan", "", str(error))
        return

    for name in (first.schedules, first.base):
        if set(name) != set(plan.markets):
            yield make_finding("plan", "", "the chain began with other markets than the plan has")
            return

    found = False
    for market in plan.markets:
        for finding in _market(checked, first, market):
            found = True
            yield finding
    if not found:
        yield from _file_findings(checked, first)
        yield from _systems(checked, first)


def _file_findings(checked: CheckedFolder, first: Begun) -> Iterator[Finding]:
    """Compare each byte of the files with which the test began, including bytes that have no
    effect, such as a market's label or whitespace.
    """
    present = begun_files(checked.folder.path)
    for name in sorted({*first.files, *present}):
        rule = _RULES.get(name.split("/")[0], "file")
        shown = repr(name[:90])
        if name not in present:
            yield make_finding(rule, "", f"{shown}: is missing; the test began with it")
        elif name not in first.files:
            yield make_finding(rule, "", f"{shown}: was added after the test began")
        elif present[name] != first.files[name]:
            yield make_finding(rule, "", f"{shown}: was changed after the test began")


def _market(checked: CheckedFolder, first: Begun, market: str) -> Iterator[Finding]:
    """Compare the sessions and the pre-test market with the chain, and the sessions with the
    exchange calendars.
    """
    try:
        stored = checked.folder.schedule(market)
        base = checked.folder.base(market)
    except KtdevalError as error:
        yield make_finding("base", "", str(error))
        return

    if first.schedules[market] != content_hash(to_plain(stored)) or stored.market != market:
        yield make_finding("schedule", "", f"{market}: the sessions were changed")
        return
    if first.base[market] != base.id:
        yield make_finding("base", "", f"{market}: the market before the test was changed")
        return

    began = of_text(checked.chain.entries[0].at)
    for session in stored.sessions[:1]:
        if session.cutoff is not None and began >= session.cutoff:
            yield make_finding("begun", session.day, f"{market}: began after its first cutoff")

    plan = checked.folder.begun_plan
    try:
        task = checked.plugins.make_task(plan.markets[market].task)
        expected = plan_schedule(plan, market, base, task.trading)
    except KtdevalError as error:
        yield make_finding("schedule", "", f"{market}: {error}")
        return
    yield from calendar_findings(checked.chain, stored, expected)


def calendar_findings(
    chain: RecordChain, stored: Schedule, expected: Schedule
) -> Iterator[Finding]:
    """Compare stored sessions with those in the exchange calendar.

    A later correction of the calendar is not a finding if the stored times are stricter, for
    example because a day turned out to be a holiday or to end early.
    """
    market = stored.market
    own = {one.day: one for one in stored.sessions}
    if list(stored.days) != sorted(own):
        yield make_finding("schedule", "", f"{market}: its sessions are not in order")
        return

    for one in expected.sessions:
        found = own.get(one.day)
        if found is None:
            yield make_finding("schedule", one.day, f"{market}: lacks a session of the exchange")
            continue
        if found.complete_at < one.complete_at:
            yield make_finding("schedule", one.day, f"{market}: ends before the exchange closes")
        if one.cutoff is not None and (found.cutoff is None or found.cutoff > one.cutoff):
            yield make_finding(
                "schedule", one.day, f"{market}: its cutoff lies after the next fills"
            )

    traded = chain.list_frozen_days(market)
    for day in own:
        if day not in expected.days and day in traded:
            yield make_finding("schedule", day, f"{market}: the exchange has no such session")


def _systems(checked: CheckedFolder, first: Begun) -> Iterator[Finding]:
    """Compare the systems in the plan, and the systems of entrants that joined, with those in the
    chain.
    """
    systems = dict(first.systems)
    for link, body in checked.chain.find_links(Joined):
        for name in systems.keys() & body.systems.keys():
            yield make_finding("joined", "", f"{name}: was in the test before")
        systems.update(body.systems)
        yield from _joined_findings(checked, link, body)

    for entry in checked.entries:
        try:
            base = checked.folder.base(entry.market)
            config = entry.config()
            spec = entry.spec(base, config, checked.plugins)
        except KtdevalError as error:
            yield make_finding("system", "", f"{entry.name}: {error}")
            continue
        # versions that counted the time limit of calls as part of the system had another id
        known = {spec.id, as_first_recorded(spec, config.timeout_s).id}
        if systems.pop(entry.name, None) not in known:
            yield make_finding(
                "system",
                "",
                f"{entry.name}: task, model or agent differ from the chain's;"
                f" {spec.task} is version {spec.task_version} here: if it ran as another one,"
                " install the software that ran it",
            )

    for name in systems:
        yield make_finding("system", "", f"{name[:90]!r}: is in the chain and not in the plan")


def _joined_findings(checked: CheckedFolder, link: Link, body: Joined) -> Iterator[Finding]:
    """Yield a finding if an entrant joined after its first decision was due."""
    entrant = body.entrant
    first = entrant.first or ""
    for market in entrant.markets or checked.folder.plan.markets:
        for session, fill in pairwise(checked.folder.schedule(market).sessions):
            is_late = session.cutoff is not None and of_text(link.at) >= session.cutoff
            if fill.day >= first and is_late:
                yield make_finding(
                    "joined", session.day, f"{entrant.name}/{market}: joined after its cutoff"
                )
