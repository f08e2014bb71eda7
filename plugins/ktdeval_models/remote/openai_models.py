"""Makes models that speak OpenAI's wire formats."""

from __future__ import annotations

from ktdeval.harness import Model
from ktdeval_models.remote.openai_chat import ChatModel
from ktdeval_models.remote.openai_responses import ResponsesModel
from ktdeval_models.remote.params import CompatibleParams, OpenAIParams
from ktdeval_models.remote.presets import presets


def make_openai(name: str, params: OpenAIParams | None = None) -> Model:
    """Return a model of OpenAI's, over the API that `params` name. Raises ConfigError: a parameter is not usable."""
    params = params or OpenAIParams()
    return ResponsesModel(name, params) if params.api == "responses" else ChatModel(presets()["openai"], name, params)


def make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    """Return a model of another server that speaks Chat Completions; `provider` is one of `presets.yaml`. Raises ConfigError: a
    parameter is not usable, or there is no address.
    """
    return ChatModel(presets()[provider], name, params or CompatibleParams())
