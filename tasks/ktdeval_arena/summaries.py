"""Daily summaries of articles of many sources: stories of an asset and day, what is left out and why (`mis.yaml`), what reports the
same; and their summaries, as an extract without any model, or as a model's answers in a run of their own.

A day begins after the close of the session before and ends with its own close, equality included: nothing that became known later
is part of it. An article is compared with the stories of its asset in the last days by the Jaccard index of their runs of three
words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, zip_longest
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from ktdeval.api import QATask, Spec, hookimpl
from ktdeval.cli import check_finished, run_shown
from ktdeval.config import RunConfig
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market import Close, Document, Venue, sessions
from ktdeval.masking import shorten
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder
from ktdeval.yamlio import load_yaml

MIS: Mapping[str, Any] = load_yaml(Path(__file__).with_name("mis.yaml"))
_WORD = re.compile(r"\w+")
_DAY = np.timedelta64(1, "D")


@dataclass
class Story:
    """Articles of an asset and day that report the same."""

    article: Document  #: known first
    row: int  #: of its session
    sources: list[str]  #: in the order in which they reported it, each once
    size: int = 0  #: runs of words


class NewsDay(NamedTuple):
    """Stories of an asset and day."""

    asset: str
    day: str  #: ISO
    begins: datetime  #: close of the session before
    cutoff: datetime  #: its own close
    stories: Sequence[Story]  #: reported by most sources first, outlets taken in turn

    @property
    def id(self) -> str:
        """Name in records, such as `TSLA/2025-08-01`."""
        return f"{self.asset}/{self.day}"

    @property
    def sources(self) -> list[str]:
        """Sources of all stories, each once."""
        return list(dict.fromkeys(source for story in self.stories for source in story.sources))

    def facts(self) -> dict[str, JsonValue]:
        """What is recorded of the day, with scores of 0, 1 or 2 by the quality rules that can be counted: bias needs a reader."""
        late = sum(story.article.published_at <= self.begins for story in self.stories)
        drivers, outlets = themes(self), len(self.sources)
        covered = 2 if len(drivers) == len(MIS["drivers"]) else int(len(drivers) > 1)
        ratings = {
            "date_accuracy": 2 - min(late, 2),
            "coverage": covered,
            "source_diversity": 2 if outlets > 3 else int(outlets > 1),
        }
        counts = {"asset": self.asset, "day": self.day, "cutoff": self.cutoff.isoformat(), "stories": len(self.stories)}
        return {**counts, "sources": list(self.sources), "drivers": dict(drivers), "ratings": dict(ratings)}


@dataclass
class Stream:
    """Stories of each asset and day, and how many articles each rule has left out."""

    days: list[NewsDay] = field(default_factory=list)  #: by day, then asset
    dropped: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(MIS["dropped"], 0)))
    articles: int = 0


def words_of(article: Document) -> list[str]:
    """Words of title and text in lower case."""
    return _WORD.findall(f"{article.title} {article.text}".lower())


def themes(day: NewsDay) -> dict[str, int]:
    """Number of stories on each driver, the most frequent first; without those of no story."""
    vocabularies = [set(words_of(story.article)) for story in day.stories]
    counts = Counter({name: sum(not words.isdisjoint(terms) for words in vocabularies) for name, terms in MIS["drivers"].items()})
    return {name: count for name, count in counts.most_common() if count}


def stream_of(articles: Iterable[Document], venue: Venue, assets: Sequence[str] = ()) -> Stream:
    """Return the stories of `assets` (empty: of all that articles are filed under), by the days of a venue. `articles`: sorted by
    when they became known. Raises DataError: the venue's calendar does not reach as far.
    """
    stream, stories = Stream(), dict[str, _Stories]()
    faults = [(article, _fault(article, assets)) for article in articles]
    stream.articles, kept = len(faults), [article for article, rule in faults if rule is None]
    stream.dropped.update(rule for _, rule in faults if rule)
    if not kept:
        return stream
    calendar = _Days(venue, kept[0].known_at, kept[-1].known_at)
    for article in kept:
        row = calendar.row_of(article.known_at)
        for asset in [code for code in article.assets if not assets or code in assets]:
            if rule := stories.setdefault(asset, _Stories()).add(article, row):
                stream.dropped[rule] += 1
    for asset, own in stories.items():
        for row, group in groupby(own.stories, key=lambda story: story.row):
            chosen = _in_turn(day_stories := list(group))
            stream.dropped["over_most"] += len(day_stories) - len(chosen)
            stream.days.append(NewsDay(asset, str(calendar.days[row]), calendar.close(row - 1), calendar.close(row), chosen))
    stream.days.sort(key=lambda day: (day.day, day.asset))
    return stream


def _fault(article: Document, assets: Sequence[str]) -> str | None:
    """Name of the first rule by which an article by itself is left out."""
    limits = MIS["filter"]
    faults = {
        "known_early": article.known_at < article.published_at,
        "no_asset": not article.assets,
        "other_asset": bool(assets) and not set(assets) & set(article.assets),
        "no_source": not article.source.strip(),
        "too_short": len(words_of(article)) < limits["least_words"],
        "late": article.known_at - article.published_at > timedelta(hours=limits["most_latency_hours"]),
    }
    return next((rule for rule, holds in faults.items() if holds), None)


class _Days:
    """Sessions of a venue around a span of time."""

    def __init__(self, venue: Venue, first: datetime, last: datetime) -> None:
        self._close = Close.parse(f"{venue.close} {venue.zone}")
        edges = (np.datetime64(first.astimezone(UTC).date()) - 15 * _DAY, np.datetime64(last.astimezone(UTC).date()) + 15 * _DAY)
        self.days = sessions(*edges, venue.calendar)

    def close(self, row: int) -> datetime:
        """Close of a session."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._close.instant(self.days[row]))

    def row_of(self, moment: datetime) -> int:
        """Row of the first session whose close is not before a moment."""
        return bisect_left(range(len(self.days)), moment, key=self.close)


class _Stories:
    """Stories of an asset, found again by their runs of words."""

    def __init__(self) -> None:
        self.stories: list[Story] = []  #: by when they became known
        self._with: dict[tuple[str, ...], list[int]] = defaultdict(list)

    def add(self, article: Document, row: int) -> str | None:
        """Add an article of a session to the story that it tells, or as a new one; return the rule that leaves it out, if any."""
        words = words_of(article)
        runs = {tuple(words[start : start + 3]) for start in range(max(1, len(words) - 2))}
        shared = Counter(number for run in runs for number in self._with[run])
        likeness = [(count / (len(runs) + self.stories[number].size - count), number) for number, count in shared.items()]
        near = [candidate for candidate in likeness if row - self.stories[candidate[1]].row <= MIS["filter"]["repeated_days"]]
        most, number = max(near, default=(0.0, 0))
        if most >= MIS["filter"]["similar"]:
            story = self.stories[number]
            if story.row < row:
                return "repeated"
            story.sources += [article.source] if article.source not in story.sources else []
            return "duplicate"
        for run in runs:
            self._with[run].append(len(self.stories))
        self.stories.append(Story(article, row, [article.source], len(runs)))
        return None


def _in_turn(stories: Sequence[Story]) -> list[Story]:
    """Most reported stories, the latest first among equals, one of each outlet in turn."""
    by_outlet = defaultdict(list)
    for story in sorted(stories, key=lambda story: (len(story.sources), story.article.known_at), reverse=True):
        by_outlet[story.sources[0]].append(story)
    return [story for turn in zip_longest(*by_outlet.values()) for story in turn if story][: MIS["filter"]["most_stories"]]


# ---- summaries

TASK = "ama_summary"
_PROMPTS = Path(__file__).with_name("prompts")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def extract(day: NewsDay) -> str:
    """Return counts, titles and first sentences of the most reported stories, themes and sentiment by words, in at most
    `most_characters` (`mis.yaml`). It is ours: the paper's summaries are a model's.
    """
    wording: Mapping[str, str] = MIS["wording"]
    most: Mapping[str, int] = MIS["summary"]
    words = [word for story in day.stories for word in words_of(story.article)]
    counts = {tone: sum(word in set(vocabulary) for word in words) for tone, vocabulary in MIS["tone"].items()}
    tone = "mixed" if len(set(counts.values())) == 1 else max(counts, key=counts.__getitem__)
    head = wording["head"].format(stories=len(day.stories), sources=len(day.sources))
    listed = ", ".join(f"{name} {count}" for name, count in themes(day).items())
    tail = (wording["themes"].format(themes=listed) if listed else "") + wording["tone"].format(tone=tone, **counts)
    for story in day.stories:
        line = wording["story"].format(text=_first_words(story, most["story_characters"]), sources=", ".join(story.sources[:3]))
        if len(head) + len(line) + len(tail) <= most["most_characters"]:
            head += line
    return head + tail


def _first_words(story: Story, most: int) -> str:
    """Title and first sentence, on one line, cut at a word."""
    first = re.split(r"(?<=[.!?])\s", story.article.text.strip(), maxsplit=1)[0]
    parts = (" ".join(part.split()).rstrip(".") for part in (story.article.title, first))
    text = ". ".join(dict.fromkeys(part for part in parts if part))
    return shorten(text, most)


class SummaryTask(QATask):
    """Scoring task that asks for the summary of each day, by the instructions of the paper's appendix A."""

    source = "Qian et al. 2025 (arXiv:2510.11695), §3.1 and appendix A"
    system = Template((_PROMPTS / "summary.md").read_text(encoding="utf-8")).substitute(MIS["summary"])

    def __init__(self, days: Sequence[NewsDay]) -> None:
        samples: list[Mapping[str, JsonValue]] = [{"id": day.id, "question": _question(day)} for day in days]
        summary = "Summary of the news of an asset and day"
        super().__init__(samples, _numbers_found, name=TASK, summary=summary, scores=("numbers_found",))

    @hookimpl
    def ktdeval_tasks(self) -> list[Spec]:
        """The task itself."""
        return [self.spec()]


def _question(day: NewsDay) -> str:
    most = MIS["summary"]["article_characters"]
    listed = [
        f"Source: {', '.join(story.sources)}\nTitle: {story.article.title}\nText: {shorten(story.article.text, most)}"
        for story in day.stories
    ]
    values = {"asset": day.asset, "day": day.day, "stories": len(listed), "sources": len(day.sources)}
    return Template((_PROMPTS / "articles.md").read_text(encoding="utf-8")).substitute(values, articles="\n\n".join(listed))


def _numbers_found(answer: str, sample: Mapping[str, JsonValue]) -> float | None:
    """Share of a summary's numbers that its articles have; None where it has none."""
    numbers, known = _NUMBER.findall(answer), set(_NUMBER.findall(str(sample["question"])))
    return sum(number in known for number in numbers) / len(numbers) if numbers else None


def ask(days: Sequence[NewsDay], config: RunConfig, plugins: Plugins) -> tuple[dict[str, str], dict[str, str], Path]:
    """Return a model's summaries by the id of a day, why others have none, and the run's folder: the same command again resumes it
    and asks nothing twice. Raises KtdevalError as of a run.
    """
    plugins.add(SummaryTask(days), TASK)
    result = run_shown(config, plugins)
    check_finished(result)
    folder = RunFolder.load(result.folder)
    texts, failures = dict[str, str](), dict.fromkeys((day.id for day in days), "not_asked")
    for spec in folder.manifest.specs:
        for record in folder.load_answers(spec):
            text = "" if record.answer is None else str(record.answer["answer"]).strip()
            if text:
                texts[record.sample] = text
                del failures[record.sample]
            else:
                failures[record.sample] = ", ".join(sorted(record.failures)) or "empty"
    return texts, failures, result.folder


def document_line(day: NewsDay, text: str | None) -> str:
    """Return a summary as a line of documents, known at the close of its day; None: a document that says that it is missing."""
    stamps = {"published_at": day.cutoff.isoformat(), "known_at": day.cutoff.isoformat(), "source": "MIS", "assets": [day.asset]}
    words = {"kind": "summary" if text else "summary_missing", "title": MIS["wording"]["title"]}
    return dumps_canonical({**stamps, **words, "text": text or MIS["wording"]["missing"].format(stories=len(day.stories))})
