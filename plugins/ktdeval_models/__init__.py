"""Models: keyless built-in ones, replies of an earlier run, remote providers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import maker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktdeval.harness import Model


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Return all models; the built-in ones need no key, network or download, and each provider
    names the extra of its SDK.
    """
    from ktdeval_models.remote import params as remote

    def provider(
        name: str, make: Callable[..., Model], summary: str, key: str, params: type
    ) -> Spec:
        extra = name if name in ("anthropic", "google") else "openai"
        return Spec(
            name, make, f"{summary}; needs the extra {extra} and {key}", params, remote=True
        )

    openai = maker("ktdeval_models.remote.openai:make_openai")
    anthropic = maker("ktdeval_models.remote.anthropic:AnthropicModel")
    google = maker("ktdeval_models.remote.google:GoogleModel")

    return [
        *(replace(spec, remote=False) for spec in _keyless_models()),
        Spec(
            "replay",
            maker("ktdeval_models.replay:ReplayModel"),
            "Answers from the transcripts of an earlier run: replay/RUN",
            remote=False,
        ),
        Spec(
            "trading_action",
            maker("ktdeval_models.remote.trading_action:TradingActionModel"),
            "A trading agent of anybody's behind HTTP, as Agent Market Arena asks it, at"
            " --base-url; needs the extra openai",
            remote.RemoteParams,
            remote=True,
        ),
        provider("openai", openai, "OpenAI", "a key in OPENAI_API_KEY", remote.OpenAIParams),
        provider(
            "anthropic",
            anthropic,
            "Anthropic (Claude)",
            "a key in ANTHROPIC_API_KEY",
            remote.AnthropicParams,
        ),
        provider(
            "google",
            google,
            "Google (Gemini)",
            "a key in GEMINI_API_KEY or GOOGLE_API_KEY",
            remote.GoogleParams,
        ),
        *(
            provider(
                name,
                maker("ktdeval_models.remote.openai:make_compatible", name),
                preset.summary,
                (
                    f"a key in {' or '.join(preset.variables)}"
                    if preset.needs_key
                    else "a key only where the server wants one"
                ),
                remote.CompatibleParams,
            )
            for name, preset in remote.presets().items()
            if name != "openai"
        ),
    ]


def _keyless_models() -> Sequence[Spec]:
    """Return the models of rules."""
    from ktdeval_models import params as keyless

    builtin = maker("ktdeval_models.catalogue:make_builtin")
    rule = maker("ktdeval_models.technical:RuleModel")
    rule_params = {"turn_of_month": keyless.CalendarParams}

    return [
        Spec("builtin/hold", builtin, "Looks at the market and never trades"),
        Spec(
            "builtin/buy_and_hold",
            builtin,
            "Buys what the prompt shows in equal parts, and keeps it",
        ),
        Spec(
            "builtin/first_listed",
            builtin,
            "Buys the first names listed in the prompt, and keeps them",
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
            maker("ktdeval_models.memory:MemoryModel"),
            "Remembers the market where codes or days show: what masks are for",
            keyless.MemoryParams,
        ),
        *(
            Spec(f"builtin/{name}", rule, entry["summary"], rule_params.get(name))
            for name, entry in keyless.rules().items()
        ),
        Spec(
            "builtin/recall",
            maker("ktdeval_models.counting:RecallModel"),
            "Learns from the memories in its prompt what came of news: for agents with a memory",
        ),
        Spec(
            "builtin/tally",
            maker("ktdeval_models.counting:TallyModel"),
            "Takes the side of most desks of synthetic_views",
        ),
        Spec(
            "builtin/script",
            maker("ktdeval_models.script:ScriptModel"),
            "Answers from a file, by step, by what the request says, or in order",
            keyless.ScriptParams,
        ),
        Spec(
            "builtin/trivial",
            maker("ktdeval_models.trivial:TrivialModel"),
            "Submits the least that a form allows: no orders, the first choice, the shortest text",
        ),
        Spec(
            "builtin/chaos",
            builtin,
            "Misbehaves in every way a model can, on a seeded schedule",
            keyless.ChaosParams,
        ),
    ]
