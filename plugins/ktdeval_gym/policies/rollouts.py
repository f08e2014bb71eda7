"""Roll out a policy over many windows, in several processes, with one record per window.

A rollout is a pure function of environment, policy and seed. A job that is killed and restarted
therefore gives the same bytes as an uninterrupted one, with any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from ktdeval.errors import DataError, UsageError, wrap_os_error
from ktdeval.values import (
    Value,
    decode_json,
    encode_canonical,
    make_folder,
    read_plain,
    sha256_hex,
    write_atomic,
)

Policy = Callable[[Any], Any]
MakeEnv = Callable[[], Any]
MakePolicy = Callable[[int], Policy]
MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class RolloutJob:
    """Job for one episode. Both factory functions are sent to other processes, so they must be
    importable by name or picklable.
    """

    name: str  #: name of the record's file: letters, digits, `-` and `_`
    make_env: MakeEnv
    #: given the job's seed, returns a function from observations to actions
    make_policy: MakePolicy
    seed: int = 0


class Rollout(Value):
    """Record of one episode."""

    format: Literal["ktdeval-gym-rollout/1"]
    name: str
    seed: int
    observations: str  #: SHA-256 of the bytes of all observations, in order
    actions: tuple[Any, ...]
    rewards: tuple[float, ...]
    is_terminated: bool


def roll_out(job: RolloutJob) -> Rollout:
    """Run a job, and return the record of its episode."""
    env = job.make_env()
    policy = job.make_policy(job.seed)
    observation, _ = env.reset(seed=job.seed)
    seen = [_bytes_of(observation)]
    actions: list[Any] = []
    rewards: list[float] = []
    is_terminated = is_truncated = False
    while not (is_terminated or is_truncated):
        action = policy(observation)
        observation, reward, is_terminated, is_truncated, _ = env.step(action)
        seen.append(_bytes_of(observation))
        actions.append(_plain_action(action))
        rewards.append(float(reward))

    env.close()
    return Rollout(
        format="ktdeval-gym-rollout/1",
        name=job.name,
        seed=job.seed,
        observations=sha256_hex(b"".join(seen)),
        actions=tuple(actions),
        rewards=tuple(rewards),
        is_terminated=bool(is_terminated),
    )


def roll_out_all(jobs: Sequence[RolloutJob], folder: Path, processes: int = 1) -> list[Rollout]:
    """Run all jobs and return their records in order. A job with a record in `folder` is not run
    again.

    Raises UsageError if two jobs have the same name, or if a name can't be a file name; DataError
    if a record belongs to another job or is malformed.
    """
    _check_names(jobs)
    make_folder(folder, "choose another folder")
    missing = [job for job in jobs if not _path(folder, job).exists()]
    if processes <= 1:
        for job in missing:
            _write_rollout(folder, roll_out(job))
    else:
        # with spawn, child processes inherit neither threads nor random states
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for done in as_completed([pool.submit(roll_out, job) for job in missing]):
                _write_rollout(folder, done.result())

    return [_read_rollout(_path(folder, job), job) for job in jobs]


def _check_names(jobs: Sequence[RolloutJob]) -> None:
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise UsageError("two roll-outs have the same name; name each one differently")
    for name in names:
        if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
            raise UsageError(f"roll-out {name!r}: use letters, digits, - and _ in a name")


def _path(folder: Path, job: RolloutJob) -> Path:
    return folder / f"{job.name}.json"


def _write_rollout(folder: Path, rollout: Rollout) -> None:
    write_atomic(folder / f"{rollout.name}.json", encode_canonical(rollout) + "\n")


def _read_rollout(path: Path, job: RolloutJob) -> Rollout:
    with wrap_os_error(f"roll-out {path}: can't be read", "delete it to run it again", DataError):
        data = read_plain(path, MAX_BYTES)

    rollout = decode_json(data, Rollout, f"roll-out {path}", DataError)
    if (rollout.name, rollout.seed) != (job.name, job.seed):
        raise DataError(
            f"roll-out {path} is of {rollout.name} with seed {rollout.seed}; choose another folder"
        )
    return rollout


def _bytes_of(observation: Any) -> bytes:
    """Return the bytes of an array, or of a dict of arrays in key order."""
    if isinstance(observation, dict):
        return b"".join(observation[name].tobytes() for name in sorted(observation))
    return bytes(observation.tobytes())


def _plain_action(action: Any) -> Any:
    return action.tolist() if hasattr(action, "tolist") else action
