"""A trading episode step by step: observe, decide, settle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ktdeval.attribution.style_factor_panel import factor_history
from ktdeval.harness.agent import Decision, Lesson
from ktdeval.harness.steps.step_session import GuardedSession, TranscriptEntry
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.harness.submissions.predictor_scores import FactorHistory
from ktdeval.harness.submissions.submission_form import SubmissionForm
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketView
from ktdeval.masking.lens import Lens
from ktdeval.runner.episodes.episode_parts import EpisodeParts, StepwiseEpisode
from ktdeval.runner.episodes.shown_account import SeenBooks, shown_account
from ktdeval.runner.records.episode_journal import Entry, JournalEntry
from ktdeval.runner.records.ledger_file import encode_ledger
from ktdeval.runner.records.run_file_names import LEDGER
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import StepFinished
from ktdeval.task_api.trading_task import Scene
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.ledger import CountsRecord, StepRecord
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical, loads_strict
from ktdeval.values.seeds import derive_seed


@dataclass(frozen=True)
class DecidedStep:
    """Step that has been decided but not settled."""

    decision: Decision  #: its orders are in the form that the executor takes
    counts: CountsRecord
    transcript: TranscriptEntry
    memory: JsonValue  #: the agent's memory after the step
    shown: tuple[str, ...]  #: handles that the mask has shown so far


class TradingEpisodeRun(StepwiseEpisode[EpisodeParts]):
    """Trading episode whose books and agent memory carry over from step to step. The members are
    documented in `Episode`.

    `scene`: a market already opened for the same task and window. If None, the market is opened
    here.
    """

    entry_type: type[Entry] = JournalEntry[StepRecord]

    def __init__(self, spec: EpisodeSpec, parts: EpisodeParts, scene: Scene | None = None) -> None:
        start, stop = window_rows(parts.snapshot.days, spec.span.first, spec.span.last)
        super().__init__(spec, parts, stop - start)
        self._base_row = start - 1
        self._books = parts.bookkeeper(spec)
        self._memory: JsonValue = None
        self._scene: Scene = scene or parts.task.scene(spec, parts.snapshot)
        self._seen = shown_account(parts.task, self.lens, parts.snapshot, parts.tape)
        traits = task_traits(parts.task)
        self._is_at_book = traits.account_at_book
        self._lessons = traits.lessons
        #: whether the first step begins with the task's lessons
        self.has_warm_up = traits.lessons is not None
        form = self._own_form()
        if traits.submission_form is not None:
            form = traits.submission_form(self._scene)

        self._session_parts = self._make_session_parts(self.lens, parts.tools, form)

    def _own_form(self) -> SubmissionForm:
        """Return the task's default submission form: orders under the rules of its venue."""
        task = self._parts.task
        limits = None
        if isinstance(self._seen, SeenBooks) and task.trading.limit_orders:
            limits = self._seen.last_prices

        rules = self._parts.tape.rules
        return ActionForm(
            task.harness,
            self.lens,
            rules.scales,
            rules.shorts,
            limits,
            weights_only=self._is_at_book,
        )

    def is_own(self, step: int, entry: JournalEntry[StepRecord]) -> bool:
        """Return whether a journal entry can belong to the given step of this episode."""
        record = entry.step
        days = self._parts.snapshot.days
        row = self._base_row + step
        codes_exist = all(
            held.code in self._parts.snapshot.asset_index for held in record.positions
        )

        return codes_exist and (record.step, record.decided_on, record.filled_on) == (
            step,
            str(days[row]),
            str(days[row + 1]),
        )

    def resume(self, entries: Sequence[JournalEntry[StepRecord]]) -> None:
        """Continue after the last of the given journal entries. There must be at least one."""
        for entry in entries:
            self._books.resume(entry.step)
            self._seen.follow(self._books.account, entry.step)
        self._memory = entries[-1].memory
        self._scene.lens.recall(entries[-1].shown)

    def run_step(self, step: int) -> JournalEntry[StepRecord]:
        """Decide and settle one step."""
        return self.settle_step(step, self.decide_step(step))

    def decide_step(self, step: int) -> DecidedStep:
        """Let the agent decide at the close of a step, without changing the books. Raises
        KtdevalError.
        """
        seen = self._seen
        view = self._parts.snapshot.as_of(self._base_row + step)
        observation = self._scene.observe(step, view, seen.account, seen.last)
        session = GuardedSession(
            self._session_parts,
            step,
            context=self._scene.tool_context(step, view, seen.account),
            breaches=seen.breaches,
            teach=self._teach(step, view),
            # style factors are computed from market data, which a notional account hides
            history=None if self._is_at_book else partial(self._history, view),
        )
        outcome = session.decide(self._parts.agent, observation, self._memory)
        decision = replace(outcome.decision, action=seen.size_orders(outcome.decision.action))
        # round trip through JSON, so that a resumed agent gets exactly the same memory
        memory = loads_strict(dumps_canonical(outcome.decision.memory))

        return DecidedStep(
            decision, outcome.counts, outcome.transcript, memory, self._scene.lens.shown
        )

    def settle_step(self, step: int, decided: DecidedStep) -> JournalEntry[StepRecord]:
        """Settle a decision and store the agent's memory. Requires the market data for the fill
        day.
        """
        record = self._books.book(step, decided.decision, decided.counts)
        self._seen.follow(self._books.account, record)
        self._memory = decided.memory

        return JournalEntry(
            step=record,
            transcript=decided.transcript,
            memory=decided.memory,
            shown=decided.shown,
        )

    @property
    def scene(self) -> Scene:
        """Opened market of the episode, with its mask."""
        return self._scene

    @property
    def lens(self) -> Lens:
        """Mask of the episode."""
        return self._scene.lens

    def draw_anew(self, *words: str | int) -> None:
        """From now on, use different seeds for model calls and randomness, derived from `words`."""
        parts = self._session_parts
        chance = parts.chance_seed
        self._session_parts = replace(
            parts,
            seed=derive_seed(parts.seed, *words),
            chance_seed=None if chance is None else derive_seed(chance, *words),
        )

    @property
    def has_documents(self) -> bool:
        """True if the market has documents, although a single day may be without documents."""
        return len(self._parts.snapshot.documents) > 0

    def shown_bytes(self, step: int) -> int:
        """Return the number of UTF-8 bytes that the task shows at a step in the current account."""
        seen = self._seen
        view = self._parts.snapshot.as_of(self._base_row + step)
        observation = self._scene.observe(step, view, seen.account, seen.last)
        return len(observation.user.encode())

    def recall(self, shown: Collection[str]) -> None:
        """Mark handles as shown, because the mask showed them earlier."""
        self._scene.lens.recall(shown)

    def _teach(self, step: int, view: MarketView) -> Callable[[], Iterable[Lesson]] | None:
        """Return a function that creates the lessons of a warm-up; None except at the first step of
        a task with a warm-up.
        """
        if step > 0 or not self.has_warm_up or self._lessons is None:
            return None
        return partial(self._lessons, self._scene, view)

    def _history(self, view: MarketView, days: int) -> FactorHistory:
        """Return the style factors of today's index members over the last `days` days. The members
        are in an order that does not depend on their codes.
        """
        inside = view.member[view.day]
        members = [asset for asset in self._scene.lens.order if inside[asset]]
        return FactorHistory(members, factor_history(view, days)[:, members])

    def event(self, record: StepRecord) -> StepFinished:
        """Return the event for a recorded step."""
        return StepFinished(
            self._spec,
            step=record.step,
            total_steps=self.total_steps,
            filled_on=record.filled_on,
            nav=record.nav_minor / self._parts.tape.rules.minor_per_unit,
            orders=len(record.orders),
            rejections=sum(order.status == "rejected" for order in record.orders),
            tokens=record.input_tokens + record.output_tokens,
            provenance=record.provenance,
            currency=self._parts.tape.rules.currency,
        )

    def encode(self, records: Sequence[StepRecord]) -> tuple[str, bytes]:
        """Return the name and contents of the ledger file for all steps."""
        return LEDGER, encode_ledger(self._parts.ledger(self._spec, records))
