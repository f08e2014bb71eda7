"""`ktdeval certify`: attack a mask, and record what was recovered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import card_lines, print_lines
from ktdeval.cli import (
    FilePath,
    OutputPath,
    RunPath,
    complete_names,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.errors import UsageError, VerificationError, wrap_os_error
from ktdeval.registry import Plugins
from ktdeval.values import dumps_pretty, filling, make_folder, write_atomic

if TYPE_CHECKING:
    from ktdeval_deanon.certificate.certify import OnProbe


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Options of `certify` that a run does not have."""

    task: str | None = flag(
        None,
        metavar="NAME",
        complete=complete_names("tasks"),
        help="trading task whose mask is tested",
    )
    exam: str = flag(
        "",
        metavar="NAME",
        complete=complete_names("tasks"),
        help="scoring task that asks the probes; default: the one that asks about the trading task",
    )
    probes: int | None = flag(
        None,
        type=click.IntRange(min=1),
        metavar="N",
        help="total number of probes, the first of each window; default: all",
    )
    seed: int = flag(
        0, type=click.IntRange(min=0, max=2**62), metavar="N", help="seed of the probe set"
    )
    runs: tuple[Path, ...] = flag(
        (),
        name="--attackers",
        type=RunPath(),
        metavar="RUN",
        help="run of that scoring task; repeat the option for each model",
    )
    out: Path | None = flag(
        None, type=OutputPath("file"), metavar="FILE", help="file to write the certificate to"
    )
    save_probes: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="write payloads.jsonl, and gold.jsonl with the true answers",
    )
    recorded: Path | None = flag(
        None,
        name="--verify",
        type=FilePath(dir_okay=False),
        metavar="FILE",
        help="check this certificate instead: attack its probe set again",
    )


@example("ktdeval certify --task blinded_open_research --attackers attack --out certificate.json")
@click.command("certify", short_help="Attack a mask and write its certificate, or verify one.")
@options_of(CertifyOptions)
@config_option("data", "data_args", "windows", "mask_key", "plugin")
def certify(options: CertifyOptions, plugin: tuple[str, ...] | None, **of_run: Any) -> None:
    """Draw probes of a task's mask, put them to attackers, and write the certificate.

    Attackers without a language model always run: the exact matcher, which looks the shown numbers
    up in the whole price history, the date matcher, chance, and the path matcher, which finds the
    first day of whole episodes by the closes of the index. Models attack in runs of the
    scoring task (such as deanon_probe); name these with --attackers. What is certified is the
    channel to a model, not to a database.
    """
    plugins = open_plugins(plugin or ())
    if options.recorded is not None:
        _verify(options.recorded, options, of_run, plugins)
        return

    task, out = options.task, options.out
    if task is None or out is None:
        raise UsageError(
            f"{'--task NAME' if task is None else '--out FILE'} is missing; or give --verify FILE"
        )

    # imported here to keep help fast
    from ktdeval_deanon.certificate.certify import CertifyConfig, certify as make

    given = {name: value for name, value in of_run.items() if value is not None}
    config = CertifyConfig(
        task,
        exam=options.exam,
        probes=options.probes,
        seed=options.seed,
        runs=options.runs,
        **given,
    )
    make_folder(out.parent, "choose another --out")
    certified = make(config, plugins, _progress())
    write_atomic(out, dumps_pretty(certified.certificate.plain))
    print_lines(card_lines(certified.certificate))
    click.echo(f"\ncertificate  {out}")

    folder = options.save_probes
    if folder is not None:
        with (
            wrap_os_error(f"{folder}: can't write", "choose another --save-probes"),
            filling(folder) as fresh,
        ):
            for name, text in certified.files.items():
                write_atomic(fresh / name, text)

        for name in certified.files:
            click.echo(f"probes       {folder / name}")

    click.echo(f"verify       ktdeval certify --verify {out}")


def _verify(
    recorded: Path, options: CertifyOptions, of_run: Mapping[str, Any], plugins: Plugins
) -> None:
    if options.task is not None or options.out is not None:
        raise UsageError("--verify reads the task from the certificate; leave out --task and --out")

    from ktdeval_deanon.certificate.certify import verify_certificate

    moved = {name: of_run[name] for name in ("data", "data_args") if of_run[name] is not None}
    difference = verify_certificate(recorded, plugins, moved, options.runs, _progress())
    if difference is not None:
        raise VerificationError(f"{recorded}: does not verify: {difference}")

    if options.runs:
        click.echo(
            f"{recorded}: verified (probes attacked again, models' answers follow from their"
            " recorded replies)"
        )
    else:
        click.echo(
            f"{recorded}: claimed (probes attacked again; give the models' runs with --attackers to"
            " verify their answers)"
        )


def _progress() -> OnProbe:
    """Show progress on stderr if it is a terminal."""
    watched = sys.stderr.isatty()

    def report(done: int, total: int) -> None:
        if watched:
            text = f"\r{done:,} of {total:,} probes and episodes attacked{'' if done < total else chr(10)}"
            # bypasses the filter of control characters
            click.echo(text, nl=False, file=getattr(sys.stderr, "raw", sys.stderr))

    return report
