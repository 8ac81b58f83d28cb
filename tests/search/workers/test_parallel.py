"""Several searches at once: in processes, threads, with failures and interruptions."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from partir.errors import PartitionError
from partir.search.methods import METHODS, Best, Budget
from partir.search.methods.best import Progress
from partir.search.problem import Problem
from partir.search.workers.parallel import ParallelSearch
from partir.search.workers.processes import Processes
from tests.search.problems import problem

EVALUATIONS = 25
ROOT = Path(__file__).parents[3]


def fresh(**options: Any) -> Problem:
    return problem("mlp", {"B": 2, "M": 2}, "h100", **options)


def single(seed: int) -> Best:
    asked = fresh()
    best = Best(asked)
    METHODS["random"](asked, best, Budget(EVALUATIONS), seed)
    return best


def test_the_best_of_the_single_searches_is_kept() -> None:
    search = ParallelSearch(fresh(), 7, method="random", workers=3)
    best = search.run(Budget(EVALUATIONS))
    alone = [single(seed) for seed in (7, 8, 9)]
    scores = [one.outcome.score for one in alone]
    assert len(set(scores)) > 1
    assert best.outcome.score == max(scores)
    winner = alone[scores.index(max(scores))]
    assert [m.key for m in best.path] == [m.key for m in winner.path]
    assert search.evaluations == 3 * EVALUATIONS


def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(2) as threads:
        search = ParallelSearch(
            fresh(), 7, method="random", workers=3, executor=threads
        )
        best = search.run(Budget(EVALUATIONS))
    assert best.outcome.score == max(single(s).outcome.score for s in (7, 8, 9))


def test_one_worker_is_the_search_itself() -> None:
    best = ParallelSearch(fresh(), 7, method="random", workers=1).run(
        Budget(EVALUATIONS)
    )
    assert best.outcome == single(7).outcome


def test_problems_arrive_whole() -> None:
    here = fresh()
    there: Problem = pickle.loads(pickle.dumps(here))
    assert [m.key for m in there.fixed] == [m.key for m in here.fixed]
    for one, other in zip(here.fixed, there.fixed, strict=True):
        ours, theirs = here.state((one,)), there.state((other,))
        assert all(a is b for a, b in zip(ours.nests, theirs.nests, strict=True))
        assert here.outcome(ours) == there.outcome(theirs)


class Broken(Executor):
    """Loses everything that it is given."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("lost"))
        return future


def test_failures_elsewhere_leave_the_search_here() -> None:
    search = ParallelSearch(fresh(), 7, method="random", workers=3, executor=Broken())
    with pytest.warns(RuntimeWarning, match=r"2 of 2 .* failed .*lost"):
        best = search.run(Budget(EVALUATIONS))
    assert best.outcome == single(7).outcome


def test_goals_that_cannot_be_sent_are_refused() -> None:
    asked = fresh(goal=lambda estimate: estimate.seconds)
    with pytest.raises(PartitionError, match=r"top of a module.*workers=1"):
        ParallelSearch(asked, workers=2).run(Budget(EVALUATIONS))


def test_workers_are_counted_from_one() -> None:
    with pytest.raises(PartitionError, match="at least 1, got 0"):
        ParallelSearch(fresh(), workers=0)


def test_an_interruption_ends_all_and_keeps_what_was_found() -> None:
    started = time.monotonic()

    def interrupt(progress: Progress) -> None:
        if time.monotonic() - started > 3:
            raise KeyboardInterrupt

    search = ParallelSearch(fresh(), 0, interrupt, workers=2)
    with pytest.raises(KeyboardInterrupt):
        search.run(Budget(seconds=300))
    assert search.best.path
    assert time.monotonic() - started < 60


def test_processes_answer_raise_and_die() -> None:
    processes = Processes(3)
    good = processes.submit(divmod, 7, 2)
    bad = processes.submit(divmod, 7, 0)
    dead = processes.submit(os._exit, 3)
    assert good.result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        bad.result()
    with pytest.raises(RuntimeError, match="ended with code 3"):
        dead.result()
    processes.shutdown()


SCRIPT = """
from partir.search.methods import Budget
from partir.search.workers.parallel import ParallelSearch
from tests.search.problems import problem

search = ParallelSearch(problem("sgd", {"B": 4}), workers=2)
search.run(Budget(evaluations=10))
print("searched", search.evaluations)
"""


def test_scripts_need_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT, encoding="utf-8")
    source = ROOT / "src"
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(source)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "searched 20\n", done.stderr
