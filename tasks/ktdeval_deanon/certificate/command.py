"""`ktdeval certify`: put a mask to attackers, and record what they recovered."""

from __future__ import annotations

import sys
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
    open_plugins,
)
from ktdeval.errors import UsageError, VerificationError, explained
from ktdeval.values.jsonio import dumps_pretty, make_folder, write_atomic
from ktdeval.values.temporary import filling

if TYPE_CHECKING:
    from ktdeval_deanon.certificate.certify import OnProbe

_FILE = FilePath(dir_okay=False)


@example("ktdeval certify --task blinded_open_research --attackers attack --out certificate.json")
@click.command("certify", short_help="Attack a mask and write its certificate, or verify one.")
@click.option(
    "--task",
    metavar="NAME",
    shell_complete=complete_names("tasks"),
    help="the trading task whose mask is put to the test",
)
@config_option("data", "data_args", "windows", "mask_key")
@click.option(
    "--probes",
    type=click.IntRange(min=1),
    metavar="N",
    help="probes in all, the first of each window; default: all",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**62),
    default=0,
    metavar="N",
    help="of the probe set [default: 0]",
)
@click.option(
    "--exam",
    default="",
    metavar="NAME",
    shell_complete=complete_names("tasks"),
    help="the scoring task that asks; default: the one that asks about the task",
)
@click.option(
    "--attackers",
    "runs",
    type=RunPath(),
    multiple=True,
    metavar="RUN",
    help="run of that scoring task; give it once for each model",
)
@click.option("--out", type=OutputPath("file"), metavar="FILE", help="where the certificate goes")
@click.option(
    "--save-probes",
    type=OutputPath("folder"),
    metavar="DIR",
    help="write payloads.jsonl, and gold.jsonl with the true answers",
)
@click.option(
    "--verify",
    "recorded",
    type=_FILE,
    metavar="FILE",
    help="check this certificate instead: attack its probe set again",
)
@config_option("plugin")
def certify(task: str | None, out: Path | None, recorded: Path | None, **options: Any) -> None:
    """Draw probes of a task's mask, put them to attackers, and write the certificate.

    Attackers without a language model always run: the exact matcher, which looks the shown numbers
    up in the whole price history, the date matcher, and chance. Models attack in runs of the
    scoring task (such as deanon_probe); name these with --attackers. What is certified is the
    channel to a model, not to a database.
    """
    if recorded is not None:
        _verify(recorded, task, out, options)
        return

    if task is None or out is None:
        raise UsageError(
            f"{'--task NAME' if task is None else '--out FILE'} is missing; or give --verify FILE"
        )

    # not at the top, so that help is quick
    from ktdeval_deanon.certificate.certify import CertifyConfig, certify as make

    arguments = {
        name: value
        for name, value in options.items()
        if value is not None and name not in ("plugin", "save_probes")
    }
    make_folder(out.parent, "choose another --out")
    certified = make(
        CertifyConfig(task, **arguments), open_plugins(options["plugin"] or ()), _progress()
    )
    write_atomic(out, dumps_pretty(certified.certificate.plain))
    print_lines(card_lines(certified.certificate))
    click.echo(f"\ncertificate  {out}")

    if folder := options["save_probes"]:
        with (
            explained(f"{folder}: can't write", "choose another --save-probes"),
            filling(folder) as fresh,
        ):
            for name, text in certified.files.items():
                write_atomic(fresh / name, text)

        for name in certified.files:
            click.echo(f"probes       {folder / name}")

    click.echo(f"verify       ktdeval certify --verify {out}")


def _verify(recorded: Path, task: str | None, out: Path | None, options: dict[str, Any]) -> None:
    if task is not None or out is not None:
        raise UsageError(
            "--verify takes what to attack from the certificate; leave --task and --out out"
        )

    from ktdeval_deanon.certificate.certify import verify_certificate

    moved = {name: options[name] for name in ("data", "data_args") if options[name] is not None}
    difference = verify_certificate(
        recorded, open_plugins(options["plugin"] or ()), moved, options["runs"], _progress()
    )
    if difference is not None:
        raise VerificationError(f"{recorded}: does not verify: {difference}")

    if options["runs"]:
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
    """Count probes on stderr where that is a terminal."""
    watched = sys.stderr.isatty()

    def report(done: int, total: int) -> None:
        if watched:
            text = f"\r{done:,} of {total:,} probes attacked{'' if done < total else chr(10)}"
            # past the filter of controls
            click.echo(text, nl=False, file=getattr(sys.stderr, "raw", sys.stderr))

    return report
