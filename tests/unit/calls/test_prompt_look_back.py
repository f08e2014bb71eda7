"""How far before a mark a prompt cache looks for what it has kept."""

from __future__ import annotations

import pytest

from ktdeval.calls import PromptBlock, PromptCache, PromptCacheRules
from ktdeval.calls.costs.prompt_size import USUAL_TOKENS
from ktdeval.harness.chat_messages import Message, ModelRequest

BLOCK = "word " * 400


def blocks(request: ModelRequest) -> list[PromptBlock]:
    """One block a message; the last is marked."""
    made = [PromptBlock(message.content) for message in request.messages[:-1]]
    return [*made, PromptBlock(request.messages[-1].content, is_marked=True)]


def asked(count: int) -> ModelRequest:
    return ModelRequest(tuple(Message("user", f"{number} {BLOCK}") for number in range(count)))


@pytest.mark.parametrize("look_back", [1, 3, 20])
def test_a_cache_looks_up_as_many_blocks_as_its_rules_say_with_the_marked_one(
    look_back: int,
) -> None:
    rules = PromptCacheRules("any", min_tokens=1, blocks=blocks, look_back=look_back)
    kept = 2
    found = []
    for added in range(look_back + 2):
        cache = PromptCache(rules, USUAL_TOKENS)
        whole = cache.ask(asked(kept), 0.0).total
        read = cache.ask(asked(kept + added), 1.0).read
        assert read in (0.0, whole)
        found.append(read > 0)

    assert found == [added < look_back for added in range(look_back + 2)]
