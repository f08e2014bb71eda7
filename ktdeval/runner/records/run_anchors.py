"""Anchors of a run that is going on: links are appended to its chain, and heads are stamped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ktdeval.errors import (
    ConfigError,
    KtdevalError,
    StoreError,
    UsageError,
    VerificationError,
)
from ktdeval.runner.records.anchor_chain import (
    AnchorChain,
    Body,
    ChainLink,
    EpisodeOpened,
    SessionBegun,
    StampFailed,
    StepRecorded,
    link_hash,
    load_anchors,
    stamp_link,
    step_hash,
)
from ktdeval.runner.records.episode_journal import Entry, Journal
from ktdeval.runner.records.run_file_names import ANCHORS
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.time_authorities import authority_of
from ktdeval.runner.records.time_stamps import StampAuthority, read_certificates, request_stamp
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.disk.files import Closing
from ktdeval.values.documents.typed_json import from_plain
from ktdeval.values.documents.yamlio import load_yaml
from ktdeval.values.options.user_input import user_path

STEPS_A_STAMP = 10
"""Number of recorded steps after which the head is stamped. It is also stamped when a process
begins or ends the run, after its first step, and at the end of each episode.
"""

UNSTAMPED = "board"  #: value of `--anchor` for a chain without time stamps
_MAX_REASON = 300


@dataclass(frozen=True)
class AnchorRule:
    """How a run is anchored."""

    authority: StampAuthority | None  #: authority that stamps the heads; None: no stamps


def load_anchor_rule(text: str) -> AnchorRule:
    """Return the rule that `--anchor` gives: `board`, or a YAML file that names an authority.

    Raises ConfigError if the file can't be read or has no valid certificate, and UsageError without
    the extra `live`.
    """
    if text == UNSTAMPED:
        return AnchorRule(None)

    path = user_path(text)
    stated = from_plain(load_yaml(path), StampAuthority, f"--anchor {path}", ConfigError)
    texts = read_certificates(stated, path, f"--anchor {path}: ")
    authority = StampAuthority(url=stated.url, **texts)
    authority_of(authority)  # raises an error without the extra, or if it is not a certificate
    return AnchorRule(authority)


class Anchors(Protocol):
    """Receives what a run records, in order."""

    def begin(self, episodes: Sequence[str]) -> None:
        """Note that a process begins or resumes the run with these episodes."""

    def open_episode(self, episode: str, entries: Sequence[Entry]) -> None:
        """Note that an episode is begun or resumed, with the entries recorded so far."""

    def add_step(self, episode: str, step: int, entry: Entry) -> None:
        """Note that a step was recorded."""

    def stamp(self) -> None:
        """Have the head stamped, unless it already is."""

    def close(self) -> None:
        """Close the file."""


class NoAnchors:
    """Anchors of a run that keeps none."""

    def begin(self, episodes: Sequence[str]) -> None:
        """Do nothing."""

    def open_episode(self, episode: str, entries: Sequence[Entry]) -> None:
        """Do nothing."""

    def add_step(self, episode: str, step: int, entry: Entry) -> None:
        """Do nothing."""

    def stamp(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


NO_ANCHORS = NoAnchors()


class ChainWriter(Closing):
    """Appends to the chain of a run, on any thread. Each link is durable before a method returns."""

    def __init__(self, path: Path, chain: AnchorChain, authority: StampAuthority | None) -> None:
        self._journal = Journal(path, ChainLink)
        self._authority = authority
        self._lock = threading.Lock()
        self._head = chain.head
        self._steps = {episode: len(steps) for episode, steps in chain.steps.items()}
        self._is_first_step = True  # of this process
        self._unstamped = 0  # number of steps since the last stamp
        self._is_stamped = True  # an empty chain has no head to stamp

    def begin(self, episodes: Sequence[str]) -> None:
        """Note that a process begins or resumes the run with these episodes."""
        with self._lock:
            self._append(SessionBegun(episodes=tuple(episodes), authority=self._authority))
            self._stamp()

    def open_episode(self, episode: str, entries: Sequence[Entry]) -> None:
        """Note that an episode is begun or resumed, with the entries recorded so far."""
        with self._lock:
            for step in range(self._steps.get(episode, 0), len(entries)):
                self._add_step(episode, step, entries[step], is_found=True)
            self._append(EpisodeOpened(episode=episode, steps=len(entries)))

    def add_step(self, episode: str, step: int, entry: Entry) -> None:
        """Note that a step was recorded."""
        with self._lock:
            self._add_step(episode, step, entry, is_found=False)
            if self._is_first_step or self._unstamped >= STEPS_A_STAMP:
                self._stamp()
            self._is_first_step = False

    def _add_step(self, episode: str, step: int, entry: Entry, is_found: bool) -> None:
        digest = step_hash(entry.step, entry.transcript)
        self._append(StepRecorded(episode=episode, step=step, sha256=digest, found=is_found))
        self._steps[episode] = step + 1
        self._unstamped += 1

    def stamp(self) -> None:
        """Have the head stamped, unless it already is."""
        with self._lock:
            self._stamp()

    def _stamp(self) -> None:
        """Have the head stamped. If that fails, the reason becomes a link, and the run goes on."""
        if self._authority is None or self._is_stamped:
            return

        try:
            answer, time = request_stamp(self._head, self._authority)
        except (StoreError, VerificationError) as error:
            reason = " ".join(str(error).split())[:_MAX_REASON]
            self._append(StampFailed(reason=reason))
        else:
            self._append_link(stamp_link(self._head, answer, time))

        self._unstamped = 0
        self._is_stamped = True

    def _append(self, body: Body) -> None:
        self._append_link(ChainLink(previous=self._head, body=body))

    def _append_link(self, link: ChainLink) -> None:
        self._journal.append(link)
        self._head = link_hash(link)
        self._is_stamped = False

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def open_anchors(folder: RunFolder, rule: AnchorRule | None, is_new: bool) -> Anchors:
    """Open the chain of a run that is begun or resumed. A run that has a chain continues it, by
    default with the authority of its last session.

    Raises StoreError if the chain is broken, or if the records lack a step that it covers;
    UsageError if a run that was begun without anchors is to be anchored.
    """
    path = folder.path / ANCHORS
    if not path.exists():
        if rule is None:
            return NO_ANCHORS
        if not is_new:
            raise UsageError(
                f"--anchor: {folder.path} was begun without anchors; omit the option, or begin a"
                " new run with another --out"
            )
        return ChainWriter(path, AnchorChain(), rule.authority)

    chain = load_anchors(path)
    problem = next(step_problems(folder, chain, folder.manifest.specs), None)
    if problem is not None:
        raise StoreError(
            f"{path}: {problem}; restore the records, or begin again with another --out"
        )

    authority = chain.authority if rule is None else rule.authority
    return ChainWriter(path, chain, authority)


def step_problems(
    folder: RunFolder, chain: AnchorChain, specs: Sequence[EpisodeSpec]
) -> Iterator[str]:
    """Yield the anchored steps of episodes that their records lack, or hold otherwise."""
    for spec in specs:
        anchored = chain.steps.get(spec.id, [])
        if not anchored:
            continue

        try:
            records, transcript = folder.load_recorded(spec)
        except KtdevalError as error:
            yield str(error)
            continue

        recorded = list(zip(records, transcript, strict=False))
        for link in anchored:
            where = f"step {link.step} of episode {spec.id} ({spec.label})"
            if link.step >= len(recorded):
                yield f"{where} was anchored, and is not in the records"
                break
            if step_hash(*recorded[link.step]) != link.sha256:
                yield f"{where} is not the one that was anchored"
