"""Addresses of servers, stores, remotes and data sources that are recorded. Since records are
published, the addresses contain no secrets.

`Address` is the type of a field that contains an address. `Arguments` is the type of free-form
parameters whose strings may contain addresses.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints
from urllib.parse import unquote

#: Prefixes of providers' keys; a long unbroken run of letters and digits follows the prefix
KEY_PREFIXED = (
    r"(?:sk|rk|pk|ak|gsk|xai|nvapi)[-_][-\w]{16,}|AIza[-\w]{16,}|ABSK[-\w+/=]{24,}"
    r"|ya29\.[-\w.]{16,}|fw_[A-Za-z0-9]{20,}|tgp_v\d_[-\w]{16,}"
)

# Patterns are compiled on first use, since most runs of the command line involve no address.
_KEY = (
    rf"(?<![A-Za-z0-9])(?:{KEY_PREFIXED}|gh[opsur]_\w{{16,}}|github_pat_\w{{16,}}|glpat-[-\w]{{16,}}"
    r"|xox[a-z]-[-\w]{10,}|hf_[A-Za-z0-9]{16,}|npm_\w{16,}|AKIA[A-Z0-9]{12,}"
    r"|ey[A-Za-z0-9_-]{16,}\.[\w-]+\.[\w-]+)"
)
_WITH_USER = r"([A-Za-z][A-Za-z0-9+.-]*):[/\\]{1,}([^/\\?#\s]*)@|^[/\\]{2}([^/\\?#\s]*)@"
"""Scheme and user info of an address, anywhere in a text."""
_PORT_OF_WORDS = r"(?:https?|ssh|git|ftps?):[/\\]{2,}[^/\\?#\s\[\]@:]+:(?![0-9]*(?:[/\\?#\s]|$))"
"""Address whose port is not a number: a password with a slash in it."""
_WITHOUT_SCHEME = r"(?!hf:)[^/@\s:]+:[^/@\s]*@[^/@\s]+"
_PARAMETER = r"[?&;#]([^=&;#\s]{1,80})=([^&;#\s]+)"
_NAME_OF_KEY = (
    r"(?:key|keys|keyid|accessid|sig|sas|pw|pwd|pass|code)$"
    r"|token|secret|passw|signature|credential|jwt|session|authoriz|authent|^auth"
)
_USERS_WITHOUT_SECRET = frozenset(
    {"ssh", "git+ssh", "ssh+git", "sftp", "abfs", "abfss", "wasb", "wasbs"}
)
"""Schemes with a name before the host that is not a secret: of an account, or of a container."""

_WAY_OF_GIT = "a credential helper of git or an ssh key"
_WAY = "the environment, or where it is for git, a credential helper or an ssh key"


def secret_in(text: str) -> str | None:
    """Return a description of the secret in a text's addresses, without revealing the secret; None
    if they contain no secret. Text without an address has no such secret.
    """
    for match in re.finditer(_WITH_USER, text):
        user = match[2] if match[2] is not None else match[3]
        if ":" in unquote(user):
            return "a password"
        if (match[1] or "").lower() not in _USERS_WITHOUT_SECRET:
            return "a user or a token"

    has_scheme = re.search(r"[A-Za-z0-9+.-]:[/\\]|^[/\\]{2}", text) is not None
    if re.search(_PORT_OF_WORDS, text) or re.fullmatch(_WITHOUT_SCHEME, text):
        return "a password"
    if has_scheme and any(_names_key(name) for name, _ in re.findall(_PARAMETER, text)):
        return "a key among its parameters"
    if (has_scheme or "@" in text) and re.search(_KEY, unquote(text)):
        return "a key"
    return None


def _names_key(name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", unquote(name).lower())
    return re.search(_NAME_OF_KEY, plain) is not None


@dataclass(frozen=True, slots=True)
class AddressText:
    """Marks a string that is an address without a secret, or a path or name in its place."""

    way: str = _WAY  #: how to provide the secret instead

    def problem(self, text: str) -> str | None:
        """Return what was expected instead of the text; None if the text is valid."""
        secret = secret_in(text)
        if secret is not None:
            return without(secret, self.way)
        if text.startswith("-"):
            return "an address, which does not begin with a dash"
        return None


class FreeArguments(AddressText):
    """Marks parameters whose names are not known in advance, and whose strings must not contain
    addresses with secrets.
    """

    def problem(self, text: str) -> str | None:
        """Return what was expected instead of the text; None if the text is valid."""
        secret = secret_in(text)
        return None if secret is None else without(secret, self.way)


Address = Annotated[str, AddressText()]
GitAddress = Annotated[str, AddressText(_WAY_OF_GIT)]
Arguments = Annotated[dict[str, Any], FreeArguments()]
Parameters = Annotated[Mapping[str, Any], FreeArguments()]


def without(secret: str, way: str = _WAY) -> str:
    """Return a phrase saying that an address without the given secret was expected."""
    return f"an address without {secret}, since it is recorded; give that through {way}"


def faults_in(value: Any, mark: AddressText | None = None) -> Iterator[tuple[str, str]]:
    """Yield each address with a secret, in a value whose field has a mark or in the fields of
    nested records, as the path from the value (`.publish.remote`) and what was expected instead.
    """
    if isinstance(value, str):
        problem = None if mark is None else mark.problem(value)
        if problem is not None:
            yield "", problem

        return

    for step, part, mark_of_part in _parts(value, mark):
        for path, problem in faults_in(part, mark_of_part):
            yield f"{step}{path}", problem


def _parts(value: Any, mark: AddressText | None) -> Iterator[tuple[str, Any, AddressText | None]]:
    """Yield the items of a value, or those fields that can contain addresses, each with its path
    step and mark.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield f".{name}", item, mark
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield f"[{index}]", item, mark
    elif is_record(type(value)):
        fields: Mapping[str, AddressText | None] = _address_fields(value.__class__)
        for name, mark_of_field in fields.items():
            yield f".{name}", getattr(value, name), mark_of_field


@cache
def _address_fields(python: Any) -> Mapping[str, AddressText | None]:
    """Return the fields of a record that can contain addresses, with their mark, if any."""
    hints = get_type_hints(python, include_extras=True)
    return {name: address_mark(hint) for name, hint in hints.items() if holds_addresses(hint)}


def address_mark(hint: Any) -> AddressText | None:
    """Return the mark of an annotation; None if it has no mark."""
    if isinstance(hint, AddressText):
        return hint

    marks = map(address_mark, get_args(hint))
    return next((mark for mark in marks if mark is not None), None)


def holds_addresses(hint: Any, seen: frozenset[type] = frozenset()) -> bool:
    """Return whether values with this annotation are addresses or free-form parameters, or have
    fields that are.
    """
    if isinstance(hint, AddressText):
        return True

    below = get_args(hint)
    if isinstance(hint, type) and hint not in seen and is_record(hint):
        seen |= {hint}
        below = tuple(get_type_hints(hint, include_extras=True).values())

    return any(holds_addresses(part, seen) for part in below)


def is_record(python: type) -> bool:
    """Return whether a class has declared fields, as dataclasses and structs have."""
    return dataclasses.is_dataclass(python) or hasattr(python, "__struct_fields__")
