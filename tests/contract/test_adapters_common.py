"""What all adapters share: keys, parameters, addresses, listings, and what a refusal means."""

from __future__ import annotations

import datetime
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from email.utils import format_datetime
from typing import Any

import pytest

from ktdeval.calls import check_base_url
from ktdeval.calls.failures.http_errors import (
    Caller,
    ContentFiltered,
    error_of,
    one_line,
)
from ktdeval.calls.failures.provider_errors import (
    ProviderRefusal,
    read_refusal,
    refusal_of,
    retry_after_s,
)
from ktdeval.errors import ConfigError, ModelError, ProviderError
from ktdeval.testing import on_each_row
from ktdeval.values.options.config_options import build
from ktdeval_models.remote.keys import find_key
from ktdeval_models.remote.params import OpenAIParams, RemoteParams
from ktdeval_models.remote.vendors.openai import make_openai
from support.providers.stub_provider import KEY

pytestmark = pytest.mark.usefixtures("provider_keys")

PROVIDERS = {
    "openai",
    "anthropic",
    "google",
    "openai_compatible",
    "vllm",
    "ollama",
    "dashscope",
    "deepseek",
    "stepfun",
    "moonshot",
    "zhipu",
    "minimax",
    "volcengine",
}
SECRET = "sk-proj-abcdefghijklmnop0123456789"
CALLER = Caller(
    "openai",
    "gpt-x",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    (SECRET,),
    path="/responses",
)


def model_at(base_url: str, **params: Any) -> Any:
    return make_openai("stub-model", OpenAIParams(base_url=base_url, **params))


@pytest.fixture
def no_keys(provider_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable is set, and `keyring` is not installed."""
    for name in ("OPENAI_API_KEY", "ONE_KEY", "OTHER_KEY"):
        monkeypatch.delenv(name, raising=False)

    monkeypatch.setitem(sys.modules, "keyring", None)


# ---- keys


@pytest.mark.usefixtures("no_keys")
def test_a_key_comes_from_the_first_variable_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "  second\n")
    assert find_key(("ONE_KEY", "OTHER_KEY")) == "second"
    assert find_key(("ONE_KEY",)) is None

    monkeypatch.setenv("ONE_KEY", "first")
    assert find_key(("ONE_KEY", "OTHER_KEY")) == "first"

    monkeypatch.setenv("ONE_KEY", " ")
    assert find_key(("ONE_KEY", "OTHER_KEY")) == "second"


@pytest.mark.slow
def test_a_key_comes_from_the_keyring_when_no_variable_is_set() -> None:
    """With the real package, in a process of its own: it changes how a process looks for installed
    distributions.
    """
    script = """
import os, keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked
from ktdeval.errors import ProviderError
from ktdeval_models.remote.keys import find_key

class Held(KeyringBackend):
    priority = 1
    def get_password(self, service, username):
        if username == "LOCKED_KEY":
            raise KeyringLocked("locked")
        return {("ktdeval", "ONE_KEY"): " from-the-keyring ", ("ktdeval", "BAD_KEY"): "bad key"}.get((service, username))
    def set_password(self, service, username, password):
        raise NotImplementedError

keyring.set_keyring(Held())
assert find_key(("ONE_KEY",)) == find_key(("NO_KEY", "ONE_KEY")) == "from-the-keyring"
assert find_key(("NO_KEY", "LOCKED_KEY")) is None
os.environ["ONE_KEY"] = "from-the-environment"
assert find_key(("ONE_KEY",)) == "from-the-environment"
try:
    find_key(("BAD_KEY",))
except ProviderError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the keyring's entry ktdeval BAD_KEY holds a space")
    assert "bad key" not in done.stdout


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize("value", ["abc def", "abc\ndef", "abcé", "abc\x7fd"])
def test_what_can_be_no_key_is_refused_without_showing_it(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_KEY", value)
    with pytest.raises(
        ProviderError, match="the environment variable ONE_KEY holds a space"
    ) as caught:
        find_key(("ONE_KEY",))

    assert value not in str(caught.value)


def test_connecting_twice_makes_one_client() -> None:
    model = model_at("http://127.0.0.1:9/v1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: model.connect(), range(8)))

    client = model.client
    model.connect()

    assert model.client is client
    assert model.secrets() == (KEY,)
    assert KEY not in repr(model) + repr(model.caller) + repr(model.settings())


# ---- parameters


@on_each_row(
    "args, message",
    (
        {"api_key_env": "sk-proj-abcdefghijklmnop0123456789"},
        "api_key_env takes the NAME of an environment variable",
    ),
    ({"api_key_env": "my key"}, "api_key_env takes the NAME"),
    ({"omit": ["temperature", "no field"]}, "omit takes names of request fields"),
    (
        {"extra_body": {"a": {"b": ["sk-proj-abcdefghijklmnop0123456789"]}}},
        "extra_body looks like an API key",
    ),
    (
        {"extra_body": {"token": "0123456789abcdef0123456789abcdef.ABCDefgh12345678"}},
        "extra_body looks like an API key",
    ),
    (
        {"extra_body": {"authorization": "Bearer sk-proj-abcdefghijklmnop0123456789"}},
        "extra_body looks like an API key",
    ),
    ({"base_url": "sk-ant-api03-0123456789abcdef"}, "base_url looks like an API key"),
    (
        {"base_url": "https://gateway.example/sk-proj-abcdefghijklmnop0123456789/v1"},
        "base_url: expected an address without a key",
    ),
)
def test_parameters_that_hold_a_key_are_refused_without_showing_it(
    args: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build(RemoteParams, args, "model x")

    assert SECRET not in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


@on_each_row(
    "url, problem",
    ("ftp://host/v1", "must be an http or https address"),
    ("localhost:8000/v1", "must be an http or https address"),
    ("http:///v1", "must be an http or https address"),
    ("http://host:99999/v1", "is not an address"),
    ("http://ho st/v1", "must be an http or https address"),
    ("http://例え.jp/v1", "must be an http or https address in ASCII"),
    ("https://user:pass-word@host/v1", "holds a user, password, query or fragment"),
    ("https://host/v1?api-key=hidden", "holds a user, password, query or fragment"),
    ("https://host/v1#hidden", "holds a user, password, query or fragment"),
)
def test_a_base_url_is_a_bare_http_address(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        check_base_url(url)

    assert "pass-word" not in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert check_base_url("https://host:8443/v1/") == "https://host:8443/v1"


# ---- the manifest


@pytest.mark.slow
def test_making_models_needs_no_sdk_no_key_and_no_network() -> None:
    script = (
        "import sys\nfrom ktdeval.registry.plugin_registry import load_plugins\nplugins = load_plugins()\nfor name"
        f" in {sorted(PROVIDERS)!r}:\n    model = plugins.make_model(f'{{name}}/some-model',"
        " {'base_url': 'http://127.0.0.1:9/v1'})\n    assert model.provider == name and"
        " model.name == 'some-model' and model.secrets() == ()\n    assert model.settings() is not"
        " None and model.price_table.is_file() and model.protocols[0] =="
        " 'native'\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert not {"openai", "anthropic", "google.genai", "httpx", "httpx2", "keyring"} & set(
        done.stdout.split()
    )


# ---- what refusals mean


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "0.5"}, 0.5, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2, 2),
    ],
)
def test_a_wait_that_a_provider_asks_for_is_read(
    headers: dict[str, str], low: float, high: float
) -> None:
    seconds = retry_after_s(headers)
    assert seconds is not None
    assert low <= seconds <= high


def test_a_wait_until_a_moment_is_read_in_seconds() -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    seconds = retry_after_s({"retry-after": format_datetime(tomorrow, usegmt=True)})
    assert seconds is not None
    assert 80_000 <= seconds <= 86_400  # the suite may be a while under way


def test_a_wait_that_makes_no_sense_is_none() -> None:
    assert [retry_after_s({"retry-after": text}) for text in ("soon", "-1", "nan", "inf", "")] == [
        None
    ] * 5
    assert retry_after_s({}) is None


@on_each_row(
    "body, codes, message",
    (
        {"error": {"message": "no", "type": "invalid_request_error", "code": "C"}},
        ["c", "invalid_request_error"],
        "no",
    ),
    (
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
        ["overloaded_error"],
        "no",
    ),
    (
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no"}},
        ["429", "resource_exhausted"],
        "no",
    ),
    ([{"error": {"code": 400, "message": "no"}}], ["400"], "no"),
    (
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
        ["400", "badrequesterror"],
        "no",
    ),
    ({"error": "no"}, [], "no"),
    ({"detail": "no"}, [], "no"),
    ({"detail": [{"msg": "no"}]}, [], "[{'msg': 'no'}]"),
    ({"base_resp": {"status_code": 1008, "status_msg": "no"}}, ["1008"], "no"),
    ("no", [], "no"),
    ([], [], ""),
    (None, [], ""),
)
def test_errors_are_read_in_the_forms_that_providers_use(
    body: Any, codes: tuple[str, ...], message: str
) -> None:
    refusal = read_refusal(400, body)
    assert refusal.codes == tuple(codes)
    assert refusal.message in (message, str(body))


def test_errors_without_json_or_with_vendor_specific_codes_are_understood() -> None:
    # An error that is no json is read as text.
    refusal = refusal_of(502, b"<html><h1>Bad\nGateway</h1></html>", {"retry-after": "3"})
    assert one_line(refusal.message) == "Bad Gateway"
    assert refusal.retry_after_s == 3

    # A parameter is blamed as the provider names it.
    refusal = ProviderRefusal(
        400,
        ("unsupported_parameter",),
        "This model does not take the temperature at all.",
        "reasoning.effort",
    )

    assert "refuses 'reasoning'" in str(error_of(refusal, CALLER, {"temperature", "reasoning"}))

    # A server may mean something else by a code.
    caller = Caller(
        "dashscope",
        "m",
        "http://h",
        ("K",),
        meanings={"insufficient_quota": 429, "sensitive": 451, "1113": 402},
    )
    busy = error_of(
        ProviderRefusal(429, ("insufficient_quota",), "You exceeded your current quota"), caller
    )

    assert isinstance(busy, ModelError)
    assert busy.kind == "rate_limited"
    assert isinstance(
        error_of(ProviderRefusal(400, ("sensitive.violence",)), caller), ContentFiltered
    )
    assert isinstance(error_of(ProviderRefusal(200, ("1113",)), caller), ProviderError)

    # Foreign words are one short line without keys.
    text = f"bad\x1b[31m\nkey {SECRET} and {SECRET[:9]}… and sk-live******9876 \u202e" + "x" * 400
    line = one_line(text, (SECRET,))

    assert line.endswith("characters cut …]")  # between words: the last one was too long
    assert line.startswith("bad [31m key [key] and [key] and [key]")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16", "utf-32"])
def test_a_key_in_a_page_that_is_not_in_utf_8_is_hidden_too(encoding: str) -> None:
    page = refusal_of(502, f"<b>bad</b> key {SECRET}".encode(encoding), {})
    assert one_line(page.message, (SECRET,)).endswith("bad key [key]")


@on_each_row(
    "status, codes, message, kind",
    (500, [], "", "server"),
    (502, [], "", "server"),
    (504, [], "", "server"),
    (599, [], "", "server"),
    (409, [], "", "server"),
    (400, [], "too long", "bad_request"),
    (413, [], "too long", "bad_request"),
    (422, [], "too long", "bad_request"),
    (418, [], "too long", "bad_request"),
    (429, [], "slow down", "rate_limited"),
    (503, [], "", "overloaded"),
    (529, [], "", "overloaded"),
    (408, [], "", "timeout"),
    (200, ["rate_limit_exceeded"], "", "rate_limited"),
    (200, ["server_error"], "", "server"),
    (200, ["overloaded_error"], "", "overloaded"),
    (200, ["context_length_exceeded"], "", "context_exceeded"),
    (200, ["503"], "", "overloaded"),
    (200, ["something_new"], "", "server"),
    (500, ["server_error"], "insufficient balance of the load balancer", "server"),
)
def test_a_refusal_of_one_attempt_has_a_kind(
    status: int, codes: tuple[str, ...], message: str, kind: str
) -> None:
    error = error_of(
        ProviderRefusal(status, codes, message, retry_after_s=4.0), CALLER, {"temperature"}
    )
    assert isinstance(error, ModelError)
    assert (error.kind, error.retry_after_s) == (kind, 4.0)
    assert str(error).startswith("openai/gpt-x: HTTP ")


@on_each_row(
    "status, codes, message, mend",
    (401, [], "", "set OPENAI_API_KEY to a valid key for https://api.openai.com/v1"),
    (400, ["api_key_invalid"], "", "set OPENAI_API_KEY to a valid key"),
    (403, [], "", "check what the key in OPENAI_API_KEY may do, and that 'gpt-x' is open to it"),
    (404, [], "", "there is no model 'gpt-x' at https://api.openai.com/v1"),
    (
        400,
        ["model_not_found"],
        "",
        "check the name after the slash in --model, and the address in --base-url",
    ),
    (404, [], "The model `gpt-x` was not found", "there is no model 'gpt-x'"),
    (404, [], "File Not Found", "has no /responses, the path of OpenAI's newer API"),
    (404, [], "Not Found", "use --model openai_compatible/gpt-x, else correct --base-url"),
    (404, [], "404 page not found", "has no /responses"),
    (404, [], "Invalid URL (POST /v1/responses)", "has no /responses"),
    (405, [], "", "give the right one with --base-url"),
    (308, [], "", "give the right one with --base-url"),
    (402, [], "", "set OPENAI_API_KEY to the key of another account"),
    (429, ["insufficient_quota"], "", "the account has no quota or balance left"),
    (400, [], "Your credit balance is too low", "the account has no quota or balance left"),
    (403, [], "您的账户已欠费", "the account has no quota or balance left"),
    (200, ["invalid_api_key"], "", "the key is refused"),
    (
        400,
        ["unsupported_value"],
        "'temperature' does not support 0.7",
        "leave it out with --model-args omit=temperature",
    ),
    (
        400,
        [],
        "invalid temperature: only 1 is allowed for this model",
        "leave it out with --model-args omit=temperature",
    ),
    (
        422,
        [],
        "temperature: Extra inputs are not permitted",
        "leave it out with --model-args omit=temperature",
    ),
    (
        400,
        [],
        "Unsupported parameter: 'max_tokens'",
        "--model-args max_tokens_field=max_completion_tokens",
    ),
)
def test_a_permanent_failure_names_the_setting_to_fix(
    status: int, codes: tuple[str, ...], message: str, mend: str
) -> None:
    error = error_of(
        ProviderRefusal(status, codes, message),
        CALLER,
        {"temperature", "max_tokens", "messages", "tools"},
    )

    assert isinstance(error, ProviderError)
    assert mend in str(error)


def test_a_refused_tool_protocol_is_no_refused_parameter() -> None:
    """Another protocol may work, so the check of what a model can do must be able to go on."""
    words = (
        "The tool_choice parameter does not support being set to required or object in thinking"
        " mode"
    )
    cases = [
        (ProviderRefusal(400, (), words), {"messages", "tools", "tool_choice", "thinking"}),
        *(
            (
                ProviderRefusal(400, ("unsupported_parameter",), f"{name} is not supported", name),
                {name, "temperature"},
            )
            for name in ("tools", "tool_choice", "response_format", "messages")
        ),
    ]

    for refusal, sent in cases:
        error = error_of(refusal, CALLER, sent)
        assert isinstance(error, ModelError), refusal
        assert error.kind == "bad_request", refusal
