"""Providers by name: what hosts and clouds are sent, with which credentials, and that these never
show.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ktdeval.calls.records.record import routing_of
from ktdeval.calls.served_model_name import is_other_model
from ktdeval.errors import ConfigError, KtdevalError, ModelError, ProviderError, UsageError
from ktdeval.market.rules.calendar import parse_day
from ktdeval.registry import load_plugins
from ktdeval.secrets import redact_secrets
from ktdeval.testing import on_each_row
from ktdeval_models.remote.params import presets
from support.providers.adapter_server import (
    LOOK,
    SUBMIT,
    Prepared,
    PreparedServer,
    ask,
    failure_of,
    prepared,
)
from support.providers.stub_provider import KEY, skip_without_sdks

skip_without_sdks()

PLUGINS = load_plugins()
NAMED = (
    "xai",
    "openrouter",
    "mistral",
    "groq",
    "together",
    "fireworks",
    "azure",
    "bedrock",
    "vertex",
)
ACCESS = "AKIAEXAMPLEEXAMPLE00"
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLEKEY"
SESSION = "FwoGZXIvYXdzEXAMPLETOKEN0123456789"

CHAT = Prepared(
    {
        "model": "stub-model",
        "choices": [{"message": {"content": "Held."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    }
)
MESSAGE = Prepared(
    {
        "type": "message",
        "content": [{"type": "text", "text": "Held."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }
)
CANDIDATE = Prepared(
    {
        "candidates": [{"content": {"parts": [{"text": "Held."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4},
    }
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those of a test: no variable, no file of this user, no machine's role."""
    for preset in presets().values():
        for variable in preset.variables:
            monkeypatch.delenv(variable, raising=False)

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    for name in (
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")


def at(server: PreparedServer, model: str, **args: Any) -> Any:
    return PLUGINS.make_model(model, {"base_url": server.address, **args})


# ---- the table


@pytest.mark.parametrize("name", [*presets()])
def test_each_provider_has_an_address_a_variable_and_pages_with_a_day(name: str) -> None:
    preset = presets()[name]
    assert re.fullmatch(r"https?://[^/]+(/.*)?", preset.base_url or preset.address)
    assert preset.variables
    assert preset.pages
    assert all(page.startswith("https://") for page in preset.pages)
    assert "2026-11-01" <= str(parse_day(preset.checked)) <= "2026-12-31"


@pytest.mark.parametrize("name", [name for name in NAMED if name not in ("bedrock", "vertex")])
def test_a_key_that_is_not_set_is_asked_for_by_the_name_of_its_variable(name: str) -> None:
    model = PLUGINS.make_model(f"{name}/some-model", {"base_url": "http://127.0.0.1:9"})
    with pytest.raises(ProviderError, match=f"environment variable {presets()[name].variables[0]}"):
        model.reply(ask())


def test_mistral_has_another_name_for_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    _, _, body = asked("mistral/mistral-large", CHAT)

    assert "random_seed" in body
    assert "seed" not in body

    _, _, without = asked("mistral/mistral-large", CHAT, omit=("random_seed",))
    assert "random_seed" not in without


def asked(model: str, answer: Prepared, **args: Any) -> tuple[str, dict[str, str], Any]:
    """Path, headers and body of one request with tools, the second of which is forced."""
    with prepared(answer) as server:
        reply = at(server, model, **args).reply(ask(tools=(LOOK, SUBMIT), forced="submit_action"))
        assert reply.content == "Held."
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 4)
        return server.paths[0], server.headers[0], server.bodies[0]


@pytest.mark.parametrize("name", [name for name in NAMED if presets()[name].protocol == "chat"])
def test_a_host_that_speaks_chat_gets_its_own_key_and_none_of_openai(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-0123456789abcdef")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv(presets()[name].variables[0], KEY)
    path, headers, body = asked(f"{name}/some-model", CHAT)

    assert path.partition("?")[0].endswith("/chat/completions")
    assert "org-mine" not in headers.values()
    assert "sk-of-openai" not in json.dumps(headers)
    assert KEY in json.dumps(headers)
    assert body["model"] == "some-model"


VARIABLES = sorted(set().union(*(preset.variables for preset in presets().values())))


@pytest.mark.parametrize(
    "variable", [*VARIABLES, "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "APCA_API_SECRET_KEY"]
)
def test_the_key_in_each_variable_is_taken_out_of_messages(variable: str) -> None:
    shown = redact_secrets(f"refused: {SECRET}", {variable: SECRET, "HOME": "/root"})
    assert shown == f"refused: [{variable}]"


@pytest.mark.parametrize(
    "key",
    [
        "ABSKQmVkcm9ja0FQSUtleS1leGFtcGxlMDEyMzQ1",
        "ya29.a0AfH6SMexample-token_0123456789",
        "fw_3ZexampleExample0123456789",
        "tgp_v1_example-Example_0123456789",
        "xai-exampleExample0123456789",
    ],
)
def test_a_key_of_a_named_provider_is_no_parameter(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PLUGINS.make_model("xai/grok-4", {"extra_body": {"user": key}})

    assert key[:12] not in str(caught.value)


# ---- Azure


def test_what_the_sdk_sends_to_azure_has_the_same_path_and_header() -> None:
    import openai

    with prepared(CHAT) as server:
        client = openai.AzureOpenAI(
            api_key=KEY, azure_endpoint=server.address, api_version="2024-10-21"
        )
        client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": "x"}])
        assert server.paths == [
            "/openai/deployments/gpt-4.1/chat/completions?api-version=2024-10-21"
        ]
        assert server.headers[0]["api-key"] == KEY


def test_azure_without_an_address_names_the_form_of_one() -> None:
    with pytest.raises(ConfigError, match=r"--base-url, such as https://RESOURCE\.openai\.azure"):
        PLUGINS.make_model("azure/gpt-4.1")


@pytest.mark.parametrize(
    ("model", "args"),
    [
        ("azure/gpt-4.1", {"base_url": "http://127.0.0.1:9", "deployment": "a/../b"}),
        ("azure/gpt-4.1", {"base_url": "http://127.0.0.1:9", "api_version": "1&x=2"}),
        ("bedrock/anthropic.claude-opus-4-7", {"region": "evil.example/"}),
        ("vertex/gemini-2.5-pro", {"location": "x@evil.example"}),
    ],
)
def test_a_parameter_that_would_change_the_address_is_refused(
    model: str, args: Mapping[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="is part of the address"):
        PLUGINS.make_model(model, args)


@pytest.mark.parametrize(
    ("name", "path", "version_in"),
    [
        ("us.anthropic.claude-opus-4-7", "/anthropic/v1/messages", "header"),
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke",
            "body",
        ),
    ],
)
def test_bedrock_asks_a_versioned_model_by_invoke_and_others_by_messages(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, version_in: str
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    sent_path, headers, body = asked(f"bedrock/{name}", MESSAGE)

    assert sent_path == path
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers

    if version_in == "header":
        assert (headers["anthropic-version"], body["model"]) == ("2026-10-21", name)
        assert "anthropic_version" not in body
    else:
        assert body["anthropic_version"] == "bedrock-2023-05-31"
        assert "model" not in body


# ---- Bedrock


def signature_of(
    headers: Mapping[str, str], path: str, content: bytes, secret: str, region: str
) -> str:
    """Signature version 4 of a POST by AWS's document of it, from the headers that it says are
    signed.
    """
    scope, signed = re.findall(
        r"Credential=[^/]+/(\S+), SignedHeaders=(\S+),", headers["authorization"]
    )[0]
    lines = [f"{name}:{' '.join(headers[name].split())}\n" for name in signed.split(";")]
    escaped = path.replace(":", "%3A")
    parts = ["POST", escaped, "", "".join(lines), signed, hashlib.sha256(content).hexdigest()]
    canonical = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    key = f"AWS4{secret}".encode()

    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()

    assert scope.split("/")[1:] == [region, "bedrock", "aws4_request"]

    words = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, canonical])

    return hmac.new(key, words.encode(), hashlib.sha256).hexdigest()


def sign_in_to_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)


@pytest.mark.parametrize("name", ["anthropic.claude-opus-4-7", "anthropic.claude-3-haiku-v1:0"])
def test_bedrock_signs_with_the_credentials_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sign_in_to_aws(monkeypatch)
    with prepared(MESSAGE) as server:
        assert at(server, f"bedrock/{name}", region="eu-central-1").reply(ask()).content == "Held."
        path, headers, body = server.paths[0], server.headers[0], server.bodies[0]

    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    expected = signature_of(headers, path, content, SECRET, "eu-central-1")
    assert headers["authorization"].endswith(f"Signature={expected}")
    assert headers["x-amz-security-token"] == SESSION


def test_credentials_of_the_machine_never_show(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in_to_aws(monkeypatch)
    echo = Prepared({"error": {"message": f"who is {SECRET} with {SESSION}?"}}, 400)
    with prepared(echo) as server:
        model = at(server, "bedrock/anthropic.claude-opus-4-7")
        message = str(failure_of(model))

    assert "who is [key] with [key]" in message
    assert set(model.secrets()) >= {SECRET, SESSION}
    assert SESSION not in json.dumps(dict(routing_of(model)))


def test_bedrock_without_credentials_says_both_ways_to_have_some() -> None:
    model = PLUGINS.make_model("bedrock/anthropic.claude-opus-4-7")
    with pytest.raises(ProviderError, match=r"AWS_BEARER_TOKEN_BEDROCK and no AWS credentials"):
        model.connect()  # before anything is sent


@pytest.mark.parametrize(
    ("name", "path", "answer"),
    [
        (
            "gemini-2.5-pro",
            "/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/"
            "gemini-2.5-pro:generateContent",
            CANDIDATE,
        ),
        (
            "claude-sonnet-4-5@20250929",
            "/v1/projects/my-project/locations/europe-west4/publishers/anthropic/models/"
            "claude-sonnet-4-5@20250929:rawPredict",
            MESSAGE,
        ),
    ],
)
def test_vertex_gets_project_location_and_model_in_the_address(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str, answer: Prepared
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", KEY)
    sent_path, headers, body = asked(f"vertex/{name}", answer, location="europe-west4")

    assert sent_path == path
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not {"x-goog-api-key", "x-api-key"} & set(headers)
    assert body.get("anthropic_version") == ("vertex-2023-10-16" if "claude" in name else None)
    assert "model" not in body


# ---- Vertex


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("us-east5", "https://us-east5-aiplatform.googleapis.com"),
    ],
)
@pytest.mark.parametrize("name", ["gemini-2.5-pro", "claude-opus-4-7"])
def test_the_location_of_vertex_is_a_part_of_its_address(
    name: str, location: str, address: str
) -> None:
    model: Any = PLUGINS.make_model(f"vertex/{name}", {"location": location})
    assert model.endpoint == address
    assert model.settings()["location"] == location


def service_account(folder: Path, token_uri: str) -> str:
    """The file of a service account, with a key of its own, whose tokens are given at `token_uri`."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    path = folder / "account.json"
    fields = {
        "type": "service_account",
        "client_email": "me@my-project.iam.gserviceaccount.com",
        "private_key": key,
        "token_uri": token_uri,
        "project_id": "my-project",
    }
    path.write_text(json.dumps(fields))

    return str(path)


@pytest.mark.slow
def test_vertex_renews_the_token_of_the_machine_and_shows_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("google.auth")
    tokens = iter(["ya29.first-token-0123456789", "ya29.second-token-0123456789"])

    from google.oauth2 import _client

    def granted(*_: Any, **__: Any) -> Any:
        expired = datetime.datetime(2020, 1, 1)
        return next(tokens), expired, {}

    monkeypatch.setattr(_client, "jwt_grant", granted)
    monkeypatch.setenv(
        "GOOGLE_APPLICATION_CREDENTIALS", service_account(tmp_path, "https://unused.example/token")
    )
    echo = Prepared({"error": {"message": "token ya29.second-token-0123456789 is bad"}}, 400)

    with prepared(CANDIDATE, echo) as server:
        model = at(server, "vertex/gemini-2.5-pro")
        assert model.reply(ask()).content == "Held."
        assert "token [key] is bad" in str(failure_of(model))
        sent = [headers["authorization"] for headers in server.headers]

    assert sent == ["Bearer ya29.first-token-0123456789", "Bearer ya29.second-token-0123456789"]
    assert routing_of(model)["project"] == "my-project"


def test_vertex_without_credentials_or_project_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("google.auth")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    model = PLUGINS.make_model("vertex/gemini-2.5-pro")

    with pytest.raises(ProviderError, match="gcloud auth application-default login"):
        model.reply(ask())

    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", KEY)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(ProviderError, match="set the environment variable GOOGLE_CLOUD_PROJECT"):
        PLUGINS.make_model("vertex/gemini-2.5-pro").reply(ask())


def test_other_vendors_model_on_vertex_is_refused_with_the_command_to_use() -> None:
    with pytest.raises(
        ConfigError, match=r"--model openai_compatible/VENDOR/NAME --base-url https"
    ):
        PLUGINS.make_model("vertex/llama-4")


# ---- names and messages


@pytest.mark.parametrize(
    ("asked_for", "served", "is_other"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929", False),
        ("anthropic.claude-opus-4-7", "claude-opus-4-7", False),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929", False),
        ("eu.anthropic.claude-opus-4-7", "claude-opus-4-6", True),
    ],
)
def test_a_name_of_a_cloud_is_that_of_its_vendor(
    asked_for: str, served: str, is_other: bool
) -> None:
    assert is_other_model(asked_for, served) is is_other


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("acme/big", "--model openai_compatible/big --base-url https://ADDRESS/v1"),
        ("togethr/llama", "did you mean 'together'"),
        ("grok-4", "name its provider: xai/grok-4"),
        ("gemini/gemini-2.5-pro", "google/NAME, or vertex/NAME"),
    ],
)
def test_an_unknown_provider_is_told_what_to_type(model: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        PLUGINS.make_model(model)

    assert words in str(caught.value)


@on_each_row(
    "model, args, words",
    ("openai/gpt-4.1", {"temperature": 0}, "an option of its own: --temperature 0"),
    ("builtin/momentum", {"seed": 3}, "an option of its own: --seed 3"),
    ("xai/grok-4", {"reasoning_effort": "low"}, "--reasoning-effort low"),
    ("openai/gpt-4.1", {"max_tokens": 100}, "--max-output-tokens 100"),
    ("openai/gpt-4.1", {"temprature": 0}, "did you mean the option --temperature?"),
    ("openai/gpt-4.1", {"reasonig_summary": "auto"}, "did you mean 'reasoning_summary'?"),
    ("azure/gpt-4.1", {"deploment": "mine"}, "did you mean 'deployment'?"),
    ("openai/gpt-4.1", {"top_p": 0.9}, '--model-args \'{"extra_body": {"top_p": 0.9}}\''),
    ("builtin/hold", {"temperature": 0}, "an option of its own: --temperature 0"),
)
def test_an_argument_that_is_an_option_names_it(
    model: str, args: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(KtdevalError) as caught:
        PLUGINS.make_model(model, args)

    assert words in str(caught.value)


def test_a_key_given_as_an_argument_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        PLUGINS.make_model("openai/gpt-4.1", {"api_key": "sk-proj-0123456789abcdef"})

    assert "a key is never an argument" in str(caught.value)
    assert "0123" not in str(caught.value)


# ---- what hosts answer when they refuse

THROTTLED = {"message": "Too many requests, please wait before trying again."}
EXHAUSTED = {
    "error": {"code": 429, "message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED"}
}
NO_DEPLOYMENT = {
    "error": {"code": "DeploymentNotFound", "message": "The deployment does not exist."}
}
BAD_TOKEN = {"message": "The security token included in the request is invalid."}
NO_PERMISSION = {
    "error": {
        "code": 403,
        "message": "Permission denied on resource.",
        "status": "PERMISSION_DENIED",
    }
}
FILTERED = {
    "error": {
        "code": "content_filter",
        "message": "The response was filtered due to the prompt triggering Azure's content management"
        " policy.",
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
}


@pytest.mark.parametrize(
    ("model", "status", "body", "kind"),
    [
        (
            "azure/gpt-4.1",
            429,
            {"error": {"code": "429", "message": "Rate limit."}},
            "rate_limited",
        ),
        ("bedrock/anthropic.claude-opus-4-7", 429, THROTTLED, "rate_limited"),
        ("bedrock/anthropic.claude-3-haiku-v1:0", 503, {"message": "Busy."}, "overloaded"),
        ("vertex/gemini-2.5-pro", 429, EXHAUSTED, "rate_limited"),
        ("vertex/claude-opus-4-7", 429, [EXHAUSTED], "rate_limited"),
        ("xai/grok-4", 429, {"code": "rate", "error": "Too many requests"}, "rate_limited"),
        ("mistral/mistral-large", 429, {"message": "Requests rate limit exceeded"}, "rate_limited"),
    ],
)
def test_a_host_that_is_asked_too_often_is_asked_again_later(
    model: str, status: int, body: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(presets()[model.partition("/")[0]].variables[0], KEY)
    with prepared(Prepared(body, status, {"Retry-After": "7"})) as server:
        error = failure_of(at(server, model))

    assert isinstance(error, ModelError)
    assert (error.kind, error.retry_after_s) == (kind, 7.0)


@pytest.mark.parametrize(
    ("model", "status", "body"),
    [
        ("azure/gpt-4.1", 404, NO_DEPLOYMENT),
        ("azure/gpt-4.1", 401, {"error": {"code": "401", "message": "Access denied."}}),
        ("bedrock/anthropic.claude-opus-4-7", 403, BAD_TOKEN),
        ("vertex/gemini-2.5-pro", 403, NO_PERMISSION),
        ("vertex/claude-opus-4-7", 403, NO_PERMISSION),
        ("openrouter/openai/gpt-4.1", 402, {"error": {"code": 402, "message": "No credits."}}),
    ],
)
def test_what_asking_again_can_not_help_stops_the_run(
    model: str, status: int, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(presets()[model.partition("/")[0]].variables[0], KEY)
    with prepared(Prepared(body, status)) as server:
        error = failure_of(at(server, model))

    assert isinstance(error, ProviderError)
    assert f"HTTP {status}" in str(error)


def test_a_prompt_that_azure_filters_is_a_filtered_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with prepared(Prepared(FILTERED, 400)) as server:
        assert at(server, "azure/gpt-4.1").reply(ask()).finish_reason == "content_filter"
