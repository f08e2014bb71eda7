"""`ktdeval view share`: a run as one picture of 1200 × 630 pixels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from markupsafe import Markup

from ktdeval.cards import (
    System,
    TradingCard,
    card_files,
    count,
    label_word,
    load_evaluation,
    nearest_to_median,
)
from ktdeval.cli import (
    JsonOptions,
    MarketOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
    print_json,
    warn,
    work_shown,
)
from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_run, recorded_market, verify_card
from ktdeval.stats import (
    TraderEnvelope,
    benchmark_levels,
    benchmark_problem,
    envelope_problem,
    random_envelope,
)
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import Ledger
from ktdeval.values import check_output, install_command, sha256_hex, write_atomic
from ktdeval_pages.card_sentences import card_sentence
from ktdeval_pages.rendering import renderer
from ktdeval_pages.share_pictures import (
    ShareBar,
    SharedTexts,
    bars,
    placed_plot,
    share_png,
    share_svg,
)
from ktdeval_pages.tear_sheet.drawing import Area, DayPlot, PlotLine, draw
from ktdeval_pages.value_formatting import percent
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_pages import benchmark_name
from ktdeval_view.episode_records import choose_episodes, read_episode
from ktdeval_view.return_summary import PART_WORDS
from ktdeval_view.run_cards import RunCards
from ktdeval_view.sample_pages import is_scoring

NOT_VERIFIED = "not verified"
_NO_MARKET = "Without the market the picture has no random traders and no benchmark"
_ID_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class ShareOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options of `view share`."""

    out: Path | None = flag(
        None,
        type=OutputPath("file"),
        metavar="FILE",
        help="the picture, .png or .svg [default: RUN/share.png; RUN/share.svg without vl-convert]",
    )
    episode: str | None = flag(
        None,
        metavar="TEXT",
        help=(
            "only episodes with these words in task, window, seed (`seed-1`) or id; the one with "
            "the median return is drawn"
        ),
    )
    verify: bool = flag(
        False,
        help="verify the card first, as `card verify` does; otherwise the picture says `not verified`",
    )


@example("ktdeval view share ktdeval-runs/my-run --verify")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(ShareOptions)
def share(run: Path, options: ShareOptions) -> None:
    """Draw a run as one picture to share: name, return beside random traders, where the return came
    from, one sentence, and the card's hash.

    RUN is a run folder, which is only read. The picture says `synthetic` where the market is
    generated, and `not verified` unless --verify finds no difference.
    """
    plugins = open_plugins(options.plugin)
    folder = open_run(run, plugins)
    out = _output_of(run, options.out)
    shared = _chosen(folder, options.episode)
    task = shared.specs[0].task
    market = recorded_market(folder, plugins, options.data, _NO_MARKET)
    card = _card_of(run, task)
    if isinstance(market, str):
        warn(market)
    if card is None:
        warn(f"{run}: no readable card of {task}, so the picture has no hash and no attribution")

    is_verified = False
    if options.verify and card is not None:
        is_verified = _is_verified(card.path, plugins, options.data)

    parts = _parts_of(folder, shared.spec)
    picture = _Picture(shared, plugins, market, card, is_verified, parts)
    svg = EnvironmentRedactor(os.environ).text(picture.svg())
    data = share_png(svg) if out.suffix == ".png" else svg.encode()
    write_atomic(out, data)
    if options.as_json:
        print_json({"picture": str(out), "bytes": len(data), "verified": is_verified})
    else:
        click.echo(f"picture {out} ({picture.sentence()})")


def _output_of(run: Path, asked: Path | None) -> Path:
    """Return the file to write. Raises UsageError if it is neither PNG nor SVG, or a PNG that can't
    be drawn.
    """
    without = f"vl-convert, which is not installed: {install_command('report')}"
    if asked is None:
        asked = run / "share.png"
        if renderer() is None:
            asked = run / "share.svg"
            warn(f"the picture is an SVG, since PNG needs {without}")

        check_output(asked, "file", "--out")

    if asked.suffix not in (".png", ".svg"):
        raise UsageError(f"--out {asked}: name a file that ends in .png or .svg")
    if asked.suffix == ".png" and renderer() is None:
        raise UsageError(f"--out {asked}: PNG needs {without}, or name a file that ends in .svg")

    return asked


# -- what is drawn


@dataclass(frozen=True)
class _SharedEpisode:
    """The episode whose curve is drawn."""

    spec: EpisodeSpec
    ledger: Ledger
    specs: Sequence[EpisodeSpec]  # all finished episodes among which it has the median return

    @property
    def total_return(self) -> float:
        return float(self.ledger.nav[-1] / self.ledger.nav[0] - 1.0)

    @property
    def name(self) -> str:
        return f"{self.spec.window_name}, seed {self.spec.seed}"


@dataclass(frozen=True)
class _FoundCard:
    """A card of the run."""

    path: Path
    card: TradingCard
    card_id: str


def _chosen(folder: RunFolder, words: str | None) -> _SharedEpisode:
    """Return the finished trading episode with the median return. Raises UsageError without one, or
    if there are several tasks.
    """
    wanted = choose_episodes(folder.manifest.specs, words)
    trading = [spec for spec in wanted if not is_scoring(folder, spec)]
    specs = [spec for spec in trading if folder.is_complete(spec)]
    if not specs:
        what = "no finished episode of these" if trading else "no trading episode among these"
        raise UsageError(f"{folder.path}: {what}; a picture takes a finished trading episode")

    tasks = list(dict.fromkeys(spec.task for spec in specs))
    if len(tasks) > 1:
        raise UsageError(
            f"{folder.path}: a picture is of one task; name one with --episode: {', '.join(tasks)}"
        )

    totals = []
    for spec in specs:
        nav = folder.load_ledger(spec).nav
        totals.append(float(nav[-1] / nav[0] - 1.0))

    spec = specs[nearest_to_median(totals)]
    return _SharedEpisode(spec, folder.load_ledger(spec), specs)


def _card_of(run: Path, task: str) -> _FoundCard | None:
    """Return the run's readable card of a task."""
    try:
        files = card_files([run])
    except KtdevalError:  # there are no cards until the run has ended
        return None

    for file in sorted(files, key=lambda each: each.stem != task):
        try:
            card = load_evaluation(file)
        except KtdevalError:  # the curve can be drawn without a card
            continue
        if isinstance(card, TradingCard) and card.task.name == task:
            return _FoundCard(file, card, sha256_hex(file.read_bytes()))

    return None


def _parts_of(folder: RunFolder, spec: EpisodeSpec) -> list[ShareBar]:
    """Return the five parts of an episode's return; none if the card lacks one of them."""
    parts = RunCards(folder.path).return_parts(read_episode(folder, spec))
    if isinstance(parts, str):
        return []

    found = []
    for part in parts:
        if part.value is None:
            return []
        found.append(ShareBar(PART_WORDS[part.name].label, part.value))
    return found


def _is_verified(path: Path, plugins: Plugins, data: str | None) -> bool:
    """Return whether a card verifies; warn of the first difference."""
    moved: dict[str, Any] = {} if data is None else {"data": data}
    try:
        with work_shown() as tell:
            found = verify_card(path, plugins, moved, tell, now=datetime.now(UTC))
    except KtdevalError as error:
        warn(f"not verified: {error}")
        return False

    for finding in found.findings[:1]:
        warn(f"{path}: does not verify: {finding}")
    return not found.findings


class _Picture:
    """Texts and figures of a picture. `market` is a snapshot, or the reason why there is none."""

    def __init__(
        self,
        shared: _SharedEpisode,
        plugins: Plugins,
        market: MarketSnapshot | str,
        card: _FoundCard | None,
        is_verified: bool,
        parts: Sequence[ShareBar],
    ) -> None:
        self._shared = shared
        self._parts = parts
        self._market = None if isinstance(market, str) else market
        self._card = card
        self._is_verified = is_verified
        self._envelope = self._random_traders(plugins)
        self._benchmark = self._benchmark_growth()

    def svg(self) -> str:
        """Return the picture as SVG."""
        figures = placed_plot(draw(self._plot()), self._plot_title(), bool(self._parts))
        if self._parts:
            figures += bars("Where its return came from", self._parts)

        return share_svg(self._texts(), Markup(figures))  # noqa: S704 - drawn by the kit

    def sentence(self) -> str:
        """Return what the card shows over its windows, and the return that is drawn. One episode
        shows nothing of its own, so it has no verdict.
        """
        said = f"Drawn: {percent(self._shared.total_return)} in {self._shared.name}"
        if self._benchmark is not None and self._market is not None:
            index = percent(float(self._benchmark[-1]))
            said += f" ({benchmark_name(self._market)} {index})"

        if self._envelope is not None:
            returns = self._envelope.returns
            beaten = int((returns < self._envelope.agent_return).sum())
            said += f", more than {beaten} of {len(returns)} random traders that traded as much"
        if self._card is None:
            return f"{said}."

        return f"{card_sentence(self._card.card)} {said}."

    def _texts(self) -> SharedTexts:
        spec = self._shared.spec
        line = [spec.task, f"agent {spec.agent}"]
        if self._market is not None:
            line.append(f"market {self._market.meta.name}")

        line.append(count(len(self._shared.specs), "episode"))
        origin = "ktdeval"
        if self._card is not None:
            origin = (
                f"card {self._card.card_id[:_ID_DIGITS]}… · ktdeval "
                f"{self._card.card.provenance.suite_version} · check it with ktdeval card verify"
            )

        return SharedTexts(
            name=System.of_spec(spec).model_name,
            line=" · ".join(line),
            sentence=self.sentence(),
            marks=self._marks(),
            origin=origin,
        )

    def _marks(self) -> list[str]:
        is_synthetic = self._market is not None and bool(self._market.meta.synthetic)
        if self._card is not None:
            is_synthetic = is_synthetic or "synthetic" in self._card.card.labels

        marks = []
        if is_synthetic:
            marks.append(label_word("synthetic"))
        if not self._is_verified:
            marks.append(NOT_VERIFIED)

        return marks

    def _plot_title(self) -> str:
        n = len(self._shared.specs)
        which = "" if n == 1 else f", the median of {n}"
        title = f"{self._shared.name}{which}"
        if self._envelope is not None:
            title += "; grey: 5-95 % of random traders"
        if self._benchmark is not None and self._market is not None:
            title += f"; dotted: {benchmark_name(self._market)}"

        return title

    def _plot(self) -> DayPlot:
        ledger = self._shared.ledger
        days = [str(ledger.base_day), *map(str, ledger.days)]
        lines = []
        if self._benchmark is not None:
            lines.append(PlotLine(self._benchmark, "benchmark"))

        nav = np.asarray(ledger.nav, dtype=np.float64)
        lines.append(PlotLine(nav / nav[0] - 1.0, "agent"))
        areas = []
        if self._envelope is not None:
            bands = self._envelope.bands / nav[0] - 1.0
            areas.append(Area(bands[0], bands[-1]))

        return DayPlot("return", days, lines, areas)

    def _random_traders(self, plugins: Plugins) -> TraderEnvelope | None:
        ledger = self._shared.ledger
        if self._market is None or envelope_problem(ledger) is not None:
            return None

        config = plugins.make_task(self._shared.spec.task).trading
        try:
            envelope = random_envelope(ledger, self._market, config)
        except DataError as error:
            warn(f"the picture has no random traders: {error}")
            return None

        return envelope if envelope.rank is not None else None

    def _benchmark_growth(self) -> np.ndarray | None:
        """Return the benchmark's return since the base day, [steps + 1]."""
        if self._market is None:
            return None

        levels = benchmark_levels(self._shared.ledger, self._market)
        if benchmark_problem(self._market, levels):
            return None

        return np.asarray(levels / levels[0] - 1.0)
