"""`ktdeval leaderboard import`: add external files to a board, either a mask's certificate or
results from another harness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import ktdeval
from ktdeval.cards import ATTACHED, card_kinds, count
from ktdeval.cli import (
    FilePath,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.errors import PluginError, StoreError, UsageError, VerificationError, wrap_os_error
from ktdeval.runner import ANSWERS, CERTIFICATE, MANIFEST, MARK, TRANSCRIPT, RunFolder, run_file
from ktdeval.values import dumps_pretty, file_sha256, read_plain, to_plain, write_atomic
from ktdeval_board.board_entries import VERDICT
from ktdeval_board.document_types import Certified
from ktdeval_board.exchange.every_eval_ever_import import file_name, import_results
from ktdeval_board.layout import IMPORTED, BoardFolder
from ktdeval_board.options import BoardOptions, MovedOptions, moved_market, recorded_day
from ktdeval_board.rules import load_rules


@dataclass(frozen=True, kw_only=True)
class ImportOptions(BoardOptions, MovedOptions, PluginOptions):
    """Options of `leaderboard import`."""

    runs: tuple[Path, ...] = flag(
        (),
        name="--attackers",
        type=RunPath(),
        metavar="RUN",
        help="for a certificate: run folder of an attack; repeat for each attack, in order",
    )
    model: str | None = flag(
        None,
        metavar="NAME",
        help="for results: name of the model [default: as in the record]",
    )


@example("ktdeval leaderboard import record.json --board my-board")
@click.command("import")
@click.argument("file", type=FilePath(), metavar="FILE")
@options_of(ImportOptions)
def import_file(file: Path, options: ImportOptions) -> None:
    """Add the certificate of a mask with the runs of its attacks, or results of another harness: a
    record of every_eval_ever, to which its converters turn files of lm-eval, Inspect and HELM.

    With --attackers, FILE is a certificate: the probes are attacked again, and each model's answers
    must follow from its recorded replies. Cards with this certificate are then shown as verified
    and are accepted in divisions that require one; until then it is shown as claimed. Without
    --attackers, FILE contains results: the site shows them as imported, with the source's SHA-256.
    They are never ranked, since the board has no records of them.
    """
    if not options.runs:
        _add_results(file, options)
        return

    if options.model is not None:
        raise UsageError(
            "--model applies to results and --attackers to a certificate; leave one out"
        )

    _add_certificate(file, options)


# ---- certificates


def _add_certificate(file: Path, options: ImportOptions) -> None:
    load_rules(options.board)
    plugins = open_plugins(options.plugin)
    day = recorded_day()
    verify = card_kinds(ATTACHED, plugins)[ATTACHED].verify
    if verify is None:
        raise PluginError("the plugin for certificates can't verify this one")

    difference = verify(file, plugins, moved_market(options), options.runs)
    if difference is not None:
        raise VerificationError(f"{file}: does not verify: {difference}")

    sha256 = file_sha256(file)
    folder = BoardFolder(options.board).certificate(sha256)
    names = tuple(f"attack-{number}" for number in range(1, len(options.runs) + 1))
    verdict = Certified(
        certificate=sha256, checked_on=day, suite_version=ktdeval.__version__, runs=names
    )

    with wrap_os_error(f"{folder}: can't write the certificate"):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CERTIFICATE, read_plain(file))
        _copy_runs(options.runs, [folder / name for name in names])

    write_atomic(folder / VERDICT, dumps_pretty(to_plain(verdict)))
    click.echo(f"{folder}: certificate verified, with {count(len(options.runs), 'attack')}")


def _copy_runs(runs: Sequence[Path], targets: Sequence[Path]) -> None:
    for path, target in zip(runs, targets, strict=True):
        _copy_answers(RunFolder.load(path), target)


def _copy_answers(run: RunFolder, target: Path) -> None:
    """Copy a run's plan and records, from which its answers are derived."""
    names = [MANIFEST]
    for spec in run.manifest.specs:
        names += [f"episodes/{spec.id}/{name}" for name in (ANSWERS, TRANSCRIPT, MARK)]

    # Copy no other files: the run comes from outside and may contain anything.
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target / name, read_plain(run_file(run.path, name)))


# ---- results


def _add_results(file: Path, options: ImportOptions) -> None:
    rules = load_rules(options.board)
    document = import_results(file, rules.limits.bytes_of("card_mb"), options.model)
    folder = options.board / IMPORTED
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link; replace it with a folder")

    folder.mkdir(exist_ok=True)
    path = folder / file_name(document)
    write_atomic(path, dumps_pretty(to_plain(document)))
    click.echo(f"{path}: {count(len(document.results), 'result')} of {document.model.name}")

    for note in document.notes:
        click.echo(f"note: {note}")
