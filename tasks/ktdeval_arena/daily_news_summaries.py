"""Daily summaries of articles from many sources. Articles are filtered (`mis.yaml`), deduplicated
and grouped into stories by asset and day. The stories are then summarised, either as an extract
without a model or by a model in a run of its own.

A day runs from just after the previous session's close up to and including its own close, so
nothing that became known later is part of it. An article is compared with recent stories about its
asset by the Jaccard index of their word trigrams.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, zip_longest
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from ktdeval.api import QATask, Spec, hookimpl
from ktdeval.cli import check_finished, run_shown
from ktdeval.market import Document, Venue, close_instants, sessions
from ktdeval.masking import beginning, shorten
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, RunFolder
from ktdeval.values import JsonValue, dumps_canonical, load_yaml

MIS: Mapping[str, Any] = load_yaml(Path(__file__).with_name("mis.yaml"))
_WORD = re.compile(r"\w+")
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class Story:
    """Articles about an asset on one day that report the same story."""

    article: Document  #: article that became known first
    row: int  #: row of the session
    sources: list[str]  #: distinct sources, in the order in which they reported the story
    size: int = 0  #: number of word trigrams


@dataclass(frozen=True, slots=True)
class NewsDay:
    """Stories about one asset on one day."""

    asset: str
    day: str  #: ISO
    begins: datetime  #: close of the previous session
    cutoff: datetime  #: close of the day's own session
    stories: Sequence[Story]  #: most widely reported first, outlets in turn

    @property
    def id(self) -> str:
        """Id used in records, such as `TSLA/2025-08-01`."""
        return f"{self.asset}/{self.day}"

    @property
    def sources(self) -> list[str]:
        """Sources of all stories, each once."""
        sources: dict[str, None] = {}
        for story in self.stories:
            sources.update(dict.fromkeys(story.sources))
        return list(sources)

    def facts(self) -> dict[str, JsonValue]:
        """Return a record of the day, with a score of 0, 1 or 2 for each quality rule that can be
        computed. Bias is not scored, since it needs a human reader.
        """
        sources = self.sources
        drivers = themes(self)
        late = sum(story.article.published_at <= self.begins for story in self.stories)
        return {
            "asset": self.asset,
            "day": self.day,
            "cutoff": self.cutoff.isoformat(),
            "stories": len(self.stories),
            "sources": sources,
            "drivers": drivers,
            "ratings": {
                # Quality rules of Agent Market Arena (§3.1, Appendix A; mis.yaml)
                "date_accuracy": 2 - min(late, 2),
                # "Comprehensive": all four key drivers
                "coverage": _rating(len(drivers), len(MIS["drivers"])),
                # "High": four outlets or more
                "source_diversity": _rating(len(sources), 4),
            },
        }


def _rating(count: int, enough: int) -> int:
    """Return 2 if a count reaches `enough`, 1 if it is at least two, else 0."""
    if count >= enough:
        return 2
    return 1 if count > 1 else 0


@dataclass
class StoryStream:
    """Stories by asset and day, and the number of articles that each rule has excluded."""

    days: list[NewsDay] = field(default_factory=list)  #: sorted by day, then asset
    dropped: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(MIS["dropped"], 0)))
    articles: int = 0


def words_of(article: Document) -> list[str]:
    """Return the words in an article's title and text, in lower case."""
    return _WORD.findall(f"{article.title} {article.text}".lower())


def themes(day: NewsDay) -> dict[str, int]:
    """Return the number of stories about each driver, most frequent first. Drivers without stories
    are omitted.
    """
    vocabularies = [set(words_of(story.article)) for story in day.stories]
    counts: Counter[str] = Counter()
    for name, terms in MIS["drivers"].items():
        counts[name] = sum(not words.isdisjoint(terms) for words in vocabularies)

    return {name: count for name, count in counts.most_common() if count}


def stream_of(
    articles: Iterable[Document], venue: Venue, assets: Sequence[str] = ()
) -> StoryStream:
    """Return the stories about `assets`, grouped by the days of a venue.

    `articles`: sorted by when they became known. `assets`: if empty, all assets under which
    articles are filed. Raises DataError if the venue's calendar does not cover the dates of the
    articles.
    """
    stream = StoryStream()
    sound: list[Document] = []
    for article in articles:
        stream.articles += 1
        rule = _fault(article, assets)
        if rule is None:
            sound.append(article)
        else:
            stream.dropped[rule] += 1

    if not sound:
        return stream

    calendar = _VenueSessions(venue, sound[0].known_at, sound[-1].known_at)
    stories: dict[str, _StoryIndex] = {}
    for article in sound:
        row = calendar.row_of(article.known_at)
        for asset in article.assets:
            if assets and asset not in assets:
                continue

            rule = stories.setdefault(asset, _StoryIndex()).add(article, row)
            if rule is not None:
                stream.dropped[rule] += 1

    for asset, own in stories.items():
        for row, group in groupby(own.stories, key=lambda story: story.row):
            reported = list(group)
            chosen = _in_turn(reported)
            stream.dropped["over_most"] += len(reported) - len(chosen)
            stream.days.append(
                NewsDay(
                    asset=asset,
                    day=str(calendar.days[row]),
                    begins=calendar.close(row - 1),
                    cutoff=calendar.close(row),
                    stories=chosen,
                )
            )

    stream.days.sort(key=lambda day: (day.day, day.asset))
    return stream


def _fault(article: Document, assets: Sequence[str]) -> str | None:
    """Return the name of the first rule that excludes an article; None if no rule does."""
    limits = MIS["filter"]
    latency = article.known_at - article.published_at
    if article.known_at < article.published_at:
        return "known_early"
    if not article.assets:
        return "no_asset"
    if assets and set(assets).isdisjoint(article.assets):
        return "other_asset"
    if not article.source.strip():
        return "no_source"
    if len(words_of(article)) < limits["least_words"]:
        return "too_short"
    if latency > timedelta(hours=limits["most_latency_hours"]):
        return "late"
    return None


class _VenueSessions:
    """Sessions of a venue around a time span."""

    def __init__(self, venue: Venue, first: datetime, last: datetime) -> None:
        # Half a month on either side is longer than any holiday.
        start = np.datetime64(first.astimezone(UTC).date()) - 15 * _DAY
        end = np.datetime64(last.astimezone(UTC).date()) + 15 * _DAY
        self.days = sessions(start, end, venue.calendar)
        self._closes = close_instants(venue, self.days)

    def close(self, row: int) -> datetime:
        """Return the close of a session, which is earlier on a half day."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(self._closes[row]))

    def row_of(self, moment: datetime) -> int:
        """Return the row of the first session whose close is not before `moment`."""
        return bisect_left(range(len(self.days)), moment, key=self.close)


class _StoryIndex:
    """Stories about one asset, indexed by their word trigrams."""

    def __init__(self) -> None:
        self.stories: list[Story] = []  #: sorted by when they became known
        self._with: dict[tuple[str, ...], list[int]] = defaultdict(list)

    def add(self, article: Document, row: int) -> str | None:
        """Add an article to the story of this session that it matches, or as a new story. Return
        the rule that excludes the article, if any: `repeated` or `duplicate`.
        """
        words = words_of(article)
        runs = {tuple(words[start : start + 3]) for start in range(max(1, len(words) - 2))}
        likeness, number = self._nearest(runs, row)
        if likeness >= MIS["filter"]["similar"]:
            story = self.stories[number]
            if story.row < row:
                return "repeated"
            if article.source not in story.sources:
                story.sources.append(article.source)
            return "duplicate"

        for run in runs:
            self._with[run].append(len(self.stories))

        self.stories.append(Story(article, row, [article.source], len(runs)))
        return None

    def _nearest(self, runs: Collection[tuple[str, ...]], row: int) -> tuple[float, int]:
        """Return the Jaccard index of the most similar recent story and the number of this story.
        The index is 0 if no recent story shares a trigram.
        """
        shared: Counter[int] = Counter()
        for run in runs:
            shared.update(self._with[run])

        nearest = (0.0, 0)
        for number, count in shared.items():
            story = self.stories[number]
            if row - story.row <= MIS["filter"]["repeated_days"]:
                likeness = count / (len(runs) + story.size - count)
                nearest = max(nearest, (likeness, number))

        return nearest


def _in_turn(stories: Sequence[Story]) -> list[Story]:
    """Return the stories sorted by how widely they are reported, with ties latest first, taking one
    story from each outlet in turn.
    """
    ordered = sorted(
        stories, key=lambda story: (len(story.sources), story.article.known_at), reverse=True
    )
    by_outlet: dict[str, list[Story]] = defaultdict(list)
    for story in ordered:
        by_outlet[story.sources[0]].append(story)

    chosen: list[Story] = []
    for turn in zip_longest(*by_outlet.values()):
        chosen += [story for story in turn if story is not None]

    return chosen[: MIS["filter"]["most_stories"]]


# ---- summaries

TASK = "ama_summary"
_PROMPTS = Path(__file__).with_name("prompts")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def extract(day: NewsDay) -> str:
    """Return counts, themes, word-based sentiment, and the titles and first sentences of the most
    reported stories, in at most `most_characters` characters (`mis.yaml`).

    The extract is not from the paper, whose summaries are written by a model.
    """
    wording: Mapping[str, str] = MIS["wording"]
    most: Mapping[str, int] = MIS["summary"]
    head = wording["head"].format(stories=len(day.stories), sources=len(day.sources))
    tail = ""
    listed = ", ".join(f"{name} {count}" for name, count in themes(day).items())
    if listed:
        tail += wording["themes"].format(themes=listed)

    tones = _tones(day)
    tone = max(tones, key=tones.__getitem__)
    if len(set(tones.values())) == 1:
        tone = "mixed"
    tail += wording["tone"].format(tone=tone, **tones)

    for story in day.stories:
        text = _first_words(story, most["story_characters"])
        line = wording["story"].format(text=text, sources=", ".join(story.sources[:3]))
        if len(head) + len(line) + len(tail) <= most["most_characters"]:
            head += line

    return head + tail


def _tones(day: NewsDay) -> dict[str, int]:
    """Return how often words of each tone occur in all stories."""
    words: Counter[str] = Counter()
    for story in day.stories:
        words.update(words_of(story.article))

    return {
        tone: sum(words[word] for word in set(vocabulary))
        for tone, vocabulary in MIS["tone"].items()
    }


def _first_words(story: Story, most: int) -> str:
    """Return a story's title and first sentence on one line, cut at a word boundary."""
    sentence = re.split(r"(?<=[.!?])\s", story.article.text.strip(), maxsplit=1)[0]
    parts: dict[str, None] = {}  # some texts begin with the title
    for part in (story.article.title, sentence):
        line = " ".join(part.split()).rstrip(".")
        if line:
            parts[line] = None

    return beginning(". ".join(parts), most)


class SummaryTask(QATask):
    """Scoring task that asks for a summary of each day, following the instructions in the paper's
    Appendix A.
    """

    source = "Qian et al. 2025 (arXiv:2510.11695), §3.1 and appendix A"
    system = Template((_PROMPTS / "summary.md").read_text(encoding="utf-8")).substitute(
        MIS["summary"]
    )

    def __init__(self, days: Sequence[NewsDay]) -> None:
        samples: list[Mapping[str, JsonValue]] = [
            {"id": day.id, "question": _question(day)} for day in days
        ]
        summary = "Summary of the news of an asset and day"
        super().__init__(
            samples, _numbers_found, name=TASK, summary=summary, scores=("numbers_found",)
        )

    @hookimpl
    def ktdeval_tasks(self) -> list[Spec]:
        """Return this task."""
        return [self.spec()]


def _question(day: NewsDay) -> str:
    most = MIS["summary"]["article_characters"]
    articles = []
    for story in day.stories:
        text = shorten(story.article.text, most)
        lines = [f"Source: {', '.join(story.sources)}", f"Title: {story.article.title}"]
        if story.article.sentiment:
            lines.append(f"Sentiment: {story.article.sentiment}")
        lines.append(f"Text: {text}")
        articles.append("\n".join(lines))

    prompt = Template((_PROMPTS / "articles.md").read_text(encoding="utf-8"))
    return prompt.substitute(
        asset=day.asset,
        day=day.day,
        stories=len(articles),
        sources=len(day.sources),
        articles="\n\n".join(articles),
    )


def _numbers_found(answer: str, sample: Mapping[str, JsonValue]) -> float | None:
    """Return the fraction of numbers in a summary that appear in its articles; None if it has no
    numbers.
    """
    numbers = _NUMBER.findall(answer)
    if not numbers:
        return None

    known = set(_NUMBER.findall(str(sample["question"])))
    return sum(number in known for number in numbers) / len(numbers)


class ModelSummaries(NamedTuple):
    """Summaries by a model."""

    texts: dict[str, str]  #: summary by day id
    failures: dict[str, str]  #: reason by id, for each day without a summary
    folder: Path  #: run folder


def ask(days: Sequence[NewsDay], config: RunConfig, plugins: Plugins) -> ModelSummaries:
    """Ask a model for summaries. Repeating the command resumes its run and repeats no call. Raises
    the same KtdevalErrors as a run.
    """
    plugins.add(SummaryTask(days), TASK)
    result = run_shown(config, plugins)
    check_finished(result)
    folder = RunFolder.load(result.folder)
    texts: dict[str, str] = {}
    failures = dict.fromkeys((day.id for day in days), "not_asked")

    for spec in folder.manifest.specs:
        for record in folder.load_answers(spec):
            text = ""
            if record.answer is not None:
                text = str(record.answer["answer"]).strip()

            if text:
                texts[record.sample] = text
                del failures[record.sample]
            else:
                failures[record.sample] = ", ".join(sorted(record.failures)) or "empty"

    return ModelSummaries(texts, failures, result.folder)


def document_line(day: NewsDay, text: str | None) -> str:
    """Return a summary as one line of a documents file, known at the close of its day. If `text` is
    None, the document says that the summary is missing.
    """
    missing = MIS["wording"]["missing"].format(stories=len(day.stories))
    return dumps_canonical(
        {
            "published_at": day.cutoff.isoformat(),
            "known_at": day.cutoff.isoformat(),
            "source": "MIS",
            "assets": [day.asset],
            "kind": "summary" if text else "summary_missing",
            "title": MIS["wording"]["title"],
            "text": text or missing,
        }
    )
