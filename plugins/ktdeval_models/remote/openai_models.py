"""Makes models that speak OpenAI's wire formats."""

from __future__ import annotations

from ktdeval.api import Model
from ktdeval_models.remote.openai_chat import ChatModel
from ktdeval_models.remote.openai_responses import ResponsesModel
from ktdeval_models.remote.params import CompatibleParams, OpenAIParams
from ktdeval_models.remote.presets import COMPATIBLE_SERVERS, OPENAI_CHAT


def make_openai(name: str, params: OpenAIParams | None = None) -> Model:
    """A model of OpenAI's, over the API that `params` name.

    Args:
        name: the model's name, such as `gpt-5.2`.
        params: its parameters; None takes the defaults.

    Raises:
        ConfigError: a parameter is not usable.
    """
    params = params or OpenAIParams()
    return ResponsesModel(name, params) if params.api == "responses" else ChatModel(OPENAI_CHAT, name, params)


def make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    """A model of another server that speaks Chat Completions.

    Args:
        provider: a name in `COMPATIBLE_SERVERS`.
        name: the model's name there.
        params: its parameters; None takes the defaults.

    Raises:
        ConfigError: a parameter is not usable, or there is no address.
    """
    return ChatModel(COMPATIBLE_SERVERS[provider], name, params or CompatibleParams())
