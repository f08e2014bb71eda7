"""Secrets in foreign text: each form of one is found, and other text stays as it is."""

from __future__ import annotations

import base64
import json
import math
import random
from urllib.parse import quote, quote_plus

import pytest

from ktdeval.secrets import hide_keys, redact_secrets, secrets_of
from ktdeval.testing import not_empty
from support.providers.echoes import ECHOES, gives_away

KEYS = (
    "sk-proj-Zq7RkV2mXw9TtPzBn4LsYc6GhJd8",
    "stub-secret-key-0123456789abcdef",
    "hf_AbCdEfGhIjKl12MnOpQrStUvWx",
)


@pytest.mark.sampled(50)
@pytest.mark.parametrize("way", ECHOES)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_found_in_each_form(key: str, way: str) -> None:
    echo = ECHOES[way](key)
    text = f"you sent {echo}, which is wrong"

    assert gives_away(text, key)

    hidden = hide_keys(text, (key,))
    assert "[key]" in hidden
    assert echo[2:] not in hidden
    assert not gives_away(hidden, key)
    assert hidden.startswith("you sent ")
    assert hidden.endswith(" which is wrong")


@pytest.mark.parametrize("way", ECHOES)
def test_a_key_is_found_in_json_and_json_stays_json(way: str) -> None:
    key = KEYS[0]
    echo = ECHOES[way](key)
    for text in (json.dumps({"a": echo, "b": 1}), json.dumps({"a": json.dumps({"c": echo})})):
        hidden = hide_keys(text, (key,))
        assert "[key]" in hidden
        assert not gives_away(hidden, key)


def test_a_list_that_a_key_is_split_over_stays_json() -> None:
    key = KEYS[0]
    text = json.dumps({"parts": [key[:15], key[15:]], "n": 3})
    hidden = hide_keys(text, (key,))

    assert json.loads(hidden)["n"] == 3
    assert not gives_away(hidden, key)


@pytest.mark.parametrize("key", KEYS)
def test_other_texts_stay_as_they_are(key: str) -> None:
    chance = random.Random(7)
    numbers = " ".join(f"{chance.random():.6g}" for _ in range(2000))
    digests = " ".join(f"{chance.getrandbits(256):064x}" for _ in range(200))
    words = (
        "Bearer of good news; the key is 60-90 days old, 5% of it; sk-proj- is how keys begin."
        " \\u00e9 &#233; %20"
    )

    for text in (numbers, digests, words, "第一季度的收入增长了 12%，关键是现金流", ""):
        assert hide_keys(text, (key,)) == text


def test_a_short_piece_of_a_key_is_left_as_providers_show_it() -> None:
    assert hide_keys(f"{KEYS[0][:5]}***{KEYS[0][-4:]}", KEYS) == "sk-pr***GhJd"[:8] + KEYS[0][-4:]


def test_words_and_paths_are_found_whole_only() -> None:
    environment = {
        "SSH_KEY_FILE": "/home/jo/keys/id_2024.pem",
        "DB_PASSWORD": "correct horse battery staple",
    }
    text = "/home/jo/keys/other.pem has a correct horse"

    assert redact_secrets(text, environment) == text
    assert redact_secrets("in /home/jo/keys/id_2024.pem", environment) == "in [SSH_KEY_FILE]"
    assert redact_secrets("pw=correct+horse+battery+staple", environment) == "pw=[DB_PASSWORD]"


@pytest.mark.parametrize(
    "secret", ['Kq"7/zT\\m29 pä+ß', "密码-7Kq9-zTm2-密码-44", "Kq7\nzTm\n29xY4w"]
)
def test_a_secret_of_any_characters_is_found_in_json_and_addresses(secret: str) -> None:
    in_json = json.dumps({"said": secret})
    texts = [
        in_json,
        json.dumps(in_json),
        json.dumps({"said": secret}, ensure_ascii=False),
        f"https://host/?key={quote(secret, safe='')}&n=1",
        f"https://host/?key={quote_plus(secret)}&n=1",
        base64.b64encode(f"user:{secret}".encode()).decode(),
        secret.encode().hex(),
    ]
    for text in texts:
        hidden = redact_secrets(text, {"MY_TOKEN": secret})
        assert "[MY_TOKEN]" in hidden
        assert len(hidden) < len(text)

    assert json.loads(redact_secrets(in_json, {"MY_TOKEN": secret})) == {"said": "[MY_TOKEN]"}


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_all_that_a_key_decides_in_base64_is_hidden(before: str) -> None:
    key = KEYS[0]
    encoded = base64.b64encode(f"{before}{key}, and more".encode()).decode()
    first = math.ceil(len(before) * 8 / 6)
    end = len(before + key) * 8 // 6

    assert hide_keys(encoded, (key,)) == encoded[:first] + "[key]" + encoded[end:]


def test_a_secret_of_eight_characters_is_hidden_and_a_shorter_one_is_not() -> None:
    assert hide_keys("with ab34ef78 in it", ("ab34ef78",)) == "with [key] in it"
    assert hide_keys("with ab34ef7 in it", ("ab34ef7",)) == "with ab34ef7 in it"


def test_key_arriving_in_pieces_is_hidden_from_its_first_long_piece() -> None:
    key = KEYS[0]
    for arrived in not_empty(range(12, len(key) + 1)):
        assert hide_keys(f"the key {key[:arrived]}", (key,)) == "the key [key]"


def test_of_two_secrets_the_longer_is_named() -> None:
    environment = {"A_KEY": "Zq7RkV2mXw9T", "B_KEY": "Zq7RkV2mXw9TtPzBn4LsYc6G"}

    assert redact_secrets(f"has {environment['B_KEY']}", environment) == "has [B_KEY]"


def test_passwords_of_addresses_and_headers_are_secrets_of_the_environment() -> None:
    headers = (
        "X-Team: research-and-more",
        "X-Api-Key: Abc123Def456Ghi789",
        "Authorization: Bearer Zyx987Wvu654Tsr321",
    )
    environment = {
        "HTTPS_PROXY": "http://jo:hunter2-hunter2@proxy:3128",
        "OPENAI_CUSTOM_HEADERS": "\n".join(headers),
        "EDITOR": "/usr/bin/vim --noplugin",
    }

    assert sorted(secrets_of(environment).values()) == [
        "Abc123Def456Ghi789",
        "Zyx987Wvu654Tsr321",
        "hunter2-hunter2",
    ]

    text = "proxy said hunter2-hunter2, the gateway Abc123Def456Ghi789"
    assert (
        redact_secrets(text, environment)
        == "proxy said [HTTPS_PROXY], the gateway [OPENAI_CUSTOM_HEADERS: X-Api-Key]"
    )
