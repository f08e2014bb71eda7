"""Leak audit: finds reasons not to use a recorded step as training data.

A finding gives the place and kind of a leak, and never quotes the text. It is a warning if the
model wrote the text in this step, since the step can then be omitted. It is an error if the records
are not genuine, or if the agent was shown data that it must not see.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Literal

from ktdeval.harness import Message, Reply
from ktdeval.market import NO_MARKET, MarketSnapshot
from ktdeval.masking import Lens, identities_of, normalise
from ktdeval.secrets import hide_secrets, secret_forms, secrets_of
from ktdeval.values import Finding, JsonValue, Level, dumps_canonical, loads_strict
from ktdeval_export.replayed_steps import TracedStep

Scope = Literal["prompt", "answer"]

CHECKS = (
    "the recorded replies, executed once more, give the transcript and the records",
    "no text holds an identity that its mask hides",
    "no text holds a secret",
    "no reply names a day after that of its step, unless the model was shown it",
    "no text that a model is shown holds a question's gold answer",
)
"""Checks of the audit, as listed in the metadata file."""

_DAY = re.compile(r"(?<!\d)(\d{4})\s?[-/.年]\s?(\d{1,2})\s?[-/.月]\s?(\d{1,2})(?!\d)")
_ESCAPED = re.compile(r"\\+(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_LAST_CHARACTER = 0x10FFFF
_MAX_LAYERS = 3  #: maximum nesting depth to which character escapes are decoded
_SHORTEST_GOLD = 24
"""Minimum length of a gold answer that is searched for. A shorter answer, such as a letter or a
number, occurs in many texts by chance.
"""
#: number of texts whose findings are cached, since prompts and tool descriptions repeat
_REMEMBERED = 1024


def make_finding(rule: str, where: str, message: str, by_model: bool) -> Finding:
    """Return a finding against exporting a step. `where` specifies run, episode and step. The
    finding is a warning if the model wrote the text, since the step can then be omitted.
    """
    level: Level = "warning" if by_model else "error"
    return Finding(path=where, rule=rule, message=message, level=level)


@dataclass
class Auditor:
    """Audits steps on one market. `environment` contains variables that may hold secrets."""

    market: MarketSnapshot | None
    environment: Mapping[str, str]
    _secrets: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._secrets = secrets_of(self.environment)
        self._secret_in = lru_cache(_REMEMBERED)(self._find_secret)
        self._identity_in = lru_cache(_REMEMBERED)(self._find_identity)

    def findings(self, step: TracedStep) -> Iterator[Finding]:
        """Yield each finding of a step."""
        if step.difference:
            yield make_finding(
                "replay", step.where, f"is not as recorded: {step.difference}", by_model=False
            )
            return

        for number, call in enumerate(step.calls):
            yield from self._of_messages(step, number, call.request.messages)
            for tool in call.request.tools:
                text = dumps_canonical([tool.name, tool.description, tool.parameters])
                yield from self._of_text(step, text, f"the description of tool {tool.name}")

            yield from self._of_reply(step, number, call.reply)

        yield from _later_days(step)
        yield from _gold_shown(step)

    def _of_messages(
        self, step: TracedStep, call: int, messages: Sequence[Message]
    ) -> Iterator[Finding]:
        for index, message in enumerate(messages):
            what = f"{message.role} message {index} of call {call}"
            by_model = message.role == "assistant"
            yield from self._of_text(step, message.content, what, by_model)

    def _of_text(
        self, step: TracedStep, text: str, what: str, by_model: bool = False
    ) -> Iterator[Finding]:
        """Yield the findings for a text that was shown to a model."""
        identity = self._identity(step.lens, text, "prompt")
        if identity:
            yield make_finding("identity", step.where, f"{what} holds {identity}", by_model)

        secret = self._secret_in(text)
        if secret:
            yield make_finding("secret", step.where, f"{what} holds {secret}", by_model)

    def _of_reply(self, step: TracedStep, call: int, reply: Reply) -> Iterator[Finding]:
        """Yield the findings for a reply that was written by a model."""
        what = f"the reply to call {call}"
        for text in _texts_of(reply):
            identity = self._identity(step.lens, text, "answer")
            if identity:
                yield make_finding(
                    "identity", step.where, f"{what} holds {identity}", by_model=True
                )
                return

        for text in _texts_of(reply):
            secret = self._secret_in(text)
            if secret:
                yield make_finding("secret", step.where, f"{what} holds {secret}", by_model=True)
                return

    def _identity(self, lens: Lens, text: str, scope: Scope) -> str:
        """Return the kind and position of a hidden identity in a text; empty if the text contains
        none.
        """
        if not (lens.hides_assets or lens.hides_dates):
            return ""
        return self._identity_in(lens.hides_assets, lens.hides_dates, text, scope)

    def _find_identity(self, assets: bool, dates: bool, text: str, scope: Scope) -> str:
        index = identities_of(self.market or NO_MARKET, assets=assets, dates=dates)
        hits = index.find(text, scope)
        if not hits:
            return ""

        hit = hits[0]
        return f"a {hit.kind} at characters {hit.start}…{hit.end}, which the mask hides"

    def _find_secret(self, text: str) -> str:
        """Return the kind of a secret in a text; empty for a text without secrets."""
        if hide_secrets(text, self._secrets) != text:
            return "the value of a secret variable"

        for form in secret_forms():
            if form.pattern.search(text):
                return form.kind

        return ""


def _texts_of(reply: Reply) -> Iterator[str]:
    """Yield the texts of a reply as a trainer reads them, and further readings of the same texts.
    Arguments are read both as written and decoded. All texts are also joined, since a name may be
    spread over several fields. Each text is repeated with its escaped characters decoded.
    """
    plain = [reply.content]
    for call in reply.tool_calls:
        plain += [call.name, call.arguments, *decoded_texts(call.arguments)]

    together = [text for text in plain if text and not text.lstrip().startswith(("{", "["))]
    for text in (*plain, "\n".join(together)):
        yield text
        yield from _undo_spellings(text)


def _undo_spellings(text: str) -> Iterator[str]:
    """Yield a text with escaped characters, as in JSON or HTML, decoded. This is repeated a few
    times, since decoding can reveal further escapes.
    """
    for _ in range(_MAX_LAYERS):
        respelled = html.unescape(_ESCAPED.sub(_character, text))
        if respelled == text:
            return

        yield respelled
        text = respelled


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape, or the escape itself if its number is invalid."""
    number = int(match[1] or match[2] or match[3], 16)
    return chr(number) if number <= _LAST_CHARACTER else match[0]


def decoded_texts(arguments: str) -> Iterator[str]:
    """Yield the texts in the JSON arguments of a call; nothing if the arguments are not JSON."""
    try:
        value = loads_strict(arguments)
    except (ValueError, RecursionError):
        return

    yield from _leaves(value)


def _leaves(value: JsonValue) -> Iterator[str]:
    """Yield each text in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)


def _later_days(step: TracedStep) -> Iterator[Finding]:
    """Yield a finding for the first reply that mentions a day later than the step's day, unless the
    model was shown that day in this step.
    """
    if not step.decided_on or step.lens.hides_dates:
        return  # if days are hidden, they are found as identities

    today = date.fromisoformat(step.decided_on)
    for number, call in enumerate(step.calls):
        shown = [each.content for each in call.request.messages if each.role != "assistant"]
        later = _days_in(_texts_of(call.reply)) - _days_in(shown)
        named = sorted(day for day in later if day > today)
        if named:
            what = f"the reply to call {number} names {named[0]}, after the step's day {today}"
            yield make_finding("later-day", step.where, what, by_model=True)
            return


def _days_in(texts: Iterable[str]) -> set[date]:
    """Return the days that are written in digits in the texts."""
    days = set()
    for text in texts:
        for match in _DAY.finditer(normalise(text)):
            try:
                days.add(date(*map(int, match.groups())))
            except ValueError:  # not a calendar day
                continue

    return days


def _gold_shown(step: TracedStep) -> Iterator[Finding]:
    """Yield a finding if a message shows a gold answer that the model has not written yet."""
    golden = _gold_texts(step.facts)
    if not golden or not step.calls:
        return

    # a text in the question itself is not an answer
    question = "".join(map(_squeeze_text, step.question))
    for number, call in enumerate(step.calls):
        written = ""
        for message in call.request.messages:
            text = _squeeze_text(message.content)
            if message.role == "assistant":
                written += text + "".join(
                    _squeeze_text(each.arguments) for each in message.tool_calls
                )
                continue

            for name, gold in golden:
                if gold in text and gold not in written and gold not in question:
                    what = f"a {message.role} message of call {number} shows the gold fact {name!r}"
                    yield make_finding("gold", step.where, what, by_model=False)
                    return


def _gold_texts(facts: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Return the name and the text, without spaces, of each fact that is long enough to be
    recognised. Lists and objects yield their JSON and all of their parts.
    """
    golden = []
    for name, value in facts.items():
        for text in _parts(value):
            squeezed = _squeeze_text(text)
            if len(squeezed) >= _SHORTEST_GOLD:
                golden.append((name, squeezed))

    return golden


def _parts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield dumps_canonical(value)
        for item in value.values():
            yield from _parts(item)
    elif isinstance(value, list):
        yield dumps_canonical(value)
        for item in value:
            yield from _parts(item)


def _squeeze_text(text: str) -> str:
    return "".join(text.split())
