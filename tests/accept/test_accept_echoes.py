"""A server writes the key that it was sent into all places of its answers, in each form that is looked for;
nothing that is left behind has it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.providers.echo_server import ERRORS, PLACES, echoing
from support.providers.echoes import ECHOES, gives_away
from support.providers.stub_provider import skip_without_sdks
from support.providers.stub_runs import apart, contents
from support.runs.run_support import SAME_MASK, ktdeval

skip_without_sdks()

KEY = "sk-proj-Zq7RkV2mXw9TtPzBn4LsYc6GhJd8"
ENVIRONMENT = {"OPENAI_COMPATIBLE_API_KEY": KEY}
RUN = (
    "--model openai_compatible/echo --cache run --price input=2,output=8 --out run --canary 1"
    " --max-failures 1000 --max-retries 1 --max-wait-s 5 --tool-protocol native"
)
MAX_RUNS = 3
COMMANDS = ("view", "card show", "card verify", "score", "view report", "compare rationale")


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", [*PLACES, *ERRORS])
def test_no_form_of_the_key_reaches_a_file_or_the_terminal(
    market: Path, tmp_path: Path, place: str
) -> None:
    with echoing(place) as (address, sent):
        words = (*apart(4, 2), *SAME_MASK, "--base-url", address, "--data", market)
        runs = []
        # An outage stops a run, and how many calls are under way then is chance; the same command goes on.
        while len(sent) < len(ECHOES) and len(runs) < MAX_RUNS:
            runs.append(ktdeval(*RUN.split(), *words, cwd=tmp_path, environment=ENVIRONMENT))

    if (tmp_path / "run" / "cards").is_dir():
        for command in COMMANDS:
            runs.append(ktdeval(*command.split(), "run", cwd=tmp_path, environment=ENVIRONMENT))

    assert sent

    if place != "a refusal":
        assert len(sent) >= len(ECHOES), "each form was sent"

    for each in runs:
        assert "Traceback" not in each.err
        assert not gives_away(each.out + each.err, KEY)

    texts = {data.decode("latin-1"): path.name for path, data in contents(tmp_path)}

    assert len(texts) > 3
    assert [name for text, name in texts.items() if gives_away(text, KEY)] == []


@pytest.mark.parametrize("way", ECHOES)
def test_the_search_finds_each_form_in_a_file(tmp_path: Path, way: str) -> None:
    """The search itself, in a file of the test's own."""
    (tmp_path / "file").write_text(f"a text and {ECHOES[way](KEY)} and more")
    (data,) = [data for path, data in contents(tmp_path) if b" and " in data]

    assert gives_away(data.decode(), KEY)
