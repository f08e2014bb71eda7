"""`ktdeval paper vote`: elect from the recorded decisions of several runs, and check such an
election.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import card_files, latest_cutoff, load_evaluation
from ktdeval.cli import (
    OutputPath,
    PluginOptions,
    RunPath,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.errors import (
    EpisodeFailure,
    StoreError,
    UsageError,
    VerificationError,
    wrap_os_error,
)
from ktdeval.harness import Model
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, RunFolder, open_recorded_snapshot, open_run, verify_card
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import JsonValue, content_hash, filling
from ktdeval_agents.model_per_episode import PlannedEpisodes, evaluate_given
from ktdeval_agents.recorded_vote import MODEL, BallotModel
from ktdeval_agents.voting_runs import Ballots, Voter, episode_key, open_voters, voter_labels

_AGENT = "vote"


@dataclass(frozen=True, kw_only=True)
class VoteOptions(PluginOptions):
    """Options of an election."""

    out: Path | None = flag(
        None, type=OutputPath("folder"), metavar="DIR", help="folder of the elected run"
    )
    verify: Path | None = flag(
        None,
        type=RunPath(),
        metavar="DIR",
        help=(
            "instead of electing, verify the elected run in DIR and check its ballots against "
            "these runs"
        ),
    )


@example("ktdeval paper vote ktdeval-runs/a ktdeval-runs/b ktdeval-runs/c --out ktdeval-runs/vote")
@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN RUN…")
@options_of(VoteOptions)
@config_option("rules", "metrics", "data", "data_args")
def vote(runs: tuple[Path, ...], options: VoteOptions, **changes: Any) -> None:
    """Elect from the recorded decisions of several runs, without a model call.

    RUN is a finished run of one task, market, windows and seeds, of another model or agent each. By
    asset, the side that more than half of all voters chose is executed, in a run of its own.
    """
    plugins = open_plugins(options.plugin)
    voters = open_voters(runs)
    for voter in voters:
        open_run(voter.path, plugins)

    given = {name: value for name, value in changes.items() if value is not None}
    if options.verify is not None:
        if options.out is not None:
            raise UsageError("--out elects and --verify verifies an election; give one of them")
        _verify(options.verify, voters, plugins, given)
        return

    if options.out is None:
        raise UsageError("--out: name the folder of the elected run, or --verify DIR")
    _elect(voters, options.out, plugins, given)


def _elect(voters: Sequence[Voter], out: Path, plugins: Plugins, given: dict[str, Any]) -> None:
    """Make the elected run, either completely or not at all, and print its decisions."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"--out {out}: exists already; give a new folder")

    def prepare(plan: PlannedEpisodes) -> Any:
        ballots = Ballots(voters, plan)

        def model_of(spec: EpisodeSpec) -> Model:
            return BallotModel(ballots.of(spec))

        return model_of

    config = _config(voters, given)
    with (
        wrap_os_error(f"--out {out}: can't write", "choose another folder"),
        filling(out) as folder,
    ):
        result = evaluate_given(replace(config, out=str(folder)), plugins, prepare)
        if result.failed:
            failure = result.failed[0]
            raise EpisodeFailure(f"{failure.spec.label}: {failure.error}; nothing was written")

    names = " ".join(str(voter.path) for voter in voters)
    for file in card_files([out]):
        card = load_evaluation(file)
        decisions = card.decisions
        click.echo(
            f"{file}: {decisions.elected} of {decisions.steps} steps elected from"
            f" {len(voters)} voters; ballots missing: {card.failures.get('no_ballot', 0)}"
        )

    click.echo(f"\nverify  ktdeval paper vote {names} --verify {out}")


def _config(voters: Sequence[Voter], given: dict[str, Any]) -> RunConfig:
    """Return the config of the elected run: the voters' plan, with a mask key derived from their
    records. As a result, no two runs share handles, and the same voters always give the same run.
    """
    specs = voters[0].folder.manifest.specs
    seeds = sorted({spec.seed for spec in specs})
    records: list[JsonValue] = [voter.to_json() for voter in voters]
    market = voters[0].folder.manifest.data or {}
    settings: dict[str, Any] = {
        "data": market.get("data"),
        "data_args": market.get("data_args", {}),
        "rules": _require_agreement(voters, "rules", given),
        "metrics": _require_agreement(voters, "metrics", given),
        **given,
    }
    if "data" in given:
        settings["data_args"] = given.get("data_args", {})

    return RunConfig(
        model=MODEL,
        tasks=tuple(dict.fromkeys(spec.task for spec in specs)),
        windows=tuple(dict.fromkeys(str(spec.window_name) for spec in specs)),
        seeds=len(seeds),
        seed=seeds[0],
        limit=specs[0].limit,
        mask_key=content_hash(["elected", *(voter.records for voter in voters)])[:32],
        model_args={"voters": records},
        agent=_AGENT,
        agent_args={"recorded": list(voter_labels(voters))},
        knowledge_cutoff=_latest_cutoff(voters),
        canary=0,
        **settings,
    )


def _require_agreement(voters: Sequence[Voter], name: str, given: dict[str, Any]) -> Any:
    """Return a setting that the voters' runs share. Raises UsageError if the runs differ and the
    user gave no value.
    """
    first = getattr(voters[0].folder.manifest, name)
    for voter in voters[1:]:
        other = getattr(voter.folder.manifest, name)
        if other != first and name not in given:
            raise UsageError(
                f"{voter.path}: {name} differ: {other}; {voters[0].path} has {first}; choose with"
                f" --{name}"
            )

    return first


def _latest_cutoff(voters: Sequence[Voter]) -> str:
    """Return the latest end of the voters' training data; `unknown` if the end is unknown or only a
    lower bound.
    """
    latest = latest_cutoff([voter.folder.manifest.knowledge_cutoff for voter in voters])
    if isinstance(latest, str):
        return latest
    if latest.is_lower_bound:
        return "unknown"  # the option accepts only a date, not a bound
    return latest.date


# ---- verification


def _verify(path: Path, voters: Sequence[Voter], plugins: Plugins, given: dict[str, Any]) -> None:
    """Verify an elected run and its ballots. Raises VerificationError at the first difference."""
    folder = RunFolder.load(path)
    moved: dict[str, Any] = {name: given[name] for name in ("data", "data_args") if name in given}
    difference = next(_differences(folder, voters, plugins, moved), None)
    if difference is not None:
        raise VerificationError(f"{path}: does not verify: {difference}")

    steps = 0
    for file in card_files([path]):
        verification = verify_card(file, plugins, moved)
        steps += verification.steps
        for finding in verification.findings:
            raise VerificationError(f"{file}: does not verify: {finding}")

    click.echo(
        f"{path}: verified (ballots of {len(voters)} voters as in their runs, steps executed again:"
        f" {steps})"
    )


def _differences(
    folder: RunFolder, voters: Sequence[Voter], plugins: Plugins, moved: dict[str, Any]
) -> Iterator[str]:
    """Yield the differences between an elected run and its voters' runs, one line each."""
    planned = folder.manifest.specs
    if planned[0].model != MODEL:
        raise UsageError(
            f"{folder.path}: is not an elected run; name one that `ktdeval paper vote` made"
        )

    yield from _voter_differences(planned[0], voters)
    first = voters[0]
    is_same_market = folder.manifest.snapshot == first.folder.manifest.snapshot
    if not is_same_market or [episode_key(spec) for spec in planned] != [*first.episodes]:
        yield f"its market and episodes are not those of {first.path}"
        return

    labels = list(voter_labels(voters))
    for spec in planned:
        named = spec.agent_args.get("recorded")
        if named != labels:
            yield f"{spec.label}: its voters are {named}, but those runs are {labels}"
            return

    snapshot = open_recorded_snapshot(folder, plugins, moved)
    tasks = {spec.task: plugins.make_task(spec.task) for spec in planned}
    ballots = Ballots(voters, PlannedEpisodes(planned, tasks, snapshot))
    for spec in planned:
        yield from _ballot_differences(folder, spec, ballots)


def _voter_differences(spec: EpisodeSpec, voters: Sequence[Voter]) -> Iterator[str]:
    recorded: Any = spec.model_args.get("voters", [])
    if len(recorded) != len(voters):
        yield f"it has {len(recorded)} voters, but {len(voters)} runs are given"
        return

    for number, (was, voter) in enumerate(zip(recorded, voters, strict=True), 1):
        for name, value in voter.to_json().items():
            if was.get(name) != value:
                yield (
                    f"voter {number}: {name}: recorded {was.get(name)}, {voter.path} has "
                    f"{value}; give the runs unchanged and in their order"
                )
                break


def _ballot_differences(folder: RunFolder, spec: EpisodeSpec, ballots: Ballots) -> Iterator[str]:
    """Yield the first ballot in an episode that differs from the ballot in the voter's run."""
    voters = ballots.voters
    expected = [reply.to_json() for reply in ballots.of(spec)]
    recorded: list[JsonValue] = []
    for entry in folder.load_transcript(spec):
        recorded += [exchange.get("reply") for exchange in entry.exchanges]

    if len(recorded) != len(expected):
        yield f"{spec.label}: {len(recorded)} ballots, but the voters' runs have {len(expected)}"
        return

    for number, (was, now) in enumerate(zip(recorded, expected, strict=True)):
        step, voter = divmod(number, len(voters))
        if was != now:
            yield (
                f"{spec.label}: step {step}: the ballot of voter {voter + 1} is not the one that"
                f" {voters[voter].path} has"
            )
            return
