"""`ktdeval qfinzero replay`: what a broker's log says, and whether it is true."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.errors import DataError, VerificationError
from ktdeval_qfinzero.access.commands.options import Source, open_data, source_options
from ktdeval_qfinzero.pmb.broker import rerun
from ktdeval_qfinzero.pmb.log import read_lines, state_of_log


@click.command()
@click.argument("log", type=click.Path(path_type=Path), metavar="LOG")
@click.option("--rerun", "is_rerun", is_flag=True, help="also carry out its commands again over the data, and compare every byte")
@source_options
def replay(log: Path, is_rerun: bool, source: Source) -> None:
    """Verify a broker's log.

    The chain of hashes is followed from line to line, and accounts are built anew from the events alone. With --rerun the commands
    are carried out again over the data that the log was made with: every line must come out the same.
    """
    lines = _lines(log)
    entries, state = read_lines(lines), state_of_log(lines)
    click.echo(f"{log}: {len(entries)} lines follow from each other")
    held = f"{len(state.accounts)} accounts, {len(state.sessions)} sessions"
    click.echo(f"{held}, {len(state.orders)} orders, {len(state.trades)} trades")
    if not is_rerun:
        return
    again = rerun(lines, open_data(source))
    if again != tuple(lines):
        number = next((row for row, pair in enumerate(zip(lines, again)) if pair[0] != pair[1]), min(len(lines), len(again)))
        raise VerificationError(f"{log}: line {number + 1} does not come out the same when the commands are carried out again")
    click.echo("carried out again: the same, byte for byte")


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{log}: can't read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{log}: not UTF-8 text") from error
