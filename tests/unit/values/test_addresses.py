"""Addresses that are recorded hold no secret, wherever in a value they stand; refusals show none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from ktdeval.errors import ConfigError, StoreError
from ktdeval.values import Value, decode_json, from_plain
from ktdeval.values.options.config_options import build, parse_assignments
from ktdeval.values.requests.secret_free_addresses import (
    Address,
    Arguments,
    GitAddress,
    Parameters,
    secret_in,
)

TOKEN = "abcdefghijklmnopqrst"
SECRETS = {
    "https://me:secret@example.org/x.git": "a password",
    "HTTPS://Me:Secret@Example.org": "a password",
    "https://me:@example.org": "a password",
    "https://me%3Asecret@example.org/": "a password",
    "https://me:sec/ret@example.org/x": "a password",
    "https:/me:secret@example.org": "a password",
    "https:\\\\me:secret@example.org": "a password",
    "//me:secret@example.org/x": "a password",
    "ssh://git:secret@example.org/x": "a password",
    "git:secret@example.org:x.git": "a password",
    "git+https://me:secret@example.org/x": "a password",
    "redis://:secret@example.org": "a password",
    "look at https://me:secret@example.org": "a password",
    f"https://ghp_{TOKEN}@github.com/x": "a user or a token",
    "https://secret@example.org/x.git": "a user or a token",
    f"ghp_{TOKEN}@github.com:x": "a key",
    f"https://example.org/sk-{TOKEN}/v1": "a key",
    f"https://example.org/eyJ{TOKEN}.eyJ{TOKEN}.x": "a key",
    "http://example.org/x?api_key=1": "a key among its parameters",
    "http://example.org/x?apiKey=1": "a key among its parameters",
    "http://example.org/x?a=1&token=1": "a key among its parameters",
    "http://example.org/x?auth%54oken=1": "a key among its parameters",
    "s3://bucket/x?token=secret": "a key among its parameters",
    "http://example.org/#access_token=1": "a key among its parameters",
    "http://example.org/x;jsessionid=1": "a key among its parameters",
    "https://b.s3.amazonaws.com/k?X-Amz-Signature=1&X-Amz-Expires=9": "a key among its parameters",
    "https://a.blob.core.windows.net/c?sv=1&sig=1": "a key among its parameters",
    "jdbc:postgresql://example.org/db?user=a&password=b": "a key among its parameters",
}
HARMLESS = (
    "git@github.com:me/spring.git", "ssh://git@example.org/x", "https://github.com/me/x.git",
    "https://[::1]:8000/v1", "http://localhost:8000/v1", "https://example.org:/x", "../drop",
    "/home/a@b/c:d", "hf:squad@main", "hf:org/name@v1.0", "s3://bucket/a@b", "synthetic",
    "abfs://container@account.dfs.core.windows.net/x", "you@example.org", "C:/x",
    "https://example.org/@scope/name", "https://example.org/x?page=2&lang=en",
)  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), SECRETS.items(), ids=SECRETS)
def test_secret_of_an_address_is_found(text: str, secret: str) -> None:
    assert secret_in(text) == secret


@pytest.mark.parametrize("text", HARMLESS)
def test_address_without_a_secret_is_taken(text: str) -> None:
    assert secret_in(text) is None


class Part(Value):
    """A part with an address."""

    remote: GitAddress | None = None
    urls: tuple[Address, ...] = ()
    args: Arguments = msgspec.field(default_factory=dict)


class Document(Value):
    """A document whose parts have addresses."""

    parts: dict[str, Part]


@dataclass(frozen=True)
class Options:
    """Options with addresses."""

    base_url: Address | None = None
    args: Parameters = field(default_factory=dict)


BAD = "https://me:secret@example.org/x.git"
PLACES: dict[str, dict[str, Any]] = {
    "parts.a.remote": {"remote": BAD},
    "parts.a.urls[1]": {"urls": ["https://example.org", BAD]},
    "parts.a.args.x.y[0]": {"args": {"x": {"y": [BAD]}}},
}


@pytest.mark.parametrize(("where", "part"), PLACES.items(), ids=PLACES)
def test_value_with_a_secret_is_refused_by_its_place(where: str, part: dict[str, Any]) -> None:
    document = {"parts": {"a": part}}
    for read in (
        lambda: from_plain(document, Document, "plan.json"),
        lambda: decode_json(msgspec.json.encode(document), Document, "plan.json"),
    ):
        with pytest.raises(StoreError) as caught:
            read()

        assert str(caught.value).startswith(
            f"plan.json: {where}: expected an address without a pas"
        )
        assert "secret" not in str(caught.value)


def test_refusal_says_how_git_is_given_a_secret() -> None:
    with pytest.raises(StoreError, match="through a credential helper of git or an ssh key"):
        from_plain({"remote": f"https://{TOKEN}@example.org/x"}, Part, "plan.json")


@pytest.mark.parametrize("values", [{"base_url": BAD}, {"args": {"x": BAD}}])
def test_options_with_a_secret_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected an address without a password") as caught:
        build(Options, values, "run.yaml")

    assert "secret" not in str(caught.value)


def test_assignments_with_a_secret_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--set\.x: expected an address without a password"):
        parse_assignments([f"x={BAD}"], "--set")


@pytest.mark.parametrize("field", ["remote", "urls"])
def test_address_is_no_option_of_a_program(field: str) -> None:
    text = "--upload-pack=x"
    with pytest.raises(StoreError, match="does not begin with a dash"):
        from_plain({field: text if field == "remote" else [text]}, Part, "plan.json")
