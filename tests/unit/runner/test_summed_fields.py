"""The sweep over sums: each field of a card is made false in turn, with all that follows from it made
anew, and each reply on record, with all hashes made anew. Verification finds each, or the field stands
in the table of the YAML file of this name with its reason.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cards.card_reading import parse_card
from ktdeval.cards.recomputation_diff import card_difference
from ktdeval.errors import KtdevalError
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.transcript_counts import count_said
from ktdeval.runner.scoring.call_log_checks import provenance_findings
from ktdeval.runner.scoring.model_identity_checks import card_claims
from ktdeval.values import dumps_pretty, file_sha256, from_plain, load_yaml, to_plain
from support.figures.renewed_cards import renewed_card
from support.json_places import Place, leaves, with_value
from support.runs.forging import change_transcript, forged, rehash, renewed
from support.runs.nulled_runs import Subject
from support.runs.transcripts import read_transcript

TABLE: Any = load_yaml(Path(__file__).with_suffix(".yaml"))


def kind_of(place: Place, alike: Collection[str] = ()) -> str:
    parts = ["#" if isinstance(part, int) or part in alike else part for part in place]
    return ".".join(parts)


def kinds(card: Any) -> dict[str, tuple[Place, Any]]:
    """The first field of each kind: items of lists, metrics, windows and episodes are alike."""
    alike = {
        *card["metrics"],
        *card["artefacts"],
        *card["task"]["config"]["windows"],
        *card["provenance"]["calls"]["episodes"],
        *card["reference"]["benchmark_buy_and_hold"],
    }
    found: dict[str, tuple[Place, Any]] = {}
    for place, value in leaves(card):
        if place[:2] != ("task", "config"):  # its hash is of all of it
            found.setdefault(kind_of(place, alike), (place, value))
    return found


def next_digit(text: str) -> str:
    """A text whose last digit is the next one: another day, version or hash of the same form."""
    return re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), text)


def false_values(value: Any) -> list[Any]:
    """Other values of the form of this one."""
    if value is None:
        other: list[Any] = [1, "x"]
    elif isinstance(value, str):
        other = [value[::-1], forged(value), next_digit(value)]
    elif isinstance(value, bool):
        other = [not value]
    else:
        other = [value + 1, value * 2 + 1, 0]

    return [false for false in other if false != value]


# ---- the card


def refused(of: Subject) -> Callable[[Any], str | None]:
    """What refuses a changed card. Verification makes the card again from the records, which were not
    changed, so that the run's own card stands for what it would make.
    """
    honest = of.card
    folder = RunFolder.load(of.run)
    specs = list(folder.manifest.specs)

    def why(card: Any) -> str | None:
        problem = card_difference(card, honest)
        if problem is not None:
            return problem

        try:
            typed: Any = parse_card(dumps_pretty(card), "card")
        except KtdevalError as error:
            return str(error)

        claims = [
            *card_claims(typed, of.plugins),
            *provenance_findings("card", folder, typed, specs, False),
        ]
        return claims[0] if claims else None

    return why


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["one", "team"])
def test_every_field_of_a_card_is_made_again(name: str, request: pytest.FixtureRequest) -> None:
    made: Subject = request.getfixturevalue(name)
    honest = made.card
    why = refused(made)
    assert why(honest) is None

    passed = set()
    tried = 0
    for kind, (place, value) in kinds(honest).items():
        for false in false_values(value):
            tried += 1
            changed = with_value(honest, place, false)
            # the honest card again, where the field follows from others
            followed = json.loads(dumps_pretty(renewed(changed)))
            if why(changed) is None or (followed != honest and why(followed) is None):
                passed.add(kind)

    expected = set(TABLE["card"])
    if honest["provenance"]["source_revision"] is None:  # not a checkout with git
        expected.remove("provenance.source_revision")

    assert tried > 500
    assert passed == expected, sorted(passed ^ expected)


# ---- the records


def replies_of(run: Path) -> list[Place]:
    """Places of all that the first reply of an episode holds."""
    entries = read_transcript(min((run / "episodes").iterdir()))
    first = entries[0]["exchanges"][0]["reply"]
    return [(0, "exchanges", 0, "reply", *place) for place, _ in leaves(first)]


def with_hashes(run: Path, place: Place, says_so: bool) -> None:
    """Make one value of a transcript false, and all hashes anew. `says_so`: also what the mark counts."""
    folder = min((run / "episodes").iterdir())

    def change(entries: list[Any]) -> list[Any]:
        value: Any = entries
        for part in place:
            value = value[part]
        return with_value(entries, place, false_values(value)[0])

    change_transcript(folder, change)
    mark = {}
    if says_so:
        entries = from_plain(read_transcript(folder), list[TranscriptEntry], "transcript")
        mark = {"said": to_plain(count_said(entries))}
    rehash(folder, **mark)

    (path,) = run.glob("cards/*.json")
    card = json.loads(path.read_text())
    for name in card["artefacts"]:
        card["artefacts"][name] = file_sha256(run / name)
    path.write_text(dumps_pretty(card))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says_so"),
    [
        ("one", True),
        pytest.param("one", False, marks=pytest.mark.exhaustive),
        pytest.param("team", True, marks=pytest.mark.exhaustive),
        pytest.param("team", False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_false_reply_contradicts_what_was_made_of_it(
    name: str, says_so: bool, request: pytest.FixtureRequest
) -> None:
    made: Subject = request.getfixturevalue(name)
    passed = set()
    for place in replies_of(made.run):
        found = made.changed(lambda run, place=place: with_hashes(run, place, says_so), card=True)
        if found is None:
            passed.add(kind_of(place[4:]))

    assert passed == set(TABLE["reply"])


@pytest.mark.slow
def test_card_cannot_name_another_responder_than_the_transcripts(
    one: Subject,
) -> None:
    """All replies say `gpt-9-ultra`, with hashes and counts that agree; the card says another."""

    def change(run: Path) -> None:
        folder = min((run / "episodes").iterdir())

        def ultra(entries: list[Any]) -> None:
            for entry in entries:
                for exchange in entry["exchanges"]:
                    exchange["reply"]["served_by"] = "gpt-9-ultra"

        change_transcript(folder, ultra)
        entries = from_plain(read_transcript(folder), list[TranscriptEntry], "transcript")
        rehash(folder, said=to_plain(count_said(entries)))
        (path,) = run.glob("cards/*.json")
        card = json.loads(path.read_text())
        for name in card["artefacts"]:
            card["artefacts"][name] = file_sha256(run / name)
        path.write_text(dumps_pretty(card))

    found = one.changed(change, card=True)
    assert found is not None
    assert "episodes[0].served[0].name: recorded" in found
    assert "gpt-9-ultra" in found


@pytest.mark.slow
def test_a_run_of_before_names_in_its_marks_has_them_on_its_card(one: Subject) -> None:
    """They are counted from the transcripts then; so are those that somebody took out of a mark."""

    def change(run: Path) -> None:
        for path in run.glob("episodes/*/episode.json"):
            mark = json.loads(path.read_text())
            mark["said"].pop("served")
            path.write_text(dumps_pretty(mark))

    assert one.changed(change) is None
    assert one.changed(change, card=True) is None


def test_the_label_of_another_model_follows_from_what_answered(one: Subject) -> None:
    card = copy.deepcopy(one.card)
    card["episodes"][0]["served"][0]["name"] = "gpt-9-ultra"

    labels = renewed_card(card)["labels"]
    assert "another model answered" in labels
    assert "another model answered" not in one.card["labels"]


def test_names_in_the_figures_of_calls_are_of_older_cards_alone(one: Subject) -> None:
    """There they are read, and held against no record, as none has them any more."""
    card = copy.deepcopy(one.card)
    card["provenance"]["calls"]["served_by"] = {"gpt-9-ultra": 4}
    with pytest.raises(KtdevalError, match="served_by: is counted by episode"):
        parse_card(dumps_pretty(renewed_card(card)), "card")

    card.pop("deciders")
    for episode in card["episodes"]:
        episode.pop("served")
    older: Any = parse_card(dumps_pretty(renewed_card(card)), "card")

    folder = RunFolder.load(one.run)
    assert (
        list(provenance_findings("card", folder, older, list(folder.manifest.specs), False)) == []
    )
    assert "another model answered" in older.labels
