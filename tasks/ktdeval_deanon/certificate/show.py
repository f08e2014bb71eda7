"""Certificates as a kind of cards: their tables (what models recovered and what that bounds) and what trading cards carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.cards import UNDEFINED, CardKind, Grid, Report, clean, count, word_grid
from ktdeval_deanon.certificate.card import EXACT_MATCHER, KIND, certificate_block, certificate_problems, derive_certificate
from ktdeval_deanon.certificate.certify import verify_certificate
from ktdeval_deanon.certificate.types import MODEL, SCHEMA_FILE, Certificate, MaskOptions

SCOPE = "certifies the channel to a model, not to a database"  #: What every certificate says first

_SHOWN = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_HASH = 12


def _report(certificate: Certificate) -> Report:
    bound = certificate.bound
    return Report(
        title=clean(f"mask of {certificate.covers.task_name} on {certificate.snapshot.name}"),
        labels=tuple(certificate.labels),
        ranking=clean(SCOPE if bound.value is not None else f"certifies nothing: {bound.reason}"),
        facts=word_grid("", list(_facts(certificate))),
        grids=(_bound(certificate), _controls(certificate), _attackers(certificate), _ablation(certificate)),
        activity=word_grid("", []),
        notes=tuple(_notes(certificate)),
    )


def certificate_rows(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a trading card about its certificate: which, what it bounds, and what a database finds in the same texts."""

    def bounded(name: str, entry: Mapping[str, Any]) -> str:
        chance = "" if entry["baseline"] is None else f" (chance {_percent(entry['baseline'])} %)"
        return f"{name} at most {_percent(entry['upper'])} %{chance}"

    labels = f" ({', '.join(value['labels'])})" if value["labels"] else ""
    models = [attacker["name"] for attacker in value["attackers"] if attacker["kind"] == MODEL and attacker["counts_for"]]
    yield (
        "certificate",
        f"{value['sha256'][:_HASH]}{labels}, claimed: {value['probes']['count']:,} probes, attacked by {', '.join(models)}",
    )
    if bounds := [bounded(name, value["bound"][name]) for name in _SHOWN if name in value["bound"]]:
        yield "mask bound", "; ".join(bounds)
    shares = [f"{name} {_percent(value['exact_matcher'][name])} %" for name in _SHOWN if name in value["exact_matcher"]]
    yield "", f"bounds a model, not a database: with the price history at hand {', '.join(shares)}"


def _facts(certificate: Certificate) -> Iterator[tuple[str, str]]:
    covers, probes, snapshot = certificate.covers, certificate.probes, certificate.snapshot
    yield "covers", f"{covers.mode}, version {covers.task_version}, key {covers.key[:_HASH]}"
    yield "mask", _mask_words(covers.mask)
    yield "tools", ", ".join(sorted(covers.tool_texts)) or "none"
    yield "market", f"{snapshot.name}, {snapshot.assets} assets, id {snapshot.id[:_HASH]}"
    windows = ", ".join(f"{window.name} ({window.probes})" for window in probes.windows)
    yield "probes", f"{probes.count:,} of {certificate.exam.name}, seed {probes.seed}: {windows}"
    yield "boards", ", ".join(f"{board} {number}" for board, number in probes.boards.items())


def _mask_words(mask: MaskOptions) -> str:
    """`blinded, prices rebased, 3 significant digits, noise of 0.5 %`."""
    rounded = [] if mask.round_digits is None else [count(mask.round_digits, "significant digit")]
    noise = [f"noise of {mask.noise_pct:g} %"] if mask.noise_pct else []
    return ", ".join([mask.kind, "prices rebased" if mask.rebase_prices else "prices as they are", *rounded, *noise])


def _bound(certificate: Certificate) -> Grid:
    """Bound of each score, next to the exact matcher's recovery."""
    bounds, exact = certificate.bound.value or {}, certificate.scores_of(EXACT_MATCHER)
    rows = []
    for name in certificate.score_order:
        if name in bounds:
            bound, database = bounds[name], _percent(exact[name].value) if name in exact else UNDEFINED
            shares = (_percent(bound.upper), _percent(bound.value), _percent(bound.baseline), database)
            rows.append((clean(name), clean(bound.attacker), *shares, f"{bound.n:,}"))
    columns = ("recovered", "by the strongest", "at most", "found", "chance", "database", "n")
    return Grid("Bound (95 %, one-sided, exact; in %)", columns, tuple(rows), left=2)


def _controls(certificate: Certificate) -> Grid:
    """A row for each thing that each attacker had to read off unmasked probes."""
    control = certificate.control
    rows: list[tuple[str, ...]] = []
    for attacker in certificate.attackers:
        if attacker.control.value is None:
            rows.append((clean(attacker.name), clean(f"failed: {attacker.control.reason}"), "", "", "", "", ""))
            continue
        for name, read in attacker.control.value.items():
            low, high = read.interval.low, read.interval.high
            spread = "" if low is None or high is None else f"{100 * low:.1f} … {100 * high:.1f}"
            verdict = "passed" if read.passed else "failed"
            shares = (_percent(read.value), spread, _percent(read.needed), f"{read.n:,}")
            rows.append((clean(attacker.name), clean(name.replace("_", " ")), *shares, verdict))
    title = (
        f"Control: {count(control.count, 'unmasked probe')} of {control.exam.name} (in %); the low end of the exact "
        f"{100 * control.level:g} % interval must reach what is needed"
    )
    return Grid(clean(title), ("attacker", "read", "value", "interval", "needed", "n", "control"), tuple(rows), left=2)


def _attackers(certificate: Certificate) -> Grid:
    """A row for each score of each attacker."""
    rows: list[tuple[str, ...]] = []
    for attacker in certificate.attackers:
        answered = f", {attacker.answered:,} of {attacker.probes:,} probes answered"
        if attacker.kind == MODEL:
            answered += f", {attacker.named.tickers:,} with a stock, {attacker.named.date:,} with a day"
            if not attacker.counts_for:
                answered += "; control failed: certifies nothing"
        card = "" if attacker.card is None else f", card {attacker.card[:_HASH]}"
        rows.append((clean(f"{attacker.name} ({attacker.kind}{answered}{card})"),))
        for name in (name for name in certificate.score_order if name in attacker.scores):
            score = attacker.scores[name]
            low, high = score.interval.low, score.interval.high
            spread = "" if low is None or high is None else f"{100 * low:.1f} … {100 * high:.1f}"
            shares = (_percent(score.value), spread, _percent(score.upper), _percent(score.baseline))
            rows.append((clean(name), *shares, f"{score.n:,}"))
    return Grid("Attackers (in %)", ("score", "value", "95 % interval", "at most", "chance", "n"), tuple(rows))


def _ablation(certificate: Certificate) -> Grid:
    """Recoveries of a database by shown fields, and the number of pairs that agree with a payload."""
    entries = certificate.identifiability.ablation
    names = [name for name in _SHOWN if any(name in entry.scores for entry in entries)]
    rows = []
    for entry in entries:
        values = (_percent(entry.scores[name].value) if name in entry.scores else UNDEFINED for name in names)
        rows.append((clean(entry.name), *values, f"{entry.k.median:,.0f}", _percent(entry.k.alone)))
    title = "With the price history at hand (exact matcher, in %; k: pairs of stock and day that agree)"
    return Grid(title, ("fields", *names, "median k", "k = 1"), tuple(rows))


def _notes(certificate: Certificate) -> Iterator[str]:
    yield "bounds hold for the attackers that are named, each at its own 95 %; they say nothing of models to come"
    yield (
        "a control shows that an attacker can read, not that it tried: one that answers unmasked probes and shams behind the mask "
        "passes it"
    )
    for attacker in certificate.models:
        if not attacker.counts_for:
            yield clean(f"{attacker.name}: control failed, so its misses certify nothing")
    if certificate.snapshot.synthetic:
        yield "the market is generated: nobody can remember it, so the bounds show that the text leaks nothing, and no more"
    for attacker in certificate.attackers:
        if left := max(0, attacker.probes - attacker.answered):
            yield clean(f"{attacker.name} gave no valid answer to {count(left, 'probe')}; these bound nothing")
    bounds = certificate.bound.value or {}
    shown = [name for name in certificate.score_order if name in bounds]
    if shy := [name for name in shown if bounds[name].upper < (bounds[name].baseline or 0.0)]:
        yield clean(f"{', '.join(shy)}: the attackers guessed less well than chance does, so read chance as the bound")
    if others := certificate.identifiability.factors_not_compared:
        yield clean(f"shown, but not compared by the exact matcher: {', '.join(others)}")


def _percent(value: float | None) -> str:
    return UNDEFINED if value is None else f"{100 * value:.2f}"


CERTIFICATE = CardKind(
    name=KIND,
    type=Certificate,
    schema=SCHEMA_FILE,
    problems=certificate_problems,
    derive=derive_certificate,
    report=_report,
    content=lambda card: f"probes: {card.probes.count}, attackers: {len(card.attackers)}",
    attach=certificate_block,
    attached_rows=certificate_rows,
    verify=verify_certificate,
)
