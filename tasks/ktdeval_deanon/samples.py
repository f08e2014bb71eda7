"""The probes of one window and seed: what each shows, its gold answer, and the scores of what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from string import Template

import numpy as np

from ktdeval.contracts import EpisodeSpec, Sample, TargetTask, Window
from ktdeval.jsonio import JsonValue
from ktdeval.market import Board, MarketSnapshot
from ktdeval.seeds import derive_seed
from ktdeval_deanon.answer import ANSWER_FORM, board_of_answer, days_off, names_sector, sector_keys, tickers_of
from ktdeval_deanon.brief import Brief, prompt_text
from ktdeval_deanon.config import DeanonConfig
from ktdeval_deanon.payload import View, subject_spec, view_probe
from ktdeval_deanon.probes import DrawLimits, Probe, decision_rows, draw_probes

DATE_MARGINS = (5, 20, 60)
"""Trading days that a recovered date may be off."""

_NO_SECTOR = frozenset({"", "unknown"})


class DeanonSamples:
    """Probes of one window and seed. Pure: equal arguments give equal bytes.

    The same stocks and days are drawn under every mask and for every model, so that rates can be paired probe by probe. `windows`:
    the task's default windows: the period that an attacker is told, and that chance draws its day from, runs from the first of
    their days to the last (and takes in this set's own window). Raises ConfigError: the window has too few stocks; DataError: the
    window lies outside the snapshot.
    """

    def __init__(
        self, config: DeanonConfig, windows: Sequence[Window], spec: EpisodeSpec, snapshot: MarketSnapshot, target_task: TargetTask
    ) -> None:
        limits = DrawLimits(config.probes_per_window, config.max_probes_per_stock)
        seed = derive_seed(spec.seed, spec.window.first, spec.window.last, "probes")
        self.probes: tuple[Probe, ...] = draw_probes(snapshot, spec.window, limits, seed)
        self._config = config
        self._spec = spec
        self._snapshot = snapshot
        self._subject = target_task
        self.period: tuple[int, int] = _period(snapshot, windows, spec.window)
        self._brief = Brief(snapshot, self.period, config.screen_factors)

    def __len__(self) -> int:
        """How many probes there are."""
        return len(self.probes)

    def sample(self, number: int) -> Sample:
        """One probe as it is put to an attacker."""
        view = self.view(number)
        user = Template(prompt_text("user")).substitute(payload=view.text)
        return Sample(f"probe_{number:04d}", view.lens, self._brief.text(view.lens), user, ANSWER_FORM, self.facts(number))

    def view(self, number: int) -> View:
        """View of a probe, without its gold answer: the lens, and the JSON text of the tools' answers."""
        spec = subject_spec(self._subject, self._spec, number)
        return view_probe(self._config, self._subject, spec, self._snapshot, self.probes[number])

    def facts(self, number: int) -> dict[str, JsonValue]:
        """Gold answer of a probe, its strata, and what the chance of guessing it is computed from.

        Returns code, day, sector (null where the data have none), board, window; members: index members of that day by board;
        sector_members: members of this board whose industry has a name in common with the gold one (the stock among them);
        largest_sector: members of this board in its most frequent industry; period_days: trading days of the period; near_days:
        margin -> days of the period that lie within so many trading days of the gold one.
        """
        probe, market = self.probes[number], self._snapshot
        members = np.flatnonzero(market.member[probe.row])
        boards = Counter(str(market.boards[asset]) for asset in members)
        industries = [market.industries[asset] for asset in members if market.boards[asset] is probe.board]
        gold = market.industries[probe.asset]
        known = gold not in _NO_SECTOR
        start, stop = self.period
        return {
            "code": market.codes[probe.asset],
            "day": str(market.days[probe.row]),
            "sector": gold if known else None,
            "board": str(probe.board),
            "window": self._spec.window.name,
            "members": {str(board): boards[str(board)] for board in Board if boards[str(board)]},
            "sector_members": sum(not sector_keys(gold).isdisjoint(sector_keys(name)) for name in industries) if known else None,
            "largest_sector": max(Counter(industries).values()) if known else None,
            "period_days": stop - start,
            "near_days": {
                str(margin): min(stop, probe.row + margin + 1) - max(start, probe.row - margin) for margin in DATE_MARGINS
            },
        }

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, bool | None]:
        """Recoveries of an answer, as booleans by name; `sector` is null where the data don't know the stock's."""
        probe, market = self.probes[number], self._snapshot
        tickers = tickers_of(answer)
        code, sector = market.codes[probe.asset], market.industries[probe.asset]
        off = days_off(answer, market.days, probe.row)
        dates = {f"date_within_{margin}": off is not None and off <= margin for margin in DATE_MARGINS}
        return {
            "ticker_top1": tickers[:1] == (code,),
            "ticker_top5": code in tickers,
            "board": board_of_answer(answer) is probe.board,
            "sector": None if sector in _NO_SECTOR else names_sector(answer, sector),
            **dates,
            "joint": code in tickers and dates["date_within_5"],
        }


def _period(snapshot: MarketSnapshot, windows: Sequence[Window], own: Window) -> tuple[int, int]:
    """Rows [start, stop) from the first window's first day to the last one's last, as far as the data reach, `own` included."""
    first = np.datetime64(min(window.first for window in windows), "D")
    last = np.datetime64(max(window.last for window in windows), "D")
    own_start, own_stop = decision_rows(snapshot, own)
    start = int(np.searchsorted(snapshot.days, first, side="left"))
    stop = int(np.searchsorted(snapshot.days, last, side="right"))
    return min(start, own_start), max(stop, own_stop)
