"""Maintainers whose signatures on verdicts count, as `board.yaml` names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import PublicKey, public_key
from ktdeval.errors import SignatureError
from ktdeval.values.typed import Value
from ktdeval_board.documents import Line, Sha256


class Signer(Value, frozen=True, kw_only=False):
    """Maintainer whose signature on a verdict counts."""

    name: Line  #: Name that readers see
    key: Sha256  #: Public Ed25519 key, 64 hexadecimal digits, as `ktdeval card keygen` prints it

    def public_key(self) -> PublicKey:
        """Return the key. Raises SignatureError: it is not canonical, or of small order."""
        return public_key(bytes.fromhex(self.key), f"signers: {self.name}")


def signer_problems(signers: Sequence[Signer], is_required: bool) -> Iterator[str]:
    """Yield what is wrong with the signers of a board."""
    if is_required and not signers:
        yield "verdict_signatures: required, but signers names no key; add one"

    seen = set[str]()
    for each in signers:
        if each.key in seen:
            yield f"signers: the key of {each.name} stands there twice"

        seen.add(each.key)
        try:
            each.public_key()
        except SignatureError as error:
            yield str(error)
