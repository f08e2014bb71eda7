"""Check of a test's data: each increment must be the one that the chain refers to, in the chain's
order.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.errors import KtdevalError
from ktdeval.values import Finding
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.days.clock import in_text, of_text
from ktdeval_live.days.market_increments import Increment
from ktdeval_live.record.chain import Entry as Link, Frozen
from ktdeval_live.record.findings import make_finding

_RULE = "data"


def data_findings(checked: CheckedFolder) -> Iterator[Finding]:
    """Yield findings about the frozen data."""
    latest: dict[tuple[str, str], tuple[int, str]] = {}
    for link, body in checked.chain.find_links(Frozen):
        session = checked.sessions.get((body.market, body.day))
        if session is None:
            yield make_finding(_RULE, body.day, f"{body.market} has no such session")
            continue
        if of_text(link.at) < session.complete_at:
            yield make_finding(_RULE, body.day, f"{body.market}: frozen before the day was over")

        number, before = latest.get((body.market, body.day), (0, ""))
        if body.number != number:
            yield make_finding(
                _RULE, body.day, f"{body.market}: increment {body.number} out of order"
            )
        latest[body.market, body.day] = (body.number + 1, body.increment)
        yield from _increment(checked, link, body, before or None)


def _increment(
    checked: CheckedFolder, link: Link, body: Frozen, before: str | None
) -> Iterator[Finding]:
    """Check a single increment; `before` is the hash of the increment that it must revise."""
    try:
        increment = checked.folder.increment(body)
    except KtdevalError as error:
        yield make_finding(_RULE, body.day, str(error))
        return

    if increment.revises != before:
        yield make_finding(_RULE, body.day, f"{body.market}: revises another increment")
    if _is_after(increment, link):
        yield make_finding(_RULE, body.day, f"{body.market}: known only after it was frozen")


def _is_after(increment: Increment, link: Link) -> bool:
    """Return whether an increment became known after its chain entry. The entry's time is in whole
    seconds.
    """
    return of_text(in_text(increment.known_at)) > of_text(link.at)
