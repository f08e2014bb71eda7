"""Run folder at a URL, as used by `RunFolder`. Files are fetched into a local copy on request.
Files that must not be lost are uploaded to the store before the run continues.

The store contains the same files as a run folder, apart from two kinds that grow. Until an episode
is complete, each line of its journal is a separate file, and so is each group of calls
(`ktdeval.calls.records.remote_call_log`):

    URL/episodes/<id>/journal/000012.jsonl      the twelfth finished step
    URL/lock/owner.json                         the process that runs it (`records.run_claim`)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.calls.batches.submitted_batches import BATCHES
from ktdeval.calls.records.remote_call_log import CallParts
from ktdeval.errors import StoreError
from ktdeval.runner.records.run_file_names import (
    CANARY,
    CARDS,
    CERTIFICATE,
    EPISODES,
    JOURNAL,
    MANIFEST,
    MARK,
    TASK_FILES,
)
from ktdeval.stores.concurrent_requests import at_once
from ktdeval.stores.mirror import Mirror, mirrored_folder
from ktdeval.stores.store import Stat
from ktdeval.values.hashes import content_hash

#: journal folder of an unfinished episode in a store: one file per finished step
JOURNAL_FOLDER = "journal"
_FRESH_S = 2.0  #: a listing of episodes is reused for at least this many seconds
_LISTING_SHARE = 10  #: a listing is reused for at least this multiple of the time that it took


# a tuple: parts are sorted
class JournalPart(NamedTuple):
    """File of a finished step in a store."""

    number: int  #: counted from 1
    stat: Stat


@dataclass(frozen=True, slots=True)
class EpisodeFiles:
    """Files of one episode in a store."""

    files: dict[str, Stat]  #: by name
    journal: tuple[JournalPart, ...]  #: by number
    foreign: tuple[str, ...]  #: keys of unexpected files, which runs never write

    @property
    def is_complete(self) -> bool:
        """True if the episode's mark exists; the mark is written last."""
        return MARK in self.files


_NO_FILES = EpisodeFiles({}, (), ())


class RemoteRun:
    """Run folder at a URL. It may be shared between threads. Only the process that claimed the run
    may write.
    """

    def __init__(self, mirror: Mirror, prefix: str) -> None:
        """`prefix` is the key of the run folder with a trailing slash, or empty."""
        self.mirror = mirror
        self.prefix = prefix
        self.path = mirror.path / prefix
        self.calls = CallParts(mirror, prefix)
        self._episodes: dict[str, EpisodeFiles] | None = None
        self._listed_until = 0.0

    # -- reading

    def bring_head(self) -> bool:
        """Fetch the files that every command reads: plan, batches, cards, task files, certificate
        and canary answers. Return whether a run exists.
        """
        names = [MANIFEST, CERTIFICATE, CANARY, BATCHES]
        keys = [f"{self.prefix}{name}" for name in names]
        is_run, *_ = at_once(self.mirror.fetch_file, keys)
        folders = [f"{self.prefix}{CARDS}", f"{self.prefix}{TASK_FILES}"]
        at_once(self.mirror.fetch_below, folders)

        return is_run

    def episodes(self) -> Mapping[str, EpisodeFiles]:
        """Return the files of each episode that has begun, by episode id.

        The files come from a single listing, which is repeated when it is too old. If this process
        runs the run, it is never repeated, since no other process may write.
        """
        is_current = self.mirror.is_working or time.monotonic() < self._listed_until
        if self._episodes is None or not is_current:
            began = time.monotonic()
            stats = self.mirror.stats(f"{self.prefix}{EPISODES}")
            self._episodes = by_episode(stats.values(), f"{self.prefix}{EPISODES}/")
            took = time.monotonic() - began
            self._listed_until = time.monotonic() + max(_FRESH_S, took * _LISTING_SHARE)

        return self._episodes

    def is_complete(self, episode: str) -> bool:
        """Return whether the files of an episode are final."""
        if self.mirror.owns(self._key(episode, MARK)):
            return True
        return self.episodes().get(episode, _NO_FILES).is_complete

    def bring(self, episodes: Iterable[str], *names: str) -> None:
        """Fetch the named files of complete episodes concurrently, or all their files if no names
        are given. Names that an episode lacks are skipped.
        """
        stats = []
        for episode in episodes:
            files = self.episodes().get(episode, _NO_FILES).files
            stats += [stat for name, stat in files.items() if not names or name in names]

        self.mirror.fetch(stats)

    def bring_named(self, name: str) -> None:
        """Fetch a file, given its key relative to the run. Does nothing if the file does
        not exist.
        """
        top, _, rest = name.partition("/")
        episode, _, file = rest.partition("/")
        if top == EPISODES and file:
            self.bring([episode], file)
        else:
            self.mirror.fetch_file(f"{self.prefix}{name}")

    def bring_episode(self, episode: str) -> None:
        """Fetch all files of a complete episode, or the current journal of an unfinished
        episode.
        """
        own = self.episodes().get(episode, _NO_FILES)
        if own.is_complete:
            self.mirror.fetch(own.files.values())
            (self.mirror.path / self._key(episode, JOURNAL)).unlink(missing_ok=True)
        elif not self.mirror.is_working:
            self._bring_journal(episode, own.journal)

    def _bring_journal(self, episode: str, parts: Iterable[JournalPart]) -> None:
        """Write the local journal from the steps in the store. If the store has no steps, delete
        the local journal.
        """
        key = self._key(episode, JOURNAL)
        parts = list(parts)
        for number, part in enumerate(parts, 1):
            if part.number != number:
                # The listing may have been taken while an episode ended: its steps are then
                # deleted, starting with the last.
                parts = parts[: number - 1]
                break

        version = content_hash([[part.stat.key, str(part.stat.version)] for part in parts])
        if not parts:
            (self.mirror.path / key).unlink(missing_ok=True)
        elif not self.mirror.has(key, version):
            keys = [part.stat.key for part in parts]
            lines = at_once(self.mirror.store.read, keys)
            self.mirror.keep(key, version, b"".join(lines))

    # -- running

    def restore(self) -> None:
        """Rebuild the working folder from the store, ignoring the work of earlier processes in this
        folder.

        Only the process that claimed the run may call this. Complete episodes are fetched when they
        are read.
        """
        self._episodes = None
        self.mirror.forget_own()
        for journal in self.path.glob(f"{EPISODES}/*/{JOURNAL}"):
            journal.unlink()

        self.bring_head()
        self.calls.restore_working()

    def begin_journal(self, episode: str) -> None:
        """Fetch the journal of an unfinished episode that is about to continue. Raises StoreError
        if a step is missing although a later step exists.
        """
        own = self.episodes().get(episode, _NO_FILES)
        for number, part in enumerate(own.journal, 1):
            if part.number != number:
                raise StoreError(
                    f"{self.mirror.url}/{self._journal(episode)}: step {number} is missing, but"
                    " later ones exist; delete that folder to run the episode again"
                )

        self._bring_journal(episode, own.journal)

    def journal_keeper(self, episode: str) -> RemoteJournal:
        """Return the keeper that stores an episode's steps."""
        return RemoteJournal(self.mirror, self._journal(episode))

    def complete(self, episode: str, files: Mapping[str, bytes]) -> None:
        """Upload the files of a complete episode, with its mark last."""
        others = [name for name in files if name != MARK]
        at_once(lambda name: self._put(episode, name, files[name]), others)
        self._put(episode, MARK, files[MARK])

    def drop_journal(self, episode: str, steps: int | None = None) -> None:
        """Delete the steps of a complete episode, since its transcript contains them.

        `steps`: number of steps that this process uploaded. None: delete the steps that an earlier
        process, which was killed, left behind.
        """
        keys = [part.stat.key for part in self.episodes().get(episode, _NO_FILES).journal]
        if steps is not None:
            keys = [_part_key(self._journal(episode), number + 1) for number in range(steps)]

        at_once(self.mirror.store.delete, keys[::-1])

    def end(self) -> None:
        """Compact the run's remaining files, and record that the local files are copies of the
        files in the store.
        """
        self.calls.compact()
        self.mirror.remember(self.mirror.stats(self.prefix.rstrip("/")).values())

    def _put(self, episode: str, name: str, data: bytes) -> None:
        self.mirror.put(self._key(episode, name), data)

    def _key(self, episode: str, name: str) -> str:
        return f"{self.prefix}{EPISODES}/{episode}/{name}"

    def _journal(self, episode: str) -> str:
        return self._key(episode, JOURNAL_FOLDER)


class RemoteJournal:
    """Steps of one episode in a store, one file per step."""

    def __init__(self, mirror: Mirror, folder: str) -> None:
        self._mirror = mirror
        self._folder = folder

    def append(self, number: int, line: bytes) -> None:
        """Upload a finished step, numbered from 1. Once this returns, the step is durable. Raises
        StoreError.
        """
        self._mirror.put_new(_part_key(self._folder, number), line, "this episode")


def remote_run_at(path: Path) -> RemoteRun | None:
    """Return the run at a URL whose local copy is this folder; None for any other folder."""
    home = mirrored_folder(path)
    return None if home is None else remote_run(*home)


def run_file(folder: Path, name: str) -> Path:
    """Return the path of a run's file, given its name in a card's `artefacts`.

    If the folder is the local copy of a URL, the file is fetched first. The file may not exist.
    """
    remote = remote_run_at(folder)
    if remote is not None:
        remote.bring_named(name)
    return folder / name


@lru_cache(maxsize=1024)
def remote_run(mirror: Mirror, prefix: str) -> RemoteRun:
    """Return the run under a prefix of a URL. Repeated calls return the same object, so that its
    listing is shared.
    """
    return RemoteRun(mirror, prefix)


def _part_key(folder: str, number: int) -> str:
    return f"{folder}/{number:06}.jsonl"


def by_episode(stats: Iterable[Stat], folder: str) -> dict[str, EpisodeFiles]:
    """Return the files of each episode, given a listing of all files."""
    files: dict[str, dict[str, Stat]] = {}
    journals: dict[str, list[JournalPart]] = {}
    foreign: dict[str, list[str]] = {}
    for stat in stats:
        episode, _, name = stat.key.removeprefix(folder).partition("/")
        inside, _, number = name.removesuffix(".jsonl").partition("/")
        files.setdefault(episode, {})
        if inside == JOURNAL_FOLDER and number.isascii() and number.isdigit():
            journals.setdefault(episode, []).append(JournalPart(int(number), stat))
        elif "/" in name or not name:
            foreign.setdefault(episode, []).append(stat.key)
        else:
            files[episode][name] = stat

    return {
        episode: EpisodeFiles(
            own, tuple(sorted(journals.get(episode, ()))), tuple(foreign.get(episode, ()))
        )
        for episode, own in files.items()
    }
