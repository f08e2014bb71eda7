"""What made each step of a run: recorded in the journal, kept in the mark of the episode, listed on
the card, and held to the marks.
"""

from __future__ import annotations

import json
import platform
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ktdeval
from ktdeval.cards.card import TradingCard
from ktdeval.cards.card_reading import load_evaluation, validate_card
from ktdeval.cards.fields.episode_parts import StepMaker
from ktdeval.cards.fields.origin.software_versions import is_of_mixed_code
from ktdeval.cards.show import card_lines, plain_text
from ktdeval.errors import CardError
from ktdeval.registry import load_plugins
from ktdeval.registry.code import code_hash
from ktdeval.runner import RunConfig, evaluate, rescore
from ktdeval.runner.records.run_file_names import MARK
from ktdeval.runner.scoring.verify import verify_card
from ktdeval.values import dumps_pretty
from support.runs.run_support import PLUGIN, TASK

WINDOWS = ("2024-02-01:2024-02-29", "2024-03-01:2024-03-29")
ONE = "1" * 16
OTHER = "2" * 16


def step_maker(code: str, steps: int) -> StepMaker:
    return StepMaker(ktdeval="0.1.0", code=code, python="3.11.4", steps=steps)


@pytest.mark.parametrize(
    ("made", "is_mixed"),
    [
        ([(3, [step_maker(ONE, 3)]), (2, [step_maker(ONE, 2)])], False),
        ([(3, []), (2, [])], False),
        ([(3, [step_maker(ONE, 3)]), (2, [step_maker(OTHER, 2)])], True),
        ([(3, [step_maker(ONE, 1), step_maker(OTHER, 2)])], True),
        ([(3, [step_maker(ONE, 3)]), (2, [])], True),
        ([(3, [step_maker(ONE, 2)])], True),
    ],
    ids=[
        "one code",
        "no code known",
        "another code in another episode",
        "two codes in an episode",
        "an episode of no known code",
        "a step of no known code",
    ],
)
def test_code_is_mixed_where_not_one_is_known_to_have_made_all_steps(
    made: list[tuple[int, list[StepMaker]]], is_mixed: bool
) -> None:
    assert is_of_mixed_code(made) == is_mixed


# ---- of a run and its card


def run_config(market: Path, out: Path) -> RunConfig:
    return RunConfig(
        model="builtin/momentum",
        tasks=(TASK,),
        windows=WINDOWS,
        data=str(market),
        out=str(out),
        limit=2,
        quiet=True,
    )


def loaded(run: Path) -> TradingCard:
    card = load_evaluation(run / "cards" / f"{TASK}.json")
    assert isinstance(card, TradingCard)
    return card


@pytest.fixture(scope="module")
def one_code(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two episodes that one process made."""
    run = tmp_path_factory.mktemp("one") / "run"
    evaluate(run_config(market, run), load_plugins())
    return run


@pytest.fixture(scope="module")
def two_codes(one_code: Path, market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, of which one episode was made anew with a further plugin."""
    run = tmp_path_factory.mktemp("two") / "run"
    shutil.copytree(one_code, run)
    shutil.rmtree(run / "episodes" / loaded(run).episodes[0].id)
    evaluate(run_config(market, run), load_plugins([str(PLUGIN)]))

    return run


def findings(run: Path) -> list[str]:
    verified = verify_card(run / "cards" / f"{TASK}.json", load_plugins(), {})
    return [str(finding) for finding in verified.findings]


@pytest.mark.exhaustive
def test_card_lists_version_code_and_python_that_made_its_episodes(
    one_code: Path,
) -> None:
    card = loaded(one_code)
    own = StepMaker(
        ktdeval=ktdeval.__version__,
        code=code_hash(load_plugins()),
        python=platform.python_version(),
        steps=2,
    )

    assert [episode.made_by for episode in card.episodes] == [[own], [own]]
    assert "mixed code" not in card.labels
    assert "made by" not in plain_text(card_lines(card))
    assert findings(one_code) == []


@pytest.mark.exhaustive
def test_a_run_of_two_codes_has_a_label_and_shows_both(two_codes: Path) -> None:
    card = loaded(two_codes)
    codes = {code_hash(load_plugins()), code_hash(load_plugins([str(PLUGIN)]))}

    assert len(codes) == 2

    makers = chain.from_iterable(episode.made_by for episode in card.episodes)
    assert {made.code for made in makers} == codes
    assert "mixed code" in card.labels

    shown = plain_text(card_lines(card))
    assert "[mixed code]" in shown
    assert shown.count("Python " + platform.python_version() + ": 2 steps") == 2
    assert findings(two_codes) == []


def test_a_card_without_the_label_of_its_makers_is_not_valid(two_codes: Path) -> None:
    card = loaded(two_codes)
    labels = [label for label in card.labels if label != "mixed code"]
    with pytest.raises(CardError, match="labels"):
        validate_card({**card.plain, "labels": labels})


FORGED: dict[str, dict[str, Any] | None] = {
    "one code for all": {},
    "none": None,
    "another code": {"code": "0" * 16},
    "another Python": {"python": "3.13.0"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGED)
def test_makers_that_do_not_follow_from_the_records_are_found(
    kind: str, two_codes: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(two_codes, run)
    card = loaded(run)
    change = FORGED[kind]
    episodes = []

    for episode in card.episodes:
        made_by = []
        if change is not None:
            made_by = [replace(card.episodes[0].made_by[0], **change)]

        episodes.append(replace(episode, made_by=made_by))

    labels = [label for label in card.labels if label != "mixed code"]
    path = run / "cards" / f"{TASK}.json"
    path.write_text(dumps_pretty(replace(card, labels=labels, episodes=episodes).plain))
    (found,) = verify_card(path, load_plugins(), {}).findings

    assert "made_by" in found.message


@pytest.mark.exhaustive
def test_a_mark_that_lost_its_makers_is_no_clean_run(one_code: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_code, run)
    mark_path = min(run.glob(f"episodes/*/{MARK}"))
    mark = json.loads(mark_path.read_text())
    mark_path.write_text(dumps_pretty({**mark, "made_by": []}))

    assert any("made_by" in line for line in findings(run))

    (card,) = rescore(run, load_plugins(), {})
    assert "mixed code" in load_evaluation(card).labels


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"steps": 3}, "the episode has 2 steps, 3 are listed"),
        ({"ktdeval": "new"}, "is not a version"),
        ({"code": "x"}, "does not have the form"),
        ({"python": ""}, "python"),
        ({}, "appears twice"),
    ],
)
def test_makers_that_none_can_be_are_refused(
    change: dict[str, Any], problem: str, one_code: Path
) -> None:
    plain = loaded(one_code).plain
    (made,) = plain["episodes"][0]["made_by"]
    made_by = [{**made, **change}]

    if not change:
        made_by = [{**made, "steps": 1}] * 2

    plain["episodes"][0]["made_by"] = made_by
    with pytest.raises(CardError, match=problem):
        validate_card(plain)
