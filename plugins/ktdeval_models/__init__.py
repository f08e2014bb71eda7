"""Manifest of the models: keyless built-in ones, replies of an earlier run, and every provider reached over a network."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ktdeval.api import Spec, hookimpl
from ktdeval_models.params import ChaosParams, EqualWeightParams, LinearFactorParams, RandomParams, RankParams
from ktdeval_models.remote.params import AnthropicParams, CompatibleParams, GoogleParams, OpenAIParams
from ktdeval_models.remote.presets import COMPATIBLE_SERVERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktdeval.api import Model


def _make_builtin(name: str, params: Any = None) -> Model:
    from ktdeval_models.catalogue import make_builtin

    return make_builtin(name, params)


def _make_replay(name: str) -> Model:
    from ktdeval_models.replay import make_replay

    return make_replay(name)


def _make_openai(name: str, params: OpenAIParams | None = None) -> Model:
    from ktdeval_models.remote.openai_models import make_openai

    return make_openai(name, params)


def _make_anthropic(name: str, params: AnthropicParams | None = None) -> Model:
    from ktdeval_models.remote.anthropic import make_anthropic

    return make_anthropic(name, params)


def _make_google(name: str, params: GoogleParams | None = None) -> Model:
    from ktdeval_models.remote.google import make_google

    return make_google(name, params)


def _make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    from ktdeval_models.remote.openai_models import make_compatible

    return make_compatible(provider, name, params)


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Built-in models need no key, no network and no download; each provider says which extra installs its SDK."""
    return [*_local(), *_providers()]


def _local() -> list[Spec]:
    return [
        Spec("builtin/hold", _make_builtin, "Looks at the market and never trades"),
        Spec("builtin/random", _make_builtin, "Buys and sells shown stocks at random, from the run's seed", RandomParams),
        Spec("builtin/equal_weight", _make_builtin, "Holds the most liquid names in equal weights", EqualWeightParams),
        Spec("builtin/momentum", _make_builtin, "Holds the highest 12-minus-1 month momentum", RankParams),
        Spec("builtin/reversal", _make_builtin, "Holds the lowest 20-day return", RankParams),
        Spec("builtin/low_volatility", _make_builtin, "Holds the lowest 60-day volatility", RankParams),
        Spec("builtin/linear_factor", _make_builtin, "Holds the best by coefficients of the style factors", LinearFactorParams),
        Spec("builtin/chaos", _make_builtin, "Misbehaves in every way a model can, on a seeded schedule", ChaosParams),
        Spec("replay", _make_replay, "Answers from the transcripts of an earlier run: replay/RUN"),
    ]


def _providers() -> list[Spec]:
    def needs(extra: str, *variables: str, is_optional: bool = False) -> str:
        key = "a key only where the server wants one" if is_optional else f"a key in {' or '.join(variables)}"
        return f"needs the extra {extra} and {key}"

    compatible = [
        Spec(
            preset.provider,
            partial(_make_compatible, preset.provider),
            f"{preset.summary}; {needs('openai', *preset.variables, is_optional=not preset.needs_key)}",
            CompatibleParams,
        )
        for preset in COMPATIBLE_SERVERS.values()
    ]
    return [
        Spec("openai", _make_openai, f"OpenAI; {needs('openai', 'OPENAI_API_KEY')}", OpenAIParams),
        Spec("anthropic", _make_anthropic, f"Anthropic (Claude); {needs('anthropic', 'ANTHROPIC_API_KEY')}", AnthropicParams),
        Spec("google", _make_google, f"Google (Gemini); {needs('google', 'GEMINI_API_KEY', 'GOOGLE_API_KEY')}", GoogleParams),
        *compatible,
    ]
