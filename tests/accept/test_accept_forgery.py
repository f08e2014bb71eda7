"""Forged cards and runs of more than two hundred kinds, made by somebody who recomputes all hashes:
none verifies, each is named.

One run is made once; each forgery is made on a copy of it. What no record shows is no forgery here:
which provider gave the replies (a run that names another model throughout), what it bills
(`price`), when its training data end (`knowledge_cutoff`, where manifest and card agree), and how
long it took (`docs/cards.md`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from ktdeval.cards.json_paths import path_text
from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate, verify_card
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.runner.scoring.score import rescore
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.values import dumps_canonical, dumps_pretty, to_plain
from support.json_places import Place, leaves, put, with_value
from support.runs.forging import (
    COLUMNS,
    LEDGER,
    TRANSCRIPT,
    change_column,
    change_ledger,
    change_transcript,
    edit_json,
    forged,
    place_of,
    read_transcript,
    rehash,
    relabel,
    renewed,
)
from support.runs.run_support import PLUGIN, WINDOW, episodes
from support.searching import is_searching
from support.tables import beside

TASK = "bright_open_research"
HASH = "0" * 64
MASK_KEY = f"{1:032x}"
"""What the model sees decides how many calls a step takes: with this key, more than one."""
CARD = f"cards/{TASK}.json"
NO_FIGURES = ("provenance",)
PLACED = (
    r"line \d+: \S.*: |: [\w.]+: the card names |: is named by the card, but is not a record of"
    r" this run"
)
"""A line and a field, or a file."""
LINE = r"transcript\.jsonl\.zst: line \d"
UNSHOWN = {("cost", "price"), ("sent_as",)}


@dataclass(frozen=True)
class Forgery:
    """A forgery of a kind: what is done to a copy of the run, and what the refusal must name."""

    kind: str
    make: Callable[[Path], Any]
    named: str  #: a regular expression


@dataclass(frozen=True)
class Environment:
    """The run that is forged, another one of the same plan but for its model, and what verifying
    takes.
    """

    run: Path
    other: Path
    plugins: Plugins
    market: Path


@pytest.fixture(scope="module")
def environment(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("forgery")
    plugins = load_plugins((str(PLUGIN),))
    for name, model in (("run", "test/mixed"), ("other", "builtin/momentum")):
        given = {
            "tasks": (TASK,),
            "windows": (WINDOW,),
            "seeds": 2,
            "limit": 4,
            "data": str(market),
            "mask_key": MASK_KEY,
            "quiet": True,
            "knowledge_cutoff": "2024-03-03",
        }
        evaluate(RunConfig(model=model, out=str(folder / name), **given), plugins)

    return Environment(folder / "run", folder / "other", plugins, market)


def refusal(run: Path, plugins: Plugins) -> str:
    """Everything that verification says against a run; empty where it verifies. A traceback fails
    the test.
    """
    try:
        return "\n".join(map(str, verify_card(run / CARD, plugins, {}).findings))
    except KtdevalError as error:
        return str(error).replace(f"{run}/", "")


# -- the card: every kind of field with all that follows from it, as it is where nothing does
# -----------------------------


def kinds_of(card: Any) -> dict[str, tuple[Place, Any]]:
    """The first field of each kind: places in lists, and names of metrics and of windows, are
    alike.
    """
    lines = card["attribution"]["value"]["lines"]
    alike = {
        *card["metrics"],
        *card["artefacts"],
        *card["task"]["config"]["windows"],
        WINDOW,
        *lines,
    } - {"total_return"}
    found: dict[str, tuple[Place, Any]] = {}

    for place, value in leaves(card):
        kind = ".".join("#" if isinstance(part, int) or part in alike else part for part in place)
        if place[0] not in NO_FIGURES and (place[:2] not in UNSHOWN) and value is not None:
            found.setdefault(kind, (place, value))

    return found


def false_value(value: Any) -> Any:
    """Another value of the form of this one."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return "2024-03-05" if value != "2024-03-05" else "2024-03-06"

    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{20}|[0-9a-f]{32}|[0-9a-f]{64}", value):
        return value[::-1]

    return forged(value)


def write_card(run: Path, card: Any) -> None:
    (run / CARD).write_text(dumps_pretty(card))


def card_forgeries(card: Any) -> Iterator[Forgery]:
    for kind, (place, value) in kinds_of(card).items():
        false = with_value(card, place, false_value(value))
        if (followed := renewed(false)) in (card, false) or is_searching():
            yield Forgery(f"card.{kind}", lambda run, false=false: write_card(run, false), PLACED)

        if followed not in (card, false):
            yield Forgery(
                f"card.{kind}, all recomputed",
                lambda run, card=followed: write_card(run, card),
                PLACED,
            )


# -- the run: its records, its plan, and runs of something else presented as this
# -------------------------------------------


def with_a_card(environment: Environment, change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """A change of the records, with marks and a card that agree, as far as a card can be made of
    them.
    """

    def forge(run: Path) -> None:
        change(run)
        rehash(episodes(run)[0])
        (card,) = run.glob("cards/*.json")
        before = card.read_text()
        card.unlink()

        try:
            rescore(run, environment.plugins, {})
        except KtdevalError:
            card.write_text(before)

    return forge


def ledger_forgeries(environment: Environment) -> Iterator[Forgery]:
    steps = to_plain(load_ledger(episodes(environment.run)[0] / LEDGER).steps)
    order = place_of(steps, lambda order: order["status"] == "filled" and order["target_weight"])
    for kind, columns in COLUMNS.items():
        where = {"steps": (2, 2), "orders": order, "positions": (3, 0)}[kind]
        for column in (*columns, "dropped", "doubled"):

            def edit(
                run: Path, kind: str = kind, column: str = column, where: tuple[int, int] = where
            ) -> None:
                change_ledger(
                    episodes(run)[0], lambda steps: change_column(steps, kind, column, *where)
                )

            line = (
                rf"/(ledger\.parquet|transcript\.jsonl\.zst): line {where[0] + 1}|line"
                rf" {where[0] + 2}"
            )
            yield Forgery(f"ledger.{kind}.{column}", edit, line)
            yield Forgery(
                f"ledger.{kind}.{column}, with marks and card", with_a_card(environment, edit), line
            )

    own = json.loads(
        pq.read_schema(episodes(environment.run)[0] / LEDGER).metadata[b"ktdeval.spec"]
    )
    specs = dict.fromkeys(
        (b"null", b"[]", b"[" * 100_000), r"ledger\.parquet: spec: expected `object`"
    )
    specs[dumps_canonical({**own, "seed": 7}).encode()] = r"ledger\.parquet: spec: line \d+: seed: "

    for spec, named in specs.items():

        def head(run: Path, spec: bytes = spec) -> None:
            path = episodes(run)[0] / LEDGER
            table = pq.read_table(path)
            pq.write_table(
                table.replace_schema_metadata({**table.schema.metadata, b"ktdeval.spec": spec}),
                path,
            )

        yield Forgery(f"ledger's spec: {spec[:40]!r}", with_a_card(environment, head), named)


def resubmitted(entries: list[Any]) -> None:
    """Replace the first accepted submission that holds orders throughout by one that orders
    nothing.
    """
    entry = next(entry for entry in entries if '"side"' in (entry["submission"] or ""))
    new = dumps_canonical({"orders": [], "overall_reason": "I would rather have held everything."})

    for exchange in entry["exchanges"]:
        for call in exchange.get("reply", {}).get("tool_calls", []):
            if call["arguments"] == entry["submission"]:
                call["arguments"] = new

    entry["submission"] = new


def transcript_forgeries(environment: Environment) -> Iterator[Forgery]:
    entries = read_transcript(episodes(environment.run)[0])
    # The id of a step's last call is repeated nowhere, so that a step of one call can't show it.
    most = max(range(1, len(entries)), key=lambda number: len(entries[number]["exchanges"]))
    assert len(entries[most]["exchanges"]) > 1
    kinds: dict[str, tuple[Place, Any]] = {}
    for place, value in leaves(entries[most]):
        kinds.setdefault(
            ".".join("#" if isinstance(part, int) else part for part in place), (place, value)
        )

    for kind, (place, value) in kinds.items():

        def edit(run: Path, place: Place = place, value: Any = value) -> None:
            false = forged(value) if value is not None else "something"
            change_transcript(
                episodes(run)[0],
                lambda old: [
                    *old[:most],
                    with_value(old[most], place, false),
                    *old[most + 1 :],
                ],
            )

        yield Forgery(
            f"transcript.{kind}",
            with_a_card(environment, edit),
            rf"transcript\.jsonl\.zst: line {most + 1}",
        )

    pack = zstandard.ZstdCompressor().compress
    hidden: dict[str, Callable[[bytes], bytes]] = {
        "a field twice": lambda text: pack(text.replace(b'"step":1,', b'"step":0,"step":1,')),
        "space": lambda text: pack(text.replace(b'"step":1,', b'"step":1,' + b" " * 1000)),
        "bytes after its end": lambda text: pack(text) + b"more",
        "another file after its end": lambda text: pack(text) + pack(b"{}\n"),
    }

    for kind, again in hidden.items():

        def rewrite(run: Path, again: Callable[[bytes], bytes] = again) -> None:
            path = episodes(run)[0] / TRANSCRIPT
            path.write_bytes(again(zstandard.ZstdDecompressor().decompress(path.read_bytes())))

        yield Forgery(
            f"transcript that hides {kind}",
            with_a_card(environment, rewrite),
            r"canonical form of a transcript|of unused data",
        )

    def second(old: list[Any], exchanges: list[Any]) -> list[Any]:
        """Other exchanges in the second step."""
        return [old[0], {**old[1], "exchanges": exchanges}, *old[2:]]

    changes: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
        "dropped": (lambda old: old[:1] + old[2:], "is step 2, expected step 1"),
        "cut": (lambda old: old[:2], "2 lines, but ledger.parquet has 4"),
        "resubmitted": (resubmitted, "of ledger.parquet does not follow from its replies"),
        "fewer tokens": (
            lambda old: old[1]["exchanges"][0]["reply"]["usage"].update(input_tokens=1),
            "line 2 of ledger.parquet does not follow from its replies: input_tokens: ",
        ),
        "another prompt": (
            lambda old: old[2]["exchanges"][0]["sent"][1].update(content="Buy low, sell high."),
            'exchanges[0].sent[1].content: recorded "Buy low, sell high.", recomputed ',
        ),
        "doubled": (lambda old: [*old[:2], *old[1:]], ""),
        "exchanged": (lambda old: [old[0], old[2], old[1], *old[3:]], ""),
        "none": (lambda old: [], ""),
        "exchanges that are no objects": (lambda old: second(old, [1, "x", None]), ""),
        "replies that are no objects": (
            lambda old: second(old[:2], [{**old[1]["exchanges"][0], "reply": [1]}]),
            "",
        ),
        "an exchange too few": (lambda old: second(old, old[1]["exchanges"][:-1]), ""),
        "an exchange too many": (lambda old: second(old, old[1]["exchanges"] * 2), ""),
        "a failed call": (lambda old: second(old, [{"error": "timeout"}]), ""),
    }

    for kind, (whole, words) in changes.items():
        change = with_a_card(
            environment, lambda run, whole=whole: change_transcript(episodes(run)[0], whole)
        )
        line = rf"transcript\.jsonl\.zst: line \d+: .*{re.escape(words)}" if words else LINE
        yield Forgery(f"transcript, {kind}", change, line)


def plan_forgeries(environment: Environment) -> Iterator[Forgery]:
    """A run of another plan that names this one throughout, with everything that follows from the
    specs.
    """
    first, last = WINDOW.split(":")
    other_days = Window(WINDOW, first, "2024-03-28")
    specs: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any], str]] = {
        **{
            name: (
                fields,
                lambda card, place=tuple(place), value=value: put(card, place, value),
                named,
            )
            for name, fields, place, value, named in beside(__file__)["plans"]
        },
        "window": (
            {"window": Window("W1", first, last)},
            lambda card: [
                card["windows"][0].update(name="W1"),
                *(e.update(window="W1") for e in card["episodes"]),
                card["reference"].update(
                    benchmark_buy_and_hold={
                        "W1": _only(card["reference"]["benchmark_buy_and_hold"])
                    }
                ),
            ],
            r"windows\[0\].first: is 2024-03-01, window 'W1' of the task's config says 2024-04-01",
        ),
        "days": (
            {"window": other_days},
            lambda card: card["windows"][0].update(last="2024-03-28"),
            r"windows\[0\].last: is 2024-03-28",
        ),
        "seeds": (
            {},
            lambda card: [
                card.update(seeds=[7, 8]),
                *(e.update(seed=e["seed"] + 7) for e in card["episodes"]),
            ],
            "seed",
        ),
    }

    for name, (fields, card, named) in specs.items():

        def change(spec: EpisodeSpec, name: str = name, fields: Any = fields) -> EpisodeSpec:
            return replace(spec, seed=spec.seed + 7) if name == "seeds" else replace(spec, **fields)

        yield Forgery(
            f"plan: {name}", lambda run, change=change, card=card: relabel(run, change, card), named
        )

    for number, entry in enumerate(
        leaves(json.loads((environment.run / "manifest.json").read_text())["episodes"][0])
    ):
        place, value = entry
        false = 3 if value is None else false_value(value)
        path: Place = ("episodes", 0, *place)
        yield Forgery(
            f"manifest, {number}: {path_text(path)}",
            lambda run, path=path, false=false: edit_json(
                run / "manifest.json", lambda old: with_value(old, path, false)
            ),
            "manifest.json: episode .* has been changed",
        )

    for name, false in beside(__file__)["manifest"].items():
        yield Forgery(
            f"manifest: {name}",
            lambda run, name=name, false=false: edit_json(
                run / "manifest.json", lambda old: {**old, name: false}
            ),
            f"{name}|snapshot|{PLACED}",
        )


def _only(mapping: dict[str, Any]) -> Any:
    (value,) = mapping.values()
    return value


def mark_forgeries() -> Iterator[Forgery]:
    changes: dict[str, dict[str, Any]] = {
        "steps": {"steps": 40},
        "spec": {"spec": {"task": "another"}},
        "sha256": {"sha256": {LEDGER: HASH, TRANSCRIPT: HASH}},
        "other files": {"sha256": {"../../cards/x.json": HASH, TRANSCRIPT: HASH}},
        "an unknown field": {"luck": 1},
    }

    for kind, fields in changes.items():

        def change(run: Path, fields: Any = fields) -> None:
            edit_json(episodes(run)[0] / "episode.json", lambda old: {**old, **fields})

        yield Forgery(
            f"mark: {kind}", change, r"episode\.json: |was changed after the episode ended"
        )


def swapped(one: Path, two: Path, *names: str) -> None:
    for name in names:
        one.joinpath(name).rename(one / "held")
        two.joinpath(name).rename(one / name)
        one.joinpath("held").rename(two / name)


def file_forgeries(environment: Environment) -> Iterator[Forgery]:
    """Records of another run or episode in the place of a run's own, and files taken away."""
    own = episodes(environment.run)
    others = episodes(environment.other)

    for names in ((LEDGER,), (TRANSCRIPT,), (LEDGER, TRANSCRIPT)):
        label = " and ".join(names)
        place = f"episodes/{own[0].name}/"

        def exchange(run: Path, names: tuple[str, ...] = names) -> None:
            swapped(*episodes(run), *names)
            for folder in episodes(run):
                rehash(folder)

        def take(run: Path, names: tuple[str, ...] = names) -> None:
            for name in names:
                shutil.copyfile(others[0] / name, episodes(run)[0] / name)

        yield Forgery(f"{label} of another seed", with_a_card(environment, exchange), place)
        yield Forgery(f"{label} of another model", with_a_card(environment, take), place)
        yield Forgery(
            f"{label} taken away",
            lambda run, names=names: [(episodes(run)[0] / name).unlink() for name in names],
            place,
        )

    yield Forgery(
        "card of another run",
        lambda run: shutil.copyfile(environment.other / CARD, run / CARD),
        "not a record of this run",
    )
    yield Forgery(
        "plan of another run",
        lambda run: shutil.copyfile(environment.other / "manifest.json", run / "manifest.json"),
        "no episode",
    )

    def left_out(run: Path) -> None:
        gone = json.loads((run / "manifest.json").read_text())["episodes"][0]["id"]
        edit_json(run / "manifest.json", lambda old: {**old, "episodes": old["episodes"][1:]})
        shutil.rmtree(run / "episodes" / gone)

    yield Forgery("an episode left out of plan and folder", left_out, "not a record of this run")
    market = {"source": "placebo of snapshot x", "synthetic": False}
    yield Forgery(
        "a market that calls itself real",
        lambda run: edit_json(run / CARD, lambda old: old["snapshot"].update(market)),
        "snapshot|labels",
    )


# -- the table
# -------------------------------------------------------------------------------------------------------------


def table(environment: Environment) -> Iterator[Forgery]:
    yield from card_forgeries(json.loads((environment.run / CARD).read_text()))
    yield from ledger_forgeries(environment)
    yield from transcript_forgeries(environment)
    yield from plan_forgeries(environment)
    yield from mark_forgeries()
    yield from file_forgeries(environment)


def faults(
    environment: Environment, forgeries: Iterable[Forgery], folder: Path
) -> tuple[list[str], list[tuple[str, str]]]:
    """Kinds of forgeries that verify, and those whose refusal does not name what was forged."""
    verified = []
    unnamed = []

    for forgery in forgeries:
        run = Path(shutil.copytree(environment.run, folder / "run"))
        forgery.make(run)
        message = refusal(run, environment.plugins)
        shutil.rmtree(run)
        if not message:
            verified.append(forgery.kind)
        elif not re.search(forgery.named, message):
            unnamed.append((forgery.kind, message))

    return verified, unnamed


def test_forgeries_of_each_part_of_a_run_do_not_verify_and_are_named(
    environment: Environment, tmp_path: Path
) -> None:
    assert refusal(environment.run, environment.plugins) == ""
    every_fifth = list(table(environment))[::5]
    assert faults(environment, every_fifth, tmp_path) == ([], [])


@pytest.mark.exhaustive
def test_more_than_two_hundred_forgeries_do_not_verify_and_are_named(
    environment: Environment, tmp_path: Path
) -> None:
    forgeries = list(table(environment))
    kinds = {forgery.kind for forgery in forgeries}
    assert len(kinds) >= 200, len(kinds)
    assert faults(environment, forgeries, tmp_path) == ([], [])
