"""Ask one entrant for one decision, in a process of its own, and write the record of it.

The process is killed at the deadline, so that an entrant that hangs holds nobody up. Each reply is
on disk before the agent sees it: if the process dies, the next one goes on without paying again.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from ktdeval.calls import StopSignal
from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import DecidedStep, open_access
from ktdeval.values import decode_json, encode_canonical, lock_folder, make_folder, write_atomic
from ktdeval_live.days.clock import Clock
from ktdeval_live.record.chain import Chain
from ktdeval_live.record.decision_records import DecisionRecord, Question, record_of
from ktdeval_live.record.entrant_episode import Entry, EntryEpisode
from ktdeval_live.record.folder import LiveFolder


def ask(folder: LiveFolder, entry: Entry, day: str, plugins: Plugins, clock: Clock) -> Path:
    """Ask for the decision on a day, and return the file of the record. Raises KtdevalError."""
    path = folder.record_path(entry.key(day), private=True)
    home = path.parent
    make_folder(home)
    with lock_folder(home, wait=True):
        if not path.is_file():
            record = _record(folder, entry, day, plugins, clock, home)
            write_atomic(path, encode_canonical(record))

    return path


def _record(
    folder: LiveFolder, entry: Entry, day: str, plugins: Plugins, clock: Clock, home: Path
) -> DecisionRecord:
    chain = folder.chain()
    step = folder.schedule(entry.market).days.index(day)
    question = _question(chain, entry, day, step, home)
    # Data that came after the question was put are not shown, though another process asks.
    market = folder.market(entry.market, chain.before_data(question.data))

    asked_at = clock.now()
    decided = decide(folder, entry, plugins, market, home, (chain, step))
    return record_of(question, asked_at, clock.now(), decided, market)


def decide(
    folder: LiveFolder,
    entry: Entry,
    plugins: Plugins,
    market: MarketSnapshot,
    home: Path,
    at: tuple[Chain, int],
) -> DecidedStep:
    """Ask an entrant for its decision on a session, given by the chain and the session's number, on
    a market as known. The record of calls is in `home`. Raises KtdevalError.
    """
    chain, step = at
    _, access = open_access(entry.config(), plugins, home, StopSignal())
    try:
        access.begin()
        spec = entry.spec(folder.base(entry.market), entry.config(), plugins)
        episode_access = access.for_episode(spec, lambda _: None)
        episode = EntryEpisode(entry, folder, plugins, market, episode_access.model)
        episode.settle(chain, step)
        episode_access.counter.begin_step(step)
        decided = episode.episode.decide_step(step)
        episode_access.counter.settle()
        return decided
    finally:
        access.close()


def _question(chain: Chain, entry: Entry, day: str, step: int, home: Path) -> Question:
    """Return the question of a day; one that was asked before, by a process that died, again."""
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
