"""Secrets in foreign text: how they may be written, and their removal."""

from ktdeval.secrets.patterns import REDACTED as REDACTED, secret_forms as secret_forms
from ktdeval.secrets.redaction import (
    SHORTEST_SECRET as SHORTEST_SECRET,
    SecretHider as SecretHider,
    hide_keys as hide_keys,
    hide_secrets as hide_secrets,
    hider_of as hider_of,
    redact_secrets as redact_secrets,
    secrets_of as secrets_of,
)
