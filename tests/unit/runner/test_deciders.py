"""Who decided, as one fact of every card, and who of them may be ranked where a task hides something."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

import ktdeval
from ktdeval.cards.card_reading import load_evaluation, parse_card
from ktdeval.cards.fields.episode_parts import Served
from ktdeval.cards.fields.knowledge.deciders import knowledge_of, unranked_reasons
from ktdeval.cards.fields.origin.fact_types import (
    COULD_HAVE_BROUGHT as BROUGHT,
    COULD_LOOK_UP as LOOK_UP,
    DECIDERS,
    Decider,
)
from ktdeval.errors import CardError
from ktdeval.harness import LOOKED_UP, AgentTraits, Decision, ShownPart
from ktdeval.harness.traits import DeciderKind
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate, verify_card
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.runner.scoring.deciders import run_deciders
from ktdeval.runner.scoring.declared_deciders import decider_problems
from ktdeval.task_api.episode_spec import EpisodeSpec, FurtherModel
from ktdeval.values import dumps_pretty
from support.figures.card_cases import card as made_card
from support.figures.renewed_cards import renewed_card
from support.runs.run_support import TASK

WINDOW = "2024-03-01:2024-03-14"
NOTHING_SAID = Said(replies=0, uncounted=0, errors={})


def spec(model: str = "builtin/momentum", **changes: Any) -> EpisodeSpec:
    """Spec of an episode of a masked task."""
    base = EpisodeSpec(
        task="blinded_open_research",
        task_version="1",
        task_hash="0" * 64,
        snapshot=None,
        mask="blinded",
        mode="open_research",
        window=None,
        model=model,
        model_args={},
        agent="react",
        agent_args={},
    )
    return replace(base, **changes)


def kinds(of: EpisodeSpec, plugins: Plugins, said: Said = NOTHING_SAID) -> list[tuple[str, str]]:
    """Names and kinds of the deciders of a run."""
    return [(each.name, each.kind) for each in run_deciders(of, plugins, [said])]


# ---- what decides


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("builtin/momentum", "rule"),
        ("builtin/memory", "rule"),
        ("rl/policy", "rule"),
        ("planted/memory", "rule"),
        ("openai/gpt-4.1", "model"),
        ("ollama/qwen3", "model"),
        ("openrouter/openai/gpt-4o:online", "model_with_lookups"),
        ("groq/compound", "model_with_lookups"),
        ("trading_action/finmem", "remote_agent"),
        ("builtin/script", "file"),
        ("replay/run", "file"),
        ("gym/actions", "file"),
        ("declared/decisions", "file"),
        ("elected/majority", "file"),
        ("human/page", "person"),
        ("python/parrot", "plugin"),
        ("mylab/llm", "plugin"),
    ],
)
def test_model_kind_is_declared_by_its_plugin_or_else_in_process_code(
    model: str, kind: str, plugins: Plugins
) -> None:
    assert kinds(spec(model), plugins) == [(model, kind)]


def test_a_name_that_stands_for_no_model_decides_nothing(plugins: Plugins) -> None:
    assert kinds(spec("remote/mine"), plugins) == []


def test_a_plugin_of_another_package_can_not_say_that_it_is_a_rule() -> None:
    class Offers:
        @hookimpl
        def ktdeval_models(self) -> list[Spec]:
            return [Spec("mine/rule", lambda: None, "", decider="rule", remote=False)]

    plugins = load_plugins()
    plugins.add(Offers(), "mine")

    assert kinds(spec("mine/rule"), plugins) == [("mine/rule", "plugin")]


def test_further_models_decide_too(plugins: Plugins) -> None:
    further = (FurtherModel("quick", "perplexity/x", {}), FurtherModel("q", "groq/compound", {}))
    made = spec("openai/gpt-4.1", further_models=further)

    assert kinds(made, plugins) == [
        ("openai/gpt-4.1", "model"),
        ("perplexity/x", "plugin"),  # no such provider
        ("groq/compound", "model_with_lookups"),
    ]


@pytest.mark.parametrize(
    ("agent", "walls", "kind"),
    [
        ("command", "bwrap", "sandboxed_program"),
        ("command", "none", "program"),
        ("remote", "remote", "remote_agent"),
    ],
)
def test_an_agent_outside_is_what_its_walls_are(
    agent: str, walls: Any, kind: str, plugins: Plugins
) -> None:
    said = Said(replies=0, uncounted=0, errors={}, isolation={walls: 3})

    found = kinds(spec("remote/mine", agent=agent), plugins, said)
    assert found == [(agent, kind)]


def test_agent_of_another_package_is_in_process_code_despite_isolation(
    plugins: Plugins,
) -> None:
    said = Said(replies=0, uncounted=0, errors={}, isolation={"bwrap": 3})

    found = kinds(spec(agent="mine"), plugins, said)
    assert found == [("builtin/momentum", "rule"), ("mine", "plugin")]


def test_a_model_whose_provider_reports_a_search_can_look_things_up(plugins: Plugins) -> None:
    """Whatever its name and parameters say: a gateway may search by default."""
    served = Served(name="m", replies=2, looked_up=1)
    said = Said(replies=2, uncounted=0, errors={}, served=(served,))

    (decider,) = run_deciders(spec("ollama/m"), plugins, [said])
    assert (decider.kind, decider.why) == ("model_with_lookups", LOOKED_UP)


def test_of_two_models_of_one_name_the_one_that_searched_is_marked(plugins: Plugins) -> None:
    """They differ in parameters, and in the name that the agent asks them by."""
    further = (FurtherModel("quick", "ollama/m", {}), FurtherModel("deep", "ollama/m", {}))
    served = Served(model="quick", name="m", replies=1, looked_up=1)
    said = Said(replies=1, uncounted=0, errors={}, served=(served,))

    found = kinds(spec("ollama/m", further_models=further), plugins, said)
    assert [kind for _, kind in found] == ["model", "model_with_lookups", "model"]


def test_what_a_sandbox_showed_stands_with_the_program(plugins: Plugins) -> None:
    part = ShownPart(kind="environment", files=7, sha256="0" * 64)
    said = Said(replies=0, uncounted=0, errors={}, isolation={"bwrap": 2}, shown=(part,))

    (decider,) = run_deciders(spec("remote/mine", agent="command"), plugins, [said, said])
    assert (decider.steps, decider.shown) == (4, [part])


# ---- what a decider could have brought

_AFTER = (
    "a board ranks it in its division open book, and as blinded only in windows after it registered"
    " the hash of its files"
)
_IN_SANDBOX = (
    f"could have brought the market: a program in a sandbox has files of its own; {_AFTER}"
)


@pytest.mark.parametrize(
    ("kind", "knowledge", "reason"),
    [
        ("rule", (), None),
        ("model", (), None),
        (
            "model_with_lookups",
            (LOOK_UP,),
            "could look the market up: a model that can look things up",
        ),
        ("sandboxed_program", (BROUGHT,), _IN_SANDBOX),
        ("program", (LOOK_UP, BROUGHT), "could look the market up: a program without a sandbox"),
        (
            "plugin",
            (LOOK_UP, BROUGHT),
            "could look the market up: a function or plugin in the process",
        ),
        (
            "remote_agent",
            (LOOK_UP, BROUGHT),
            "could look the market up: an agent elsewhere, not seen",
        ),
        ("file", (LOOK_UP, BROUGHT), "could look the market up: decisions recorded elsewhere"),
        ("person", (LOOK_UP,), None),  # boards rank people separately
    ],
)
def test_how_each_kind_could_know_the_market(
    kind: Any, knowledge: tuple[str, ...], reason: str | None
) -> None:
    decider = Decider(name="it", kind=kind)

    assert knowledge_of([decider], []) == knowledge
    expected = [] if reason is None else [f"it {reason}"]
    assert unranked_reasons([decider], []) == expected


def test_each_kind_has_a_row_above() -> None:
    assert set(DECIDERS) == set(get_args(DeciderKind))


def test_one_member_of_a_team_that_could_have_brought_the_market_is_enough() -> None:
    model = Decider(name="openai/gpt-4.1", kind="model")
    program = Decider(name="command", kind="sandboxed_program")

    assert knowledge_of([model, program], []) == (BROUGHT,)
    assert unranked_reasons([model, program], []) == [f"command {_IN_SANDBOX}"]


@pytest.mark.parametrize(
    ("walls", "knowledge", "reason"),
    [
        ({}, (), None),
        ({"bwrap": 1}, (BROUGHT,), f"the agent {_IN_SANDBOX}"),
        (
            {"bwrap": 1, "none": 1},
            (LOOK_UP, BROUGHT),
            "the agent was not isolated, so that it could look the market up",
        ),
    ],
)
def test_a_card_from_before_the_field_could_have_brought_the_market_by_its_walls(
    walls: Any, knowledge: tuple[str, ...], reason: str | None
) -> None:
    card = made_card()
    card["episodes"][0]["isolation"] = walls
    read: Any = parse_card(dumps_pretty(renewed_card(card)), "card")

    assert not read.deciders
    assert knowledge_of(read.deciders, read.episodes) == knowledge
    reasons = [each for each in read.rankable.reasons if "market" in each]
    assert reasons == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("model", "agent", "deciders", "problem"),
    [
        ("builtin/momentum", "react", [("builtin/momentum", "rule")], None),
        ("builtin/momentum", "react", [], None),
        (
            "remote/mine",
            "command",
            [],
            "deciders: does not name command, which is an agent outside of the process; score the run"
            " again",
        ),
        (
            "builtin/momentum",
            "command",
            [("builtin/momentum", "rule")],
            "deciders: does not name command, which is an agent outside of the process; score the run"
            " again",
        ),
        (
            "builtin/momentum",
            "command",
            [("builtin/momentum", "rule"), ("command", "rule")],
            "deciders: names command as rule, but it is an agent outside of the process",
        ),
        (
            "builtin/momentum",
            "command",
            [("builtin/momentum", "rule"), ("command", "program")],
            None,
        ),
        (
            "trading_action/mine",
            "react",
            [("trading_action/mine", "model")],
            "deciders: names trading_action/mine as model, but it is an agent elsewhere, not seen",
        ),
        ("ollama/m", "react", [("ollama/m", "model_with_lookups")], None),
        ("mylab/llm", "react", [], None),  # a card from before the field may omit it
        (
            "mylab/llm",
            "react",
            [("mylab/llm", "model")],
            "deciders: names mylab/llm as model, but it is a function or plugin in the process",
        ),
    ],
)
def test_a_card_without_records_can_not_name_a_decider_otherwise(
    model: str, agent: str, deciders: Any, problem: str | None, plugins: Plugins
) -> None:
    """Records that are stored elsewhere can't be executed again; the registry is at hand."""
    card: Any = parse_card(dumps_pretty(made_card()), "card")
    stated = [Decider(name=name, kind=kind) for name, kind in deciders]
    changed = structs.replace(
        card,
        deciders=stated,
        model=structs.replace(card.model, name=model),
        agent=structs.replace(card.agent, name=agent),
    )

    assert list(decider_problems(changed, plugins)) == ([] if problem is None else [problem])


# ---- on a card


@pytest.mark.slow
def test_a_python_function_is_labelled_and_not_ranked(market: Path, tmp_path: Path) -> None:
    """It has the whole disk and the network: it could read the market's own file."""

    def looks_it_up(_request: Any) -> str:
        assert (market / "bars.parquet").read_bytes()
        return '{"orders": [], "overall_reason": "Read it in the file of the market."}'

    run = ktdeval.evaluate(
        looks_it_up,
        "blinded_open_research",
        windows=WINDOW,
        limit=1,
        data=str(market),
        out=str(tmp_path / "run"),
        quiet=True,
    )

    (card,) = run.typed_cards
    assert [(each.name, each.kind) for each in card.deciders] == [("python/looks_it_up", "plugin")]
    assert "not isolated" in card.labels
    reason = "python/looks_it_up could look the market up: a function or plugin in the process"
    assert reason in card.rankable.reasons

    path = next((tmp_path / "run" / "cards").glob("*.json"))
    assert verify_card(path, load_plugins(), {}).findings == ()


class Careless:
    """An agent of somebody's plugin, which runs in this process."""

    traits = AgentTraits()

    def decide(self, _observation: Any, _session: Any, memory: Any) -> Decision:
        return Decision((), "fallback", memory=memory)


@pytest.fixture(scope="module")
def careless(market: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plugins]:
    class Offers:
        @hookimpl
        def ktdeval_agents(self) -> list[Spec]:
            return [Spec("careless", Careless, "holds")]

    plugins = load_plugins()
    plugins.add(Offers(), "careless_plugin")
    out = tmp_path_factory.mktemp("careless") / "run"
    config = RunConfig(
        model="builtin/momentum",
        agent="careless",
        tasks=(TASK,),
        windows=(WINDOW,),
        limit=1,
        data=str(market),
        out=str(out),
        quiet=True,
    )
    evaluate(config, plugins)
    return out, plugins


def test_an_agent_of_a_plugin_is_on_the_card(careless: tuple[Path, Plugins]) -> None:
    run, plugins = careless
    (path,) = (run / "cards").glob("*.json")
    card = load_evaluation(path)

    assert [each.kind for each in card.deciders] == ["rule", "plugin"]
    assert verify_card(path, plugins, {}).findings == ()


@pytest.mark.parametrize(
    ("deciders", "field"),
    [(None, "rankable"), ([{"name": "builtin/momentum", "kind": "rule"}], "deciders")],
)
def test_a_card_that_tells_otherwise_does_not_verify(
    careless: tuple[Path, Plugins], deciders: Any, field: str
) -> None:
    """Who decided follows from the registry and the transcripts, not from the card."""
    run, plugins = careless

    def change(card: Any) -> None:
        card.pop("deciders")
        if deciders is not None:
            card["deciders"] = deciders

    assert any(field in line for line in findings_of(run, plugins, change))


def findings_of(run: Path, plugins: Plugins, change: Callable[[Any], None]) -> Sequence[str]:
    """What verification finds of a run's changed card, with all that follows made anew."""
    (path,) = (run / "cards").glob("*.json")
    honest = path.read_text()
    card = json.loads(honest)
    change(card)

    try:
        path.write_text(dumps_pretty(renewed_card(card)))
        return [str(finding) for finding in verify_card(path, plugins, {}).findings]
    finally:
        path.write_text(honest)


@pytest.mark.slow
def test_a_card_from_before_the_field_verifies_where_nothing_hangs_on_it(
    market: Path, tmp_path: Path, plugins: Plugins
) -> None:
    out = tmp_path / "run"
    config = RunConfig(
        model="builtin/momentum",
        tasks=(TASK,),
        windows=(WINDOW,),
        limit=1,
        data=str(market),
        out=str(out),
        quiet=True,
    )
    evaluate(config, plugins)

    assert findings_of(out, plugins, lambda card: card.pop("deciders")) == []


def test_marks_of_before_names_of_what_answered_are_read(careless: tuple[Path, Plugins]) -> None:
    run, _ = careless
    folder = RunFolder.load(run)

    assert folder.mark(folder.manifest.specs[0]).said.served == ()


@pytest.mark.parametrize(
    ("walls", "is_isolated"), [({"bwrap": 1}, True), ({"none": 1}, False), ({"remote": 1}, False)]
)
def test_a_card_from_before_the_field_is_read_by_its_walls(walls: Any, is_isolated: bool) -> None:
    card = made_card()
    assert "deciders" not in card
    card["episodes"][0]["isolation"] = walls
    read: Any = parse_card(dumps_pretty(renewed_card(card)), "card")

    assert ("not isolated" in read.labels) is not is_isolated


@pytest.mark.parametrize("walls", ["podman", "docker"])
def test_walls_that_nothing_makes_are_no_walls(walls: str) -> None:
    card = made_card()
    card["episodes"][0]["isolation"] = {walls: 1}

    with pytest.raises(CardError):
        parse_card(dumps_pretty(card), "card")
