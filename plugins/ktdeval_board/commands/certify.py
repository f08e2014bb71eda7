"""`ktdeval leaderboard certify`: verify the certificate of a mask from the runs of its attacks, and keep them with a verdict."""

from __future__ import annotations

from pathlib import Path

import click

import ktdeval
from ktdeval.cards import ATTACHED, card_kinds
from ktdeval.cli import FilePath, open_plugins, plugin_option
from ktdeval.errors import PluginError, StoreError, VerificationError
from ktdeval.jsonio import dumps_pretty, file_sha256, read_plain, write_atomic
from ktdeval.runner import RunFolder
from ktdeval.typed import to_plain
from ktdeval_board.documents import Certified
from ktdeval_board.entries import VERDICT
from ktdeval_board.layout import ANSWERS, CERTIFICATE, MANIFEST, MARK, TRANSCRIPT, BoardFolder
from ktdeval_board.options import as_day, moved_market
from ktdeval_board.rules import load_rules

_FILE = FilePath()


@click.command()
@click.argument("certificate", type=_FILE, metavar="FILE")
@click.option("--board", default=".", show_default=True, type=_FILE, metavar="DIR", help="the board's folder")
@click.option(
    "--attackers", "runs", type=_FILE, multiple=True, required=True, metavar="RUN", help="run of an attack; all, in order"
)
@click.option("--data", metavar="DATA", help="the market, where it has moved: a snapshot folder or data provider")
@click.option("--data-args", multiple=True, metavar="NAME=VALUE,…", help="arguments of the data provider")
@click.option("--on", "today", metavar="DAY", help="day of the verdict, YYYY-MM-DD [default: today, UTC]")
@plugin_option
def certify(  # noqa: PLR0913 - a command takes one parameter for each option
    certificate: Path, board: Path, runs: tuple[Path, ...], data: str | None, data_args: tuple[str, ...], today: str | None,
    extra: tuple[str, ...],
) -> None:  # fmt: skip
    """Verify the certificate FILE of a mask, and keep it with the runs of its attacks, for maintainers.

    The probes are attacked again, and each model's answers must follow from its recorded replies. Cards that carry this
    certificate are then shown as verified, and stand in divisions that ask for one; until then it is claimed.
    """
    load_rules(board)
    plugins, day = open_plugins(extra), as_day(today)
    verify = card_kinds(ATTACHED, plugins)[ATTACHED].verify
    if verify is None:
        raise PluginError("the plugin of certificates can't verify one")
    if (difference := verify(certificate, plugins, moved_market(data, data_args), runs)) is not None:
        raise VerificationError(f"{certificate}: does not verify: {difference}")
    sha256 = file_sha256(certificate)
    folder = BoardFolder(board).certificate(sha256)
    names = tuple(f"attack-{number}" for number, _ in enumerate(runs, 1))
    verdict = Certified(certificate=sha256, checked_on=day, suite_version=ktdeval.__version__, runs=names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CERTIFICATE, read_plain(certificate))
        for name, run in zip(verdict.runs, map(RunFolder.load, runs), strict=True):
            _keep(run, folder / name)
    except OSError as error:
        raise StoreError(f"{folder}: can't keep the certificate: {error.strerror or error}") from error
    write_atomic(folder / VERDICT, dumps_pretty(to_plain(verdict)))
    click.echo(f"{folder}: certificate verified, with {len(runs)} attack{'' if len(runs) == 1 else 's'}")


def _keep(run: RunFolder, target: Path) -> None:
    """Copy what the answers of a run follow from: its plan and its records."""
    names = [MANIFEST, *(f"episodes/{spec.id}/{name}" for spec in run.manifest.specs for name in (ANSWERS, TRANSCRIPT, MARK))]
    for name in names:  # and no others, for the run is a stranger's
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target / name, read_plain(run.path / name))
