"""`ktdeval leaderboard sign`: sign a board's verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cards import SIGNED_VERDICT, count, read_private_key, sign_file, signature_path
from ktdeval.cli import example, flag, options_of, passphrase_of_key
from ktdeval.errors import SignatureError, UsageError
from ktdeval_board.document_types import Verdict
from ktdeval_board.layout import BoardFolder
from ktdeval_board.options import KeyOptions, board_argument
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import Rules, load_rules
from ktdeval_board.signed import verdict_signers


@dataclass(frozen=True, kw_only=True)
class SignOptions(KeyOptions):
    """Options of `leaderboard sign`."""

    only: tuple[str, ...] = flag(
        (),
        name="--card",
        type=click.STRING,
        metavar="ID",
        help="sign only this card's verdict; may be repeated",
    )


@example("ktdeval leaderboard sign board --key maintainer.key")
@click.command()
@board_argument
@options_of(SignOptions)
def sign(board: Path, options: SignOptions) -> None:
    """Sign the verdicts of a board that have no valid signature. For maintainers.

    Read the verdicts first: your signature confirms them. The key must be one of `signers` in
    board.yaml.
    """
    key, only = options.key, options.only
    if key is None:
        raise UsageError("a verdict is signed with your private key; give its file with --key FILE")

    rules = load_rules(board)
    private = read_private_key(key, passphrase_of_key)
    if private.public.raw.hex() not in {each.key for each in rules.signers}:
        raise UsageError(
            f"{key}: is not a signer's key on this board; add its public key to signers in "
            f"board.yaml: {private.public.raw.hex()}"
        )

    signed = 0
    found = set[str]()
    for files in BoardFolder(board).list_cards():
        verdict = BoardFolder(board).verdict(files.card_id)
        if (only and files.card_id not in only) or not verdict.is_file():
            continue

        found.add(files.card_id)
        if _is_signed(verdict, rules):
            continue

        if read_own(verdict, Verdict).card != files.card_id:
            raise SignatureError(f"{verdict}: is the verdict on another card, so it was not signed")

        signed += 1
        click.echo(f"{sign_file(verdict, SIGNED_VERDICT, private)}: signed")

    missing = sorted(set(only) - found)
    if missing:
        raise UsageError(f"--card {missing[0]}: no such card with a verdict on the board")

    click.echo(f"signed {count(signed, 'verdict')} by key {private.public.id}")


def _is_signed(verdict: Path, rules: Rules) -> bool:
    """Return whether a verdict has a valid signature. An invalid signature is removed so that it
    can be replaced.
    """
    try:
        return bool(verdict_signers(verdict, rules))
    except SignatureError:
        signature_path(verdict).unlink(missing_ok=True)
        return False
