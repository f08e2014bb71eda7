"""Manifest of the models: keyless built-in ones, replies of an earlier run, and every provider reached over a network."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval_models.params import ChaosParams, EqualWeightParams, LinearFactorParams, RandomParams, RankParams
from ktdeval_models.remote.params import AnthropicParams, CompatibleParams, GoogleParams, OpenAIParams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktdeval.harness import Model


def _lazy(module: str, name: str) -> Callable[..., Model]:
    """Return a maker that imports its module when it is called."""

    def make(*given: Any) -> Model:
        model: Model = getattr(import_module(f"ktdeval_models.{module}"), name)(*given)
        return model

    return make


_make_builtin = _lazy("catalogue", "make_builtin")


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
        Spec("replay", _lazy("replay", "make_replay"), "Answers from the transcripts of an earlier run: replay/RUN"),
    ]


def _providers() -> list[Spec]:
    from ktdeval_models.remote.presets import compatible_servers

    def needs(extra: str, *variables: str, is_optional: bool = False) -> str:
        key = "a key only where the server wants one" if is_optional else f"a key in {' or '.join(variables)}"
        return f"needs the extra {extra} and {key}"

    compatible = [
        Spec(
            preset.provider,
            partial(_lazy("remote.openai_models", "make_compatible"), preset.provider),
            f"{preset.summary}; {needs('openai', *preset.variables, is_optional=not preset.needs_key)}",
            CompatibleParams,
        )
        for preset in compatible_servers().values()
    ]
    openai, anthropic = _lazy("remote.openai_models", "make_openai"), _lazy("remote.anthropic", "AnthropicModel")
    google = _lazy("remote.google", "GoogleModel")
    return [
        Spec("openai", openai, f"OpenAI; {needs('openai', 'OPENAI_API_KEY')}", OpenAIParams),
        Spec("anthropic", anthropic, f"Anthropic (Claude); {needs('anthropic', 'ANTHROPIC_API_KEY')}", AnthropicParams),
        Spec("google", google, f"Google (Gemini); {needs('google', 'GEMINI_API_KEY', 'GOOGLE_API_KEY')}", GoogleParams),
        *compatible,
    ]
