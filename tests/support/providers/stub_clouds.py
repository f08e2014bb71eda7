"""Wires of the stub provider as clouds host them: other paths, headers and fields around the vendors'
own protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.providers.stub_anthropic import OLD_VERSION, AnthropicWire
from support.providers.stub_google import GoogleWire
from support.providers.stub_neutral import Asked, Refused, StubOptions
from support.providers.stub_openai import ChatWire

VERSIONS = ("bedrock-2023-05-31", "vertex-2023-10-16")


def own_name(name: str) -> str:
    """The stub's name of a model in a cloud's: without vendor, family and version."""
    bare = name.removesuffix("-v1:0").removeprefix("anthropic.")
    return bare.removeprefix("claude-").removeprefix("gemini-")


def bearer(headers: Mapping[str, str]) -> str:
    return headers.get("Authorization", "").removeprefix("Bearer ")


class AzureWire(ChatWire):
    """Chat Completions of a deployment: the key has a header of its own."""

    name = "azure"

    def key(self, headers: Mapping[str, str]) -> str:
        if "Authorization" in headers:
            raise Refused("a key of OpenAI came along")

        return headers.get("api-key", "")


class MessagesWire(AnthropicWire):
    """Messages on Bedrock, the name in the body."""

    name = "bedrock"

    def key(self, headers: Mapping[str, str]) -> str:
        if "x-api-key" in headers:
            raise Refused("a key of Anthropic came along")

        return super().key(headers)

    def read(
        self, body: Any, model: str, options: StubOptions, headers: Mapping[str, str]
    ) -> Asked:
        return super().read({**body, "model": own_name(body["model"])}, model, options, headers)


class HostedWire(AnthropicWire):
    """Messages with the name in the path and the version in the body."""

    name = "hosted"

    def key(self, headers: Mapping[str, str]) -> str:
        return bearer(headers)

    def read(
        self, body: Any, model: str, options: StubOptions, headers: Mapping[str, str]
    ) -> Asked:
        fields = dict(body)
        if "model" in fields:
            raise Refused("model: Extra inputs are not permitted")

        if fields.pop("anthropic_version", "") not in VERSIONS:
            raise Refused("anthropic_version: Field required")

        dated = {**headers, "anthropic-version": OLD_VERSION}

        return super().read({**fields, "model": own_name(model)}, "", options, dated)


class VertexWire(GoogleWire):
    """generateContent of a project."""

    name = "vertex"

    def key(self, headers: Mapping[str, str]) -> str:
        if "x-goog-api-key" in headers:
            raise Refused("a key of the Gemini API came along")

        return bearer(headers)

    def read(
        self, body: Any, model: str, options: StubOptions, headers: Mapping[str, str]
    ) -> Asked:
        return super().read(body, own_name(model), options, headers)


ROUTES = {
    "/openai/deployments/{name}/chat/completions": AzureWire,
    "/anthropic/v1/messages": MessagesWire,
    "/model/{name}/invoke": HostedWire,
    "/v1/projects/{project}/locations/{place}/publishers/anthropic/models/{name}:rawPredict": (
        HostedWire
    ),
    "/v1beta1/projects/{project}/locations/{place}/publishers/google/models/{name}:generateContent": (
        VertexWire
    ),
}
"""Wires by path."""
