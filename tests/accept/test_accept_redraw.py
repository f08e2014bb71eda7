"""Episodes that somebody draws again until they please: the run is not resumed, does not verify, or
its card shows what was drawn.

A run of two episodes of a model as if behind a network is made once. Each case changes a copy of it
as its owner can, in another mood of the model, which would give other replies.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.providers.lucky_plugin import MOOD, PLUGIN
from support.runs.forging import edit_json
from support.runs.run_support import SAME_MASK, WINDOW, Done, episodes, ktdeval

TASK = "bright_open_research"
STEPS = 4
CARD = f"cards/{TASK}.json"
WORDS = (
    f"run --plugin {PLUGIN} --model lucky/x --tasks {TASK} --windows {WINDOW} --limit {STEPS}"
    " --seeds 2 --cache run --canary 0 --price input=2,output=8 --quiet"
)
PLAN = (*WORDS.split(), *SAME_MASK)


def draw(run: Path, mood: str = "momentum") -> Done:
    return ktdeval(*PLAN, "--out", run, cwd=run.parent, environment={MOOD: mood})


def verify(run: Path) -> Done:
    return ktdeval("card", "verify", run / CARD, "--plugin", PLUGIN, cwd=run.parent)


def calls_of(run: Path) -> dict[str, Any]:
    calls: dict[str, Any] = json.loads((run / CARD).read_text())["provenance"]["calls"]
    return calls


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    assert draw(run).code == 0
    return run


def in_book(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / "calls.sqlite")) as book, book:
        book.execute(statement)


# ---- an honest run


@pytest.mark.exhaustive
def test_counts_of_calls_agree_with_the_replies_of_each_episode(run: Path) -> None:
    calls = calls_of(run)
    replies = 0

    for folder in episodes(run):
        mark = json.loads((folder / "episode.json").read_text())
        assert calls["episodes"][folder.name] == mark["calls"]
        assert mark["calls"]["answered"] == mark["said"]["replies"] >= STEPS
        replies += mark["said"]["replies"]

    assert calls["answered"] + calls["cached"] == replies
    assert len(calls["episodes"]) == 2
    assert verify(run).code == 0


@pytest.mark.exhaustive
def test_replies_from_the_cache_of_another_run_are_counted_as_such(tmp_path: Path) -> None:
    shared = ("--cache", tmp_path / "replies.sqlite")
    for name in ("first", "second"):
        done = ktdeval(*PLAN, *shared, "--out", tmp_path / name, cwd=tmp_path)
        assert done.code == 0, done.err

    first = calls_of(tmp_path / "first")
    second = calls_of(tmp_path / "second")

    assert (first["cached"], second["answered"]) == (0, 0)
    assert second["cached"] == first["answered"] > 0
    assert verify(tmp_path / "second").code == 0


# ---- a redraw that is refused


def without(*names: str) -> Callable[[Path], None]:
    """The removal of files of the run, and of its first episode."""

    def remove(run: Path) -> None:
        for name in names:
            (run / name).unlink(missing_ok=True)

        shutil.rmtree(episodes(run)[0])

    return remove


def with_a_book_of_another_run(run: Path) -> None:
    shutil.rmtree(episodes(run)[0])
    other = run.parent / "other"
    assert draw(other, "random").code == 0
    shutil.copyfile(other / "calls.sqlite", run / "calls.sqlite")


def with_an_older_book(run: Path) -> None:
    first = episodes(run)[0].name
    in_book(run, f"DELETE FROM calls WHERE episode = '{first}'")
    in_book(run, "DELETE FROM replies")
    shutil.rmtree(episodes(run)[0])


def with_rows_of_the_other_episode_taken_out(run: Path) -> None:
    other = episodes(run)[1].name
    in_book(run, f"DELETE FROM calls WHERE episode = '{other}' AND step = 1")
    shutil.rmtree(episodes(run)[0])


def without_a_word_on_its_book(run: Path) -> None:
    edit_json(run / "manifest.json", lambda manifest: manifest.pop("call_log") and None)
    without("calls.sqlite", "replies.sqlite")(run)


GONE = "calls.sqlite: the call log, begun at"
LACKS = "calls.sqlite: lacks calls that the episode.json of episode"
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "record of calls deleted": (without("calls.sqlite", "replies.sqlite"), GONE),
    "record of calls and card deleted": (without("calls.sqlite", CARD), GONE),
    "record of calls of another run": (
        with_a_book_of_another_run,
        "calls.sqlite: is a different call log",
    ),
    "record of calls from before the episode": (
        with_an_older_book,
        "calls.sqlite: has 0 answers of episode",
    ),
    "rows taken out": (
        with_rows_of_the_other_episode_taken_out,
        LACKS,
    ),
    "manifest that names no record": (
        without_a_word_on_its_book,
        "the manifest does not name the call log",
    ),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_a_run_without_the_record_of_its_calls_is_not_resumed(
    run: Path, change: Callable[[Path], None], words: str
) -> None:
    change(run)
    done = draw(run, "random")

    assert done.code != 0
    assert words in done.err
    assert done.err.rstrip().endswith("or start again with another --out")
    assert not (run / "episodes" / "journal.jsonl").exists()


# ---- a redraw that is made by hand


def taken_from_another_run(run: Path) -> None:
    """The first episode as another run of the same plan drew it, with its own counts and hashes."""
    other = run.parent / "other"

    assert draw(other, "random").code == 0

    name = episodes(run)[0].name
    shutil.rmtree(run / "episodes" / name)
    shutil.copytree(other / "episodes" / name, run / "episodes" / name)


def counting(**counts: int) -> Callable[[Path], None]:
    """Other counts in the mark of the first episode."""

    def change(run: Path) -> None:
        edit_json(episodes(run)[0] / "episode.json", lambda mark: mark["calls"].update(counts))

    return change


def on_the_card(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: edit_json(run / CARD, lambda card: change(card["provenance"]))


def counting_on_the_card(**counts: int) -> Callable[[Path], None]:
    """Other counts of an episode on the card, with sums that follow."""

    def change(provenance: dict[str, Any]) -> None:
        calls = provenance["calls"]
        own = next(iter(calls["episodes"].values()))
        for name, by in counts.items():
            own[name] += by
            calls[name] += by

    return on_the_card(change)


FORGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "an episode of another run": (taken_from_another_run, "ledger.parquet: SHA-256 is"),
    "fewer answers in the mark": (
        counting(answered=3, attempts=3),
        "give 3 replies, the transcript has",
    ),
    "more unused answers in the mark": (counting(unused=1), "replies, the transcript has"),
    "fewer answers on the card": (
        counting_on_the_card(answered=-1, attempts=-1),
        "differs from the calls that its episode.json counts",
    ),
    "an attempt that is no answer and no failure": (
        counting_on_the_card(attempts=1),
        "are not the sum of answered and failed",
    ),
    "a sum that is none": (
        on_the_card(lambda provenance: provenance["calls"].update(answered=7)),
        "provenance.calls.answered: is not the sum over its episodes",
    ),
    "no counts at all": (
        on_the_card(lambda provenance: provenance.update(calls=None)),
        "provenance.calls: is null, though the model is one behind a network",
    ),
    "a record of calls that is gone": (
        lambda run: (run / "calls.sqlite").unlink(),
        GONE,
    ),
    "a record of calls with another time": (
        lambda run: in_book(
            run, "UPDATE calls SET at = '2026-01-01T00:00:00.000Z' WHERE number = 1"
        ),
        LACKS,
    ),
}


@pytest.mark.parametrize(("change", "words"), FORGED.values(), ids=FORGED)
def test_a_run_whose_counts_of_calls_were_changed_does_not_verify(
    run: Path, change: Callable[[Path], None], words: str
) -> None:
    change(run)
    done = verify(run)
    assert done.code != 0
    assert words in done.out + done.err


def test_no_card_is_made_of_an_episode_of_another_record_of_calls(run: Path) -> None:
    taken_from_another_run(run)
    (run / CARD).unlink()
    scored = ktdeval("score", run, "--plugin", PLUGIN, cwd=run.parent)

    assert scored.code != 0
    assert LACKS in scored.err
    assert not (run / CARD).exists()
    assert draw(run).code != 0


# ---- what is drawn again and shows


@pytest.mark.exhaustive
def test_an_episode_that_is_deleted_alone_gets_the_same_replies_again(run: Path) -> None:
    before = calls_of(run)
    first = episodes(run)[0]
    transcript = (first / "transcript.jsonl.zst").read_bytes()
    shutil.rmtree(first)

    assert draw(run, "random").code == 0
    assert (first / "transcript.jsonl.zst").read_bytes() == transcript

    calls = calls_of(run)
    assert (calls["answered"], calls["cached"], calls["unused"]) == (before["answered"], 0, 0)
    assert calls["repeated"] == calls["episodes"][first.name]["answered"] > 0
    assert calls["episodes"][first.name]["openings"] == 2
    assert verify(run).code == 0


@pytest.mark.exhaustive
def test_an_episode_without_replies_is_answered_again_and_the_card_says_so(run: Path) -> None:
    first = episodes(run)[0]
    answered = calls_of(run)["episodes"][first.name]["answered"]
    shutil.rmtree(first)
    in_book(run, "DELETE FROM replies")

    assert draw(run, "random").code == 0

    own = calls_of(run)["episodes"][first.name]
    assert (own["openings"], own["unused"]) == (2, answered)
    assert verify(run).code == 0

    shown = ktdeval("card", "show", run / CARD, "--all", cwd=run.parent)
    assert f"{answered} answers that no transcript holds" in " ".join(shown.out.split())
