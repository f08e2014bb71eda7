"""One card, its submission and its list of records against a board's rules: what can be said without looking at other cards."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ktdeval.api import CallParams, JsonValue
from ktdeval_board.entries import Card, division_of, mismatches
from ktdeval_board.rules import Division, Rules

Problem = tuple[str, str]
"""The rule that is broken, and how."""

_NAME = re.compile(r"[A-Za-z0-9](?:[!-;=?-~ ]{0,98}[!-;=?-~])?", re.ASCII)
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MOST_METRICS = 200
_MOST_SHOWN = 10
_CALL_FIELDS = {field.name for field in dataclasses.fields(CallParams)}
_PLACEBO, _SYNTHETIC = "placebo", "synthetic"
_SLUGS = (
    ("task version", "task-version"),
    ("task config", "task-config"),
    ("task", "task"),
    ("snapshot", "snapshot"),
    ("seeds", "seeds"),
    ("metric rules", "rules"),
    ("windows", "windows"),
)
"""How each reason of `mismatches` begins, and its rule."""


def card_problems(rules: Rules, card: Card) -> Iterator[Problem]:
    """Why a valid card can't stand on a board, whatever its division."""
    yield from _name_problems(card)
    yield from _task_problems(card)
    yield from _market_problems(rules, card)
    yield from _plan_problems(card)
    yield from _coverage_problems(card)
    if len(card["episodes"]) > rules.limits.episodes:
        yield "size", f"has {len(card['episodes']):,} episodes; at most {rules.limits.episodes:,} are taken"


def division_problems(rules: Rules, card: Card) -> Iterator[Problem]:
    """Why a card is of no division, told of the one that comes nearest; nothing where it is of one."""
    division = division_of(rules, card)
    if division is not None:
        wanted = rules.snapshot_of(division).id
        if card["snapshot"]["id"] != wanted:
            yield "snapshot", f"snapshot.id: is {card['snapshot']['id']}, the board's is {wanted}"
        return
    if not rules.divisions:
        yield "task", f"task {card['task']['name']}: the board has no division"
        return
    ranked = sorted(
        (division.task != card["task"]["name"], len(mismatches(rules, division, card)), place)
        for place, division in enumerate(rules.divisions)
    )
    nearest = rules.divisions[ranked[0][2]]
    for reason in mismatches(rules, nearest, card):
        rule = next((slug for start, slug in _SLUGS if reason.startswith(start)), "task")
        yield rule, f"{reason} (division {nearest.id})"


def entry_problems(division: Division, card: Card) -> Iterator[Problem]:
    """What a card of a division lacks that its row and its ranks need."""
    if division.certificate == "required" and card["kind"] == "trading":
        yield from _certificate_problems(division, card)
    figures = card["metrics"] if card["kind"] == "trading" else card["scores"]
    if division.rank_by not in figures:
        yield "metric", f"has no {division.rank_by}, which the rank of division {division.id} goes by"
    for name in figures:
        if not _METRIC.fullmatch(name):
            yield "metric", f"{name[:60]!r} is no name of a metric (letters, digits, dots, dashes and underscores)"
    if len(figures) > _MOST_METRICS:
        yield "metric", f"has {len(figures)} metrics; at most {_MOST_METRICS} are taken"
    if card["kind"] == "trading":
        yield from _reference_problems(card)


def submission_problems(rules: Rules, card_id: str, card: Card, submission: Mapping[str, JsonValue]) -> Iterator[Problem]:
    """Where a submission contradicts its card or itself."""
    facets = (
        ("card", submission["card"], card_id),
        ("model.name", submission["model"]["name"], card["model"]["name"]),
        ("agent.name", submission["agent"]["name"], card["agent"]["name"]),
    )
    for field, given, wanted in facets:
        if given != wanted:
            yield "submission", f"{field}: is {str(given)[:80]!r}, the card says {str(wanted)[:80]!r}"
    submitted, model = submission["submitted_on"], submission["model"]
    cutoff, released = model["cutoff_date"], model.get("released_on")
    if cutoff is not None and cutoff > submitted:
        yield "cutoff", f"model.cutoff_date: {cutoff} is after the submission ({submitted})"
    if cutoff is not None and released is not None and cutoff > released:
        yield "cutoff", f"model.cutoff_date: {cutoff} is after the release ({released})"
    if rules.opened_on and submitted < rules.opened_on:
        yield "date", f"submitted_on: {submitted} is before the board began ({rules.opened_on})"


def date_problems(submission: Mapping[str, JsonValue], today: str) -> Iterator[Problem]:
    """Days of a submission that have not come yet."""
    released = submission["model"].get("released_on")
    for field, day in (("submitted_on", submission["submitted_on"]), ("model.released_on", released)):
        if day is not None and day > today:
            yield "date", f"{field}: {day} has not come yet (today is {today})"


def list_problems(rules: Rules, card_id: str, card: Card, records: Mapping[str, JsonValue]) -> Iterator[Problem]:
    """Where a list of records is not that of its card."""
    if records["card"] != card_id:
        yield "records", f"card: is {records['card'][:12]}…, expected {card_id[:12]}…"
    files = {entry["path"]: entry for entry in records["files"]}
    if len(files) < len(records["files"]):
        yield "records", "files: a path stands there twice"
    for path, digest in card["artefacts"].items():
        if path not in files:
            yield "records", f"files: {path[:120]} is missing, which the card was made from"
        elif files[path]["sha256"] != digest:
            yield "hash", f"files: {path}: SHA-256 is {files[path]['sha256'][:12]}…, the card recorded {digest[:12]}…"
    wanted = _wanted_files(card, is_whole=records["stored"] == "repository")
    for path in sorted(wanted - files.keys()):
        yield "records", f"files: {path} is missing"
    for path in sorted(files.keys() - _wanted_files(card, is_whole=True) - {"canary.json"}):
        rule = "certificate" if path == "certificate.json" else "records"
        yield rule, f"files: {path} is no record of this card"
    yield from _size_problems(rules, records)


def _wanted_files(card: Card, is_whole: bool) -> set[str]:
    """The files that records hold: for each episode three, beside the manifest and what the card was given.

    Of records that lie elsewhere the marks of completeness need not be listed: they say nothing that the card does not.
    """
    names = ["transcript.jsonl.zst", "ledger.parquet" if card["kind"] == "trading" else "answers.jsonl.zst"]
    names += ["episode.json"] if is_whole else []
    wanted = {f"episodes/{episode['id']}/{name}" for episode in card["episodes"] for name in names}
    has_certificate = card["kind"] == "trading" and card["certificate"]["value"] is not None
    given = {"certificate.json": has_certificate, "canary.json": card["drift"]["value"] is not None, "manifest.json": True}
    return wanted | {name for name, holds in given.items() if holds}


def _size_problems(rules: Rules, records: Mapping[str, JsonValue]) -> Iterator[Problem]:
    largest, most = rules.limits.bytes_of("file_mb"), rules.limits.bytes_of("records_mb")
    if records["stored"] == "elsewhere":
        return  # what is not in the repository is nobody's burden
    for entry in records["files"]:
        if entry["bytes"] > largest:
            yield "size", f"files: {entry['path']} has {entry['bytes']:,} bytes; at most {largest:,} are taken"
    if (total := sum(entry["bytes"] for entry in records["files"])) > most:
        yield "size", f"files: {total:,} bytes together; at most {most:,} are taken"


def _name_problems(card: Card) -> Iterator[Problem]:
    for part in ("model", "agent"):
        name = card[part]["name"]
        if not _NAME.fullmatch(name):
            yield "name", f"{part}.name: {name[:80]!r} is not 1 to 100 signs of printable ASCII that begin with a letter or digit"


def _task_problems(card: Card) -> Iterator[Problem]:
    """Facets of the task that stand twice: on the card, and in the config that is hashed."""
    task = card["task"]
    config = task["config"]
    for field in ("name", "version", "mask", "mode"):
        if field in config and config[field] != task[field]:
            yield "task-config", f"task.{field}: is {task[field][:60]!r}, the task's config says {str(config[field])[:60]!r}"
    trades = "trading" in config
    if trades != (card["kind"] == "trading") and (trades or "subject_config" in config):
        yield "kind", f"is a {card['kind']} card of a {'trading' if trades else 'scoring'} task"


def _market_problems(rules: Rules, card: Card) -> Iterator[Problem]:
    snapshot = card["snapshot"]
    is_synthetic = snapshot["synthetic"]
    if is_synthetic != (rules.market == "synthetic"):
        kind = "synthetic" if is_synthetic else "real"
        yield "synthetic", f"snapshot.synthetic: the card says that its market is {kind}, the board is of {rules.market} markets"
    told = f"{snapshot['name']} {snapshot['source']}".casefold()
    if not is_synthetic and _SYNTHETIC in told:
        yield "synthetic", f"snapshot: says that it is not synthetic, but is called {snapshot['name'][:60]!r}"
    if _PLACEBO in told or _PLACEBO in card["labels"]:
        yield "placebo", "the market is a placebo, on which there is nothing to select"


def _plan_problems(card: Card) -> Iterator[Problem]:
    """Whether the episodes are those of windows and seeds, and no number is another way to write one."""
    entries = [*card["episodes"], *card["missing_episodes"]]
    numbers = [*card["seeds"], card["mask_draw"], *(entry["seed"] for entry in entries)]
    # To a schema 0.0 is an integer; to the hash of a spec, and so to chance, it is another seed than 0.
    if not all(type(number) is int for number in numbers):
        yield "seeds", "a seed or mask draw is written with a decimal point"
    if card["mask_draw"] != 0:
        yield "mask-draw", f"mask_draw: is {card['mask_draw']}, the board asks for 0"
    if card["limit"] is not None:
        yield "limit", f"limit: every episode was cut after {card['limit']:,} steps"
    yield from _episode_problems(card, [(entry["window"], entry["seed"]) for entry in entries])
    for field in sorted(card["call"].keys() - _CALL_FIELDS):
        yield "call", f"call.{field[:60]}: no such parameter of a call"


def _episode_problems(card: Card, found: Sequence[tuple[str, int]]) -> Iterator[Problem]:
    windows, seeds = [window["name"] for window in card["windows"]], card["seeds"]
    if len(found) != len(windows) * len(seeds):  # told apart first: the product of what a stranger wrote may fill the memory
        yield (
            "episodes",
            f"has {len(found):,} episodes; {len(windows):,} windows and {len(seeds):,} seeds give {len(windows) * len(seeds):,}",
        )
        return
    missing = Counter(product(windows, seeds)) - Counter(found)
    for window, seed in sorted(missing)[:_MOST_SHOWN]:
        yield "episodes", f"that of window {window}, seed {seed} is missing, another stands twice"


def _certificate_problems(division: Division, card: Card) -> Iterator[Problem]:
    certificate = card["certificate"]
    if certificate["value"] is None:
        yield "certificate", f"division {division.id} asks for a certificate of the mask: {certificate['reason']}"
    elif "mask not certified" in card["labels"]:
        yield "certificate", "rests on too few probes, answers or guesses to call the mask certified"


def _coverage_problems(card: Card) -> Iterator[Problem]:
    if card["missing_episodes"]:
        yield "coverage", f"{len(card['missing_episodes'])} planned episodes did not finish"
    if not card["rankable"]["value"] and card["limit"] is None and not card["missing_episodes"] and _PLACEBO not in card["labels"]:
        yield "coverage", "; ".join(card["rankable"]["reasons"]) or "the card says that it can't be ranked"


def _reference_problems(card: Card) -> Iterator[Problem]:
    given, wanted = set(card["reference"]["benchmark_buy_and_hold"]), {window["name"] for window in card["windows"]}
    if given != wanted:
        yield "reference", f"reference: has {len(given)} windows, the card {len(wanted)}; each has a benchmark"
