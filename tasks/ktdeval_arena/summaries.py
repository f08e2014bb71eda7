"""Daily summaries of stories: as an extract without any model, or as a model's answers in a run of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from ktdeval.api import QATask, Spec, hookimpl
from ktdeval.cli import check_finished, run_shown
from ktdeval.config import RunConfig
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder
from ktdeval_arena.articles import MIS, NewsDay, Story, themes, words_of

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
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"


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
        f"Source: {', '.join(story.sources)}\nTitle: {story.article.title}\nText: {story.article.text[:most]}"
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
