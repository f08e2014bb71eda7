"""Forks: recorded steps at which the model is called again with one input changed.

A step is first restored by replaying the episode from the recorded replies. Each replayed line must
equal the recorded line, which guarantees that the fork starts from the prompt that was originally
sent. Then only this step is decided again, by the run's own model and agent. The input is changed
before masking (`input_changes`). Orders are not executed.

Each decision has its own random draws: the seeds of model calls and of randomness derive from the
change and the sample number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from msgspec import UNSET

from ktdeval.cards import value_difference
from ktdeval.errors import LeakError, RunStop, StoreError, UsageError
from ktdeval.harness import CallParams, Decision, Model, StepCounts
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import LeakGuard, Payload
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeAccess,
    EpisodeFactory,
    ForkedDecision,
    ForkPlace,
    JournalEntry,
    RecordedModel,
    RunConfig,
    RunFolder,
    TradingEpisodeRun,
    check_ran,
    retrace_episode,
)
from ktdeval.task_api import EpisodeSpec, Task
from ktdeval.trading import MarketTape, Order, StepRecord, value_minor
from ktdeval.values import derive_seed
from ktdeval_compare.forks.change_forms import LABELS, TEXT, InputChange
from ktdeval_compare.forks.input_changes import CannotChangeError, ChangedPayloads, is_state
from ktdeval_compare.forks.reworded_model import RewordedModel

AGAIN = "asked again"  #: variant without any change


def _unread(decision: Decision) -> tuple[str, ...]:
    """Return the orders whose text names no asset, as in `ForkedDecision`."""
    texts = decision.stock_ids or ("(no text)",) * len(decision.action)
    ordered = zip(decision.action, texts, strict=True)
    return tuple(f"{order.side} {text!r}" for order, text in ordered if order.asset is None)


@dataclass(frozen=True)
class Forked:
    """Variant of a step, with its sample number."""

    change: InputChange | None  #: None for `AGAIN`
    sample: int

    @property
    def variant(self) -> str:
        """Name of the variant."""
        return AGAIN if self.change is None else self.change.text


class Forker:
    """Repeats the model's decisions at recorded steps of one task."""

    def __init__(
        self,
        folder: RunFolder,
        task: Task,
        snapshot: MarketSnapshot,
        plugins: Plugins,
        manifest_sha256: str,
    ) -> None:
        self._folder = folder
        self._task = task
        self._snapshot = snapshot
        self._manifest_sha256 = manifest_sha256
        self._factory = EpisodeFactory({task.name: task}, plugins, snapshot)
        self._tape = MarketTape.from_snapshot(snapshot, task.trading)
        self._traces: dict[str, _Trace] = {}
        check_ran(folder, task, plugins, folder.specs_of(task.name)[0])

    @property
    def has_tools(self) -> bool:
        """True if the task offers research tools."""
        return bool(self._task.tools)

    def entries(self, spec: EpisodeSpec, step: int) -> Sequence[JournalEntry[StepRecord]]:
        """Return the steps of an episode up to and including `step`, replayed from the recorded
        replies.

        Raises StoreError if the replay differs from the recorded prompts and orders. Raises
        UsageError if the step can't be decided again.
        """
        if spec.id not in self._traces:
            self._traces[spec.id] = _Trace(self._folder, spec, self._factory)
        return self._traces[spec.id].until(step)

    def state(self, spec: EpisodeSpec, step: int) -> Mapping[str, Payload]:
        """Return the state shown at a step, before masking.

        Raises UsageError if the step shows no state that can be changed.
        """
        seen: list[Mapping[str, Payload]] = []

        def keep(payload: Any) -> Any:
            if is_state(payload):
                seen.append(payload)
            return payload

        episode = self._open_episode(spec, step, RecordedModel(), {})
        episode.lens.show_changed(keep)
        episode.shown_bytes(step)
        if not seen:
            raise UsageError(f"{spec.label}: its task shows no state that a fork could change")

        return seen[-1]

    def check(self, spec: EpisodeSpec, step: int, change: InputChange) -> int | None:
        """Return how many values in a step's state a change alters, without calling a model.

        Returns None if the number is unknown, because tools may show further values or the labels
        change. Raises UsageError if the change is not possible at this step.
        """
        episode = self._open_episode(spec, step, RecordedModel(), {})
        episode.shown_bytes(step)  # the mask can only parse handles that it has shown
        self._check_words(episode, change)
        if change.field == LABELS:
            self._check_labels(episode, spec, step)
            return None
        if change.field == TEXT:
            return None  # the agent adds to the prompt, which is known when the model is asked

        changed = self._change_step(episode, step, change, 0)
        episode.lens.show_changed(changed)
        episode.shown_bytes(step)
        if changed.cells:
            return changed.cells
        if self.has_tools and not change.is_placebo:
            return None

        raise CannotChangeError("does not change anything that the step shows")

    def _check_words(self, episode: TradingEpisodeRun, change: InputChange) -> None:
        """Raise UsageError if the new value reveals an identity that the mask hides, as text or as
        a number.
        """
        value = change.text.partition("=")[2]
        guard = LeakGuard(episode.lens, self._snapshot)
        try:
            guard.check(value)
            is_hidden = episode.lens.is_hidden_identity(value.strip("+*% "))
        except LeakError:
            is_hidden = True

        if is_hidden:
            raise UsageError(
                f"--change {change.field}: its value names a stock, an industry or a day that the"
                " mask hides"
            )

    def _check_labels(self, episode: TradingEpisodeRun, spec: EpisodeSpec, step: int) -> None:
        if not episode.lens.hides_assets:
            raise CannotChangeError(
                "the mask shows real codes, so there are no other labels to draw"
            )
        if step and self.entries(spec, step)[step - 1].memory is not None:
            raise CannotChangeError("the agent remembers the labels of earlier steps")

    def ask(
        self, spec: EpisodeSpec, step: int, forked: Forked, access: EpisodeAccess
    ) -> ForkedDecision:
        """Decide a step again.

        If a model call fails, or the change can't be made in a tool result, the `failure` field of
        the decision gives the reason. Raises LeakError, or KtdevalError if the model can't be
        called.
        """
        change = forked.change
        model = access.model
        further = access.further
        reworded: RewordedModel | None = None
        if change is not None and change.field == TEXT:
            model = reworded = RewordedModel(access.model, change)
            further = {name: RewordedModel(each, change) for name, each in further.items()}

        episode = self._open_episode(spec, step, model, further)
        episode.draw_anew("fork", forked.variant, forked.sample)
        changed: ChangedPayloads | None = None
        if change is not None and change.field == LABELS:
            episode.lens.relabel(derive_seed(spec.mask_seed, change.text, forked.sample, bits=128))
        elif change is not None and change.field != TEXT:
            changed = self._change_step(episode, step, change, forked.sample)
            episode.lens.show_changed(changed)

        decision = Decision((), "error")
        counts = StepCounts().record()
        failure = None
        access.counter.begin_step(step)
        try:
            decided = episode.decide_step(step)
            decision = decided.decision
            counts = decided.counts
        except (RunStop, LeakError):
            raise
        except CannotChangeError as error:
            changed = None
            failure = f"{forked.variant}: {error}"
        finally:
            access.counter.settle()
            episode.close()

        is_call_failure = failure is None and decision.provenance == "error"
        if is_call_failure:
            failure = f"the call failed ({', '.join(sorted(counts.failures))})"

        cells = 0
        if reworded is not None:
            cells = reworded.replaced
        elif changed is not None:
            cells = changed.cells

        return ForkedDecision(
            place=self.place(spec, step),
            variant=forked.variant,
            sample=forked.sample,
            manifest_sha256=self._manifest_sha256,
            provenance=decision.provenance,
            weights=self.weights(spec, step, decision.action),
            sides=self._sides(decision.action),
            cells=cells,
            differences={} if changed is None else self._differences(changed),
            input_tokens=counts.input_tokens,
            output_tokens=counts.output_tokens,
            failure=failure,
            is_call_failure=is_call_failure,
            unread=_unread(decision),
        )

    def place(self, spec: EpisodeSpec, step: int) -> ForkPlace:
        """Return the identifying fields of a step."""
        return ForkPlace(
            episode=spec.id,
            task=spec.task,
            window=spec.window_name or "",
            seed=spec.seed,
            step=step,
        )

    def read_decision(
        self, spec: EpisodeSpec, step: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Return the weights and sides of the recorded decision, each keyed by code."""
        columns = self._snapshot.asset_index
        orders = []
        for order in self.entries(spec, step)[step].step.orders:
            asset = None if order.code is None else columns[order.code]
            weight = order.target_weight
            orders.append(
                Order(asset, order.side, 0.0, "", weight, order.shares, order.limit_ticks)  # type: ignore[arg-type]  # as recorded
            )

        return self.weights(spec, step, orders), self._sides(orders)

    def weights(self, spec: EpisodeSpec, step: int, orders: Sequence[Order]) -> dict[str, float]:
        """Return the portfolio weights that a decision requests, by code, as fractions of the NAV
        at the close.

        An order by weight sets the weight to its target. An order in shares adds to the held
        weight, or subtracts from it. Assets without an order keep the held weight.
        """
        codes = self._snapshot.codes
        tape = self._tape
        last = self.entries(spec, step)[step - 1].step if step else None
        weights: dict[str, float] = {}
        nav_minor = 0
        if last is not None:
            nav_minor = last.nav_minor
            if nav_minor > 0:
                weights.update(last.weights)
        else:
            nav_minor = self._task.trading.initial_cash * tape.rules.minor_per_unit

        row = self._base_row(spec) + step
        day = tape.day(row)
        for order in orders:
            if order.asset is None:
                continue

            code = codes[order.asset]
            if order.target_weight is not None:
                weights[code] = order.target_weight
                continue

            sign = 1 if order.side == "BUY" else -1
            unit = day.rules.units[order.asset]
            worth = value_minor(sign * (order.shares or 0), day.close_ticks[order.asset], unit)
            weights[code] = weights.get(code, 0.0) + worth / max(1, nav_minor)

        return {code: round(weight, 9) for code, weight in sorted(weights.items()) if weight}

    def _differences(self, changed: ChangedPayloads) -> dict[str, float]:
        codes = self._snapshot.codes
        found = {codes[asset]: round(by, 9) for asset, by in changed.differences.items() if by}
        return dict(sorted(found.items()))

    def _sides(self, orders: Sequence[Order]) -> dict[str, str]:
        codes = self._snapshot.codes
        return {codes[order.asset]: order.side for order in orders if order.asset is not None}

    def _base_row(self, spec: EpisodeSpec) -> int:
        return window_rows(self._snapshot.days, spec.span.first, spec.span.last)[0] - 1

    def _change_step(
        self, episode: TradingEpisodeRun, step: int, change: InputChange, sample: int
    ) -> ChangedPayloads:
        """Return the payload changes for this step. Raises CannotChangeError if the step does not
        show the stock that is to be changed.
        """
        lens = episode.lens
        asset = None
        if change.stock:
            episode.shown_bytes(step)
            asset = lens.parse_asset(change.stock)
            if asset is None:
                shown = lens.shown[0] if lens.shown else "no stock"
                raise CannotChangeError(
                    "the step does not show this stock; use a label that the mask shows, such as"
                    f" {shown}"
                )

        seed = derive_seed("fork", change.text, sample)
        return ChangedPayloads(change, asset, lens.base_row + step, seed, self.has_tools)

    def _open_episode(
        self, spec: EpisodeSpec, step: int, model: Model, further: Mapping[str, Model]
    ) -> TradingEpisodeRun:
        """Return an episode restored to the start of a step."""
        before = self.entries(spec, step)[:step]
        episode = self._factory.open(spec, model, further or None)
        assert isinstance(episode, TradingEpisodeRun), "only steps of trading tasks can be forked"
        if before:
            episode.resume(before)
        return episode


class _Trace:
    """Steps of an episode, replayed on demand from its recorded replies."""

    def __init__(self, folder: RunFolder, spec: EpisodeSpec, factory: EpisodeFactory) -> None:
        self._where = f"{folder.path}: {spec.label}"
        self._label = spec.label
        self._transcript = folder.load_transcript(spec)
        self._ledger = folder.load_ledger(spec).steps
        self._entries: list[JournalEntry[StepRecord]] = []
        self._traced = retrace_episode(self._transcript, lambda model: factory.open(spec, model))

    def until(self, step: int) -> Sequence[JournalEntry[StepRecord]]:
        """Return the steps up to and including a step. Raises as `Forker.entries` does."""
        if not 0 <= step < len(self._ledger):
            raise UsageError(f"--step {step}: {self._label} has steps 0 to {len(self._ledger) - 1}")

        for number in range(len(self._entries), step + 1):
            said = self._transcript[number]
            if said.external is not UNSET:
                raise UsageError(
                    f"{self._label}: its decisions are from an external agent; a fork can't change"
                    " the agent's inputs"
                )

            if said.predicted is not UNSET:
                raise UsageError(
                    f"{self._label}: its model received factors of the market in addition to the"
                    " prompt, and a fork changes only the prompt; fork a run of a model that reads"
                    " only prompts"
                )

            entry = next(self._traced, None)
            difference = value_difference(said, entry and entry.transcript)
            difference = difference or value_difference(self._ledger[number], entry and entry.step)
            if entry is None or difference:
                raise StoreError(
                    f"{self._where}, step {number}: does not follow from the recorded replies:"
                    f" {difference}"
                )

            self._entries.append(entry)

        return self._entries


def fork_config(spec: EpisodeSpec, changes: Mapping[str, Any]) -> RunConfig:
    """Return the options for calling an episode's model again. `changes`: options that may differ
    from the run, such as the model's address and budgets.
    """
    names = {field.name for field in fields(CallParams)} - {"seed"}
    call = {name: value for name, value in spec.call.items() if name in names}
    return RunConfig(
        **{
            "model": spec.model,
            "tasks": (spec.task,),
            "agent": spec.agent,
            "model_args": dict(spec.model_args),
            "agent_args": dict(spec.agent_args),
            **call,
            **changes,
        }
    )
