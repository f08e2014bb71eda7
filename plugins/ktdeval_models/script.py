"""Model that answers from a file: a scripted conversation, without a key or a network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from ktdeval.errors import ConfigError, ModelError, os_reason
from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval.values import (
    JsonValue,
    Value,
    dumps_canonical,
    from_plain,
    parse_yaml,
    read_plain,
    sha256_hex,
    user_path,
)
from ktdeval_models.params import ScriptParams

MAX_BYTES = 8 << 20
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Kind = Annotated[str, msgspec.Meta(pattern=r"^[a-z_]+\Z")]


class Turn(Value):
    """One reply: a text, calls of tools, a submission, or a failure."""

    text: str = ""
    call: str = ""  #: name of a tool to call with `arguments`
    arguments: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    #: arguments of the step's submit tool, whatever the tool's name (programs may prefix it with
    #: the name of their server)
    submit: dict[str, JsonValue] | None = None
    #: string that is sent unchanged as the arguments of `call` or of the submit tool; it may be
    #: broken JSON
    raw: str | None = None
    fail: _Kind | None = None  #: the call fails with a ModelError of this kind


Turns = tuple[Turn | str, ...] | Turn | str
"""Replies of one conversation, one for each turn. The last reply is repeated in any further turns.
A string stands for a turn with this text.
"""


class StepRule(Value):
    """Replies at one step or sample."""

    step: Annotated[int, msgspec.Meta(ge=0)]
    replies: Turns


class PatternRule(Value):
    """Replies to requests that match a regular expression."""

    pattern: _Text  #: searched for in the system and user messages of the request
    replies: Turns


class Script(Value):
    """Contents of a script. The first part that fits a request is used: `steps`, `patterns`,
    `answers`, `otherwise`.
    """

    steps: tuple[StepRule, ...] = ()
    patterns: tuple[PatternRule, ...] = ()
    answers: tuple[Turns, ...] = ()  #: replies of step 0, 1, 2 …
    otherwise: Turns = ()  #: replies of all other steps


class ScriptModel:
    """Answers each request from a script; see `Script`.

    It keeps no state: the assistant messages in a request tell which turn of the conversation comes
    next.
    """

    def __init__(self, _name: str, params: ScriptParams) -> None:
        """Read the script. Raises ConfigError, which names file and field, if the script can't be
        read or is invalid.
        """
        path = user_path(params.file)
        self._where = params.file
        script, digest = load_script(path, params.file)
        if params.sha256 not in (None, digest):
            raise ConfigError(
                f"{params.file}: has the SHA-256 {digest}, expected {params.sha256}: the script"
                " has changed since the run began; restore it, or begin another run"
            )

        self._steps = {rule.step: _turns(rule.replies) for rule in script.steps}
        self._patterns = [
            (re.compile(rule.pattern), _turns(rule.replies)) for rule in script.patterns
        ]
        self._otherwise = _turns(script.otherwise)
        self._answers = [_turns(replies) for replies in script.answers]
        self.traits = ModelTraits(is_free=True, recorded_args={"sha256": digest})

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises ModelError if the script says so, or if it has no answer."""
        replies = self._replies(request)
        if not replies:
            raise ModelError(
                "no_scripted_answer",
                f"{self._where}: no answer for step {request.step}; add it under steps, or under"
                " otherwise",
            )

        turns = sum(message.role == "assistant" for message in request.messages)
        turn = replies[min(turns, len(replies) - 1)]
        if turn.fail is not None:
            raise ModelError(turn.fail, f"{self._where}: the script lets this call fail")

        return _reply(turn, request)

    def _replies(self, request: ModelRequest) -> Sequence[Turn]:
        step = request.step
        if step in self._steps:
            return self._steps[step]

        shown = "\n".join(
            message.content for message in request.messages if message.role in ("system", "user")
        )
        for pattern, replies in self._patterns:
            if pattern.search(shown):
                return replies

        if step is not None and step < len(self._answers):
            return self._answers[step]
        return self._otherwise


def _reply(turn: Turn, request: ModelRequest) -> Reply:
    tool = turn.call
    arguments = dumps_canonical(turn.arguments)
    if turn.submit is not None:
        tool = request.submit_tool
        arguments = dumps_canonical(turn.submit)

    if turn.raw is not None:
        tool = tool or request.submit_tool
        arguments = turn.raw

    if not tool:
        return Reply(turn.text)
    if not request.tools:
        # A program also asks for titles or summaries, where no tool can be called.
        return Reply(turn.text or "Nothing to call.")

    tool = _name_on_offer(tool, request)
    number = 1 + sum(len(message.tool_calls) for message in request.messages)
    call = ToolCall(f"call_{number}", tool, arguments)
    return Reply(turn.text, (call,), "tool_calls")


def _name_on_offer(tool: str, request: ModelRequest) -> str:
    """Return the name under which a request offers a tool. Programs prefix tool names with the name
    of their server, as in `mcp__ktdeval__submit_action`.
    """
    names = [spec.name for spec in request.tools]
    if tool in names:
        return tool

    for name in names:
        if re.search(rf"[^A-Za-z0-9]{re.escape(tool)}\Z", name):
            return name
    return tool


def load_script(path: Path, where: str) -> tuple[Script, str]:
    """Return a script in YAML or JSON, and the SHA-256 of its file. Raises ConfigError, which names
    file and field, if the file can't be read, or has an unknown key, a turn without content, an
    invalid regular expression, or no answer at all.
    """
    try:
        data = read_plain(path, MAX_BYTES)
    except OSError as error:
        raise ConfigError(
            f"{where}: {os_reason(error, 'give the path of a script with file=PATH')}"
        ) from error

    content = parse_yaml(data, where)
    script = from_plain(content, Script, where, ConfigError)
    if script == Script():
        raise ConfigError(f"{where}: has no answer; give steps, patterns, answers or otherwise")

    for key, replies in _all_turns(script):
        _check_turns(_turns(replies), f"{where}: {key}")

    for number, rule in enumerate(script.patterns):
        try:
            re.compile(rule.pattern)
        except re.error as error:
            raise ConfigError(
                f"{where}: patterns[{number}].pattern: not a regular expression: {error}"
            ) from error

    return script, sha256_hex(data)


def _turns(replies: Turns) -> Sequence[Turn]:
    """Return replies with each shorthand expanded."""
    several = replies if isinstance(replies, tuple) else (replies,)
    return [Turn(text=turn) if isinstance(turn, str) else turn for turn in several]


def _all_turns(script: Script) -> Iterator[tuple[str, Turns]]:
    """Yield all replies of a script, each with its position in the file."""
    for number, step in enumerate(script.steps):
        yield f"steps[{number}].replies", step.replies
    for number, rule in enumerate(script.patterns):
        yield f"patterns[{number}].replies", rule.replies
    for number, answer in enumerate(script.answers):
        yield f"answers[{number}]", answer
    if script.otherwise != ():
        yield "otherwise", script.otherwise


def _check_turns(turns: Sequence[Turn], where: str) -> None:
    if not turns:
        raise ConfigError(f"{where}: has no turn; give a text, a call or a submission")

    for number, turn in enumerate(turns):
        place = f"{where}[{number}]"
        if turn == Turn():
            raise ConfigError(f"{place}: is empty; give text, call, submit, raw or fail")
        if turn.submit is not None and (turn.call or turn.raw is not None):
            raise ConfigError(f"{place}: submit can't be combined with call or raw; leave one out")
        if turn.arguments and (not turn.call or turn.raw is not None):
            raise ConfigError(f"{place}: arguments need a call, and no raw; name the tool")
        if turn.fail is not None and turn != Turn(fail=turn.fail):
            raise ConfigError(f"{place}: fail can't be combined with anything; leave the rest out")
