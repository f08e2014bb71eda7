"""Run folder at a URL, used by `RunFolder`: requested files are fetched into the local copy, and
files that must not be lost are uploaded to the store before the run continues.

The store has the files of a run folder, except for two kinds that grow. Each line of a journal is a
separate file until its episode is complete, and so is each group of calls
(`ktdeval.calls.remote_call_log`):

    URL/episodes/<id>/journal/000012.jsonl      the twelfth finished step
    URL/lock/claims/run/0001.json               the claim on the run (`ktdeval.stores.claims`)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ktdeval.calls.remote_call_log import CallParts
from ktdeval.calls.submitted_batches import BATCHES
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

#: journal folder of an unfinished episode at a store: one file per finished step
JOURNAL_FOLDER = "journal"
_FRESH_S = 2.0  #: minimum time in seconds for which a listing of episodes is considered current
_LISTING_SHARE = 10  #: a listing is repeated only after this multiple of its duration


# a tuple, because parts are sorted
class JournalPart(NamedTuple):
    """File of a finished step at a store."""

    number: int  #: from 1
    stat: Stat


@dataclass(frozen=True, slots=True)
class EpisodeFiles:
    """Files of one episode at a store."""

    files: dict[str, Stat]  #: by name
    journal: tuple[JournalPart, ...]  #: by number
    foreign: tuple[str, ...]  #: keys of files that runs never write

    @property
    def is_complete(self) -> bool:
        """True if its mark exists, which is written last."""
        return MARK in self.files


_NO_FILES = EpisodeFiles({}, (), ())


class RemoteRun:
    """Run folder at a URL. Threads may share it; only the process that claimed the run may
    write.
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
        """Fetch the files that every command reads: plan, cards, task files, certificate, canary.
        Return whether a run exists.
        """
        names = [MANIFEST, CERTIFICATE, CANARY, BATCHES]
        keys = [f"{self.prefix}{name}" for name in names]
        is_run, *_ = at_once(self.mirror.fetch_file, keys)
        folders = [f"{self.prefix}{CARDS}", f"{self.prefix}{TASK_FILES}"]
        at_once(self.mirror.fetch_below, folders)

        return is_run

    def episodes(self) -> Mapping[str, EpisodeFiles]:
        """Return the files of each episode that has begun, by id, from a single listing. For a run
        of this process, it is listed once, since no other process may write.
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
        """Return whether an episode's ledger and transcript are final."""
        if self.mirror.owns(self._key(episode, MARK)):
            return True
        return self.episodes().get(episode, _NO_FILES).is_complete

    def bring(self, episodes: Iterable[str], *names: str) -> None:
        """Fetch files of complete episodes, several at once. Without `names`, fetch all files;
        names that an episode lacks are skipped.
        """
        stats = []
        for episode in episodes:
            files = self.episodes().get(episode, _NO_FILES).files
            stats += [stat for name, stat in files.items() if not names or name in names]

        self.mirror.fetch(stats)

    def bring_named(self, name: str) -> None:
        """Fetch a file by its key in the run; do nothing if it does not exist."""
        top, _, rest = name.partition("/")
        episode, _, file = rest.partition("/")
        if top == EPISODES and file:
            self.bring([episode], file)
        else:
            self.mirror.fetch_file(f"{self.prefix}{name}")

    def bring_episode(self, episode: str) -> None:
        """Fetch all files of an episode, or its journal so far if it is unfinished."""
        own = self.episodes().get(episode, _NO_FILES)
        if own.is_complete:
            self.mirror.fetch(own.files.values())
            (self.mirror.path / self._key(episode, JOURNAL)).unlink(missing_ok=True)
        elif not self.mirror.is_working:
            self._bring_journal(episode, own.journal)

    def _bring_journal(self, episode: str, parts: Iterable[JournalPart]) -> None:
        """Write the local journal from the steps at the store; delete it if the store has no
        steps.
        """
        key = self._key(episode, JOURNAL)
        parts = list(parts)
        for number, part in enumerate(parts, 1):
            if part.number != number:
                # The listing may be taken while an episode ends: its steps are then deleted, the
                # last first.
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
        """Build the working folder from the store, as if no process had worked here before. Only
        the process that claimed the run may call this. Complete episodes are fetched when they are
        read.
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
        """Return the keeper of an episode's steps."""
        return RemoteJournal(self.mirror, self._journal(episode))

    def complete(self, episode: str, files: Mapping[str, bytes]) -> None:
        """Upload the files of a complete episode; the mark comes last."""
        others = [name for name in files if name != MARK]
        at_once(lambda name: self._put(episode, name, files[name]), others)
        self._put(episode, MARK, files[MARK])

    def drop_journal(self, episode: str, steps: int | None = None) -> None:
        """Delete the steps of a complete episode, whose transcript contains them. `steps`: number
        of steps that this process uploaded; None: delete the steps of an earlier, killed process.
        """
        keys = [part.stat.key for part in self.episodes().get(episode, _NO_FILES).journal]
        if steps is not None:
            keys = [_part_key(self._journal(episode), number + 1) for number in range(steps)]

        at_once(self.mirror.store.delete, keys[::-1])

    def end(self) -> None:
        """Compact the run's remaining files, and keep the local files as copies of those at the
        store.
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
    """Steps of one episode at a store, one file per step."""

    def __init__(self, mirror: Mirror, folder: str) -> None:
        self._mirror = mirror
        self._folder = folder

    def append(self, number: int, line: bytes) -> None:
        """Upload a finished step, numbered from 1; durable once this returns. Raises StoreError."""
        self._mirror.put_new(_part_key(self._folder, number), line, "this episode")


def remote_run_at(path: Path) -> RemoteRun | None:
    """Return the run at a URL that a folder is the local copy of; None for any other folder."""
    home = mirrored_folder(path)
    return None if home is None else remote_run(*home)


def run_file(folder: Path, name: str) -> Path:
    """Return the path of a file of a run, given its name in a card's `artefacts`. If the folder is
    the local copy of a URL, the file is fetched first. The file may not exist.
    """
    remote = remote_run_at(folder)
    if remote is not None:
        remote.bring_named(name)
    return folder / name


@lru_cache(maxsize=1024)
def remote_run(mirror: Mirror, prefix: str) -> RemoteRun:
    """Return the run under a prefix of a URL: the same object each time, so that its listing is
    shared.
    """
    return RemoteRun(mirror, prefix)


def _part_key(folder: str, number: int) -> str:
    return f"{folder}/{number:06}.jsonl"


def by_episode(stats: Iterable[Stat], folder: str) -> dict[str, EpisodeFiles]:
    """Return the files of each episode, from a listing of all files."""
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
