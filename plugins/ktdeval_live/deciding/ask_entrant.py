"""Ask an entrant for a single decision, in a separate process, and write its record.

The process is killed at the deadline, so that an entrant that hangs does not delay the others. Each
reply is on disk before the agent sees it: if the process dies, the next process continues without
paying for the reply again.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from ktdeval.calls import StopSignal
from ktdeval.errors import UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import open_access
from ktdeval.values import decode_json, encode_canonical, lock_folder, make_folder, write_atomic
from ktdeval_live.days.clock import TimeSource
from ktdeval_live.record.chain import RecordChain
from ktdeval_live.record.decision_records import DecisionRecord, Question, record_of
from ktdeval_live.record.entrant_episode import EntrantMarket, EntryEpisode
from ktdeval_live.record.folder import LiveFolder


@dataclass(frozen=True)
class EntrantAsker:
    """Asks entrants of a test in this process."""

    folder: LiveFolder
    plugins: Plugins
    clock: TimeSource

    def ask(self, entry: EntrantMarket, day: str) -> None:
        """Ask for the decision on a day and write its record, unless the record exists.

        Raises KtdevalError.
        """
        path = self.folder.record_path(entry.key(day), private=True)
        home = path.parent
        make_folder(home)
        with lock_folder(home, wait=True):
            if not path.is_file():
                step = self.folder.schedule(entry.market).days.index(day)
                question = _question(self.folder.chain(), entry, day, step, home)
                record = self.ask_question(entry, question, home)
                write_atomic(path, encode_canonical(record))

    def ask_question(self, entry: EntrantMarket, question: Question, home: Path) -> DecisionRecord:
        """Ask a question and return the record of the answer. The call log is stored in `home`.

        Data that arrived after the question was created are not shown. Raises KtdevalError.
        """
        chain = self.folder.chain()
        market = self.folder.market(entry.market, chain.before_data(question.data))
        asked_at = self.clock.now()
        _, access = open_access(entry.config(), self.plugins, home, StopSignal())
        try:
            access.begin()
            base = self.folder.base(entry.market)
            spec = entry.spec(base, entry.config(), self.plugins)
            episode_access = access.for_episode(spec, lambda _: None)
            episode = EntryEpisode(entry, self.folder, self.plugins, market, episode_access.model)
            episode.settle(chain, question.step)
            episode_access.counter.begin_step(question.step)
            decided = episode.episode.decide_step(question.step)
            episode_access.counter.settle()
        finally:
            access.close()

        return record_of(question, asked_at, self.clock.now(), decided, market)


def _question(
    chain: RecordChain, entry: EntrantMarket, day: str, step: int, home: Path
) -> Question:
    """Return the question for a day. If a process that died has already asked one, return the same
    question.
    """
    path = home / f"{day}.question.json"
    if path.is_file():
        return decode_json(path.read_bytes(), Question, str(path))

    shown = [link for link, _ in chain.find_data(entry.market)]
    if not shown:
        raise UsageError(f"{entry.name}: no data of {day} are frozen yet")

    salt = secrets.token_hex(16)
    question = Question(**entry.key(day)._asdict(), step=step, data=shown[-1].hash, salt=salt)
    write_atomic(path, encode_canonical(question))
    return question
