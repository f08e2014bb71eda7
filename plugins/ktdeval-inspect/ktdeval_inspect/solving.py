"""Solver: one episode of ktdeval for each sample."""

from __future__ import annotations

from functools import partial

import anyio.to_thread
from inspect_ai.model import get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from ktdeval.cards import TradingCard
from ktdeval.errors import KtdevalError, UsageError
from ktdeval_inspect.model import SampleCalls, current_sample
from ktdeval_inspect.running import InspectRun

FIGURES = "ktdeval_figures"  # in a sample's metadata: metric -> value, None if undefined
REASONS = "ktdeval_reasons"  # metric -> why it is undefined


@solver
def run_ktdeval_episode(run: InspectRun) -> Solver:
    """Run the sample's episode. The evaluation's model decides, or an agent that uses it."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        if state.epoch != 1:
            raise UsageError("--epochs: an episode is one run of a seed; use -T seeds=N instead")

        calls = SampleCalls(get_model(), has_agent=run.has_agent)
        token = current_sample.set(calls)
        try:
            work = partial(run.run_sample, str(calls.model), str(state.sample_id))
            # A separate limiter: Inspect bounds the number of samples at once.
            card = await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
        except KtdevalError:
            if calls.error is not None:
                raise calls.error from None
            raise
        finally:
            current_sample.reset(token)

        lines = card.metrics if isinstance(card, TradingCard) else card.scores
        state.metadata[FIGURES] = {name: line.value for name, line in lines.items()}
        state.metadata[REASONS] = {
            name: line.reason for name, line in lines.items() if line.value is None
        }
        state.metadata["ktdeval_run"] = str(run.folder)
        if calls.output is not None:
            state.output = calls.output

        state.completed = True
        return state

    return solve
