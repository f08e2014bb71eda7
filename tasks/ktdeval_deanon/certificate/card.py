"""Certificate of a mask: what attackers recovered from masked payloads, the bounds that follow, and
which trading cards the certificate covers.

A bound limits what a model can recover from the prompts only by memory. Someone with a price
database can find the stock and the day by looking up the numbers; the certificate measures this too
and shows it next to the bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from ktdeval.cards import MIN_DECIDED_PERCENT, JsonPath, Problem, decode_strict
from ktdeval.stats import clopper_pearson_upper, wilson
from ktdeval.values import JsonValue, content_hash, dumps_pretty, sha256_hex, to_object, to_plain
from ktdeval_deanon.certificate.positive_control import (
    LEVEL as CONTROL_LEVEL,
    MIN_READ,
    READS,
    control_share,
    counted_scores,
    needs_of,
)
from ktdeval_deanon.certificate.types import (
    Attacker,
    Bound,
    BoundEntry,
    Certificate,
    CertificateFacts,
    ControlShare,
    DatePaths,
    Keyed,
    PathEntry,
    Recovery,
)

KIND = "certificate"
LEVEL = 0.95  #: Nominal coverage of intervals, and confidence level of each one-sided upper bound

EXACT_MATCHER, DATE_MATCHER, RANDOM = "exact matcher", "date matcher", "random"
"""Attackers that need no language model."""

KEYED = Keyed.__struct_fields__
"""Fields in which a trading card must equal a certificate to be covered; `covers.key` is the hash
of these fields.
"""

NO_MODEL = "no model has attacked the mask yet"
NO_ANSWER = "no model that attacked the mask gave a valid answer"
NO_CONTROL = (
    "no model that attacked the mask passed its control: none was shown to read unmasked probes"
)

ALL_FIELDS = "all"  #: Ablation entry for all fields, which are also what the exact matcher uses

#: versions of the probes whose certificates did not attack whole episodes yet
_BEFORE_PATHS = ("1", "2", "3", "4")
_TOLERANCE = 1e-9  # quantiles may differ in the last digits between SciPy versions
#: Fields of `KEYED` that are objects, with the message for a difference in each
_PARTS = {"mask": "another mask", "harness": "other limits", "tool_texts": "other tools"}
#: Mask options, with their values if a task does not set them
_MASK_OPTIONS: Mapping[str, JsonValue] = {
    "rebase_prices": False,
    "round_digits": None,
    "noise_pct": 0.0,
}


def stated_mask(task: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the mask in a task's description, with its options."""
    mask: dict[str, JsonValue] = {"kind": task.get("mask")}
    for name, usual in _MASK_OPTIONS.items():
        mask[name] = task.get(name, usual)

    return mask


def covered_by(task: Mapping[str, Any], snapshot_id: str) -> dict[str, JsonValue]:
    """Return what a certificate of a task covers: the fields in `KEYED`, their hash as `key`, and
    the task's name and hash.

    Prompts, costs, windows and metrics are not covered facts, since probes show what research tools
    answer on any day of the snapshot.
    """
    keyed: dict[str, JsonValue] = {
        "snapshot": snapshot_id,
        "task_family": task.get("family"),
        "task_version": task.get("version"),
        "mode": task.get("mode"),
        "mask": stated_mask(task),
        "tool_texts": task.get("tool_texts", {}),
        "harness": task.get("harness", {}),
    }
    return {
        **keyed,
        "key": content_hash(keyed),
        "task_name": task.get("name"),
        "task_hash": content_hash(task),
    }


def share(successes: int, n: int, baseline: float | None) -> dict[str, JsonValue]:
    """Return one score of an attacker: the fraction of `n` that it recovered.

    The fields are `successes`, `n`, `value` (null with a reason if `n` is 0), `interval` (Wilson),
    `upper` (exact one-sided Clopper-Pearson bound; 1 if `n` is 0) and `baseline`, the chance level
    on the same probes (null if unknown).
    """
    line: dict[str, JsonValue] = {
        "value": successes / n if n else None,
        "successes": successes,
        "n": n,
        "interval": wilson(successes, n, LEVEL).to_json(),
        "upper": clopper_pearson_upper(successes, n, LEVEL),
        "baseline": baseline,
    }
    if not n:
        line["reason"] = "no valid answer with a known truth"

    return line


def derive_certificate(certificate: Certificate) -> Certificate:
    """Return the certificate with its bound and labels derived again from the other fields."""
    return msgspec.structs.replace(
        certificate, bound=_certified_bound(certificate), labels=_labels(certificate)
    )


def _certified_bound(certificate: CertificateFacts) -> Bound:
    """Return, for each score, the largest upper bound of any model that counts for the score. The
    bound is null with a reason if no model counts.
    """
    if not certificate.models:
        return Bound(value=None, reason=NO_MODEL)
    if not certificate.counting:
        return Bound(value=None, reason=NO_CONTROL)

    bounds: dict[str, BoundEntry] = {}
    for name, definition in certificate.definitions.items():
        tried: list[tuple[Attacker, Recovery]] = []
        for attacker in certificate.counting:
            score = attacker.scores.get(name)
            if name in attacker.counts_for and score is not None and score.n > 0:
                tried.append((attacker, score))

        if definition.better != "lower" or not tried:
            continue

        # In a tie, `max` returns the first attacker in the certificate's order.
        strongest, score = max(tried, key=lambda pair: pair[1].upper)
        bounds[name] = BoundEntry(
            upper=score.upper,
            value=score.value or 0.0,
            n=score.n,
            baseline=score.baseline,
            level=LEVEL,
            attacker=strongest.name,
        )

    if not bounds:
        return Bound(value=None, reason=NO_ANSWER)
    return Bound(value=bounds)


def _labels(certificate: CertificateFacts) -> list[str]:
    """Return the labels that readers must see before any figure."""
    models = certificate.models
    counting = certificate.counting
    conditions = {
        "synthetic": certificate.snapshot.synthetic,
        "limited": certificate.probes.limit is not None,
        "day found": day_found(certificate.date_paths) is not None,
        "no model attacked": not models,
        "control failed": bool(models) and not counting,
        "control incomplete": bool(counting) and _is_incomplete(certificate),
        "few answers": any(_is_short(attacker.answered, attacker.probes) for attacker in counting),
        "few guesses": any(_names_few(attacker) for attacker in counting),
    }

    return [label for label, is_true in conditions.items() if is_true]


def day_found(paths: DatePaths) -> PathEntry | None:
    """Return the fewest days after which the path matcher names an episode's first day: the low end
    of the interval is at least half-way from chance to all episodes, as in a control. None if no
    number of days suffices.
    """
    for entry in paths.value or ():
        low = entry.first.interval.low
        chance = entry.first.baseline or 0.0
        if low is not None and low >= chance + MIN_READ * (1.0 - chance):
            return entry

    return None


def _names_few(attacker: Attacker) -> bool:
    """Return whether too few of an attacker's answers name a stock, or name a day, for its misses
    to support a bound.
    """
    return any(_is_short(count, attacker.answered) for count in asdict(attacker.named).values())


def _is_incomplete(certificate: CertificateFacts) -> bool:
    """Return whether no model counts for the stock or for the day, so that part of the mask has no
    bound.
    """
    counted: set[str] = set()
    for attacker in certificate.counting:
        counted.update(attacker.counts_for)

    for name, definition in certificate.definitions.items():
        needs = certificate.control.needs.get(name, ())
        # Masks do not hide the industry.
        is_hidden = definition.better == "lower" and "industry" not in needs
        if is_hidden and name not in counted:
            return True

    return False


def _is_short(part: int, whole: int) -> bool:
    return 100 * part < MIN_DECIDED_PERCENT * whole


def build_certificate(parts: Mapping[str, Any]) -> Certificate:
    """Build a certificate from its parts: derive rates from counts, then the bound and the labels.
    Pure.
    """
    needs = parts["control"]["needs"]
    identifiability = parts["identifiability"]
    ablation = [_with_shares(entry) for entry in identifiability["ablation"]]
    whole = {
        **parts,
        "kind": KIND,
        "schema_version": 1,
        "attackers": [_with_control(_with_shares(entry), needs) for entry in parts["attackers"]],
        "identifiability": {**identifiability, "ablation": ablation},
        "paths": _with_path_shares(parts["paths"]),
    }
    facts = decode_strict(whole, CertificateFacts)
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}

    return Certificate(**fields, bound=_certified_bound(facts), labels=_labels(facts))  # type: ignore[arg-type]  # the labels of the type


def _with_shares(entry: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return an entry with a rate and an interval for each of its scores."""
    scores: dict[str, JsonValue] = {}
    for name, score in entry["scores"].items():
        scores[name] = share(score["successes"], score["n"], score["baseline"])

    return {**entry, "scores": scores}


def _with_path_shares(paths: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the attack on whole episodes with a rate and an interval for each number of days."""
    if paths["value"] is None:
        return dict(paths)

    entries: list[JsonValue] = []
    for entry in paths["value"]:
        first = entry["first"]
        found = share(first["successes"], first["n"], first["baseline"])
        entries.append({**entry, "first": found})

    return {"value": entries}


def _with_control(attacker: Mapping[str, Any], needs: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return an attacker with the figures for its control and the scores for which it counts."""
    given = attacker["control"]
    shares: dict[str, ControlShare] = {}
    if given["value"] is not None:
        for name, read in given["value"].items():
            shares[name] = control_share(read["successes"], read["n"], read["baseline"])

        given = {"value": to_plain(shares)}

    return {
        **attacker,
        "control": given,
        "counts_for": counted_scores(list(attacker["scores"]), shares, needs),
    }


def certificate_problems(certificate: Certificate) -> Iterator[Problem]:
    """Yield the inconsistencies in a well-typed certificate."""
    for find in (
        _covers_problems,
        _probe_problems,
        _attacker_problems,
        _ablation_problems,
        _path_problems,
    ):
        yield from find(certificate)


def _covers_problems(certificate: Certificate) -> Iterator[Problem]:
    covers = certificate.covers
    plain = to_object(covers)
    if covers.key != content_hash({name: plain[name] for name in KEYED}):
        yield ("covers", "key"), f"is not the hash of {', '.join(KEYED)}"

    if covers.snapshot != certificate.snapshot.id:
        yield ("covers", "snapshot"), "is not the snapshot's id"

    if certificate.control.needs != needs_of(list(certificate.definitions)):
        yield ("control", "needs"), "does not match what the scores require"

    for name, value in (("level", CONTROL_LEVEL), ("least_read", MIN_READ)):
        if getattr(certificate.control, name) != value:
            yield ("control", name), f"must be {value}"

    if sorted(certificate.score_order) != sorted(certificate.definitions):
        yield ("score_order",), "must list every defined score exactly once"


def _probe_problems(certificate: Certificate) -> Iterator[Problem]:
    probes = certificate.probes
    windows = [window.probes for window in probes.windows]
    for field, counts in (("windows", windows), ("boards", probes.boards.values())):
        if sum(counts) != probes.count:
            yield ("probes", field), f"adds up to {sum(counts)} probes, not {probes.count}"


def _attacker_problems(certificate: Certificate) -> Iterator[Problem]:
    attackers = certificate.attackers
    count = certificate.probes.count
    names = [attacker.name for attacker in attackers]

    for index, attacker in enumerate(attackers):
        if attacker.name in names[:index]:
            yield ("attackers", index, "name"), "appears twice"

        if attacker.probes != count:
            yield ("attackers", index, "probes"), f"the probe set has {count}"

        if attacker.answered > count:
            yield ("attackers", index, "answered"), f"is more than {count} probes"

        for field, named in asdict(attacker.named).items():
            if named > attacker.answered:
                where = ("attackers", index, "named", field)
                yield where, f"is more than {attacker.answered} answers"
                break

        scores = ("attackers", index, "scores")
        yield from _score_problems(scores, attacker.scores, certificate, attacker.answered)
        yield from _control_problems(("attackers", index), attacker, certificate)

    if EXACT_MATCHER not in names:
        yield ("attackers",), f"the {EXACT_MATCHER} is missing"


def _control_problems(
    path: JsonPath, attacker: Attacker, certificate: Certificate
) -> Iterator[Problem]:
    """Yield control figures that do not follow from their counts, and scores that count although
    the attacker failed the control.
    """
    shares = attacker.control.value or {}
    for name, share_read in shares.items():
        here = (*path, "control", "value", name)
        if name not in READS:
            yield here, f"is not one of the items to read: {', '.join(READS)}"

        if not share_read.successes <= share_read.n <= certificate.control.count:
            asked = f"with {certificate.control.count} unmasked probes"
            yield (*here, "successes"), f"{share_read.successes} of {share_read.n}, {asked}"
            return

        expected = control_share(share_read.successes, share_read.n, share_read.baseline)
        of = f"{share_read.successes} successes of {share_read.n} give"

        for field in ("value", "needed", "passed"):
            recorded = getattr(share_read, field)
            figure = getattr(expected, field)
            if not _is_close(recorded, figure):
                yield (*here, field), f"recorded {recorded}, {of} {figure}"

        for end in ("low", "high"):
            figure = getattr(expected.interval, end)
            if not _is_close(getattr(share_read.interval, end), figure):
                yield (*here, "interval", end), f"{of} {figure}"

    expected_scores = counted_scores(list(attacker.scores), shares, certificate.control.needs)
    if list(attacker.counts_for) != expected_scores:
        yield (*path, "counts_for"), f"its control supports {', '.join(expected_scores) or 'none'}"


def _ablation_problems(certificate: Certificate) -> Iterator[Problem]:
    """Yield problems with the ablation. With all fields, the ablation must recover what the exact
    matcher recovers.
    """
    exact = certificate.scores_of(EXACT_MATCHER)
    for index, entry in enumerate(certificate.identifiability.ablation):
        path = ("identifiability", "ablation", index, "scores")
        yield from _score_problems(path, entry.scores, certificate, certificate.probes.count)
        if entry.name != ALL_FIELDS:
            continue

        for name, score in entry.scores.items():
            if name not in exact or exact[name].successes != score.successes:
                yield (*path, name), f"is not what the {EXACT_MATCHER} recovered"


def _path_problems(certificate: Certificate) -> Iterator[Problem]:
    """Yield problems with the attack on whole episodes."""
    if certificate.paths is UNSET and certificate.exam.version not in _BEFORE_PATHS:
        yield ("paths",), f"is missing in a certificate of version {certificate.exam.version}"

    seen = 0
    for index, entry in enumerate(certificate.date_paths.value or ()):
        path = ("paths", "value", index)
        if entry.days <= seen:
            yield (*path, "days"), f"is not more than {seen}"

        seen = entry.days
        if not _is_close(entry.first.baseline, 1 / entry.candidates):
            yield (*path, "first", "baseline"), f"is not one in {entry.candidates} candidates"

        if entry.median_place > entry.candidates:
            yield (*path, "median_place"), f"is beyond {entry.candidates} candidates"

        yield from _share_problems(
            (*path, "first"), entry.first, certificate.probes.count, "probes"
        )


def _score_problems(
    path: JsonPath, scores: Mapping[str, Recovery], certificate: Certificate, answered: int
) -> Iterator[Problem]:
    """Yield figures of each score that do not follow from its number of successes."""
    for name, score in scores.items():
        if name not in certificate.definitions:
            yield (*path, name), "has no definition"

        yield from _share_problems((*path, name), score, answered, "answers")
        if not score.successes <= score.n <= answered:
            return


def _share_problems(path: JsonPath, score: Recovery, most: int, what: str) -> Iterator[Problem]:
    """Yield figures of a score that do not follow from its number of successes, of at most `most`
    trials.
    """
    if not score.successes <= score.n <= most:
        yield (*path, "successes"), f"{score.successes} of {score.n}, with {most} {what}"
        return

    of = f"{score.successes} successes of {score.n} give"
    value = score.successes / score.n if score.n else None
    upper = clopper_pearson_upper(score.successes, score.n, LEVEL)
    interval = wilson(score.successes, score.n, LEVEL)

    for field, expected in (("value", value), ("upper", upper)):
        recorded = getattr(score, field)
        if not _is_close(recorded, expected):
            yield (*path, field), f"recorded {recorded}, {of} {expected}"

    for end, expected in (("low", interval.low), ("high", interval.high)):
        if not _is_close(getattr(score.interval, end), expected):
            yield (*path, "interval", end), f"{of} {expected}"


def _is_close(recorded: float | None, expected: float | None) -> bool:
    if recorded is None or expected is None:
        return recorded is expected
    return math.isclose(recorded, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def certificate_block(
    task: Mapping[str, Any], snapshot_id: str, certificate: Certificate
) -> dict[str, JsonValue]:
    """Return the `certificate` field of a trading card to which a certificate is attached.

    The field is `{"value": {…}}` with the hash, key, probes, attackers, bounds, and what the exact
    matcher recovered. It is `{"value": null, "reason"}` if the certificate does not cover the card
    (the reason says what differs) or if no attacker counts.
    """
    plain = certificate.plain
    different = coverage_difference(covered_by(task, snapshot_id), plain["covers"])
    if different:
        return {"value": None, "reason": f"the certificate covers {different}"}
    if certificate.bound.value is None:
        reason = f"the certificate certifies nothing: {certificate.bound.reason}"
        return {"value": None, "reason": reason}

    exact = certificate.scores_of(EXACT_MATCHER)
    probes = certificate.probes
    value = {
        "sha256": sha256_hex(dumps_pretty(plain)),  # hash of the file as written
        "key": certificate.covers.key,
        "labels": certificate.labels,
        "probes": {"count": probes.count, "seed": probes.seed, "sha256": probes.sha256},
        "attackers": [_attached_attacker(attacker) for attacker in certificate.attackers],
        "bound": plain["bound"]["value"],
        "exact_matcher": {name: score.value for name, score in exact.items()},
    }
    found = day_found(certificate.date_paths)
    if found is not None:
        value["day_found"] = {"days": found.days, "share": found.first.value}

    return {"value": json.loads(dumps_pretty(value))}


def _attached_attacker(attacker: Attacker) -> dict[str, JsonValue]:
    """Return an attacker in the form used on trading cards."""
    return {
        "name": attacker.name,
        "kind": attacker.kind,
        "card": attacker.card,
        "model": None if attacker.model is None else attacker.model.name,
        "counts_for": list(attacker.counts_for),  # scores for which the attacker passed its control
    }


def coverage_difference(covered: Mapping[str, Any], certified: Mapping[str, Any]) -> str | None:
    """Return the first difference between a card and a certificate in the fields `KEYED`, such as
    `another snapshot (1f3a…, the card's is 9bc0…)`; None if they agree.
    """
    ours = covered["snapshot"]
    theirs = certified["snapshot"]
    if ours != theirs:
        return f"another snapshot ({theirs[:12]}, the card's is {ours[:12]})"

    for name, words in _PARTS.items():
        for key in sorted({*covered[name], *certified[name]}):
            ours = covered[name].get(key)
            theirs = certified[name].get(key)
            if ours != theirs:
                return f"{words} ({key} is {_shortened_value(theirs)}, the card's is {_shortened_value(ours)})"

    for name in ("task_family", "task_version", "mode"):
        ours = covered[name]
        theirs = certified[name]
        if ours != theirs:
            return f"another {name.replace('_', ' ')} ({theirs}, the card's is {ours})"

    return None


def _shortened_value(value: JsonValue) -> str:
    if value is None:
        return "none"
    return str(value)[:12]
