"""Secrets inside, over and beside each other, against a reading of the text character by character;
and which of these the texts have met.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from hypothesis import given, strategies as st

from ktdeval.secrets.redaction import PIECE, hide_secrets
from support.providers.echoes import gives_away
from support.searching import examples

#: no two begin alike, so that no secret overlaps itself
WORDS = ("alpine ", "beacon ", "cobalt ", "dynamo ", "ember ", "falcon ")
FILLERS = ("the ", "is ", "not ")
Reach = Counter[str]

ends = st.sampled_from(list(combinations(range(len(WORDS) + 1), 2)))
#: secrets as runs of words, such as words 1 to 3
runs = st.lists(ends.filter(lambda run: run[1] - run[0] > 1), min_size=2, max_size=4, unique=True)
#: what is written: runs of words, with something else between some of them
written = st.lists(st.one_of(ends, st.sampled_from(FILLERS)), min_size=1, max_size=5)


def phrase(run: Sequence[int]) -> str:
    return "".join(WORDS[run[0] : run[1]])


def hidden(text: str, secrets: Mapping[str, str]) -> str:
    """The text as it must be printed: whatever begins inside what is hidden is hidden to its end."""
    shown = ""
    at = 0
    while at < len(text):
        begins = {name: value for name, value in secrets.items() if text.startswith(value, at)}
        if not begins:
            shown += text[at]
            at += 1
            continue

        longest = max(begins, key=lambda name: len(begins[name]))
        shown += f"[{longest}]"
        end = at + 1
        while at < end:
            for value in secrets.values():
                if text.startswith(value, at):
                    end = max(end, at + len(value))
            at += 1

    return shown


def met(text: str, secrets: Sequence[str]) -> set[str]:
    """Name how the secrets in a text lie to each other."""
    spans = []
    for secret in secrets:
        start = text.find(secret)
        while start >= 0:
            spans.append((start, start + len(secret)))
            start = text.find(secret, start + 1)

    found = set()
    for (start, end), (other, other_end) in combinations(sorted(spans), 2):
        if start == other:
            found.add("same start")
        elif other == end:
            found.add("side by side")
        elif other > end:
            found.add("apart")
        elif other_end == end:
            found.add("same end")
        elif other_end < end:
            found.add("nested")
        else:
            found.add("overlapping")

    return found


LIES = {"same start", "side by side", "apart", "same end", "nested", "overlapping"}


def test_secrets_of_words_are_hidden_whole_however_they_lie() -> None:
    reach: Reach = Counter()

    @examples(300)
    @given(runs, written)
    def check(runs: list[tuple[int, int]], written: list[tuple[int, int] | str]) -> None:
        secrets = {f"KEY_{number}": phrase(run) for number, run in enumerate(runs)}
        parts = [part if isinstance(part, str) else phrase(part) for part in written]
        text = "".join(parts)

        assert hide_secrets(text, secrets) == hidden(text, secrets)
        reach.update(met(text, list(secrets.values())))

    check()
    assert reach.keys() >= LIES, f"never met: {sorted(LIES - reach.keys())}"


def test_random_secrets_leave_no_piece_however_they_lie() -> None:
    """Secrets cut out of one random text; only what no piece of them covers is printed."""
    reach: Reach = Counter()
    cuts = st.tuples(st.integers(0, 44), st.integers(PIECE, 20))

    @examples(200)
    @given(st.integers(0, 2**32), st.lists(cuts, min_size=2, max_size=3, unique=True))
    def check(seed: int, cuts: list[tuple[int, int]]) -> None:
        chance = random.Random(seed)
        text = "".join(chance.choice("abcdefghjkmnpqrstuvwxyzABCDEFGH23456789") for _ in range(64))
        # a secret is random if it has a letter and a digit
        text = text[:4] + "".join(
            sign if place % 5 else str(place % 10) for place, sign in enumerate(text[4:])
        )
        secrets = {f"KEY_{number}": text[at : at + size] for number, (at, size) in enumerate(cuts)}
        shown = hide_secrets(text, secrets)

        for secret in secrets.values():
            assert not gives_away(shown, secret)

        covered = set()
        for at, size in cuts:
            covered.update(range(at, at + size))
        rest = "".join(sign for place, sign in enumerate(text) if place not in covered)
        for name in secrets:
            shown = shown.replace(f"[{name}]", "")
        assert shown == rest
        reach.update(met(text, list(secrets.values())))

    check()
    wanted = {"same start", "nested", "overlapping", "apart"}
    assert reach.keys() >= wanted, f"never met: {sorted(wanted - reach.keys())}"
