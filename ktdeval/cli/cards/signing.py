"""`ktdeval card keygen` and `card sign`, and the passphrase of private keys."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cli.help.examples import example
from ktdeval.cli.options import FilePath, OutputPath, RunPath, flag, options_of
from ktdeval.errors import UsageError

PASSPHRASE = "KTDEVAL_KEY_PASSPHRASE"  # noqa: S105 - name of an environment variable


def passphrase_of_key() -> str:
    """Return the passphrase of an encrypted key, from the environment or typed without echo.

    Raises UsageError if the environment variable is not set and no terminal is available.
    """
    given = os.environ.get(PASSPHRASE)
    if given is not None:
        return given

    if not sys.stdin.isatty():
        raise UsageError(f"the key is encrypted: set {PASSPHRASE}, or run this in a terminal")

    typed: str = click.prompt("Passphrase of the key", hide_input=True, err=True)
    return typed


@dataclass(frozen=True, kw_only=True)
class KeygenOptions:
    """Options for `card keygen`."""

    out: Path = flag(help="file of the private key", type=OutputPath("file"), metavar="FILE")
    encrypt: bool = flag(False, help=f"encrypt it with a passphrase: {PASSPHRASE}, or typed twice")


@example("ktdeval card keygen --out me.key")
@click.command()
@options_of(KeygenOptions)
def keygen(options: KeygenOptions) -> None:
    """Make an Ed25519 key to sign with: FILE, for you alone, and FILE.pub, for others."""
    from ktdeval.cards.signing_keys import PrivateKey, write_key_pair

    passphrase = ""
    if options.encrypt:
        passphrase = os.environ.get(PASSPHRASE) or click.prompt(
            "Passphrase", hide_input=True, confirmation_prompt=True, err=True
        )

    key = PrivateKey.generate()
    public_path = write_key_pair(options.out, key, passphrase)
    click.echo(f"private key  {options.out} (mode 0600; do not share it)")
    click.echo(f"public key   {public_path}")
    click.echo(f"for a board  key: '{key.public.raw.hex()}'")
    click.echo(f"key id       {key.public.id}")


@dataclass(frozen=True, kw_only=True)
class CardSignOptions:
    """Options for `card sign`."""

    key: Path = flag(help="file of your private key", type=FilePath(), metavar="FILE")


@example("ktdeval card sign ktdeval-runs/my-run --key me.key")
@click.command()
@click.argument("path", type=RunPath())
@options_of(CardSignOptions)
def sign(path: Path, options: CardSignOptions) -> None:
    """Sign a card: write CARD.sig next to it, which `card verify --signed-by` checks.

    PATH is a card file, or a run folder with all its cards. The card itself is not changed. A
    signature says who vouches for these bytes, not when.
    """
    from ktdeval.cards.card_reading import card_files, load_card
    from ktdeval.cards.signatures import SIGNED_CARD, sign_file
    from ktdeval.cards.signing_keys import read_private_key

    files = card_files([path])
    for file in files:
        load_card(file)

    private = read_private_key(options.key, passphrase_of_key)
    for file in files:
        signature = sign_file(file, SIGNED_CARD, private)
        click.echo(f"{signature}: signed by key {private.public.id}")
