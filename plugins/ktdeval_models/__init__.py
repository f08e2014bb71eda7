"""Models: built-in models that need no key, replays of earlier runs, and remote providers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later, maker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktdeval_models.remote.params import ProviderPreset


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Return all models. Built-in models need no key, network or download; the entry of each
    provider names the extra that installs its SDK.
    """
    from ktdeval_models.remote import params as remote

    openai = "ktdeval_models.remote.vendors.openai"
    clouds = "ktdeval_models.remote.vendors.clouds"
    own = {
        "openai": (maker(f"{openai}:make_openai"), remote.OpenAIParams),
        "anthropic": (
            maker("ktdeval_models.remote.vendors.anthropic:AnthropicModel"),
            remote.AnthropicParams,
        ),
        "google": (maker("ktdeval_models.remote.vendors.google:GoogleModel"), remote.GoogleParams),
        "azure": (maker(f"{clouds}:AzureModel"), remote.AzureParams),
        "bedrock": (maker(f"{clouds}:BedrockModel"), remote.BedrockParams),
        "vertex": (maker(f"{clouds}:make_vertex"), remote.VertexParams),
    }

    def provider(name: str, preset: ProviderPreset) -> Spec:
        make, params = own.get(
            name, (maker(f"{openai}:make_compatible", name), remote.CompatibleParams)
        )
        words = f"{preset.summary}; needs the extra {preset.extra} and {_key_words(preset)}"
        return Spec(name, make, words, params, remote=True)

    return [
        *(replace(spec, remote=False) for spec in _keyless_models()),
        Spec(
            "replay",
            maker("ktdeval_models.replay:ReplayModel"),
            "Answers from the transcripts of an earlier run: replay/RUN",
            remote=False,
            decider="file",
        ),
        Spec(
            "trading_action",
            maker("ktdeval_models.remote.vendors.external_agent:TradingActionModel"),
            "An external trading agent over HTTP at --base-url, called as in Agent Market Arena; "
            "needs the extra openai",
            remote.RemoteParams,
            extra={"is_agent": True},
            remote=True,
            decider="remote_agent",
        ),
        *(provider(name, preset) for name, preset in remote.presets().items()),
    ]


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Return the command that trains language models with known memory."""
    return [
        Spec(
            "train memory",
            later("ktdeval_models.planted.command:memory"),
            "Train a small language model with a known memory, for the model planted/memory.",
            groups=("train",),
        )
    ]


def _key_words(preset: ProviderPreset) -> str:
    """Return the places where a provider's key is looked up."""
    if not preset.needs_key:
        return "a key only if the server requires one"

    places = [*preset.variables, *filter(None, [preset.credentials])]
    return f"a key in {' or '.join(places)}"


def _keyless_models() -> Sequence[Spec]:
    """Return the rule-based models."""
    from ktdeval_models import params as keyless
    from ktdeval_models.planted.params import PlantedParams

    builtin = maker("ktdeval_models.builtin_models:make_builtin")
    rule = maker("ktdeval_models.technical:RuleModel")
    rule_params = {"turn_of_month": keyless.CalendarParams}

    return [
        Spec("builtin/hold", builtin, "Looks at the market and never trades"),
        Spec(
            "builtin/buy_and_hold",
            builtin,
            "Buys what the prompt shows in equal parts, and holds it",
        ),
        Spec(
            "builtin/first_listed",
            builtin,
            "Buys the first names listed in the prompt, and holds them",
            keyless.FirstListedParams,
        ),
        Spec(
            "builtin/random",
            builtin,
            "Buys and sells shown stocks at random, from the run's seed",
            keyless.RandomParams,
        ),
        Spec(
            "builtin/equal_weight",
            builtin,
            "Holds the most liquid names in equal weights",
            keyless.EqualWeightParams,
        ),
        Spec(
            "builtin/momentum",
            builtin,
            "Holds the highest 12-minus-1 month momentum",
            keyless.RankParams,
        ),
        Spec("builtin/reversal", builtin, "Holds the lowest 20-day return", keyless.RankParams),
        Spec(
            "builtin/low_volatility",
            builtin,
            "Holds the lowest 60-day volatility",
            keyless.RankParams,
        ),
        Spec(
            "builtin/linear_factor",
            builtin,
            "Holds the best by coefficients of the style factors",
            keyless.LinearFactorParams,
        ),
        Spec(
            "builtin/memory",
            maker("ktdeval_models.memorizing_model:MemoryModel"),
            "Remembers the market if it sees codes or days: the behaviour that masks prevent",
            keyless.MemoryParams,
        ),
        Spec(
            "planted/memory",
            maker("ktdeval_models.planted.planted_model:PlantedModel"),
            "Holds what a small language model remembers to have risen, see ktdeval train memory",
            PlantedParams,
        ),
        *(
            Spec(f"builtin/{name}", rule, entry["summary"], rule_params.get(name))
            for name, entry in keyless.rules().items()
        ),
        Spec(
            "builtin/recall",
            maker("ktdeval_models.word_counting:RecallModel"),
            "Learns from the memories in its prompt what came of news: for agents with a memory",
        ),
        Spec(
            "builtin/tally",
            maker("ktdeval_models.word_counting:TallyModel"),
            "Takes the side of most desks of synthetic_views",
        ),
        Spec(
            "builtin/script",
            maker("ktdeval_models.script:ScriptModel"),
            "Answers from a file, by step, by what the request says, or in order",
            keyless.ScriptParams,
            decider="file",
        ),
        Spec(
            "builtin/trivial",
            maker("ktdeval_models.trivial_answers:TrivialModel"),
            "Submits the least that a form allows: no orders, the first choice, the shortest text",
        ),
        Spec(
            "builtin/chaos",
            builtin,
            "Misbehaves in every way a model can, on a seeded schedule",
            keyless.ChaosParams,
        ),
    ]
