"""Whether a model is remote follows from its plugin: a run that says otherwise of itself is
neither scored nor verified, in any of its models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.costs.prices import FREE
from ktdeval.cards import load_evaluation
from ktdeval.errors import CardError, PluginError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.keyless import KeylessModel
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate, verify_card
from ktdeval.runner.scoring.model_identity_checks import card_claims, unknown_model
from ktdeval.values import dumps_pretty
from support.providers.lucky_plugin import Lucky
from support.runs.forging import edit_json, renewed
from support.runs.nulled_runs import Subject
from support.runs.run_support import TASK, WINDOW

LOCAL = FREE.to_json()
Change = Callable[[dict[str, Any]], Any]


def in_manifest(**fields: Any) -> Change:
    return lambda manifest: manifest.update(fields)


def of_further(**fields: Any) -> Change:
    return lambda manifest: manifest["further_models"]["lucky/y"].update(fields)


SAYS_REMOTE = "is remote"
CHANGES: dict[str, tuple[str, Change, str]] = {
    "no settings": ("one", in_manifest(sent_as=None), f"sent_as: .* lucky/x {SAYS_REMOTE}"),
    "a local price": ("one", in_manifest(price=LOCAL), f"price: .* lucky/x {SAYS_REMOTE}"),
    "other settings": (
        "one",
        in_manifest(sent_as={"extra_body": {"top_p": 0.1}}),
        r"sent_as: does not follow from the parameters of lucky/x: extra_body",
    ),
    "no settings of a further model": (
        "team",
        of_further(sent_as=None),
        f"further_models.lucky/y.sent_as: .* lucky/y {SAYS_REMOTE}",
    ),
    "a local price of a further model": (
        "team",
        of_further(price=LOCAL),
        f"further_models.lucky/y.price: .* lucky/y {SAYS_REMOTE}",
    ),
    "no record of calls": (
        "one",
        lambda manifest: manifest.pop("call_log") and None,
        "the manifest does not name the call log",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("which", "change", "words"), CHANGES.values(), ids=CHANGES)
def test_manifest_contradicting_its_models_neither_scores_nor_verifies(
    request: pytest.FixtureRequest, which: str, change: Change, words: str
) -> None:
    run: Subject = request.getfixturevalue(which)

    def edit(folder: Path) -> None:
        edit_json(folder / "manifest.json", change)

    for card in (None, run.card):  # made anew, and as it was
        assert re.search(words, run.changed(edit, card) or "")


def typed(card: dict[str, Any], folder: Path) -> Any:
    path = folder / "card.json"
    path.write_text(dumps_pretty(card))
    return load_evaluation(path)


def as_of_this_machine(card: dict[str, Any]) -> dict[str, Any]:
    """A card with everything that says that its model is one of this machine."""
    card["sent_as"] = None
    card["provenance"]["calls"] = None
    card["cost"]["price"] = LOCAL

    return renewed(card)


def test_a_card_without_its_run_is_held_to_its_models_too(one: Subject, tmp_path: Path) -> None:
    honest = typed(one.card, tmp_path)
    assert list(card_claims(honest, one.plugins)) == []

    local = typed(as_of_this_machine(one.card), tmp_path)
    (claim,) = card_claims(local, one.plugins)

    assert claim.startswith(f"sent_as: is null, as for a local model, but lucky/x {SAYS_REMOTE}")


def test_a_card_that_says_both_is_no_card(one: Subject, team: Subject, tmp_path: Path) -> None:
    both = one.card
    both["cost"]["price"] = LOCAL
    with pytest.raises(CardError, match=r"cost\.price: is that of a model of this machine"):
        typed(renewed(both), tmp_path)

    counted = as_of_this_machine(one.card)
    counted["provenance"]["calls"] = one.card["provenance"]["calls"]
    with pytest.raises(CardError, match=r"provenance\.calls: are counted, though"):
        typed(counted, tmp_path)

    mixed = team.card
    mixed["further_models"][0]["sent_as"] = None
    with pytest.raises(CardError, match=r"further_models\[0\]\.sent_as: one model of a run"):
        typed(mixed, tmp_path)


def test_a_model_of_no_plugin_is_not_taken_for_one_of_this_machine(
    one: Subject, tmp_path: Path
) -> None:
    installed = load_plugins()
    assert installed.is_remote("lucky/x") is None

    local = typed(as_of_this_machine(one.card), tmp_path)
    (claim,) = card_claims(local, installed)

    assert claim.startswith(
        f"price: is the price of {FREE.source}, but no installed plugin declares lucky/x"
    )

    unpriced = as_of_this_machine(one.card)
    unpriced["cost"] = {"value": None, "reason": "no price of the model is known"}
    note = unknown_model(typed(renewed(unpriced), tmp_path), installed)

    assert note is not None
    assert note.startswith("sent_as: is null, but no installed plugin declares lucky/x as a local")


@pytest.mark.slow
def test_python_object_run_verifies_and_notes_what_is_unknown(market: Path, tmp_path: Path) -> None:
    plugins = load_plugins()
    options = {
        "tasks": (TASK,),
        "data": str(market),
        "windows": (WINDOW,),
        "limit": 1,
        "quiet": True,
    }

    class Offers:
        @hookimpl
        def ktdeval_models(self) -> list[Spec]:
            from ktdeval_models.builtin_models import make_builtin

            return [Spec("python/Mine", lambda _name: make_builtin("hold"), "given")]

    plugins.add(Offers(), "given")
    run = evaluate(RunConfig("python/Mine", out=str(tmp_path / "run"), **options), plugins).folder
    (path,) = run.glob("cards/*.json")
    verified = verify_card(path, load_plugins(), {})

    assert verified.findings == ()
    assert "no installed plugin declares python/Mine as a local model" in verified.notes[0]
    assert verify_card(path, plugins, {}).notes == ()


# ---- what plugins say


def offered(spec: Spec) -> Plugins:
    class Offers:
        @hookimpl
        def ktdeval_models(self) -> list[Spec]:
            return [spec]

    plugins = load_plugins()
    plugins.add(Offers(), "offers")

    return plugins


class NeedsFile(KeylessModel):
    def __init__(self, name: str) -> None:
        raise PluginError("needs a file")


@pytest.mark.parametrize(
    ("spec", "is_remote"),
    [
        (Spec("mine", Lucky, "not stated"), True),
        (Spec("mine", Lucky, "stated", remote=True), True),
        (Spec("mine", lambda _name: KeylessModel(), "not stated"), False),
        (Spec("mine", NeedsFile, "can't be made without a file"), None),
        (Spec("mine", NeedsFile, "stated", remote=False), False),
    ],
)
def test_what_a_plugin_states_or_makes_decides(spec: Spec, is_remote: bool | None) -> None:
    assert offered(spec).is_remote("mine/x") is is_remote


def test_a_plugin_that_states_what_it_does_not_make_is_named() -> None:
    plugins = offered(Spec("mine", Lucky, "stated", remote=False))
    with pytest.raises(
        PluginError, match=r"model mine of plugin offers: its Spec says remote=False"
    ):
        plugins.make_model("mine/x")


def test_every_installed_model_states_whether_it_is_remote() -> None:
    specs = load_plugins().specs("models").values()
    assert [spec.name for spec in specs if spec.remote is None] == []


# ---- when, and by which versions


PROVENANCE: dict[str, tuple[dict[str, Any], str]] = {
    "no time": ({"created_at": "2026-13-01T00:00:00"}, "created_at: is not a time"),
    "no version": ({"suite_version": "the latest"}, "suite_version: is not a version"),
    "no revision": ({"source_revision": "main"}, "source_revision: is not a revision"),
    "an empty library": ({"environment": {"python": " "}}, "environment.python: is not a version"),
}


@pytest.mark.parametrize(("fields", "words"), PROVENANCE.values(), ids=PROVENANCE)
def test_times_and_versions_are_well_formed(
    one: Subject, tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    card = one.card
    card["provenance"].update(fields)
    with pytest.raises(CardError, match=words):
        typed(card, tmp_path)


CLAIMED: dict[str, tuple[dict[str, Any], str]] = {
    "a later version": (
        {"suite_version": "9.1"},
        "suite_version: 9.1 is later than the installed ktdeval",
    ),
    "no libraries": ({"environment": {}}, "environment: does not state the version of python"),
}


@pytest.mark.parametrize(("fields", "words"), CLAIMED.values(), ids=CLAIMED)
def test_versions_are_known(
    one: Subject, tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    card = one.card
    card["provenance"].update(fields)
    assert words in " ".join(card_claims(typed(card, tmp_path), one.plugins))


def test_no_card_was_made_later_than_now(one: Subject) -> None:
    (path,) = one.run.glob("cards/*.json")
    made = datetime.fromisoformat(json.loads(path.read_text())["provenance"]["created_at"])

    assert verify_card(path, one.plugins, {}, now=made).findings == ()

    (finding,) = verify_card(path, one.plugins, {}, now=datetime(2020, 1, 1, tzinfo=UTC)).findings
    assert "provenance.created_at" in finding.message
    assert finding.message.endswith("is in the future")
