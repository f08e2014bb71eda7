"""Prompts that do not fit the model's context are known before they are paid: by a real server that
counts what it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ktdeval.calls.costs.context_window import ContextWindow, ways_out
from ktdeval.calls.failures.context_refusals import Context, ContextExceeded
from ktdeval.errors import ProviderError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Usage
from ktdeval_models.remote.params import CompatibleParams
from ktdeval_models.remote.vendors.openai import make_compatible
from support.providers.adapter_server import Prepared, prepared
from support.providers.call_clients import RunClients
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()

LIMIT = 1000  # tokens of the server's context
ROOM = 100  # tokens of a reply
BYTES_A_TOKEN = 4  # as the server counts


def ask(tokens: int) -> ModelRequest:
    """A request whose prompt the server counts as so many tokens."""
    text = ("x" * (BYTES_A_TOKEN - 1) + " ") * tokens
    return ModelRequest(
        (Message("user", text),), params=CallParams(max_output_tokens=ROOM, timeout_s=60.0)
    )


@dataclass
class Server:
    """A server that refuses long prompts in its own words, and counts how often it was asked."""

    refusal: Callable[[int], tuple[int, Any]]
    counts: list[int] = field(default_factory=list)

    def answer(self, body: Any) -> Prepared:
        tokens = sum(len(message["content"]) for message in body["messages"]) // BYTES_A_TOKEN
        self.counts.append(tokens)
        if tokens + body["max_tokens"] > LIMIT:
            status, error = self.refusal(tokens)
            return Prepared(error, status)

        message = {"role": "assistant", "content": "Fine."}
        usage = {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}

        return Prepared(
            {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        )


def of_openai(tokens: int) -> tuple[int, Any]:
    words = (
        f"This model's maximum context length is {LIMIT} tokens. However, your messages resulted in"
        f" {tokens} tokens."
    )
    return 400, {"error": {"message": words, "code": "context_length_exceeded"}}


def of_few_words(tokens: int) -> tuple[int, Any]:
    return 400, {"error": {"message": "Your input exceeds the context window of this model."}}


def of_llama_cpp_python(tokens: int) -> tuple[int, Any]:
    return 500, {
        "error": {"message": f"Requested tokens ({tokens}) exceed context window of {LIMIT}"}
    }


SERVERS = [of_openai, of_few_words, of_llama_cpp_python]


def asking(run: RunClients, address: str, **settings: Any) -> Any:
    """What an episode asks through, of a run with few retries that goes on whatever fails."""
    model = make_compatible("openai_compatible", "m", CompatibleParams(base_url=f"{address}/v1"))
    model.connect()
    return run.client(model, **{"max_failures": 100, **settings}).for_episode("e1")


def is_refused(episode: Any, tokens: int) -> bool:
    try:
        episode.reply(ask(tokens))
    except ContextExceeded:
        return True

    return False


# ---- learnt from a refusal


@pytest.mark.parametrize("refusal", SERVERS)
def test_after_one_refusal_no_longer_prompt_is_sent(refusal: Any, run: RunClients) -> None:
    server = Server(refusal)
    with prepared(server.answer) as listening:
        episode = asking(run, listening.address)
        results = [
            is_refused(episode, tokens) for tokens in (300, 1500, 1501, 1600, 4000, 400, 2000)
        ]

    assert results == [False, True, True, True, True, False, True]
    assert server.counts == [300, 1500, 400], "one refusal, and no retry of it"

    outcomes = [record.outcome for record in run.records()]
    assert outcomes.count("context_exceeded") == 5, "one that is not sent is recorded, too"


def test_the_numbers_of_a_refusal_tell_of_shorter_prompts(run: RunClients) -> None:
    server = Server(of_openai)
    with prepared(server.answer) as listening:
        episode = asking(run, listening.address)
        results = [is_refused(episode, tokens) for tokens in (1500, 950, 880, 920)]

    assert results == [True, True, False, True]
    assert server.counts == [1500, 880]


def test_a_prompt_longer_than_the_users_limit_is_never_sent(run: RunClients) -> None:
    server = Server(of_openai)
    with prepared(server.answer) as listening:
        episode = asking(run, listening.address, context_tokens=LIMIT)
        with pytest.raises(ContextExceeded) as caught:
            episode.reply(ask(4000))

    assert server.counts == []
    assert "openai_compatible/m: a prompt of about" in str(caught.value)
    assert "the context is 1,000 tokens (--context-tokens); it was not sent" in str(caught.value)


def test_prompts_that_never_fit_stop_the_run(run: RunClients) -> None:
    server = Server(of_openai)
    with prepared(server.answer) as listening:
        episode = asking(run, listening.address, context_tokens=LIMIT, max_failures=3)
        for _ in range(2):
            assert is_refused(episode, 4000)

        with pytest.raises(
            ProviderError, match="3 calls in a row failed for good, the last with context_exceeded"
        ):
            episode.reply(ask(4000))

    assert server.counts == []


def test_a_refusal_that_contradicts_an_answer_teaches_nothing() -> None:
    window = ContextWindow()
    window.note_count(ask(800), Usage(800, 10))
    window.note_refusal(ask(500), ContextExceeded("too long", Context(400, "as it says"), 500))
    window.check(ask(700))

    assert window.context is None


def test_a_prompt_that_may_have_been_cut_is_judged_by_its_bytes() -> None:
    """Ollama counts what it has left of a prompt."""
    cutting = ContextWindow(
        Context(1000, "(its server's /api/ps)", holds_reply=False, cuts_prompts=True)
    )
    cutting.note_count(ask(3000), Usage(1000, 10))

    with pytest.raises(ContextExceeded):
        cutting.check(ask(3000))


# ---- both numbers, and both ways out


def test_a_lower_limit_of_the_reply_is_proposed_where_it_would_help() -> None:
    context = Context(10_000, "(--context-tokens)")
    assert ways_out(7_000, context, 4096) == (
        "use a context of at least 11,096 tokens, lower --max-output-tokens to 3,000, or"
        " choose a task and an agent with shorter prompts"
    )
    assert "--max-output-tokens" not in ways_out(9_900, context, 4096), "no room for a reply"
    assert "--max-output-tokens" not in ways_out(12_000, context, 4096)

    prompt_only = replace(context, holds_reply=False)
    assert ways_out(12_000, prompt_only, 4096).startswith("use a context of at least 12,000")


# ---- a reply that was cut


def test_the_user_is_told_once_of_cut_replies(
    run: RunClients, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(body: Any) -> Prepared:
        usage = {"prompt_tokens": 9, "completion_tokens": body["max_tokens"]}
        message = {"role": "assistant", "content": "First"}
        return Prepared(
            {"choices": [{"message": message, "finish_reason": "length"}], "usage": usage}
        )

    with prepared(answer) as listening:
        episode = asking(run, listening.address)
        for tokens in (20, 30, 40):
            episode.reply(ask(tokens))

    (said,) = [record.getMessage() for record in caplog.records]

    assert said == (
        "openai_compatible/m: a reply was cut at 100 tokens; raise --max-output-tokens (shown once;"
        " cards count all such replies as truncated)"
    )


def test_a_reply_cut_by_the_context_is_not_helped_by_a_higher_limit(
    run: RunClients, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"prompt_tokens": 960, "completion_tokens": 40}
    choice = {"message": {"role": "assistant", "content": "First"}, "finish_reason": "length"}
    with prepared(Prepared({"choices": [choice], "usage": usage})) as listening:
        asking(run, listening.address).reply(ask(960))

    assert "cut at 40 tokens, below --max-output-tokens 100: its context was full" in caplog.text
    assert "raise --max-output-tokens" not in caplog.text


@pytest.mark.parametrize(
    ("given", "stated", "in_force"),
    [
        (1000, 999, "the server"),
        (1000, 1000, "the user"),
        (1000, 1001, "the user"),
        (None, 1000, "the server"),
    ],
)
def test_the_users_word_on_the_context_stands_unless_the_server_takes_less(
    given: int | None, stated: int, in_force: str
) -> None:
    window = ContextWindow(None if given is None else Context(given, "the user"))

    window.learn(Context(stated, "the server"))
    window.learn(None)

    assert window.context is not None
    assert window.context.source == in_force


@pytest.mark.parametrize("cuts", [False, True])
def test_a_server_cuts_no_prompts_unless_it_is_known_to(cuts: bool) -> None:
    stated = Context(1000, "the server")
    if cuts:
        stated = Context(1000, "the server", cuts_prompts=True)

    assert ContextWindow(stated).cuts_prompts is cuts
    assert not ContextWindow().cuts_prompts
