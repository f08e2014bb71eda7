"""A reply while it is being received: what a reader sees of it, and that no secret is among it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.harness import ReplyPiece
from ktdeval_qfinzero.access.pages.playground.conversation_view import MAX_CHARS
from ktdeval_qfinzero.access.pages.playground.partial_reply import ComingReply, growth, shown_parts

PIECES = st.lists(
    st.builds(
        ReplyPiece,
        st.sampled_from(["text", "thought", "call"]),
        st.text(st.sampled_from("ab é涨\n"), max_size=4),
        st.integers(0, 1),
    ),
    max_size=12,
)


def reply_of(pieces: list[ReplyPiece]) -> ComingReply:
    coming = ComingReply()
    for piece in pieces:
        coming.add(piece)

    return coming


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(max_examples=40)
@given(PIECES, PIECES)
def test_a_reader_who_takes_what_has_grown_sees_the_reply_as_it_is(
    before: list[ReplyPiece], after: list[ReplyPiece]
) -> None:
    seen = shown_parts(reply_of(before).parts)
    now = shown_parts(reply_of([*before, *after]).parts)

    texts = []

    for at, part in enumerate(growth(seen, now)):
        texts.append(seen[at].text + part.text if part.adds else part.text)

    assert texts == [part.text for part in now]


def test_pieces_of_one_part_are_joined_and_calls_grow_side_by_side() -> None:
    coming = reply_of(
        [
            ReplyPiece("text", "I look "),
            ReplyPiece("call", "", 0, "get_"),
            ReplyPiece("call", "", 1, "list"),
            ReplyPiece("call", '{"a": ', 0, "bars"),
            ReplyPiece("text", "it up.\n"),
        ]
    )

    shown = [(part.kind, part.tool, part.text) for part in shown_parts(coming.parts)]

    assert shown == [("text", "", "I look it up.\n"), ("call", "get_bars", '{"a": '), ("call", "list", "")]  # fmt: skip

    coming.add(ReplyPiece("begun"))  # another attempt
    assert coming.parts == ()


def test_a_secret_that_comes_letter_by_letter_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "sk-0a1b2c3d4e5f6g7h8i9j"  # no real key
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    coming = ComingReply()
    shown = []

    for letter in f"The key is {secret} as you know. ":
        coming.add(ReplyPiece("text", letter))
        shown.append(shown_parts(coming.parts)[0].text)

    assert not any(secret[:5] in text for text in shown)
    assert shown[-1] == "The key is [OPENAI_API_KEY] as you know. "


def test_halves_of_a_character_become_one_and_a_long_text_is_cut() -> None:
    coming = reply_of([ReplyPiece("text", "\ud83d"), ReplyPiece("text", "\ude00 ")])
    assert shown_parts(coming.parts)[0].text == "😀 "
    coming.add(ReplyPiece("text", "涨" * 2 * MAX_CHARS))
    assert len(coming.parts[0].text) == MAX_CHARS
