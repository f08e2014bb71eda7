"""Certificates as a card type: tables of what models recovered and the bounds that follow, and the
rows that a certificate adds to trading cards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.cards import (
    CardKind,
    Grid,
    Report,
    clean,
    count,
    percent,
    points,
    word_grid,
)
from ktdeval_deanon.certificate.card import (
    EXACT_MATCHER,
    KIND,
    certificate_block,
    certificate_problems,
    day_found,
    derive_certificate,
)
from ktdeval_deanon.certificate.certify import verify_certificate
from ktdeval_deanon.certificate.types import (
    MODEL,
    SCHEMA_FILE,
    Attacker,
    Certificate,
    MaskOptions,
    ShareInterval,
)

SCOPE = "certifies the channel to a model, not to a database"  #: First line of every certificate

_SHOWN = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_HASH = 12  # number of hash characters shown
_EMPTY_CELLS = ("",) * 5  # cells of a failed control, after attacker and reason


def _certificate_report(certificate: Certificate) -> Report:
    bound = certificate.bound
    ranking = SCOPE if bound.value is not None else f"certifies nothing: {bound.reason}"
    return Report(
        title=clean(f"mask of {certificate.covers.task_name} on {certificate.snapshot.name}"),
        labels=tuple(certificate.labels),
        ranking=clean(ranking),
        facts=word_grid("", list(_certificate_facts(certificate))),
        grids=(
            _bound_grid(certificate),
            _controls(certificate),
            _attackers(certificate),
            _ablation(certificate),
            _paths(certificate),
        ),
        activity=word_grid("", []),
        notes=tuple(_certificate_notes(certificate)),
    )


def certificate_rows(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows about its certificate on a trading card: the hash, the attackers, the bounds,
    and what the exact matcher finds in the same payloads.
    """
    labels = ""
    if value["labels"]:
        labels = f" ({', '.join(value['labels'])})"

    models: list[str] = []
    for attacker in value["attackers"]:
        if attacker["kind"] == MODEL and attacker["counts_for"]:
            models.append(attacker["name"])

    probes = f"{value['probes']['count']:,} probes"
    claim = f"{value['sha256'][:_HASH]}{labels}, claimed: {probes}"
    yield "certificate", f"{claim}, attacked by {', '.join(models)}"

    bound = value["bound"]
    bounds = [_bound_words(name, bound[name]) for name in _SHOWN if name in bound]
    if bounds:
        yield "mask bound", "; ".join(bounds)

    found = value["exact_matcher"]
    shares = [f"{name} {points(found[name])} %" for name in _SHOWN if name in found]
    yield "", f"bounds a model, not a database: with the price history at hand {', '.join(shares)}"

    path = value.get("day_found")
    if path is not None:
        yield (
            "",
            (
                f"the index's closes alone name the day of {points(path['share'])} % of episodes after"
                f" {count(path['days'], 'day')}"
            ),
        )


def _bound_words(name: str, entry: Mapping[str, Any]) -> str:
    """Return a bound such as `ticker_top1 at most 1.20 % (chance 0.30 %)`."""
    words = f"{name} at most {points(entry['upper'])} %"
    if entry["baseline"] is None:
        return words
    return f"{words} (chance {points(entry['baseline'])} %)"


def _certificate_facts(certificate: Certificate) -> Iterator[tuple[str, str]]:
    covers = certificate.covers
    probes = certificate.probes
    snapshot = certificate.snapshot
    yield "covers", f"{covers.mode}, version {covers.task_version}, key {covers.key[:_HASH]}"
    yield "mask", _mask_words(covers.mask)
    yield "tools", ", ".join(sorted(covers.tool_texts)) or "none"
    yield "market", f"{snapshot.name}, {count(snapshot.assets, 'asset')}, id {snapshot.id[:_HASH]}"
    windows = ", ".join(f"{window.name} ({window.probes})" for window in probes.windows)
    yield "probes", f"{probes.count:,} of {certificate.exam.name}, seed {probes.seed}: {windows}"
    yield "boards", ", ".join(f"{board} {number}" for board, number in probes.boards.items())


def _mask_words(mask: MaskOptions) -> str:
    """Describe a mask: `blinded, prices rebased, 3 significant digits, noise of 0.5 %`."""
    words: list[str] = [mask.kind]
    words.append("prices rebased" if mask.rebase_prices else "original prices")
    if mask.round_digits is not None:
        words.append(count(mask.round_digits, "significant digit"))
    if mask.noise_pct:
        words.append(f"noise of {mask.noise_pct:g} %")

    return ", ".join(words)


def _bound_grid(certificate: Certificate) -> Grid:
    """Return the bound for each score next to what the exact matcher recovers."""
    bounds = certificate.bound.value or {}
    exact = certificate.scores_of(EXACT_MATCHER)
    rows: list[tuple[str, ...]] = []
    for name in certificate.score_order:
        if name not in bounds:
            continue

        bound = bounds[name]
        rows.append(
            (
                clean(name),
                clean(bound.attacker),
                points(bound.upper),
                points(bound.value),
                points(bound.baseline),
                points(exact[name].value if name in exact else None),
                f"{bound.n:,}",
            )
        )

    columns = ("recovered", "by the strongest", "at most", "found", "chance", "database", "n")
    return Grid("Bound (95 %, one-sided, exact; in %)", columns, tuple(rows), left=2)


def _controls(certificate: Certificate) -> Grid:
    """Return one row for each attacker and each item that it had to read from unmasked probes."""
    control = certificate.control
    rows: list[tuple[str, ...]] = []
    for attacker in certificate.attackers:
        if attacker.control.value is None:
            failure = clean(f"failed: {attacker.control.reason}")
            rows.append((clean(attacker.name), failure, *_EMPTY_CELLS))
            continue

        for name, read in attacker.control.value.items():
            rows.append(
                (
                    clean(attacker.name),
                    clean(name.replace("_", " ")),
                    points(read.value),
                    _interval_words(read.interval),
                    points(read.needed),
                    f"{read.n:,}",
                    "passed" if read.passed else "failed",
                )
            )

    title = (
        f"Control: {count(control.count, 'unmasked probe')} of {control.exam.name} (in %); the low"
        f" end of the exact {percent(control.level, 'g')} interval must reach what is needed"
    )
    columns = ("attacker", "read", "value", "interval", "needed", "n", "control")
    return Grid(clean(title), columns, tuple(rows), left=2)


def _attackers(certificate: Certificate) -> Grid:
    """Return a heading for each attacker, followed by a row for each of its scores."""
    rows: list[tuple[str, ...]] = []
    for attacker in certificate.attackers:
        rows.append((clean(_attacker_heading(attacker)),))
        for name in certificate.score_order:
            if name not in attacker.scores:
                continue

            score = attacker.scores[name]
            rows.append(
                (
                    clean(name),
                    points(score.value),
                    _interval_words(score.interval),
                    points(score.upper),
                    points(score.baseline),
                    f"{score.n:,}",
                )
            )

    columns = ("score", "value", "95 % interval", "at most", "chance", "n")
    return Grid("Attackers (in %)", columns, tuple(rows))


def _attacker_heading(attacker: Attacker) -> str:
    """Return an attacker's name and kind, the number of its answers, and the hash of its card."""
    answered = f", {attacker.answered:,} of {attacker.probes:,} probes answered"
    if attacker.kind == MODEL:
        named = attacker.named
        answered += f", {named.tickers:,} with a stock, {named.date:,} with a day"
        if not attacker.counts_for:
            answered += "; control failed: certifies nothing"

    card = ""
    if attacker.card is not None:
        card = f", card {attacker.card[:_HASH]}"

    return f"{attacker.name} ({attacker.kind}{answered}{card})"


def _interval_words(interval: ShareInterval) -> str:
    """Return both ends in per cent; empty if the interval has no ends."""
    if interval.low is None or interval.high is None:
        return ""
    return f"{points(interval.low, '.1f')} … {points(interval.high, '.1f')}"


def _ablation(certificate: Certificate) -> Grid:
    """Return what the exact matcher recovers from each set of shown fields, and how many stock-day
    pairs agree with a payload.
    """
    entries = certificate.identifiability.ablation
    recovered: set[str] = set()
    for entry in entries:
        recovered.update(entry.scores)

    names = [name for name in _SHOWN if name in recovered]
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        cells = [clean(entry.name)]
        for name in names:
            score = entry.scores.get(name)
            cells.append(points(None if score is None else score.value))

        rows.append((*cells, f"{entry.k.median:,.0f}", points(entry.k.alone)))

    title = (
        "With the price history at hand (exact matcher, in %; k: pairs of stock and day that agree)"
    )
    return Grid(title, ("fields", *names, "median k", "k = 1"), tuple(rows))


def _paths(certificate: Certificate) -> Grid:
    """Return how often whole episodes give their first day away, by days seen; without rows if they
    were not attacked.
    """
    rows: list[tuple[str, ...]] = []
    for entry in certificate.date_paths.value or ():
        rows.append(
            (
                f"{entry.days:,}",
                points(entry.first.value),
                _interval_words(entry.first.interval),
                points(entry.first.baseline),
                f"{entry.median_place:,.0f}",
                f"{entry.first.n:,}",
            )
        )

    title = "Whole episodes (path matcher: by the closes of the index alone, in %)"
    columns = ("days seen", "true day first", "95 % interval", "chance", "median place", "episodes")
    return Grid(title, columns, tuple(rows))


def _path_words(certificate: Certificate) -> str:
    """Return what the path matcher found, in one sentence."""
    paths = certificate.date_paths.value
    if paths is None:
        return f"whole episodes were not attacked: {certificate.date_paths.reason}"

    found = day_found(certificate.date_paths)
    if found is None:
        seen = paths[-1].days
        return f"whole episodes: no day found from the index's closes alone within {count(seen, 'day')}"

    return (
        f"whole episodes: after {count(found.days, 'day')} the index's closes alone name the first"
        f" day in {points(found.first.value)} % ({_interval_words(found.first.interval)}) of"
        f" {found.first.n:,} episodes (chance {points(found.first.baseline)} %)"
    )


def _certificate_notes(certificate: Certificate) -> Iterator[str]:
    yield (
        "bounds hold for the attackers that are named, each at its own 95 %; they say nothing of"
        " models to come"
    )
    yield (
        "a control shows that an attacker can read, not that it tried: an attacker that answers"
        " unmasked probes and pretends behind the mask passes it"
    )
    yield clean(_path_words(certificate))
    for attacker in certificate.models:
        if not attacker.counts_for:
            yield clean(f"{attacker.name}: control failed, so its misses certify nothing")

    if certificate.snapshot.synthetic:
        yield (
            "the market is generated: nobody can remember it, so the bounds only show that the"
            " text leaks nothing"
        )

    for attacker in certificate.attackers:
        left = attacker.probes - attacker.answered
        if left > 0:
            yield clean(
                f"{attacker.name} gave no valid answer to {count(left, 'probe')}; these bound"
                " nothing"
            )

    bounds = certificate.bound.value or {}
    below_chance: list[str] = []
    for name in certificate.score_order:
        if name in bounds and bounds[name].upper < (bounds[name].baseline or 0.0):
            below_chance.append(name)

    if below_chance:
        yield clean(
            f"{', '.join(below_chance)}: the attackers guessed less well than chance does, so "
            f"read chance as"
            " the bound"
        )

    others = certificate.identifiability.factors_not_compared
    if others:
        yield clean(f"shown, but not compared by the exact matcher: {', '.join(others)}")


CERTIFICATE = CardKind(
    name=KIND,
    type=Certificate,
    schema=SCHEMA_FILE,
    problems=certificate_problems,
    derive=derive_certificate,
    report=_certificate_report,
    content=lambda card: f"probes: {card.probes.count}, attackers: {len(card.attackers)}",
    attach=certificate_block,
    attached_rows=certificate_rows,
    verify=verify_certificate,
)
