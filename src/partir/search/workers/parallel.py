"""Several searches at once, from different seeds, through any executor."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
import warnings
from concurrent.futures import Executor, Future, wait

from partir.errors import PartitionError
from partir.ir.garbage import collection_paused
from partir.rules.user import put_rules, user_rules
from partir.search.methods import method_named
from partir.search.methods.best import Best, Listener
from partir.search.methods.budget import Budget
from partir.search.methods.local import walked
from partir.search.methods.registry import SearchMethod
from partir.search.problem import Path, Problem
from partir.search.workers.processes import Processes

Answer = tuple[Path, int]  # the best path, and how much was evaluated

_MOST = 4  # workers by default
_GRACE = 5.0  # seconds to answer in after Ctrl-C


class ParallelSearch:
    """Independent searches with the seeds `seed`, `seed + 1`, …; the best one wins.

    The first runs here and tells the listener; the others run in processes of their
    own, or on a given `concurrent.futures.Executor`: threads, a cluster. Each has the
    whole budget. For given seeds and a budget of evaluations the answer is always the
    same; of equally good ones, that of the lowest seed. A search that fails elsewhere
    is left out with a warning.

    Our own processes never run the user's main script again, so it needs no guard;
    those of a `ProcessPoolExecutor` do.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        listener: Listener | None = None,
        *,
        method: str = "mcts",
        workers: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`workers` are searches, this process's included; by default the cores."""
        if workers is not None and workers < 1:
            raise PartitionError(f"workers must be at least 1, got {workers}")
        self.problem, self.seed, self.method = problem, seed, method_named(method)
        self.workers = workers or min(os.cpu_count() or 1, _MOST)
        self.executor = executor
        self.best = Best(problem, listener)
        self._gathered: int | None = None

    @property
    def evaluations(self) -> int:
        """Partitions tried so far, by all searches that have answered."""
        return self.problem.evaluations if self._gathered is None else self._gathered

    def run(self, budget: Budget) -> Best:
        """Search here and elsewhere; Ctrl-C ends all, what they offered counts."""
        if self.workers == 1:
            self.method(self.problem, self.best, budget, self.seed)
            return self.best
        sent = self._pickled()
        own = Processes(self.workers - 1) if self.executor is None else None
        executor = own or self.executor
        assert executor is not None
        futures = [
            executor.submit(search_elsewhere, sent, seed, *_limits(budget))
            for seed in range(self.seed + 1, self.seed + self.workers)
        ]
        try:
            self.method(self.problem, self.best, budget, self.seed)
            wait(futures)
            _warn_of(self._gather(futures), len(futures))
        except KeyboardInterrupt:
            if own is not None:
                own.interrupt()
                wait(futures, _GRACE)
            self._gather(futures)
            raise
        finally:
            if own is not None:
                own.shutdown(wait=False, cancel_futures=True)
        return self.best

    def _pickled(self) -> bytes:
        try:
            problem = pickle.dumps((self.method, self.problem))
            return pickle.dumps((user_rules(), problem))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PartitionError(
                f"this search can't be sent to other processes ({error}); write a goal "
                "or a method of your own as a function at the top of a module, or "
                "search with workers=1"
            ) from error

    def _gather(self, futures: list[Future[Answer]]) -> list[BaseException]:
        """Offer the answers of the others, in the order of their seeds; what failed."""
        self._gathered = self.problem.evaluations  # what follows only walks paths again
        failed: list[BaseException] = []
        for future in futures:
            future.cancel()
            if not future.done() or future.cancelled():
                continue
            if error := future.exception():
                failed.append(error)
                continue
            path, evaluations = future.result()
            self._gathered += evaluations
            self.best.offer(*walked(self.problem, path))
        return failed


def _warn_of(failed: list[BaseException], count: int) -> None:
    if failed:
        warnings.warn(
            f"{len(failed)} of {count} searches in other processes failed and are left "
            f"out; the first said: {failed[0]!r}",
            RuntimeWarning,
            stacklevel=3,
        )


def _limits(budget: Budget) -> tuple[int | None, float | None, float]:
    """Evaluations, seconds left, and the time of day when these are over."""
    if budget.seconds is None:
        return budget.evaluations, None, 0.0
    left = max(budget.started + budget.seconds - time.monotonic(), 0.0)
    return budget.evaluations, left, time.time() + left


@collection_paused
def search_elsewhere(
    sent: bytes,
    seed: int,
    evaluations: int | None,
    seconds: float | None,
    until: float,
) -> Answer:
    """One of the searches: its best path, and how much it evaluated."""
    rules, pickled = pickle.loads(sent)
    put_rules(rules)  # before nests, which ask them
    method: SearchMethod
    problem: Problem
    method, problem = pickle.loads(pickled)
    if seconds is not None:  # clocks of other machines are not trusted altogether
        seconds = min(seconds, max(until - time.time(), 0.2 * seconds))
    best = Best(problem)
    with contextlib.suppress(KeyboardInterrupt):  # the best so far
        method(problem, best, Budget(evaluations, seconds), seed)
    return best.path, problem.evaluations
