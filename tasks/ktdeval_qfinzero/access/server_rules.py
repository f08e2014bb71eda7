"""Rules of a served market: the server sets the rules and account sizes, and each workspace exposes
its broker's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from ktdeval.errors import ConfigError, VerificationError
from ktdeval.values import from_plain, load_yaml
from ktdeval_qfinzero.access import types
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.cursors import read_cursor, write_cursor
from ktdeval_qfinzero.errors import conflict, invalid
from ktdeval_qfinzero.operations import Catalogue, Operation, Plain, query
from ktdeval_qfinzero.pmb.arguments import MAX_CASH
from ktdeval_qfinzero.pmb.broker_types import AccountType, Rules
from ktdeval_qfinzero.pmb.commands import MAX_ACCOUNTS
from ktdeval_qfinzero.pmb.log import BrokerLogEntry
from ktdeval_qfinzero.schemas import Arguments, Paged


class AccountRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Accounts that clients may open."""

    cash: Annotated[int, Meta(description="Dollars paid into each.", ge=1, le=MAX_CASH)] = 100_000
    # with only CASH accounts, borrowing and short sales are impossible
    types: Annotated[tuple[AccountType, ...], Meta(min_length=1)] = ("MARGIN", "CASH")
    most: Annotated[int, Meta(description="Accounts of one workspace.", ge=1, le=MAX_ACCOUNTS)] = 1


class MarketRules(Rules, frozen=True, forbid_unknown_fields=True):
    """Rules of a served market: the rules of all sessions, and its accounts."""

    accounts: AccountRules = AccountRules()

    @property
    def fixed(self) -> Mapping[str, Plain]:
        """Arguments set by the server: command -> name -> value."""
        rules = {name: msgspec.to_builtins(getattr(self, name)) for name in Rules.__struct_fields__}
        return {
            "account.create": {"initial_cash": self.accounts.cash},
            "session.create": {"execution_config": rules},
        }


DEFAULT_RULES: Final = MarketRules()


def load_rules(path: Path) -> MarketRules:
    """Read rules from YAML. Raises ConfigError, which names the field that is unknown, ill-typed or
    out of range.
    """
    return from_plain(load_yaml(path), MarketRules, str(path), ConfigError)


def check_rules(entries: list[BrokerLogEntry], rules: MarketRules, where: str) -> None:
    """Raise VerificationError if an account or a session in a log was not opened under
    these rules.
    """
    opened = 0
    for entry in entries:
        given = entry.data if isinstance(entry.data, Mapping) else {}
        if entry.type == "ACCOUNT_CREATED":
            opened += 1
            if (
                opened > rules.accounts.most
                or given.get("account_type") not in rules.accounts.types
            ):
                raise VerificationError(
                    f"{where}: line {entry.seq + 1} opens an account that the rules don't allow"
                )

        for name, value in rules.fixed.get(entry.type, {}).items():
            if given.get(name) != value:
                raise VerificationError(
                    f"{where}: line {entry.seq + 1} has another {name} than the rules"
                )


def make_served_catalogue(catalogue: Catalogue, rules: MarketRules = DEFAULT_RULES) -> Catalogue:
    """Make the catalogue that clients see, without the arguments that the rules fix, and with the
    log.
    """
    operations = [
        _apply_rules(each, rules) if each.name in _OF_COMMAND else each
        for each in catalogue.operations
    ]
    return Catalogue((*operations, LOG))


_OF_COMMAND: Final = {
    "PMB.account.create": "account.create",
    "PMB.session.create": "session.create",
}


def _apply_rules(operation: Operation, rules: MarketRules) -> Operation:
    """Return an operation without the arguments that the server sets."""
    fixed = rules.fixed[_OF_COMMAND[operation.name]]
    usual = {"account_type": rules.accounts.types[0]}
    fields = [each for each in msgspec.structs.fields(operation.takes) if each.name not in fixed]
    left = [
        (
            (each.name, each.type)
            if each.required
            else (each.name, each.type, usual.get(each.name, each.default))
        )
        for each in fields
    ]

    def handler(workspace: Workspace, given: Plain) -> msgspec.Struct:
        if operation.name == "PMB.account.create":
            _check_account(workspace, given, rules.accounts)
        return operation.handler(workspace, {**given, **fixed})

    described = {"__doc__": operation.takes.__doc__}
    takes: type[Any] = msgspec.defstruct(
        operation.takes.__name__, left, bases=(Arguments,), namespace=described, kw_only=True
    )
    return replace(operation, takes=takes, handler=handler)


def _check_account(workspace: Workspace, given: Plain, rules: AccountRules) -> None:
    if given["account_type"] not in rules.types:
        raise invalid(
            "account_type",
            f"accounts of this market are {' or '.join(rules.types)}; give one of these",
        )
    if len(workspace.broker.state.accounts) >= rules.most:
        raise conflict(
            f"a client of this market has at most {rules.most} accounts; PMB.account.list gives"
            " them"
        )


def give_log(workspace: Workspace, given: Paged) -> types.LogPage:
    """Broker's log of this workspace, to be kept and replayed."""
    first = 0 if given.cursor is None else int(read_cursor(given.cursor, (int,))[0])
    log = workspace.broker.log
    lines = log.to_lines()
    last = first + given.limit
    next_cursor = write_cursor(last) if last < len(lines) else None

    return types.LogPage(
        lines=list(lines[first:last]),
        log_hash=log.last_hash,
        next_cursor=next_cursor,
    )


LOG: Final = query("PMB.log.get", "/v1/log", give_log)
