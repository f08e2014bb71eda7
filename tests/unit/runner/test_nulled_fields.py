"""The nulling sweep: each optional field of each document is made null, absent, empty and zero, with
all hashes made anew. Somebody refuses the result, or the field stands in the table of harmless ones
(the YAML file of this name) with its reason.

The fields come from the types (`nulling`). A new one is reached by a sample and refused, or fails
until it has a line in the table. `-s` prints how many were tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_reading import parse_card
from ktdeval.errors import KtdevalError
from ktdeval.runner import DrawnKey, Registration
from ktdeval.runner.records.completion_marks import EpisodeMark
from ktdeval.runner.records.run_manifest import ManifestFile
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values import from_plain, load_yaml, to_plain
from ktdeval_board.checking.findings import Stage
from ktdeval_board.checking.registrations import RegistrationInputs, card_problems
from ktdeval_board.checking.rules import findings_of
from ktdeval_board.registrations import FiledRegistration, registrations_on
from ktdeval_board.rules import load_rules
from ktdeval_deanon.certificate.types import Certificate
from ktdeval_grid.planning.plan import GridPlan, check_plan as check_grid_plan
from ktdeval_grid.state.amend import amendment
from ktdeval_live.plan import LivePlan, check_plan as check_live_plan
from support.figures.card_cases import card, remote_card, ruined_card, stale_card
from support.figures.metric_cases import CODES
from support.figures.scoring_cases import CARDS, scoring_card
from support.paths import REPOSITORY
from support.runs.nulled_runs import (
    Subject,
    card_refusal,
    certificate_of,
    certificate_refusal,
    made_card_refusal,
    manifest_refusal,
    mark_refusal,
    spec_refusal,
)
from support.runs.nulling import Swept, sweep

TABLE: Any = load_yaml(Path(__file__).with_suffix(".yaml"))
PRACTICE = REPOSITORY / "leaderboards" / "practice"


@pytest.fixture(scope="module", autouse=True)
def _known_revision() -> Iterator[None]:
    """Let every run state a revision of the source, also where git says none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ktdeval.runner.scoring.score.source_revision", lambda: "a" * 40)
        yield


def held(name: str, found: Swept) -> None:
    """Hold what was found to the table, and print how much that is."""
    harmless = TABLE["harmless"].get(name, {})
    elsewhere = TABLE["unreached"].get(name, {})
    print(
        f"\n{name}: {found.tried} documents, {len(found.optional)} optional fields,"
        f" {len(found.refused)} refused, {len(found.passed)} harmless,"
        f" {len(found.unreached)} in no sample"
    )

    for field, silent in found.passed.items():
        print(f"  {field}: {', '.join(silent)}")

    assert found.passed.keys() == harmless.keys(), found.passed

    within = tuple(f"{each}." for each in elsewhere)
    left = [
        field
        for field in found.unreached
        if field not in elsewhere and not field.startswith(within)
    ]

    assert sorted(left) == []


# ---- cards


def samples_of_cards(*subjects: Subject) -> list[tuple[Any, Callable[[Any], str | None]]]:
    made = [
        card(),
        card((0, 1), {1}, limit=3),
        remote_card((0, 1, 2)),
        ruined_card(),
        stale_card({CODES[0]: 150, CODES[1]: 350}, {CODES[1]: 2}),
        practice_card(),
    ]
    real = [(each.card, card_refusal(each)) for each in subjects]
    return [*real, *((each, made_card_refusal(each)) for each in made)]


@pytest.mark.exhaustive
def test_trading_cards(one: Subject, team: Subject) -> None:
    # times of a run are those of the machine; the scoring cards have fixed ones
    found = sweep(TradingCard, samples_of_cards(team, one), leave=("provenance.calls.latency_s",))
    held("trading card", found)


@pytest.mark.slow
def test_scoring_cards() -> None:
    made = [*(make() for name, make in CARDS.items() if "scoring" in name), scoring_card()]
    held("scoring card", sweep(ScoringCard, [(each, made_card_refusal(each)) for each in made]))


@pytest.mark.exhaustive
def test_certificates(tmp_path: Path) -> None:
    honest = certificate_of(tmp_path)
    held("certificate", sweep(Certificate, [(honest, certificate_refusal(honest))]))


# ---- records


@pytest.mark.exhaustive
def test_manifests(one: Subject, team: Subject) -> None:
    samples = [(each.read("manifest.json"), manifest_refusal(each)) for each in (one, team)]
    held("manifest", sweep(ManifestFile, samples))


@pytest.mark.slow
def test_marks_of_episodes(one: Subject, team: Subject) -> None:
    samples = [(each.read("episodes/*/episode.json"), mark_refusal(each)) for each in (one, team)]
    held("episode", sweep(EpisodeMark, samples))


@pytest.mark.slow
def test_specs_of_episodes(one: Subject, team: Subject) -> None:
    samples = []
    for each in (one, team):
        spec = each.read("manifest.json")["episodes"][0]
        del spec["id"]
        samples.append((spec, spec_refusal(each)))

    held("spec", sweep(EpisodeSpec, samples))


# ---- registrations


def practice_card() -> Any:
    """The card of the practice board's momentum, without market impact."""
    files = sorted(PRACTICE.glob("cards/blinded_open_research/builtin--momentum/**/*.json"))
    (file,) = (each for each in files if each.stem.isalnum())
    return json.loads(file.read_text())


def practice_registration() -> tuple[Any, Callable[[Any], str | None]]:
    """A registration of the practice board, and what refuses a changed one, of the same run, for
    which its key was drawn.
    """
    rules = load_rules(PRACTICE)
    run_card: Any = parse_card(json.dumps(practice_card()), "card")
    key = PRACTICE / "keys" / f"{run_card.registration}.json"
    drawn = from_plain(json.loads(key.read_text()), DrawnKey, "key")
    division = next(each for each in rules.divisions if each.id == drawn.registration.division)

    def refused(changed: Any) -> str | None:
        registration = from_plain(changed, Registration, "registration")
        asked = FiledRegistration("r", registration)
        everyone = registrations_on(rules, [asked])
        inputs = RegistrationInputs("r", rules, asked, everyone, drawn.drawn_on)

        for finding in findings_of(Stage.REGISTRATION, inputs):
            return finding.message

        key = replace(drawn, id=registration.id, registration=registration)
        known = registrations_on(rules, [FiledRegistration("r", registration, key)])
        claimed = replace(run_card, registration=registration.id)

        return next(card_problems(claimed, division, known), None)

    honest = to_plain(drawn.registration)

    assert refused(honest) is None

    return honest, refused


def with_question(document: Any) -> Any:
    """A registration that asks about windows that share no days."""
    there = [window["name"] for window in document["windows"]]
    windows = [name for name in ("W1", "W3", "W5", "W7", "W8", "W9") if name in there]
    question = {
        "metric": "sharpe",
        "effect": 0.5,
        "against": "zero",
        "windows": windows,
        "looks": [len(windows)],
        "alpha": 0.2,
        "spending": "anytime",
        "test": "sign-flip",
    }
    return {**document, "question": question}


def test_registrations() -> None:
    honest, refused = practice_registration()
    asking = with_question(honest)

    assert refused(asking) is None

    held("registration", sweep(Registration, [(honest, refused), (asking, refused)]))


# ---- plans


def test_plans_of_grids() -> None:
    plan = TABLE["grid_plan"]
    before = from_plain(plan, GridPlan, "plan")

    def refused(changed: Any) -> str | None:
        try:
            after = from_plain(changed, GridPlan, "plan")
            check_grid_plan(after, "plan")
            amendment(before, after)
        except KtdevalError as error:
            return str(error)

        return None

    assert refused(plan) is None

    held("grid plan", sweep(GridPlan, [(plan, refused)]))


def test_plans_of_live_tests() -> None:
    plan = TABLE["live_plan"]
    before = from_plain(plan, LivePlan, "plan")

    def refused(changed: Any) -> str | None:
        """Without all hashes of the chain made anew: its first link has the id of the plan."""
        after = from_plain(changed, LivePlan, "plan")
        try:
            check_live_plan(after, "plan")
        except KtdevalError as error:
            return str(error)

        return None if after.id == before.id else "plan.json is not the plan of the chain"

    held("live plan", sweep(LivePlan, [(plan, refused)]))
