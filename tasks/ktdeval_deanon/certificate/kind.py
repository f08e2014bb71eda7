"""Certificates as a kind of cards: how `ktdeval card` reads and shows them, and what trading cards carry of them."""

from __future__ import annotations

from ktdeval.cards import CardKind
from ktdeval_deanon.certificate.card import KIND, certificate_block, certificate_problems, derive_certificate
from ktdeval_deanon.certificate.show import certificate_report, certificate_rows
from ktdeval_deanon.certificate.types import SCHEMA_FILE, Certificate

CERTIFICATE = CardKind(
    name=KIND,
    type=Certificate,
    schema=SCHEMA_FILE,
    problems=certificate_problems,
    derive=derive_certificate,
    report=certificate_report,
    content=lambda card: f"probes: {card.probes.count}, attackers: {len(card.attackers)}",
    attach=certificate_block,
    attached_rows=certificate_rows,
)
