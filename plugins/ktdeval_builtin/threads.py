"""Episodes side by side on a thread pool: model calls wait on the network, so threads are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ktdeval.contracts import EpisodeOutcome, EpisodeSpec


class ThreadRunner:
    """Runs up to `concurrency` episodes at once; one at a time it stays on the caller's thread."""

    def run(
        self, specs: Sequence[EpisodeSpec], execute: Callable[[EpisodeSpec], EpisodeOutcome], concurrency: int
    ) -> list[EpisodeOutcome]:
        """Run every spec once; see `ktdeval.api.Runner`."""
        if concurrency == 1 or len(specs) <= 1:
            return [execute(spec) for spec in specs]
        with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="episode") as pool:
            futures: list[Future[EpisodeOutcome]] = [pool.submit(execute, spec) for spec in specs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                # An interrupt, or an episode's defect: no further episode starts; those under way stop between steps.
                for future in futures:
                    future.cancel()
                raise
