"""Venues: what the built-in files say, what a venue may not be, and venues by plugin, kept in the market whole."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ConfigError, PluginError
from ktdeval.fields import to_mapping
from ktdeval.market import assemble, load_snapshot, save_snapshot
from ktdeval.market.venue import built_in_venues, find_venue, parse_venue
from ktdeval.registry import Plugins, load_plugins
from ktdeval.task_files import venue_specs
from ktdeval.trading.types import TradingConfig
from ktdeval_data import long_table
from ktdeval_data.params import LongParams
from tables import on_each_row


@on_each_row
def test_built_in_venues(name: str, ticks_per_minor: int, days: int, calendar: str, shorts: bool, fill: str) -> None:
    venue = find_venue(name)
    assert venue.name == name
    assert (venue.ticks_per_minor, venue.days_a_year, venue.calendar) == (ticks_per_minor, days, calendar)
    assert (venue.short is not None, venue.fill) == (shorts, fill)


def test_the_a_share_venue_has_the_costs_and_lots_that_tasks_trade_with_unless_they_say_otherwise() -> None:
    venue, config = find_venue("a_share"), TradingConfig()
    assert (venue.fees.buy_bps, venue.fees.sell_bps, venue.fees.minimum) == (
        config.buy_fee_bps, config.sell_fee_bps, config.min_fee_cny,
    )  # fmt: skip
    assert venue.lot_steps == config.lot_shares


def test_every_field_of_a_venue_is_documented_and_written_out_it_is_read_as_itself() -> None:
    for venue in built_in_venues().values():
        assert all(field.metadata["help"] for field in dataclasses.fields(venue))
        assert parse_venue(to_mapping(venue), "again") == venue


@on_each_row
def test_a_venue_whose_rules_do_not_go_together_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_venue({**to_mapping(find_venue("a_share")), **change}, "mine.yaml")


# ---- venues by plugin


BARS = "date,code,open,high,low,close,volume\n2025-06-02,0005.HK,90,91,89,90.5,100\n2025-06-03,0005.HK,91,92,90,91.5,100\n"
VENUES = """hk_equity:
  summary: Hong Kong
  like: us_equity
  currency: HKD
  calendar: XNYS
  steps_per_unit: 1
  lot_steps: 100
  short: null
"""


def plugins_with(path: Path, text: str) -> Plugins:
    (path / "venues.yaml").write_text(text, encoding="utf-8")
    plugin = path / f"hk_plugin_{abs(hash(path / text)):x}.py"  # a module is loaded once by its name
    plugin.write_text(
        "from ktdeval.api import hookimpl\nfrom ktdeval.task_files import venue_specs\n\n"
        f"@hookimpl\ndef ktdeval_venues():\n    return venue_specs({str(path / 'venues.yaml')!r})\n",
        encoding="utf-8",
    )
    return load_plugins([str(plugin)])


def test_the_built_in_venues_come_by_the_hook_as_anybodys() -> None:
    plugins = load_plugins()
    assert plugins.venues().items() >= built_in_venues().items()
    assert plugins.owner("venues", "us_equity") == "ktdeval_data"


def test_a_market_keeps_the_rules_of_a_plugins_venue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = plugins_with(tmp_path, VENUES)
    venue = plugins.venues()["hk_equity"]
    assert (venue.lot_steps, venue.short, venue.fees) == (100, None, find_venue("us_equity").fees)
    monkeypatch.setattr("ktdeval_data.instruments.load_plugins", lambda: plugins)
    (tmp_path / "bars.csv").write_text(BARS, encoding="utf-8")
    made = assemble(long_table.read_long(LongParams(bars=str(tmp_path / "bars.csv"), venue="hk_equity")))
    save_snapshot(made, tmp_path / "market")
    monkeypatch.undo()
    assert load_snapshot(tmp_path / "market").rules == {"hk_equity": venue}, "without the plugin"


def test_a_venue_that_is_wrong_or_there_already_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"venues.yaml: hk_equity: unknown field 'currenzy'; did you mean 'currency'"):
        plugins_with(tmp_path, VENUES.replace("currency", "currenzy")).venues()
    with pytest.raises(PluginError, match="venue 'us_equity' is offered by plugin"):
        plugins_with(tmp_path, VENUES.replace("hk_equity", "us_equity")).venues()
    (tmp_path / "list.yaml").write_text("hk_equity: 5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected a mapping of fields, was int"):
        venue_specs(tmp_path / "list.yaml")
