"""Signatures on cards and verdicts: whatever is changed, swapped or made up is refused by a typed
error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

import pytest

from ktdeval.cards.signatures import (
    SIGNED_CARD,
    SIGNED_VERDICT,
    Envelope,
    Signature,
    check_signature,
    envelope_bytes,
    parse_envelope,
    pre_authentication,
    sign_file,
    signature_path,
)
from ktdeval.cards.signing_keys import (
    PrivateKey,
    PublicKey,
    public_key,
    read_private_key,
    read_public_key,
    read_public_keys,
    write_key_pair,
)
from ktdeval.cli.main import main
from ktdeval.errors import KtdevalError, SignatureError, UsageError

FIELD = 2**255 - 19
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
#: RFC 8032, section 7.1: private key, public key, message, signature
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
OWN = PrivateKey.from_seed(bytes(range(32)))
OTHER = PrivateKey.from_seed(bytes(range(1, 33)))
TRUSTED = {OWN.public.id: OWN.public}


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.json"
    path.write_text('{"kind": "trading", "metrics": {"total_return": 0.125}}\n')
    sign_file(path, SIGNED_CARD, OWN)
    return path


def refused(path: Path, trusted: dict[str, PublicKey] = TRUSTED) -> str:
    with pytest.raises(SignatureError) as caught:
        check_signature(path, SIGNED_CARD, trusted)

    return str(caught.value)


@pytest.mark.parametrize(("seed", "public", "message", "signature"), VECTORS)
def test_keys_and_signatures_are_those_of_rfc_8032(
    seed: str, public: str, message: str, signature: str
) -> None:
    key = PrivateKey.from_seed(bytes.fromhex(seed))
    assert key.public.raw.hex() == public
    assert key.sign(bytes.fromhex(message)).hex() == signature
    assert key.public.has_signed(bytes.fromhex(message), bytes.fromhex(signature))


def test_what_is_signed_is_the_pre_authentication_encoding_of_dsse() -> None:
    expected = b"DSSEv1 28 application/vnd.in-toto+json 2 {}"
    assert pre_authentication(b"{}") == expected


def test_a_signature_names_its_key_and_changes_nothing_on_the_card(card: Path) -> None:
    before = card.read_bytes()
    assert check_signature(card, SIGNED_CARD, TRUSTED) == (OWN.public.id,)
    assert card.read_bytes() == before

    payload = parse_envelope(signature_path(card).read_bytes(), "card").payload
    assert json.loads(payload) == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": {},
        "predicateType": SIGNED_CARD,
        "subject": [{"digest": {"sha256": hashlib.sha256(before).hexdigest()}}],
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("which", ["card", "signature"])
def test_every_changed_byte_and_every_cut_is_found(card: Path, which: str) -> None:
    path = card if which == "card" else signature_path(card)
    data = path.read_bytes()
    for place in range(len(data)):
        for bits in (1, 0x80):
            changed = bytearray(data)
            changed[place] ^= bits
            path.write_bytes(changed)
            refused(card)

        path.write_bytes(data[:place])
        refused(card)

    path.write_bytes(data + b"\n")
    refused(card)


def test_a_swapped_signature_and_one_of_another_version_say_so(card: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.json"
    second.write_text('{"kind": "trading"}')
    sign_file(second, SIGNED_CARD, OWN)
    signature_path(card).write_bytes(signature_path(second).read_bytes())

    assert "signs another file" in refused(card)

    sign_file(card, SIGNED_CARD, OWN)
    card.write_text(card.read_text().replace("0.125", "0.126"))

    assert "the signed file was changed afterwards" in refused(card)


def test_a_signature_on_a_verdict_is_none_on_a_card(card: Path) -> None:
    sign_file(card, SIGNED_VERDICT, OWN)
    assert "is a signature of kind urn:ktdeval:signed:verdict:1" in refused(card)


def test_a_foreign_key_under_a_trusted_id_does_not_verify(card: Path) -> None:
    sign_file(card, SIGNED_CARD, OTHER)
    envelope = parse_envelope(signature_path(card).read_bytes(), "card")
    foreign = next(each for each in envelope.signatures if each.keyid == OTHER.public.id)
    claimed = Signature(keyid=OWN.public.id, sig=foreign.sig)
    one = Envelope(payload=envelope.payload, signatures=(claimed,))
    signature_path(card).write_bytes(envelope_bytes(one))

    assert "does not verify" in refused(card)

    alone = Envelope(payload=envelope.payload, signatures=(foreign,))
    signature_path(card).write_bytes(envelope_bytes(alone))

    assert "none of which is trusted here" in refused(card)


def test_two_people_may_sign_and_each_is_found(card: Path) -> None:
    sign_file(card, SIGNED_CARD, OTHER)
    both = TRUSTED | {OTHER.public.id: OTHER.public}
    assert set(check_signature(card, SIGNED_CARD, both)) == set(both)


def test_a_malleable_signature_is_refused(card: Path) -> None:
    """S + L satisfies the same equation; RFC 8032 refuses it, as S must be below L."""
    envelope = parse_envelope(signature_path(card).read_bytes(), "card")
    made = envelope.signatures[0].sig
    scalar = int.from_bytes(made[32:], "little") + GROUP_ORDER
    forged = made[:32] + scalar.to_bytes(32, "little")
    one = Signature(keyid=OWN.public.id, sig=forged)
    signature_path(card).write_bytes(
        envelope_bytes(Envelope(payload=envelope.payload, signatures=(one,)))
    )

    assert "does not verify" in refused(card)


def small_order_keys() -> list[bytes]:
    """Return every encoding of the 8 points of small order, by the curve's own equation.

    y is 1, -1, 0, or solves (y² - 1) = (d y² + 1) x² with x² = y² (order 8, up to the sign).
    """
    d = -121665 * pow(121666, -1, FIELD) % FIELD
    root = pow(2, (FIELD - 1) // 4, FIELD)  # of -1
    coordinates = {0, 1, FIELD - 1}

    # order 8: doubling gives order 4, y = 0, which is x² = -y², so d y⁴ + 2 y² - 1 = 0
    for sign in (1, -1):
        square = (-1 + sign * square_root(1 + d, root)) * pow(d, -1, FIELD) % FIELD
        if pow(square, (FIELD - 1) // 2, FIELD) == 1:
            y = square_root(square, root)
            coordinates |= {y, FIELD - y}

    encodings = set(coordinates) | {y + FIELD for y in coordinates if y + FIELD < 2**255}

    return [(y | top << 255).to_bytes(32, "little") for y in sorted(encodings) for top in (0, 1)]


def square_root(value: int, root: int) -> int:
    """Square root modulo 2²⁵⁵ - 19."""
    value %= FIELD
    found = pow(value, (FIELD + 3) // 8, FIELD)

    if found * found % FIELD != value:
        found = found * root % FIELD

    assert found * found % FIELD == value

    return found


def test_a_key_of_small_order_or_another_form_is_refused() -> None:
    keys = small_order_keys()
    assert len(keys) == 14

    for raw in keys:
        with pytest.raises(SignatureError, match=r"small order|canonical form"):
            public_key(raw, "key")

    with pytest.raises(SignatureError, match="canonical form"):
        public_key((FIELD + 3).to_bytes(32, "little"), "key")

    with pytest.raises(SignatureError, match="expected a key of 32 bytes, got 31"):
        public_key(bytes(31), "key")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"payload":"","payload":""}',
        '{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[]}',
        "[" * 100_000,
        '{"payload": NaN}',
        "\ufeff{}",
        '{"payload":"\\ud800","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"'
        + "0" * 64
        + '","sig":""}]}',
        '{"\\ud800":1}',
    ],
)
def test_another_form_of_signature_file_is_refused(card: Path, text: str) -> None:
    signature_path(card).write_text(text)
    refused(card)


def test_doubled_fields_and_doubled_keys_are_refused(card: Path) -> None:
    text = signature_path(card).read_text()
    signature_path(card).write_text(text.replace('{"payload"', '{"payload":"x","payload"', 1))

    assert "appears twice" in refused(card)

    envelope = parse_envelope(text.encode(), "card")
    twice = Envelope(payload=envelope.payload, signatures=envelope.signatures * 2)
    signature_path(card).write_bytes(envelope_bytes(twice))

    assert "doubled or out of order" in refused(card)


def test_an_unsigned_card_says_so(card: Path) -> None:
    signature_path(card).unlink()
    assert "is not signed (card.json.sig is missing)" in refused(card)


def test_a_key_is_written_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "me.key"
    public_path = write_key_pair(path, OWN, "correct horse")

    assert path.stat().st_mode & 0o777 == 0o600
    assert read_public_key(public_path) == OWN.public
    assert read_public_keys(tmp_path) == TRUSTED
    assert read_private_key(path, lambda: "correct horse").public == OWN.public

    for passphrase in ("", "wrong"):
        with pytest.raises(SignatureError, match="can't be decrypted"):
            read_private_key(path, lambda passphrase=passphrase: passphrase)

    with pytest.raises(UsageError, match="keys are never overwritten"):
        write_key_pair(path, OTHER)

    with pytest.raises(SignatureError, match="is a private key; name the public one"):
        read_public_key(path)

    path.chmod(0o640)
    with pytest.raises(SignatureError, match="others may read this private key"):
        read_private_key(path, lambda: "correct horse")


def test_a_damaged_key_file_is_a_typed_error_that_quotes_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "me.key"
    write_key_pair(path, OWN)
    data = path.read_bytes()
    body = data.splitlines()[1].decode()

    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        with contextlib.suppress(KtdevalError):
            read_private_key(path, lambda: "")

    path.write_bytes(data[:60] + b"!" + data[61:])
    with pytest.raises(SignatureError) as caught:
        read_private_key(path, lambda: "")

    assert body[:8] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert OWN.public.id[:12] in repr(OWN)
    assert body not in repr(OWN)


def test_commands_make_a_key_and_say_in_one_line_what_is_wrong(
    card: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "me.key"
    assert main(["card", "keygen", "--out", str(key)]) == 0

    shown = capsys.readouterr().out
    assert key.read_text().splitlines()[1] not in shown
    assert read_public_key(tmp_path / "me.key.pub").id in shown

    code = main(["card", "verify", str(card), "--signed-by", str(tmp_path / "me.key.pub")])
    error = capsys.readouterr().err

    assert (code, error.count("\n")) == (1, 1)
    assert "none of which is trusted here" in error
