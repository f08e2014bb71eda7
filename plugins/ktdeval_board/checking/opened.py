"""Markets of a board, opened from where its rules or its maintainer say that they are; and what can be executed here."""

from __future__ import annotations

import msgspec

from ktdeval.errors import DataError, KtdevalError
from ktdeval.jsonio import content_hash
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import describe_any, open_snapshot
from ktdeval_board.rules import Division, Rules, SnapshotRule


class OpenedMarkets:
    """Opens each market of a board once, when it is asked for.

    Raises DataError: `data` can't be opened, or is no market of the board. `rules`: the rules, with `data` in its place. `rules`:
    the board's rules. `plugins`: where data providers are found. `data`: a snapshot folder or data provider that goes before what
    the rules say of where one of their markets is; or None.
    """

    def __init__(self, rules: Rules, plugins: Plugins, data: str | None) -> None:
        self._plugins = plugins
        self._opened: dict[str, MarketSnapshot | str] = {}
        self.rules = rules if data is None else self._moved(rules, data)

    def _moved(self, rules: Rules, data: str) -> Rules:
        snapshot = open_snapshot(self._plugins, data, {})
        known = [rule.name for rule in rules.snapshots if rule.id == snapshot.id]
        if not known:
            wanted = ", ".join(f"{rule.name} ({rule.id[:12]})" for rule in rules.snapshots)
            raise DataError(f"--data {data} is snapshot {snapshot.id[:12]}, which is none of the board's: {wanted}")
        self._opened[known[0]] = snapshot
        (rule,) = (rule for rule in rules.snapshots if rule.id == snapshot.id)
        return rules.with_market(msgspec.structs.replace(rule, data=data, data_args={}))

    def open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        """Return the market of a rule, or why the board can't open it, in words."""
        if rule.name not in self._opened:
            self._opened[rule.name] = self._open(rule)
        return self._opened[rule.name]

    def _open(self, rule: SnapshotRule) -> MarketSnapshot | str:
        if not rule.data:
            return f"the board does not say where market {rule.name} is; name it with --data"
        try:
            snapshot = open_snapshot(self._plugins, rule.data, rule.data_args)
        except KtdevalError as error:
            return f"market {rule.name} can't be opened here: {error}"
        if snapshot.id != rule.id:
            return (
                f"market {rule.name} is another one here: {rule.data} is snapshot {snapshot.id[:12]}, the board's is {rule.id[:12]}"
            )
        return snapshot


def missing_plugin(plugins: Plugins, division: Division, agent: str) -> str | None:
    """Return why the episodes of a division can't be executed with what is installed here, in words; None where they can."""
    if agent not in plugins.specs("agents"):
        return f"agent {agent} is not installed where the check ran"
    try:
        found = content_hash(describe_any(plugins.make_task(division.task), plugins))
    except KtdevalError as error:
        return f"task {division.task} can't be made where the check ran: {error}"
    return None if found == division.hash else f"task {division.task} is another version where the check ran ({found[:12]})"
