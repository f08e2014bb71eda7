"""examples/prompts.md shows the prompts that agents send, as the code makes them.

Make it again: `PYTHONPATH=tests python tests/contract/test_prompts_page.py`
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from itertools import chain
from tempfile import TemporaryDirectory

import pytest

from support.paths import REPOSITORY
from support.tables import beside
from support.tasks.odd_figures import odd_figures
from support.tasks.prompts_page import (
    ANSWER,
    STEPS,
    Asked,
    asked_of,
    has_data,
    page_of,
    paragraphs,
    procedures,
)

PAGE = REPOSITORY / "examples/prompts.md"
TABLES = beside(__file__)
MAX_BYTES = 150_000
pytestmark = pytest.mark.exhaustive


@cache
def asked() -> dict[str, dict[str, list[Asked]]]:
    """Requests of every agent on every task of the table."""
    requests = {}
    for task in TABLES["tasks"]:
        requests[task] = {agent: asked_of(agent, task) for agent in TABLES["agents"]}

    return requests


def test_the_page_of_prompts_is_current() -> None:
    made = page_of(TABLES["head"], procedures(), asked(), TABLES["before"])
    assert PAGE.read_text("utf-8") == made, "run python tests/contract/test_prompts_page.py"


def test_the_page_of_prompts_can_be_read_and_leaves_out_no_instruction() -> None:
    text = PAGE.read_text("utf-8")
    assert len(text.encode()) <= MAX_BYTES

    for paragraph in sent_in_the_last_step():
        is_instruction = not has_data(paragraph) and ANSWER not in paragraph
        assert not is_instruction or paragraph in text


def sent_in_the_last_step() -> Iterator[str]:
    """Paragraphs that agents send in the step that the page shows."""
    for by_agent in asked().values():
        for item in chain.from_iterable(by_agent.values()):
            if item.step == STEPS - 1:
                for message in item.request.messages:
                    yield from paragraphs(message.content)


def test_no_prompt_holds_an_odd_figure() -> None:
    found: set[str] = set()
    for task, by_agent in asked().items():
        for agent, items in by_agent.items():
            for item in items:
                for message in item.request.messages:
                    odd = odd_figures(message.content)
                    found.update(f"{task}, {agent}: {each}" for each in odd)

    assert sorted(found) == []


def write_page() -> None:
    """Write the page, from markets that are generated for it."""
    with TemporaryDirectory() as folder:
        os.environ["KTDEVAL_CACHE_DIR"] = folder
        PAGE.write_text(page_of(TABLES["head"], procedures(), asked(), TABLES["before"]), "utf-8")


if __name__ == "__main__":
    write_page()
