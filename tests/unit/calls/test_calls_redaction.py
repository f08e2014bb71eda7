"""Secrets in foreign text: each way to write one is found, and other text stays as it is."""

from __future__ import annotations

import json
import random

import pytest

from echoes import ECHOES, gives_away
from ktdeval.secrets import hide_keys, redact_secrets, secrets_of

KEYS = (
    "sk-proj-Zq7RkV2mXw9TtPzBn4LsYc6GhJd8",
    "stub-secret-key-0123456789abcdef",
    "hf_AbCdEfGhIjKl12MnOpQrStUvWx",
)
# Bits of the oracle below do not undo these two; that they are gone is seen by their own letters.
ONE_WAY = {"base64 in lower case", "ASCII 85"}


@pytest.mark.sampled(50)
@pytest.mark.parametrize("way", ECHOES)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_found_however_it_is_written(key: str, way: str) -> None:
    echo = ECHOES[way](key)
    text = f"you sent {echo}, which is wrong"

    assert way in ONE_WAY or gives_away(text, key)

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
    assert redact_secrets("CORRECT-HORSE-BATTERY-STAPLE", environment) == "[DB_PASSWORD]"


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

    text = "proxy said hunter2-hunter2, the gateway ABC123DEF456GHI789"
    assert (
        redact_secrets(text, environment)
        == "proxy said [HTTPS_PROXY], the gateway [OPENAI_CUSTOM_HEADERS: X-Api-Key]"
    )
