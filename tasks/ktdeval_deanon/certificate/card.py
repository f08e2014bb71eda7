"""Certificate of a mask: what attackers recovered of masked payloads, what that bounds, and which trading cards it covers.

What is certified is the channel to a model: what somebody with a memory recovers from the text that it is sent. Somebody who holds
the price history as a database finds stock and day by looking the numbers up; that is measured, too, and shown next to the bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from ktdeval.cards import LEAST_DECIDED_PERCENT, JsonPath, Problem, decode_strict
from ktdeval.jsonio import JsonValue, content_hash, dumps_pretty, sha256_hex
from ktdeval.stats import clopper_pearson_upper, wilson
from ktdeval.typed import to_plain
from ktdeval_deanon.certificate.passing import LEAST_READ, LEVEL as CONTROL_LEVEL, READS, control_share, counted_scores, needs_of
from ktdeval_deanon.certificate.types import Attacker, Bound, BoundEntry, Certificate, CertificateFacts, Keyed, Recovery

KIND = "certificate"
LEVEL = 0.95  #: Nominal coverage of intervals, and confidence of each one-sided upper bound

EXACT_MATCHER, DATE_MATCHER, RANDOM = "exact matcher", "date matcher", "random"
"""The attackers that need no language model."""

KEYED = Keyed.__struct_fields__
"""What a trading card must have in common with a certificate to be covered; `covers.key` is the hash of exactly these."""

NO_MODEL = "no model has attacked the mask yet"
NO_ANSWER = "no model that attacked the mask gave a valid answer"
NO_CONTROL = "no model that attacked the mask passed its control: none was shown to read unmasked probes"

ALL_FIELDS = "all"  #: The entry of the ablation that looks at all fields, as the exact matcher does

_TOLERANCE = 1e-9  # quantiles of two versions of SciPy may differ in their last digits
_MASK_OPTIONS: Mapping[str, JsonValue] = {"rebase_prices": False, "round_digits": None, "noise_pct": 0.0}


def covered_by(task: Mapping[str, Any], snapshot_id: str) -> dict[str, JsonValue]:
    """Facts that a certificate must agree with: `KEYED`, its hash as `key`, and the task's name and hash.

    Prompts, costs, windows and metrics are left out: probes show what research tools answer, on any day of the snapshot.
    """
    keyed: dict[str, JsonValue] = {
        "snapshot": snapshot_id,
        "task_family": task.get("family"),
        "task_version": task.get("version"),
        "mode": task.get("mode"),
        "mask": {"kind": task.get("mask"), **{name: task.get(name, usual) for name, usual in _MASK_OPTIONS.items()}},
        "tool_texts": task.get("tool_texts", {}),
        "harness": task.get("harness", {}),
    }
    return {**keyed, "key": content_hash(keyed), "task_name": task.get("name"), "task_hash": content_hash(task)}


def share(successes: int, n: int, baseline: float | None) -> dict[str, JsonValue]:
    """One score of an attacker: how many of `n` it recovered, as a share.

    Returns successes, n, value (null with a reason when n is 0), interval (Wilson), upper (exact one-sided bound of Clopper and
    Pearson; 1 when n is 0) and baseline, what chance gives on the same probes (null where that is not known).
    """
    value: dict[str, JsonValue] = {"value": successes / n} if n else {"value": None, "reason": "no valid answer with a known truth"}
    ends = {"interval": wilson(successes, n, LEVEL).to_json(), "upper": clopper_pearson_upper(successes, n, LEVEL)}
    return {**value, "successes": successes, "n": n, **ends, "baseline": baseline}


def derive_certificate(certificate: Certificate) -> Certificate:
    """Return the certificate with bound and labels worked out again from the rest."""
    return msgspec.structs.replace(certificate, bound=_bound(certificate), labels=_labels(certificate))


def _bound(certificate: CertificateFacts) -> Bound:
    """For each thing to recover, the largest upper bound of any model that counts for it; null with a reason where none does."""
    if not certificate.models:
        return Bound(value=None, reason=NO_MODEL)
    if not certificate.counting:
        return Bound(value=None, reason=NO_CONTROL)
    bounds: dict[str, BoundEntry] = {}
    for name, definition in certificate.definitions.items():
        counting = [attacker for attacker in certificate.counting if name in attacker.counts_for]
        tried = [attacker for attacker in counting if name in attacker.scores and attacker.scores[name].n > 0]
        if definition.better == "lower" and tried:
            # Of equal ones the first: `max` keeps the order in which attackers stand.
            strongest = max(tried, key=lambda attacker: attacker.scores[name].upper)
            score = strongest.scores[name]
            bounds[name] = BoundEntry(upper=score.upper, value=score.value or 0.0, n=score.n, baseline=score.baseline, level=LEVEL,
                                     attacker=strongest.name)  # fmt: skip
    return Bound(value=bounds) if bounds else Bound(value=None, reason=NO_ANSWER)


def _labels(certificate: CertificateFacts) -> list[str]:
    """Labels that a reader must see before any figure."""
    models, counting = certificate.models, certificate.counting
    named = [(attacker, count) for attacker in counting for count in asdict(attacker.named).values()]
    conditions = {
        "synthetic": certificate.snapshot.synthetic,
        "limited": certificate.probes.limit is not None,
        "no model attacked": not models,
        "control failed": bool(models) and not counting,
        "control incomplete": bool(counting) and _is_incomplete(certificate),
        "few answers": any(_is_short(attacker.answered, attacker.probes) for attacker in counting),
        "few guesses": any(_is_short(count, attacker.answered) for attacker, count in named),
    }
    return [label for label, holds in conditions.items() if holds]


def _is_incomplete(certificate: CertificateFacts) -> bool:
    """Whether no model counts for the stock, the day or both together, so that a part of the mask has no bound."""
    counted = {score for attacker in certificate.counting for score in attacker.counts_for}
    return any(
        name not in counted
        for name, definition in certificate.definitions.items()
        if definition.better == "lower" and "industry" not in certificate.control.needs.get(name, ())
    )


def _is_short(part: int, whole: int) -> bool:
    return 100 * part < LEAST_DECIDED_PERCENT * whole


def build_certificate(parts: Mapping[str, Any]) -> Certificate:
    """Build a certificate from its parts; pure."""
    identifiability = parts["identifiability"]
    whole = {
        **parts,
        "kind": KIND,
        "schema_version": 1,
        "attackers": [_with_control(_with_shares(attacker), parts["control"]["needs"]) for attacker in parts["attackers"]],
        "identifiability": {**identifiability, "ablation": [_with_shares(entry) for entry in identifiability["ablation"]]},
    }
    facts = decode_strict(whole, CertificateFacts)
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return Certificate(**fields, bound=_bound(facts), labels=_labels(facts))  # type: ignore[arg-type]  # the labels of the type


def _with_shares(entry: Mapping[str, Any]) -> dict[str, JsonValue]:
    scores = entry["scores"].items()
    return {**entry, "scores": {name: share(score["successes"], score["n"], score["baseline"]) for name, score in scores}}


def _with_control(attacker: Mapping[str, Any], needs: Mapping[str, Any]) -> dict[str, JsonValue]:
    """An attacker with the figures of its control, and the scores for which it counts."""
    given, shares = attacker["control"], None
    if given["value"] is not None:
        counts = given["value"].items()
        shares = {name: control_share(read["successes"], read["n"], read["baseline"]) for name, read in counts}
        given = {"value": shares}
    return {**attacker, "control": given, "counts_for": counted_scores(list(attacker["scores"]), shares, needs)}


def certificate_problems(certificate: Certificate) -> Iterator[Problem]:
    """Contradictions in a certificate that follows its type."""
    for find in (_covers_problems, _probe_problems, _attacker_problems, _ablation_problems):
        yield from find(certificate)


def _covers_problems(certificate: Certificate) -> Iterator[Problem]:
    covers = certificate.covers
    plain = to_plain(covers)
    if covers.key != content_hash({name: plain[name] for name in KEYED}):
        yield ("covers", "key"), f"is not the hash of {', '.join(KEYED)}"
    if covers.snapshot != certificate.snapshot.id:
        yield ("covers", "snapshot"), "is not the snapshot's id"
    if certificate.control.needs != needs_of(list(certificate.definitions)):
        yield ("control", "needs"), "is not what the scores need"
    for name, value in (("level", CONTROL_LEVEL), ("least_read", LEAST_READ)):
        if getattr(certificate.control, name) != value:
            yield ("control", name), f"must be {value}"
    if sorted(certificate.score_order) != sorted(certificate.definitions):
        yield ("score_order",), "must name every defined score once, and nothing else"


def _probe_problems(certificate: Certificate) -> Iterator[Problem]:
    probes = certificate.probes
    windows = [window.probes for window in probes.windows]
    for field, counts in (("windows", windows), ("boards", probes.boards.values())):
        if sum(counts) != probes.count:
            yield ("probes", field), f"adds up to {sum(counts)} probes, not {probes.count}"


def _attacker_problems(certificate: Certificate) -> Iterator[Problem]:
    attackers, count = certificate.attackers, certificate.probes.count
    names = [attacker.name for attacker in attackers]
    for index, attacker in enumerate(attackers):
        if attacker.name in names[:index]:
            yield ("attackers", index, "name"), "stands twice"
        if attacker.probes != count:
            yield ("attackers", index, "probes"), f"the probe set has {count}"
        if attacker.answered > count:
            yield ("attackers", index, "answered"), f"is more than {count} probes"
        if too_many := [field for field, named in asdict(attacker.named).items() if named > attacker.answered]:
            yield ("attackers", index, "named", too_many[0]), f"is more than {attacker.answered} answers"
        yield from _score_problems(("attackers", index, "scores"), attacker.scores, certificate, attacker.answered)
        yield from _control_problems(("attackers", index), attacker, certificate)
    if EXACT_MATCHER not in names:
        yield ("attackers",), f"the {EXACT_MATCHER} is missing"


def _control_problems(path: JsonPath, attacker: Attacker, certificate: Certificate) -> Iterator[Problem]:
    """Figures of a control that do not follow from its counts, and a claim to count that does not follow from its figures."""
    shares = attacker.control.value or {}
    for name, share_read in shares.items():
        here = (*path, "control", "value", name)
        if name not in READS:
            yield here, f"is not among what is to be read: {', '.join(READS)}"
        if not share_read.successes <= share_read.n <= certificate.control.count:
            asked = f"with {certificate.control.count} unmasked probes"
            yield (*here, "successes"), f"{share_read.successes} of {share_read.n}, {asked}"
            return
        recorded = to_plain(share_read)
        expected: dict[str, Any] = control_share(share_read.successes, share_read.n, share_read.baseline)
        of = f"{share_read.successes} successes of {share_read.n} give"
        for field in ("value", "needed", "passed"):
            if not _is_close(recorded[field], expected[field]):
                yield (*here, field), f"recorded {recorded[field]}, {of} {expected[field]}"
        for end in ("low", "high"):
            if not _is_close(recorded["interval"][end], expected["interval"][end]):
                yield (*here, "interval", end), f"{of} {expected['interval'][end]}"
    plain = {name: to_plain(read) for name, read in shares.items()}
    expected_scores = counted_scores(list(attacker.scores), plain or None, certificate.control.needs)
    if list(attacker.counts_for) != expected_scores:
        yield (*path, "counts_for"), f"its control gives {', '.join(expected_scores) or 'none'}"


def _ablation_problems(certificate: Certificate) -> Iterator[Problem]:
    """By all fields together the ablation must recover what the exact matcher does."""
    exact = certificate.scores_of(EXACT_MATCHER)
    for index, entry in enumerate(certificate.identifiability.ablation):
        path = ("identifiability", "ablation", index, "scores")
        yield from _score_problems(path, entry.scores, certificate, certificate.probes.count)
        for name, score in entry.scores.items() if entry.name == ALL_FIELDS else ():
            if name not in exact or exact[name].successes != score.successes:
                yield (*path, name), f"is not what the {EXACT_MATCHER} recovered"


def _score_problems(path: JsonPath, scores: Mapping[str, Recovery], certificate: Certificate, answered: int) -> Iterator[Problem]:
    """Figures of each score that do not follow from its number of successes."""
    for name, score in scores.items():
        if name not in certificate.definitions:
            yield (*path, name), "has no definition"
        if not score.successes <= score.n <= answered:
            yield (*path, name, "successes"), f"{score.successes} of {score.n}, with {answered} answers"
            return
        of = f"{score.successes} successes of {score.n} give"
        value, interval = score.successes / score.n if score.n else None, wilson(score.successes, score.n, LEVEL)
        for field, expected in (("value", value), ("upper", clopper_pearson_upper(score.successes, score.n, LEVEL))):
            if not _is_close(getattr(score, field), expected):
                yield (*path, name, field), f"recorded {getattr(score, field)}, {of} {expected}"
        for end, expected in (("low", interval.low), ("high", interval.high)):
            if not _is_close(getattr(score.interval, end), expected):
                yield (*path, name, "interval", end), f"{of} {expected}"


def _is_close(recorded: float | None, expected: float | None) -> bool:
    if recorded is None or expected is None:
        return recorded is expected
    return math.isclose(recorded, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def certificate_block(task: Mapping[str, Any], snapshot_id: str, certificate: Certificate) -> dict[str, JsonValue]:
    """`certificate` field of a trading card that a certificate was given to.

    Returns `{"value": {…}}` with its hash, key, probes, attackers, bounds, and what the exact matcher recovered; or `{"value":
    null, "reason"}` where it does not cover the card (with what differs), or where no attacker counts.
    """
    plain = certificate.plain
    if different := coverage_difference(covered_by(task, snapshot_id), plain["covers"]):
        return {"value": None, "reason": f"the certificate is of {different}"}
    if certificate.bound.value is None:
        return {"value": None, "reason": f"the certificate certifies nothing: {certificate.bound.reason}"}
    probes = certificate.probes
    value = {
        "sha256": sha256_hex(dumps_pretty(plain)),  # of the file as it was written
        "key": certificate.covers.key,
        "labels": certificate.labels,
        "probes": {"count": probes.count, "seed": probes.seed, "sha256": probes.sha256},
        "attackers": [_attached_attacker(attacker) for attacker in certificate.attackers],
        "bound": plain["bound"]["value"],
        "exact_matcher": {name: score.value for name, score in certificate.scores_of(EXACT_MATCHER).items()},
    }
    return {"value": json.loads(dumps_pretty(value))}


def _attached_attacker(attacker: Attacker) -> dict[str, JsonValue]:
    """An attacker as a trading card names it: `counts_for` lists the scores for which it passed its control."""
    model = None if attacker.model is None else attacker.model.name
    facts: dict[str, JsonValue] = {"name": attacker.name, "kind": attacker.kind, "card": attacker.card, "model": model}
    return {**facts, "counts_for": list(attacker.counts_for)}


def coverage_difference(covered: Mapping[str, Any], certified: Mapping[str, Any]) -> str | None:
    """First difference of a certificate in `KEYED`, in words: `another snapshot (1f3a…, the card's is 9bc0…)`; None if nothing."""
    if covered["snapshot"] != certified["snapshot"]:
        return f"another snapshot ({certified['snapshot'][:12]}, the card's is {covered['snapshot'][:12]})"
    for name, words in (("mask", "another mask"), ("harness", "other limits"), ("tool_texts", "other tools")):
        ours, theirs = covered[name], certified[name]
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                return f"{words} ({key} is {_short(theirs.get(key))}, the card's is {_short(ours.get(key))})"
    for name in ("task_family", "task_version", "mode"):
        if covered[name] != certified[name]:
            return f"another {name.replace('_', ' ')} ({certified[name]}, the card's is {covered[name]})"
    return None


def _short(value: JsonValue) -> str:
    return "none" if value is None else str(value)[:12]
