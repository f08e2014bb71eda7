"""A task for any market: its config, its description on a card, and its episodes."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from ktdeval.market import MarketSnapshot, Venue, duties_id
from ktdeval.masking import TextMask
from ktdeval.task_api import EpisodeSpec, TaskTraits, Window, windows_of
from ktdeval.trading import MarketRules
from ktdeval.values import JsonValue, sha256_hex, to_mapping
from ktdeval_markets import prompt_texts
from ktdeval_markets.config import MarketConfig
from ktdeval_markets.episode_setting import MarketStage
from ktdeval_markets.market_episode import MarketScene


class MarketTask:
    """One variant. Implements `ktdeval.api.Task`."""

    mode = "market"
    tools: tuple[str, ...] = ()

    def __init__(self, name: str, config: MarketConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.metrics = config.metrics
        self.harness = config.harness
        self.trading = config.trading.rules(name)
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self.traits = self._traits(config)
        self._config = config

    def _traits(self, config: MarketConfig) -> TaskTraits:
        venue = self.trading.venue
        submission_form = None
        if config.stances.are_asked_for:
            submission_form = attrgetter("form")

        return TaskTraits(
            needs_assets=config.assets,
            needs_minutes=bool(config.intraday),
            submission_form=submission_form,
            warm_up_from=self._warm_up_from,
            lessons=MarketScene.lessons,
            prescribes_fills=config.prescribes_fills or (venue is not None and venue.looks_ahead),
            adds_positions=True,  # listed members stay listed whether held or not
        )

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config, the rules of its venue, and the hashes of the prompt files. The
        hash of the duties table is included if fills may pay duties at the rates of their day.
        """
        venue = self.trading.venue
        config = to_mapping(self._config)
        config.pop("prescribes_fills", None)  # changes no result
        files = prompt_texts.files_of(self._config)
        described: dict[str, JsonValue] = {
            "name": self.name,
            "mode": self.mode,
            **config,
            "venue_rules": None if venue is None else to_mapping(venue),
            "prompts": {name: sha256_hex(prompt_texts.text(name)) for name in files},
        }
        if prompt_texts.may_pay_duties(self._config):
            described["duties"] = duties_id()

        return described

    def scene(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> MarketScene:
        """Open one episode. Raises DataError if the window lies outside the snapshot."""
        config = self._config
        lens = config.lens(spec, snapshot)
        columns = snapshot.asset_index
        stage = MarketStage(
            lens=lens,
            snapshot=snapshot,
            rules=MarketRules.of(snapshot, self.trading),
            trading=self.trading,
            texts=TextMask(lens, snapshot),
            shown=config.shown,
            news=config.news,
            news_days=config.news_days,
            news_each=config.news_each,
            news_characters=config.news_characters,
            intraday=config.intraday or 0,
            history=config.history or 0,
            older_closes=config.older_closes,
            length=config.length_words(spec.span),
            only=frozenset(columns[code] for code in config.assets),
        )

        warm_up = None if spec.window is None else self._warm_up_from(spec.window)
        return MarketScene(config, stage, self._venues(stage), warm_up)

    def _warm_up_from(self, window: Window) -> str | None:
        """Return the first day of a window's warm-up. Returns None without a warm-up, which is also
        the case for windows given by their dates.
        """
        warm_up = self._config.warm_up or {}
        return warm_up.get(window.name)

    def _venues(self, stage: MarketStage) -> Mapping[str, Venue]:
        """Return the venues that the prompt describes, keyed by name: the task's own venue, or else
        those of the assets shown.
        """
        if self.trading.venue is not None:
            return {self.trading.venue.name: self.trading.venue}

        snapshot = stage.snapshot
        if not stage.only:
            return snapshot.rules

        names = {snapshot.venues[asset] for asset in stage.only}
        return {name: snapshot.rules[name] for name in sorted(names)}
