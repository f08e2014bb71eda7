"""How well texts are masked, and what masked texts still give away: no speed.

    python benchmarks/text_masks.py

Reads `../shared/data/investorbench` beside the checkout. Prints, for the blinded mask on its news:
labelled mentions that are masked, false masking, texts dropped, identities that the leak guard
still finds; days of news on which words are left that date the text or mean one asset; and how often
two readers without a language model name the company or coin (of three)
of a text: one looks for the entities' own words, one is a naive Bayes classifier of words that was
trained on the *unmasked* news of earlier days.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from ktdeval.masking import identities_of, normalise
from support.tasks.investorbench_texts import CODES, FOLDER, market, measure, news, text_mask

#: words by which a reader dates a text or knows its asset, counted by day
TELLING = {
    "BTC": re.compile(r"halving|halvening|\bminers?\b|\bmining\b", re.IGNORECASE),
    "JNJ": re.compile("covid|coronavirus|pandemic|lockdown", re.IGNORECASE),
    "MSFT": re.compile("covid|coronavirus|pandemic|lockdown", re.IGNORECASE),
}
TEXTS_EACH = 800  # per asset, half of them to train on


def shown(kind: str, code: str) -> list[str | None]:
    """Texts of one asset as a mask shows them, asset handles all alike; None where a text is
    dropped.
    """
    lens, mask = text_mask(kind)
    texts: list[str | None] = []
    for day, text in news(code):
        prose = mask.mask(text, market().day_index(day), (CODES.index(code),))
        texts.append(
            None if prose is None else re.sub(r"asset_\d+", "asset", str(lens.render(prose)))
        )
    return texts


def telling_days(code: str, texts: list[str | None]) -> int:
    """Days of one asset's news on which a text, as it is shown, has a telling word."""
    days = (day for day, _ in news(code))
    shown_on = zip(days, texts, strict=True)
    return len({day for day, text in shown_on if text and TELLING[code].search(text)})


def words(text: str) -> list[str]:
    """Words of a text in lower case."""
    return re.findall(r"[a-z]{2,}", normalise(text).lower())


def named_by_words(texts: list[tuple[str, str]]) -> float:
    """Part of texts whose asset is the one with most of its own words in it; one without any is
    guessed, a third right.
    """
    own = {
        code: {one.text.lower() for one in market().documents.entities if one.code == code}
        for code in CODES
    }
    right = 0.0
    for code, text in texts:
        lower = text.lower()
        counts = [
            sum(
                len(re.findall(rf"(?<![a-z]){re.escape(word)}(?![a-z])", lower))
                for word in own[one]
            )
            for one in CODES
        ]
        best = [one for one, count in zip(CODES, counts, strict=True) if count == max(counts)]
        right += (code in best) / len(best)
    return right / len(texts)


def named_by_topic(train: list[tuple[str, str]], test: list[tuple[str, str]]) -> float:
    """Part of texts whose asset a multinomial naive Bayes classifier of words names."""
    counts = {
        code: Counter(word for one, text in train if one == code for word in words(text))
        for code in CODES
    }
    known = set().union(*counts.values())
    logs = {
        code: {
            word: np.log((count[word] + 0.5) / (count.total() + 0.5 * len(known))) for word in known
        }
        for code, count in counts.items()
    }
    right = 0
    for code, text in test:
        scores = [sum(logs[one][word] for word in words(text) if word in known) for one in CODES]
        right += CODES[int(np.argmax(scores))] == code
    return right / len(test)


def main() -> None:
    """Print every figure."""
    if not FOLDER.is_dir():
        raise SystemExit(
            f"{FOLDER} is not there: put InvestorBench's btc.json, jnj.json and msft.json into it"
        )
    score = measure()
    print(
        f"mentions masked: {score.masked} of {score.mentions}"
        f" ({score.masked / score.mentions:.2%}); missed: {score.missed}"
    )
    print(
        f"false masking: {score.false} of {score.hidden} spans ({score.false / score.hidden:.2%}):"
        f" {score.wrong}"
    )
    kinds = {kind: {code: shown(kind, code) for code in CODES} for kind in ("bright", "blinded")}
    guard = identities_of(market(), assets=True, dates=True)
    flat = [text for texts in kinds["blinded"].values() for text in texts]
    left = sum(guard.has_any(json.dumps(text)) for text in flat if text is not None)
    same = all(
        list(texts) == [text for _, text in news(code)] for code, texts in kinds["bright"].items()
    )
    print(
        f"texts: {len(flat)}, dropped: {flat.count(None)}, with a hit of the leak guard: {left};"
        f" bright as they are: {same}"
    )
    for code in CODES:
        days = len({day for day, _ in news(code)})
        found = [telling_days(code, kinds[kind][code]) for kind in ("bright", "blinded")]
        print(f"{code}: telling words on {found[0]} of {days} days, behind the mask on {found[1]}")

    chosen = {
        code: np.random.default_rng(0).permutation(len(news(code)))[:TEXTS_EACH] for code in CODES
    }
    halves = {code: np.sort(rows) for code, rows in chosen.items()}
    for kind, texts in kinds.items():
        test = [
            (code, texts[code][row] or "")
            for code in CODES
            for row in halves[code][TEXTS_EACH // 2 :]
        ]
        train = [
            (code, kinds["bright"][code][row] or "")
            for code in CODES
            for row in halves[code][: TEXTS_EACH // 2]
        ]
        by_words, by_topic = named_by_words(test), named_by_topic(train, test)
        chance = 1 / len(CODES)
        print(
            f"{kind}: named by own words {by_words:.1%}, by topic {by_topic:.1%}, by chance"
            f" {chance:.1%}, of {len(test)} texts"
        )


if __name__ == "__main__":
    main()
