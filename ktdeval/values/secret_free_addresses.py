"""Addresses that are recorded: of servers, stores, remotes, sources of data. None holds a secret, since
records are published.

`Address` is the type of a field that holds one, `Arguments` that of free parameters, in whose texts
addresses may stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from ktdeval.values.class_fields import Record
from ktdeval.values.kinds import Anything, Items, Kind, Reading, Table, Text, unmarked
from ktdeval.values.misfit import Misfit

if TYPE_CHECKING:
    from ktdeval.values.strict_json import JsonValue

#: Prefixes that providers give their keys, before a long unbroken run of letters and digits
KEY_PREFIXED = (
    r"(?:sk|rk|pk|ak|gsk|xai|nvapi)[-_][-\w]{16,}|AIza[-\w]{16,}|ABSK[-\w+/=]{24,}"
    r"|ya29\.[-\w.]{16,}|fw_[A-Za-z0-9]{20,}|tgp_v\d_[-\w]{16,}"
)

# Patterns are compiled when they are first used: most starts of the command line meet no address.
_KEY = (
    rf"(?<![A-Za-z0-9])(?:{KEY_PREFIXED}|gh[opsur]_\w{{16,}}|github_pat_\w{{16,}}|glpat-[-\w]{{16,}}"
    r"|xox[a-z]-[-\w]{10,}|hf_[A-Za-z0-9]{16,}|npm_\w{16,}|AKIA[A-Z0-9]{12,}"
    r"|ey[A-Za-z0-9_-]{16,}\.[\w-]+\.[\w-]+)"
)
_WITH_USER = r"([A-Za-z][A-Za-z0-9+.-]*):[/\\]{1,}([^/\\?#\s]*)@|^[/\\]{2}([^/\\?#\s]*)@"
"""Scheme and user info of an address, wherever it stands in a text."""
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
    """Return what is secret about the addresses in a text, in words that do not show it; None where
    nothing is. A text without an address has no such secret.
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


class AddressText(Text):
    """Text that is an address, or a path or name in its place, without a secret. `way`: how the
    secret is given instead.
    """

    words = "an address without a secret"

    def __init__(self, way: str = _WAY) -> None:
        self._way = way

    def fits(self, value: object) -> bool:
        """Whether a value is such a text."""
        return isinstance(value, str) and self.problem(value) is None

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        """Return the text. Raises Misfit, which does not show the secret."""
        if not isinstance(value, str):
            raise reading.misfit(where, Text.words, value)

        problem = self.problem(value)
        if problem is not None:
            raise Misfit(where, problem)
        return value

    def problem(self, text: str) -> str | None:
        """Return what was expected instead of a text; None where it fits."""
        secret = secret_in(text)
        if secret is not None:
            return without(secret, self._way)
        if text.startswith("-"):
            return "an address, which does not begin with a dash"
        return None


class FreeArguments(Table):
    """Parameters whose names are not known before; addresses in their texts hold no secret."""

    def __init__(self) -> None:
        super().__init__(Text(), Anything())

    def read(self, value: JsonValue, where: str, reading: Reading) -> Any:
        """Return the parameters. Raises Misfit, which does not show the secret."""
        read = super().read(value, where, reading)
        for path, problem in faults_in(self, read):
            raise Misfit(f"{where}{path}", problem)
        return read


Address = Annotated[str, AddressText()]
GitAddress = Annotated[str, AddressText(_WAY_OF_GIT)]
Arguments = Annotated[dict[str, Any], FreeArguments()]
Parameters = Annotated[Mapping[str, Any], FreeArguments()]


def without(secret: str, way: str = _WAY) -> str:
    """Return words on an address without a secret that one has."""
    return f"an address without {secret}, since it is recorded; give that through {way}"


def faults_in(kind: Kind, value: Any) -> Iterator[tuple[str, str]]:
    """Yield addresses with secrets in a value: path from it (`.publish.remote`), and what was
    expected instead.
    """
    for each in unmarked(kind):
        if isinstance(each, AddressText) and isinstance(value, str):
            problem = each.problem(value)
            if problem is not None:
                yield "", problem
        elif isinstance(each, FreeArguments):
            yield from _faults_in_free(value)
        else:
            for step, below, item in _parts(each, value):
                yield from _below(step, faults_in(below, item))


def _parts(kind: Kind, value: Any) -> Iterator[tuple[str, Kind, Any]]:
    """Yield the fields or items of a value that can hold addresses, each with its step of a path
    and its kind.
    """
    if isinstance(kind, Record) and isinstance(value, kind.python):
        for name, field in kind.fields.items():
            if _may_hold(field.kind):
                yield f".{name}", field.kind, getattr(value, field.name)
    elif isinstance(kind, Table) and isinstance(value, Mapping) and _may_hold(kind.item):
        for name, item in value.items():
            yield f".{name}", kind.item, item
    elif isinstance(kind, Items) and isinstance(value, list | tuple) and _may_hold(kind.item):
        for index, item in enumerate(value):
            yield f"[{index}]", kind.item, item


def _faults_in_free(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        secret = secret_in(value)
        if secret is not None:
            yield "", without(secret)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _below(f".{name}", _faults_in_free(item))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _below(f"[{index}]", _faults_in_free(item))


def _below(step: str, faults: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for path, problem in faults:
        yield f"{step}{path}", problem


@lru_cache(maxsize=4096)  # kinds describe types, which do not change
def _may_hold(kind: Kind) -> bool:
    return holds_addresses(kind)


def holds_addresses(kind: Kind, seen: frozenset[type] = frozenset()) -> bool:
    """Whether values of a kind have fields of addresses or free parameters."""
    for each in unmarked(kind):
        if isinstance(each, AddressText | FreeArguments):
            return True
        if isinstance(each, Items | Table) and holds_addresses(each.item, seen):
            return True
        if isinstance(each, Record) and each.python not in seen:
            below = seen | {each.python}
            if any(holds_addresses(field.kind, below) for field in each.fields.values()):
                return True
    return False
