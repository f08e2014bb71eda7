"""Models in clouds: `azure/NAME`, `bedrock/NAME`, `vertex/NAME`. Each speaks its vendor's protocol.
This module holds what differs between hosts: addresses, paths, fields, and machine credentials.

Sources: `presets.yaml`, and the clients in the vendors' SDKs: AzureOpenAI, AnthropicBedrock,
AnthropicVertex, and google-genai with `vertexai=True`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import quote

from ktdeval.calls import one_line
from ktdeval.errors import ConfigError, ProviderError
from ktdeval.harness import Listener, Model, ModelRequest
from ktdeval.values import JsonValue
from ktdeval_models.remote import base
from ktdeval_models.remote.params import (
    AnthropicParams,
    AzureParams,
    BedrockParams,
    GoogleParams,
    VertexParams,
    presets,
)
from ktdeval_models.remote.requests.request_headers import RequestSigner, import_sdk
from ktdeval_models.remote.streams.assembly import StreamAssembler
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from ktdeval_models.remote.vendors.google import GoogleModel, check_name
from ktdeval_models.remote.vendors.openai import ChatModel

_Params = TypeVar("_Params", AnthropicParams, GoogleParams)

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_PROJECTS = ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
_SHARED_LOCATIONS = {
    "global": "https://aiplatform.googleapis.com",
    "us": "https://aiplatform.us.rep.googleapis.com",
    "eu": "https://aiplatform.eu.rep.googleapis.com",
}
_INVOKE_VERSION = "bedrock-2023-05-31"
_VERSIONED = re.compile(r".*-v\d+(:\d+)?")
"""Names of Bedrock models that are available only through InvokeModel."""


# ---- Azure


class AzureModel(ChatModel):
    """A deployment of an OpenAI model, over a dated version of Chat Completions."""

    version = r"/openai(/v1)?\Z"

    def __init__(self, name: str, params: AzureParams | None = None) -> None:
        own = params or AzureParams()
        super().__init__(presets()["azure"], name, own)
        self._deployment = own.deployment or name
        self._api_version = own.api_version
        self.path = (
            f"/openai/deployments/{quote(self._deployment, safe='')}/chat/completions"
            f"?api-version={self._api_version}"
        )

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of the SDK's Azure client, without the OpenAI headers that the
        environment sets.
        """
        others = super().headers(sdk, key)
        own = {name: value for name, value in others.items() if name.lower() != "authorization"}
        return {**own, "api-key": key or ""}

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings that change how a request is encoded, and the deployment that
        answers.
        """
        where: dict[str, JsonValue] = {"deployment": self._deployment}
        return {**super().settings(), **where, "api_version": self._api_version}


# ---- Amazon Bedrock


class BedrockModel(AnthropicModel):
    """A Claude model on Amazon Bedrock, over the Messages API. Models with a version in their name
    use InvokeModel, whose body contains the API version but not the model.
    """

    params: BedrockParams
    version = r"(/anthropic)?(/v1)?\Z"

    def __init__(self, name: str, params: BedrockParams | None = None) -> None:
        own = params or BedrockParams()
        url = presets()["bedrock"].base_url.format(region=own.region)
        self._is_invoked = _VERSIONED.fullmatch(name) is not None
        super().__init__(name, own, "bedrock", url)
        self.path = "/anthropic/v1/messages"
        if self._is_invoked:
            self.path = f"/model/{quote(name, safe=':')}/invoke"
            self._has_sampling = True

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of the SDK's Bedrock client, with the Bedrock key if one is given."""
        own: dict[str, str] = {}
        if not self._is_invoked:
            own["anthropic-version"] = self.params.api_version
        if key is not None:
            own["Authorization"] = f"Bearer {key}"

        return self.client_headers(
            sdk, sdk.AnthropicBedrock, aws_region=self.params.region, default_headers=own
        )

    def signer(self) -> RequestSigner:
        """Return the AWS credentials of this machine. Raises ProviderError if they are missing."""
        return AwsSigner(self.provider, self.variables[0], self.params.region)

    def assembler(self, hear: Listener) -> StreamAssembler | None:
        """Return the assembler for a stream; None for InvokeModel, whose streams have a format of
        AWS.
        """
        return None if self._is_invoked else super().assembler(hear)

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call; raises the same errors as `AnthropicModel.encode`."""
        body = super().encode(request)
        return hosted_body(body, _INVOKE_VERSION) if self._is_invoked else body

    def settings(self) -> dict[str, JsonValue]:
        """Return the parameters that can change a reply, and the region that answers."""
        settings = {**super().settings(), "region": self.params.region}
        if self._is_invoked:
            settings["api_version"] = _INVOKE_VERSION
        return settings


def hosted_body(body: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the body of a message for a host whose address contains the model name."""
    own = {name: value for name, value in body.items() if name != "model"}
    return {"anthropic_version": version, **own}


class AwsSigner:
    """Signs requests with this machine's AWS credentials (signature version 4). The credential
    chain of botocore finds and renews them: variables, profile, single sign-on, machine role.
    """

    def __init__(self, provider: str, variable: str, region: str) -> None:
        self._auth = _import_part("botocore.auth", provider)
        self._requests = _import_part("botocore.awsrequest", provider)
        self._errors = _import_part("botocore.exceptions", provider).BotoCoreError
        self._session = _import_part("botocore.session", provider).Session()
        self._provider = provider
        self._variable = variable
        self._region = region
        self._known: tuple[str, ...] = ()
        self._find_credentials()

    def _find_credentials(self) -> Any:
        """Return the current credentials. Raises ProviderError if they are missing or can't be
        used.
        """
        try:
            credentials = self._session.get_credentials()  # resolved once
            frozen = credentials and credentials.get_frozen_credentials()
        except self._errors as error:
            why = one_line(str(error), self._known)
            raise ProviderError(
                f"{self._provider}: the AWS credentials can't be used ({why}); sign in again, as with"
                " `aws sso login`"
            ) from None

        if frozen is None:
            raise ProviderError(
                f"{self._provider}: no key in {self._variable} and no AWS credentials; set the"
                " variable to a key of Amazon Bedrock, or sign in (`aws configure`, `aws sso login`,"
                " AWS_PROFILE)"
            )

        self._known = tuple(filter(None, (frozen.secret_key, frozen.token)))
        return frozen

    def headers(self, method: str, url: str, content: bytes) -> Mapping[str, str]:
        """Return the headers of a signed request."""
        credentials = self._find_credentials()
        request = self._requests.AWSRequest(method=method, url=url, data=content)
        self._auth.SigV4Auth(credentials, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())

    def secrets(self) -> tuple[str, ...]:
        """Return the secret key, and the session token if there is one."""
        return self._known


# ---- Google Cloud Vertex AI


def make_vertex(name: str, params: VertexParams | None = None) -> Model:
    """Return a Claude or Gemini model on Vertex AI. Raises UsageError if the name is not a valid
    model name. Raises ConfigError if the model is from another vendor, or if a parameter can't be
    used.
    """
    own = params or VertexParams()
    check_name(name, "vertex")
    if name.startswith("claude"):
        return VertexClaude(name, own)
    if name.startswith("gemini"):
        return VertexGemini(name, own)

    where = f"{vertex_address(own)}/v1/projects/PROJECT/locations/{own.location}/endpoints/openapi"
    raise ConfigError(
        f"vertex asks Gemini and Claude, {one_line(name)!r} is neither; a model of another vendor there"
        f" is --model openai_compatible/VENDOR/NAME --base-url {where}"
    )


def vertex_address(params: VertexParams) -> str:
    """Return the address for a location."""
    shared = _SHARED_LOCATIONS.get(params.location)
    return shared or presets()["vertex"].base_url.format(location=params.location)


class _OnVertex(base.RemoteAdapter):
    """Common parts of the Claude and Gemini models on Vertex: address, machine credentials, and the
    project that is billed.
    """

    method = ""  # method of the API, appended to the address after version and vendor
    _own: VertexParams

    def find_path(self, version: str, vendor: str) -> None:
        """Set the path to the model in the billed project. Raises the same errors as
        `vertex_project`.
        """
        where = f"projects/{vertex_project(self.provider)}/locations/{self._own.location}"
        self.path = f"/{version}/{where}/publishers/{vendor}/models/{self.name}:{self.method}"

    def signer(self) -> RequestSigner:
        """Return the credentials of this machine. Raises ProviderError if they are missing."""
        return GoogleSigner(self.provider, self.variables[0])

    def account_fields(self) -> Mapping[str, str]:
        """Return the project that is billed."""
        return {"project": vertex_project(self.provider)}

    def settings(self) -> dict[str, JsonValue]:
        """Return the parameters that can change a reply, and the location that answers."""
        return {**super().settings(), "location": self._own.location}


class VertexGemini(_OnVertex, GoogleModel):
    """A Gemini model on Vertex AI."""

    method = "generateContent"

    def __init__(self, name: str, params: VertexParams) -> None:
        self._own = params
        own = vendor_params(GoogleParams, params, api_version="v1beta1")
        super().__init__(name, own, "vertex", vertex_address(params))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers. If an access token is given, it replaces the SDK's key."""
        self.find_path(self.params.api_version, "google")
        others = super().headers(sdk, None)
        own = {name: value for name, value in others.items() if name != "x-goog-api-key"}
        return {**own, **_bearer(key)}


class VertexClaude(_OnVertex, AnthropicModel):
    """A Claude model on Vertex AI. The request body contains the API version but not the model
    name.
    """

    version = r"/v1\Z"
    method = "rawPredict"

    def __init__(self, name: str, params: VertexParams) -> None:
        self._own = params
        own = vendor_params(AnthropicParams, params, api_version="vertex-2023-10-16")
        super().__init__(name, own, "vertex", vertex_address(params))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of the SDK's Vertex client, with an access token if one is given."""
        self.find_path("v1", "anthropic")
        return self.client_headers(
            sdk,
            sdk.AnthropicVertex,
            region=self._own.location,
            project_id=vertex_project(self.provider),
            default_headers=_bearer(key),
        )

    def assembler(self, hear: Listener) -> StreamAssembler | None:  # noqa: ARG002
        """Return None: Vertex has a separate path for streams, so replies are not streamed."""
        return None

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call; raises the same errors as `AnthropicModel.encode`."""
        return hosted_body(super().encode(request), self.params.api_version)


def vendor_params(kind: type[_Params], given: VertexParams, **defaults: Any) -> _Params:
    """Return the parameters for a vendor's model class. They are the defaults, and the Vertex
    parameters that the class also has.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    said = {name: getattr(given, name, None) for name in names}
    return kind(**defaults | {name: value for name, value in said.items() if value is not None})


def vertex_project(provider: str) -> str:
    """Return the project set in the environment. Raises ProviderError if no project is set, or if
    the value is not a project id.
    """
    for variable in _PROJECTS:
        project = os.environ.get(variable, "").strip()
        if re.fullmatch(r"[a-z0-9][a-z0-9.:-]{0,99}", project):
            return project
        if project:
            raise ProviderError(f"{provider}: {variable} holds no id of a project; set it to one")

    raise ProviderError(
        f"{provider}: no project; set the environment variable {_PROJECTS[0]} to its id"
    )


def _bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


class GoogleSigner:
    """Adds to each request a token from this machine's application-default credentials. google-auth
    finds and renews the token.
    """

    def __init__(self, provider: str, variable: str) -> None:
        self._errors = _import_part("google.auth.exceptions", provider).GoogleAuthError
        requests = _import_part("google.auth.transport.requests", provider)
        find = _import_part("google.auth", provider).default
        self._provider = provider
        try:
            self._credentials: Any = find(scopes=[_SCOPE])[0]
        except self._errors:
            raise ProviderError(
                f"{provider}: no access token in {variable} and no application-default credentials;"
                " sign in with `gcloud auth application-default login`"
            ) from None

        self._request = requests.Request()
        self._renewing = threading.Lock()
        self._known: tuple[str, ...] = ()

    def headers(self, method: str, url: str, content: bytes) -> Mapping[str, str]:  # noqa: ARG002
        """Return the header with a valid token."""
        why = ""
        with self._renewing:
            try:
                if not self._credentials.valid:
                    self._credentials.refresh(self._request)
            except self._errors as error:
                why = one_line(str(error), self._known)

        token = str(self._credentials.token or "")
        if why or not token:
            raise ProviderError(
                f"{self._provider}: the credentials of this machine can't be renewed ({why}); sign in"
                " again with `gcloud auth application-default login`"
            )

        self._known = tuple(dict.fromkeys((*self._known, token)))
        return {"Authorization": f"Bearer {token}"}

    def secrets(self) -> tuple[str, ...]:
        """Return all tokens used so far."""
        return self._known


def _import_part(package: str, provider: str) -> Any:
    """Import and return a package of a cloud's extra. Raises the same errors as `import_sdk`."""
    return import_sdk(package, provider, provider)
