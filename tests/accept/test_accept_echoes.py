"""A server writes the key that it was sent into all places of its answers, in many encodings;
nothing that is left behind has it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from echo_server import ERRORS, PLACES, echoing
from echoes import ECHOES, gives_away
from run_support import SAME_MASK, Done, ktdeval
from stub_provider import skip_without_sdks
from stub_runs import apart, contents

skip_without_sdks()

KEY = "sk-proj-Zq7RkV2mXw9TtPzBn4LsYc6GhJd8"
ENVIRONMENT = {"OPENAI_COMPATIBLE_API_KEY": KEY}
RUN = (
    "--model",
    "openai_compatible/echo",
    "--cache",
    "run",
    "--price",
    "input=2,output=8",
    *SAME_MASK,
)
LIMITS = (
    "--canary",
    1,
    "--max-failures",
    1000,
    "--max-retries",
    1,
    "--max-wait-s",
    5,
    "--tool-protocol",
    "native",
)


def pieces(sent: list[str]) -> dict[str, str]:
    """Return each third of what the server wrote, of 12 letters at least, and what it is of."""
    found = {}
    for echo in dict.fromkeys(sent):
        letters = letters_of(echo)
        size = max(12, len(letters) // 3)
        found |= {letters[at : at + size]: echo for at in range(0, len(letters) - size + 1, size)}

    return found


def letters_of(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def traces(of: dict[str, str], text: str) -> list[str]:
    letters = letters_of(text)
    return [echo for piece, echo in of.items() if piece in letters]


#: What reaches the client by another road than its neighbours; the others are exhaustive
QUICK_PLACES = ("in_an_error_inside", "in_the_finish_reason")


@pytest.mark.exhaustive
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "place",
    [
        *QUICK_PLACES,
        *(
            pytest.param(place, marks=pytest.mark.exhaustive)
            for place in (*PLACES, *ERRORS)
            if place not in QUICK_PLACES
        ),
    ],
)
def test_no_encoding_of_the_key_reaches_a_file_or_the_terminal(
    market: Path, tmp_path: Path, place: str
) -> None:
    with echoing(place) as (address, sent):
        words = (
            *RUN,
            *LIMITS,
            *apart(4, 2),
            "--base-url",
            address,
            "--data",
            market,
            "--out",
            "run",
        )
        done = ktdeval(*words, cwd=tmp_path, environment=ENVIRONMENT)

    runs = [done]
    if (tmp_path / "run" / "cards").is_dir():
        for command in (
            ("view",),
            ("card", "show"),
            ("card", "verify"),
            ("score",),
            ("view", "report"),
            ("compare", "rationale"),
        ):
            runs.append(ktdeval(*command, "run", cwd=tmp_path, environment=ENVIRONMENT))

    assert sent

    if place != "a refusal":
        assert len(sent) >= len(ECHOES), "each encoding was sent"

    of = pieces(sent)
    for each in runs:
        assert_untraced(of, each)

    texts = {data.decode("latin-1"): path.name for path, data in contents(tmp_path)}

    assert len(texts) > 3

    found = [(name, left) for text, name in texts.items() if (left := traces(of, text))]
    assert found == []


def assert_untraced(of: dict[str, str], done: Done) -> None:
    assert "Traceback" not in done.err
    printed = done.out + done.err
    assert traces(of, printed) == []
    assert not gives_away(printed[-2000:], KEY)


def test_the_search_finds_each_encoding_in_a_file(tmp_path: Path) -> None:
    """The search itself: a file with all of them has a trace of each."""
    sent = [write(KEY) for write in ECHOES.values()]
    (tmp_path / "file").write_text(" and ".join(sent))
    (data,) = [data for path, data in contents(tmp_path) if b" and " in data]
    text = data.decode()

    assert [echo for echo in sent if not traces(pieces([echo]), text)] == []
