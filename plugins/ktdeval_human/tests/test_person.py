"""A person as a model: acts become replies, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ktdeval.errors import ConfigError, ProviderError
from ktdeval.harness import Message, ModelRequest, ToolSpec, model_traits
from ktdeval_human import TerminalParams
from ktdeval_human.person import Act, Called, Person, PersonWords
from ktdeval_human.shown import ShownRequest
from ktdeval_human.terminal import at_terminal

SCREEN = ToolSpec("screen", "Ranks names.", {"type": "object", "properties": {}})
SUBMIT = ToolSpec("submit_action", "Submits.", {"type": "object", "properties": {}})
RESEARCH = ModelRequest(
    (Message("user", "Decide."),), tools=(SCREEN, SUBMIT), submit_tool="submit_action", step=0
)
SUBMISSION = replace(RESEARCH, tool_choice="submit_action")


class Scripted:
    """A desk with acts that were written down."""

    def __init__(self, *acts: Act) -> None:
        self._acts: Iterator[Act] = iter(acts)
        self.moments: list[ShownRequest] = []

    def ask(self, moment: ShownRequest) -> Act:
        self.moments.append(moment)
        return next(self._acts)


def seated(*acts: Act) -> tuple[Person, Scripted]:
    desk = Scripted(*acts)
    return Person(lambda: desk), desk


def test_a_submission_that_ends_the_research_is_not_asked_for_twice() -> None:
    submitted = Called("submit_action", '{"orders": []}')
    person, desk = seated(submitted)

    person.reply(RESEARCH)
    again = person.reply(SUBMISSION)

    assert again.tool_calls[0].arguments == submitted.arguments
    assert len(desk.moments) == 1


@pytest.mark.parametrize("change", [{"step": 1}, {"role": "trader"}])
def test_a_submission_of_another_question_is_never_sent_again(change: dict[str, object]) -> None:
    person, desk = seated(Called("submit_action", "{}"), Called("submit_action", '{"a": 1}'))

    person.reply(RESEARCH)
    reply = person.reply(replace(SUBMISSION, **change))  # type: ignore[arg-type]

    assert reply.tool_calls[0].arguments == '{"a": 1}'
    assert len(desk.moments) == 2


def test_a_refused_submission_is_asked_for_again() -> None:
    person, desk = seated(Called("submit_action", "{}"), Called("submit_action", '{"a": 1}'))

    person.reply(RESEARCH)
    person.reply(SUBMISSION)
    reply = person.reply(SUBMISSION)

    assert reply.tool_calls[0].arguments == '{"a": 1}'
    assert len(desk.moments) == 2


def test_a_person_is_asked_one_thing_at_a_time() -> None:
    class Asked:
        def ask(self, _moment: ShownRequest) -> Act:
            with pytest.raises(ProviderError, match="only one step at a time"):
                person.reply(RESEARCH)
            return PersonWords("one")

    person = Person(Asked)

    assert person.reply(RESEARCH).content == "one"


def test_who_leaves_fails_no_call_and_can_be_asked_again() -> None:
    class Leaving:
        def ask(self, _moment: ShownRequest) -> Act:
            raise KeyboardInterrupt

    person = Person(Leaving)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            person.reply(RESEARCH)


def test_a_person_costs_nothing_and_draws_no_chance() -> None:
    traits = model_traits(seated()[0])

    assert (traits.is_free, traits.is_person, traits.draws_chance) == (True, True, False)


def test_a_name_that_a_file_could_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="who: 'a/b' is not a name"):
        at_terminal("", TerminalParams(who="a/b"))
